#!/usr/bin/env python3
"""The rows of bench/gpu.cpp by PyTorch (eager, torch.compile) and JAX, on the GPU of this machine.

    python3 bench/gpu_peers.py > peers.txt; SINTER_GPU_PEERS=peers.txt bench_gpu

One line for each row and peer: name, peer, value, unit. Full f32, but for the rows that say TF32. Blanks in names are written as they are in
bench/gpu.cpp's rows, with '~' in their place.
"""
import os
import statistics
import sys
import time

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import torch
import torch.nn.functional as F

torch.set_float32_matmul_precision("highest")
try:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")
except ImportError:
    jax = None

N, R, C = 1 << 27, 16384, 8192


def measured(call, wait):
    """Seconds of a call among several, and of the first one, which compiles."""
    start = time.perf_counter()
    wait(call())
    first = time.perf_counter() - start
    for _ in range(2):
        result = call()
    wait(result)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(8):
            result = call()
        wait(result)
        times.append((time.perf_counter() - start) / 8)
    return statistics.median(times), first


def row(name, shapes, by_torch, by_jax, work, unit, dtype=torch.float32):
    def say(peer, seconds, first):
        value = seconds * 1e6 if unit == "us" else work / seconds
        print(name.replace(" ", "~"), peer, f"{value:.6g}", unit, flush=True)
        if peer != "torch-eager":
            print((name + ", first call").replace(" ", "~"), peer, f"{first * 1e3:.6g}", "ms", flush=True)

    def attempt(peer, make, wait):
        try:
            say(peer, *measured(make(), wait))
        except Exception as error:  # a peer that fails is no reason to lose the others
            print(f"{name}: {peer}: {error!r}"[:200], file=sys.stderr)

    given = [torch.randn(*s, device="cuda", dtype=dtype) for s in shapes]
    wait = lambda _: torch.cuda.synchronize()
    attempt("torch-eager", lambda: (lambda: by_torch(*given)), wait)

    def compiled():
        function = torch.compile(by_torch)
        return lambda: function(*given)

    attempt("torch.compile", compiled, wait)
    del given
    torch.cuda.empty_cache()
    if jax is None or by_jax is None:
        return

    def jitted():
        values = [jax.random.normal(jax.random.PRNGKey(0), s) for s in shapes]
        function = jax.jit(by_jax)
        return lambda: function(*values)

    attempt("jax", jitted, jax.block_until_ready)


def layer_norm_jax(x, r, w, b):
    h = x + r
    m = h.mean(-1, keepdims=True)
    return (h - m) * jax.lax.rsqrt(((h - m) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b


def loss_torch(w1, b1, w2, b2, x, y):
    return ((torch.relu(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()


def step_torch(w1, b1, w2, b2, x, y):
    weights = [v.detach().requires_grad_() for v in (w1, b1, w2, b2)]
    gradients = torch.autograd.grad(loss_torch(*weights, x, y), weights)
    return [w - 0.01 * g for w, g in zip((w1, b1, w2, b2), gradients)]


def step_jax(w1, b1, w2, b2, x, y):
    loss = lambda w: (((jax.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]) - y) ** 2).mean()
    weights = [w1, b1, w2, b2]
    return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))]


gb = 4e-9 * N
row("host cost of a call", [(16,)] * 2, lambda x, y: x * y + x, lambda x, y: x * y + x, 0, "us")
row("MLP training step", [(784, 256), (256,), (256, 10), (10,), (128, 784), (128, 10)], step_torch, step_jax, 0, "us")
row("chain", [(N,)] * 3, lambda x, y, z: F.gelu(x * y + z) * x - torch.tanh(y), lambda x, y, z: jax.nn.gelu(x * y + z, approximate=False) * x - jnp.tanh(y), 4 * gb, "GB/s")
row("softmax", [(R, C)], lambda x: torch.softmax(x, -1), lambda x: jax.nn.softmax(x, -1), 2 * gb, "GB/s")
row("add+layernorm", [(R, C), (R, C), (C,), (C,)], lambda x, r, w, b: F.layer_norm(x + r, (C,), w, b), layer_norm_jax, 3 * gb, "GB/s")
row("row sum", [(R, C)], lambda x: x.sum(1), lambda x: x.sum(1), gb, "GB/s")
row("column sum of squares", [(R, C)], lambda x: (x * x).sum(0), lambda x: (x * x).sum(0), gb, "GB/s")
row("sum", [(N,)], lambda x: x.sum(), lambda x: x.sum(), gb, "GB/s")
row("matmul f64", [(4096, 4096)] * 2, lambda x, w: x @ w, None, 2e-12 * 4096**3, "TFLOP/s", torch.float64)
for name, n in (("linear+gelu", 4096), ("linear+gelu, small", 1024), ("linear+gelu in tf32", 4096), ("linear+gelu in tf32, small", 1024), ("linear+gelu in tf32, large", 8192)):
    if "tf32" in name:
        torch.set_float32_matmul_precision("high")
        if jax is not None:
            jax.config.update("jax_default_matmul_precision", "tensorfloat32")
    row(name, [(n, n), (n, n), (n,)], lambda x, w, b: F.gelu(torch.addmm(b, x, w)), lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=False), 2e-12 * n**3, "TFLOP/s")
