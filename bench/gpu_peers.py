#!/usr/bin/env python3
"""The rows of bench/gpu.cpp by PyTorch (eager, torch.compile) and JAX, on the GPU of this machine.

    tools/bench gpu --peers torch,jax
    python3 bench/gpu_peers.py --out FILE.json

Full f32, but for the rows that say TF32. First calls include what a framework compiles. Without a GPU there are no
rows.
"""

import os
import pathlib
import sys

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import timing  # noqa: E402

options = timing.parsed(__doc__)
torch = jax = None
if "torch" in options.peers.split(","):
    import torch
    import torch.nn.functional as F
if "jax" in options.peers.split(","):
    import jax
    import jax.numpy as jnp

N, R, C = 1 << 27, 16384, 8192


def layer_norm_jax(x, r, w, b):
    h = x + r
    m = h.mean(-1, keepdims=True)
    return (h - m) * jax.lax.rsqrt(((h - m) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b


def step_torch(w1, b1, w2, b2, x, y):
    weights = [v.detach().requires_grad_() for v in (w1, b1, w2, b2)]
    loss = ((torch.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3] - y) ** 2).mean()
    return [w - 0.01 * g for w, g in zip(weights, torch.autograd.grad(loss, weights))]


def step_jax(w1, b1, w2, b2, x, y):
    loss = lambda w: (((jax.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]) - y) ** 2).mean()
    weights = [w1, b1, w2, b2]
    return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))]


def linear_gelu_torch(x, w, b):
    return F.gelu(torch.addmm(b, x, w))


def linear_gelu_jax(x, w, b):
    return jax.nn.gelu(x @ w + b, approximate=False)


def cube(n):
    return f"{n}x{n}x{n}"


# Name, shapes of the operands, by PyTorch, by JAX.
ROWS = [
    ("host cost of a call/16/f32", [(16,)] * 2, lambda x, y: x * y + x, lambda x, y: x * y + x),
    (
        "MLP training step/128x784x256x10/f32",
        [(784, 256), (256,), (256, 10), (10,), (128, 784), (128, 10)],
        step_torch,
        step_jax,
    ),
    (
        "chain/2^27/f32",
        [(N,)] * 3,
        lambda x, y, z: F.gelu(x * y + z) * x - torch.tanh(y),
        lambda x, y, z: jax.nn.gelu(x * y + z, approximate=False) * x - jnp.tanh(y),
    ),
    ("softmax/16384x8192/f32", [(R, C)], lambda x: torch.softmax(x, -1), lambda x: jax.nn.softmax(x, -1)),
    (
        "add+layernorm/16384x8192/f32",
        [(R, C), (R, C), (C,), (C,)],
        lambda x, r, w, b: F.layer_norm(x + r, (C,), w, b),
        layer_norm_jax,
    ),
    ("row sum/16384x8192/f32", [(R, C)], lambda x: x.sum(1), lambda x: x.sum(1)),
    ("column sum of squares/16384x8192/f32", [(R, C)], lambda x: (x * x).sum(0), lambda x: (x * x).sum(0)),
    ("sum/2^27/f32", [(N,)], lambda x: x.sum(), lambda x: x.sum()),
    (f"matmul/{cube(4096)}/f64", [(4096, 4096)] * 2, lambda x, w: x @ w, None),
    *((f"linear+gelu/{cube(n)}/f32", [(n, n), (n, n), (n,)], linear_gelu_torch, linear_gelu_jax) for n in (1024, 4096)),
    *(
        (f"linear+gelu in tf32/{cube(n)}/f32", [(n, n), (n, n), (n,)], linear_gelu_torch, linear_gelu_jax)
        for n in (1024, 4096, 8192)
    ),
]


def set_precision(is_tf32):
    if torch:
        torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    if jax:
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if is_tf32 else "highest")


def measure(report, name, peer, make, wait):
    """Times a row and, where the framework compiles, its first call."""
    first = report.measure(name, peer, make, wait)
    first_name = name.split("/")[0] + ", first call"
    if first is not None and peer != "torch eager" and report.wants(first_name):
        report.add_time(first_name, peer, 0, first)


def measure_torch(report, name, shapes, function):
    dtype = torch.float64 if name.endswith("f64") else torch.float32
    given = [torch.randn(*shape, device="cuda", dtype=dtype) for shape in shapes]
    wait = lambda _: torch.cuda.synchronize()
    measure(report, name, "torch eager", lambda: lambda: function(*given), wait)

    def compiled():
        made = torch.compile(function)
        return lambda: made(*given)

    measure(report, name, "torch.compile", compiled, wait)
    del given
    torch.cuda.empty_cache()


def measure_jax(report, name, shapes, function):
    def jitted():
        values = [jax.random.normal(jax.random.PRNGKey(0), shape) for shape in shapes]
        made = jax.jit(function)
        return lambda: made(*values)

    measure(report, name, "JAX", jitted, jax.block_until_ready)


def main():
    has_gpu = torch.cuda.is_available() if torch else bool(jax) and jax.default_backend() == "gpu"
    if not has_gpu:
        print("no GPU, so no rows of PyTorch and JAX on it")
        return
    versions = {name: module.__version__ for name, module in (("PyTorch", torch), ("JAX", jax)) if module}
    report = timing.Report(options, device="cuda", **versions)
    for name, shapes, by_torch, by_jax in ROWS:
        if not report.wants(name):
            continue
        set_precision("tf32" in name)
        if torch:
            measure_torch(report, name, shapes, by_torch)
        if jax and by_jax:
            measure_jax(report, name, shapes, by_jax)
    report.write()


if __name__ == "__main__":
    main()
