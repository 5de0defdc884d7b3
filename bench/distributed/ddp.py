"""The GPT-2 of distributed.cpp in PyTorch, data parallel by DistributedDataParallel.

torchrun --standalone --nproc-per-node 2 ddp.py --precision tf32 --batch 8 --steps 20 [--tiny] [--compile]
prints the line that bench_distributed prints: tokens per second of all ranks together. Without a GPU: gloo.
"""

import argparse
import math
import os
import time

import torch
import torch.distributed
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, features, heads, layers):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(features)
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)
        self.norm_2 = nn.LayerNorm(features)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)
        for layer in (self.qkv, self.out, self.up, self.down):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        for layer in (self.out, self.down):
            nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, x):
        batch, context, features = x.shape
        q, k, v = (
            y.view(batch, context, self.heads, -1).transpose(1, 2)
            for y in self.qkv(self.norm_1(x)).split(features, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, context, features))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, heads, features, vocabulary, context):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, features)
        self.positions = nn.Parameter(torch.randn(context, features) * 0.01)
        self.blocks = nn.ModuleList(Block(features, heads, layers) for _ in range(layers))
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["f32", "tf32"], default="tf32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    has_gpus = torch.cuda.is_available()
    rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank) if has_gpus else torch.device("cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if has_gpus else "gloo")
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.manual_seed(1)
    layers, heads, features, vocabulary, context = (2, 2, 32, 64, 16) if options.tiny else (12, 12, 768, 50257, 1024)
    model = Gpt(layers, heads, features, vocabulary, context).to(device)
    if size > 1:  # one rank alone trains as a program of one GPU does
        model = DistributedDataParallel(model, device_ids=[rank] if has_gpus else None, gradient_as_bucket_view=True)
    step_model = torch.compile(model) if options.compile else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    text = torch.randint(vocabulary, (size * options.batch, context + 1))
    own = text[rank * options.batch : (rank + 1) * options.batch].to(device)
    tokens, targets = own[:, :-1].contiguous(), own[:, 1:].contiguous()

    def run(steps):
        for _ in range(steps):
            optimiser.zero_grad(set_to_none=True)
            loss = step_model(tokens, targets)
            loss.backward()
            optimiser.step()
        return loss

    def synchronise():
        if has_gpus:
            torch.cuda.synchronize()

    losses = [run(1).item() for _ in range(4)]
    seconds = []
    for _ in range(3):
        torch.distributed.barrier()
        synchronise()
        start = time.perf_counter()
        loss = run(options.steps)
        synchronise()
        own_time = torch.tensor([(time.perf_counter() - start) / options.steps], dtype=torch.float64, device=device)
        torch.distributed.all_reduce(own_time, torch.distributed.ReduceOp.MAX)
        seconds.append(own_time.item())
    seconds.sort()
    if rank == 0:
        name = "ddp-compiled" if options.compile else "ddp"
        print(
            f"{name} {options.precision} {size}: {size * options.batch * context / seconds[1]:.0f} tokens/s, "
            f"{seconds[1] * 1e3:.2f} ms a step ({seconds[0] * 1e3:.2f} to {seconds[2] * 1e3:.2f}), "
            f"losses {losses[0]:.4f} {loss.item():.4f}",
            flush=True,
        )
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
