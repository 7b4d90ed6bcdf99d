"""A small GPT-2 with seeded random weights: a forward pass and greedy generation."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from digest import arguments, print_digest


def main():
    steps = arguments(__doc__, steps=1).parse_args().steps
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=4096, n_positions=256, n_embd=256, n_layer=4, n_head=8,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )
    model = GPT2LMHeadModel(config).eval().cuda()
    tokens = torch.randint(1, 4096, (2, 32), generator=torch.Generator().manual_seed(2)).cuda()
    outputs = []
    with torch.inference_mode():
        for _ in range(steps):
            outputs.append(model(tokens).logits.float().cpu().numpy())
            generated = model.generate(
                tokens, attention_mask=torch.ones_like(tokens), do_sample=False,
                min_new_tokens=32, max_new_tokens=32,
            )
            outputs.append(generated.cpu().numpy())
            tokens = generated[:, -32:]
    print_digest(*outputs)


if __name__ == "__main__":
    main()
