"""Models of torchvision and transformers with seeded random weights, for the variety of their kernels.

Each runs its few steps by itself, in the number format that is named; `--train` adds the way back and an optimiser's step.
The digest is of the shapes alone: formats of half precision need not repeat their bits.
"""

import contextlib
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

from digest import arguments, print_digest
from gate import wait_for_gpu

VISION = {
    "resnet18": 64, "resnet50": 32, "vgg16": 16, "densenet121": 16, "mobilenet_v3_large": 64, "efficientnet_b0": 32,
    "convnext_tiny": 16, "swin_t": 16, "vit_b_16": 16, "regnet_y_400mf": 32, "inception_v3": 8, "shufflenet_v2_x1_0": 32,
    "maxvit_t": 8,
}
DENSE = {"deeplabv3_resnet50": 4, "fcn_resnet50": 4, "lraspp_mobilenet_v3_large": 8}
DETECTION = ("fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16")


def vision(name):
    import torchvision

    if name in DETECTION:
        model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None)
        images = [torch.randn(3, 480, 640) for _ in range(2)]
        return model, lambda model: model([image.cuda() for image in images])
    if name in DENSE:
        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
        images = torch.randn(DENSE[name], 3, 256, 320)
        return model, lambda model: model(images.cuda())["out"].float().square().mean()
    if name == "r3d_18":
        model = torchvision.models.video.r3d_18(weights=None)
        clips = torch.randn(4, 3, 8, 112, 112)
        return model, lambda model: model(clips.cuda()).float().square().mean()
    model = getattr(torchvision.models, name)(weights=None)
    size = 299 if name == "inception_v3" else 224
    images = torch.randn(VISION[name], 3, size, size)

    def loss(model):
        said = model(images.cuda())
        return getattr(said, "logits", said).float().square().mean()

    return model, loss


def language(name):
    import transformers as t

    tokens = torch.randint(1, 1000, (4, 192))
    if name == "bert":
        model = t.BertModel(t.BertConfig())
        return model, lambda model: model(tokens.cuda()).last_hidden_state.float().square().mean()
    if name == "gpt2":
        model = t.GPT2LMHeadModel(t.GPT2Config())
    elif name == "llama":
        model = t.LlamaForCausalLM(t.LlamaConfig(
            hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
            num_key_value_heads=4, vocab_size=32000))
    elif name == "mixtral":
        model = t.MixtralForCausalLM(t.MixtralConfig(
            hidden_size=512, intermediate_size=1024, num_hidden_layers=3, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=16000, num_local_experts=4))
    elif name == "t5":
        model = t.T5ForConditionalGeneration(t.T5Config(num_layers=4, d_model=512))
        return model, lambda model: model(input_ids=tokens.cuda(), labels=tokens[:, :64].cuda()).loss
    elif name == "whisper":
        model = t.WhisperModel(t.WhisperConfig(encoder_layers=4, decoder_layers=4))
        sound = torch.randn(2, 80, 3000)
        return model, lambda model: model(
            input_features=sound.cuda(), decoder_input_ids=tokens[:2, :32].cuda()).last_hidden_state.float().square().mean()
    elif name == "decode":
        model = t.GPT2LMHeadModel(t.GPT2Config())

        def generate(model):
            with torch.no_grad():
                return model.generate(tokens[:2, :64].cuda(), do_sample=False, min_new_tokens=24, max_new_tokens=24,
                                      pad_token_id=0)

        return model, generate
    return model, lambda model: model(tokens.cuda(), labels=tokens.cuda()).loss


def main():
    parser = arguments(__doc__, steps=3)
    parser.add_argument("--model", required=True)
    parser.add_argument("--format", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--gate", default="", help="file whose lock is waited for before the GPU is touched")
    options = parser.parse_args()
    torch.manual_seed(1)
    known = {*VISION, *DENSE, *DETECTION, "r3d_18"}
    model, loss = (vision if options.model in known else language)(options.model)
    wait_for_gpu(options.gate)
    model = (model.train() if options.train else model.eval()).cuda()
    format = getattr(torch, options.format)
    automatic = torch.autocast("cuda", dtype=format) if format != torch.float32 else contextlib.nullcontext()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4) if options.train else None
    with contextlib.nullcontext() if options.train else torch.no_grad():
        for _ in range(options.steps):
            with automatic:
                said = loss(model)
            if optimizer:
                said.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print_digest(str([tuple(weights.shape) for weights in model.parameters()]).encode())


if __name__ == "__main__":
    main()
