"""Eager inference at batch 1 with seeded random weights: ResNet-50, BERT-base, or decoding with GPT-2.

With `--seconds` it says on standard error how many steps a second it made in that time; a step is one image, one text
of 128 tokens, one token. Standard output depends only on the model and `--steps`.
"""

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

from digest import arguments, print_digest


def resnet50():
    import torchvision

    model = torchvision.models.resnet50(weights=None).eval().cuda()
    image = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(2)).cuda()
    return lambda: model(image)


def bert():
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).eval().cuda()
    tokens = torch.randint(1, 1000, (1, 128), generator=torch.Generator().manual_seed(2)).cuda()
    return lambda: model(tokens).last_hidden_state


def gpt2():
    """One token a step; the kept keys and values grow to 256 tokens and begin anew."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).eval().cuda()
    prompt = torch.randint(1, 1000, (1, 32), generator=torch.Generator().manual_seed(2)).cuda()
    state = {"kept": None, "token": prompt, "length": 0}

    def step():
        if state["length"] >= 256:
            state.update(kept=None, token=prompt, length=0)
        answer = model(state["token"], past_key_values=state["kept"], use_cache=True)
        state["length"] += state["token"].shape[1]
        state["kept"] = answer.past_key_values
        state["token"] = answer.logits[:, -1:].argmax(-1)
        return answer.logits[:, -1]

    return step


MODELS = {"resnet50": resnet50, "bert": bert, "gpt2": gpt2}


def main():
    parser = arguments(__doc__, steps=5)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    with torch.inference_mode():
        step = MODELS[options.model]()
        outputs = [step().float().cpu().numpy() for _ in range(options.steps)]
        if options.seconds:
            # As a server does: each answer is waited for.
            begun, done = time.monotonic(), 0
            while time.monotonic() - begun < options.seconds:
                step()
                torch.cuda.synchronize()
                done += 1
            rate = done / (time.monotonic() - begun)
            print(json.dumps({"steps_per_second": rate, "steps": done}), file=sys.stderr)
    print_digest(*outputs)


if __name__ == "__main__":
    main()
