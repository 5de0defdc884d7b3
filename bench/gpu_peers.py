#!/usr/bin/env python3
"""The rows of bench/gpu.cpp and bench/gpu_kernels.cpp by PyTorch (eager, torch.compile) and JAX, on the GPU of this machine.

    tools/bench gpu gpu_kernels --peers torch,jax
    python3 bench/gpu_peers.py --out FILE.json

Full f32, but for the rows that say TF32. First calls include what a framework compiles. Without a GPU there are no
rows.
"""

import itertools
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

def attention_with_gradients(q, k, v, weight, causal=False):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v), weight)[0]


def gradient_by(function, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(function(x), x)[0]


def of_kernels():
    """The rows of bench/gpu_kernels.cpp: name, operands, function. A shape with "i" in front is of indices below it."""
    rows, images = (16384, 1024), (64, 64, 112, 112)
    yield "cumsum/16384x1024/f32", [rows], lambda x: x.cumsum(1)
    yield "cumsum/2^24/f32", [(1 << 24,)], lambda x: x.cumsum(0)
    yield "cumsum along columns/16384x1024/f32", [rows], lambda x: x.cumsum(0)
    yield "cummax/16384x1024/f32", [rows], lambda x: x.cummax(1)[0]
    yield "sort/16384x1024/f32", [rows], lambda x: x.sort(1)[0]
    yield "argsort/16384x1024/f32", [rows], lambda x: x.argsort(1)
    yield "sort/2^24/f32", [(1 << 24,)], lambda x: x.sort()[0]
    yield "topk of 10/16384x1024/f32", [rows], lambda x: x.topk(10, 1)[0]
    for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)):
        name = "{" + ",".join(map(str, axes)) + "}"
        yield f"sum over {name}/512x512x512/f32", [(512, 512, 512)], lambda x, axes=axes: x.sum(axes)
    yield "sum over {1}/1000x1001x77/f32", [(1000, 1001, 77)], lambda x: x.sum(1)
    yield "argmax over {1}/1000x1001x77/f32", [(1000, 1001, 77)], lambda x: x.argmax(1)
    yield "argmin over {0,1}/512x512x512/f32", [(512, 512, 512)], lambda x: x.flatten(0, 1).argmin(0)
    yield "argmin over {1,2}/512x512x512/f32", [(512, 512, 512)], lambda x: x.flatten(1).argmin(1)
    yield "argmin over {0,1,2}/512x512x512/f32", [(512, 512, 512)], lambda x: x.argmin()
    yield "softmax/64x400000/f32", [(64, 400000)], lambda x: x.softmax(1)
    yield "layer_norm/64x400000/f32", [(64, 400000)], lambda x: F.layer_norm(x, (400000,))
    yield "logsumexp/64x400000/f32", [(64, 400000)], lambda x: x.logsumexp(1)
    for length in (40000, 65536, 131072, 1000000):
        rows = ((1 << 27) // length, length)
        shape = f"{rows[0]}x{length}"
        yield f"softmax/{shape}/f32", [rows], lambda x: x.softmax(1)
        yield f"layer_norm/{shape}/f32", [rows], lambda x, n=length: F.layer_norm(x, (n,))
        backward = lambda x, y: torch._softmax_backward_data(x, y, 1, x.dtype)
        yield f"gradient of softmax/{shape}/f32", [rows] * 2, backward
    yield "batch_norm in training/64x64x112x112/f32", [images], lambda x: F.batch_norm(x, None, None, None, None, True)
    yield "max_pool2d of 3 by 2, padded/64x64x112x112/f32", [images], lambda x: F.max_pool2d(x, 3, 2, 1)
    yield "max_pool2d of 3 by 2, padded/64x64x112x112/bf16", [images], lambda x: F.max_pool2d(x, 3, 2, 1)
    with_indices = lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]
    yield "max_pool2d with indices of 3 by 2, padded/64x64x112x112/f32", [images], with_indices
    yield "avg_pool2d of 2/64x64x112x112/f32", [images], lambda x: F.avg_pool2d(x, 2, 2)
    for dtype in ("f32", "bf16"):
        yield f"avg_pool2d of 3 by 2, padded/64x64x112x112/{dtype}", [images], lambda x: F.avg_pool2d(x, 3, 2, 1)
        not_counted = lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        yield f"avg_pool2d of 3 by 2, padding not counted/64x64x112x112/{dtype}", [images], not_counted
    gradient_of_max = lambda x: gradient_by(lambda t: F.max_pool2d(t, 3, 2, 1).sum(), x)
    yield "max_pool2d of 3 by 2, padded, gradient/64x64x112x112/f32", [images], gradient_of_max
    gradient_of_mean = lambda x: gradient_by(lambda t: F.avg_pool2d(t, 3, 2, 1).square().sum(), x)
    yield "avg_pool2d of 3 by 2, padded, gradient/64x64x112x112/f32", [images], gradient_of_mean
    n = 1000000
    for among in (n, 100000, 10000, 5000, 1000):
        shapes = [(among,), ("i", among, n), (n,)]
        yield f"scatter_add/1000000,{among}/f32", shapes, lambda b, i, s: b.scatter_add(0, i, s)
    yield "gather/1000000,1000000/f32", [(n,), ("i", n, n)], lambda b, i: b[i]
    table, places = (50000, 768), ("i", 50000, 16384)
    yield "index_add/50000x768,16384/f32", [table, places, (16384, 768)], lambda b, i, s: b.index_add(0, i, s)
    yield "gather of rows/50000x768,16384/f32", [table, places], lambda b, i: b[i]
    yield "transpose/8192x8192/f32", [(8192, 8192)], lambda x: x.t().contiguous()
    yield from convolutions()
    for dtype in ("f32", "f16", "bf16"):
        for causal in (False, True):
            name = "attention" + (", causal" if causal else "") + f"/8x12x1024x64/{dtype}"
            attention = lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            yield name, [(8, 12, 1024, 64)] * 3, attention
    for shape, dtype, causal in itertools.product(
        ((8, 12, 1024, 64), (4, 16, 4096, 128)), ("f16", "f32"), (False, True)
    ):
        row = (", causal/" if causal else "/") + "x".join(map(str, shape)) + "/" + dtype
        gradients = lambda q, k, v, w, causal=causal: attention_with_gradients(q, k, v, w, causal)
        yield "attention with gradients" + row, [shape] * 4, gradients
        if shape[2] == 4096:
            attention = lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            yield "attention" + row, [shape] * 3, attention
    operands = [(8, 12, 1024, 64)] * 3 + [(1024, 1024)]
    masked = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    yield "attention, mask of bool/8x12x1024x64/bf16", operands, lambda q, k, v, x: masked(q, k, v, x > -0.5)
    yield "attention, added mask/8x12x1024x64/bf16", operands, masked
    for heads in (32, 8):
        keys = (8, heads, 8192, 128)
        grouped = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        yield f"attention of one query to {heads} heads/8x32x8192x128/f16", [(8, 32, 1, 128), keys, keys], grouped
    for dtype in ("f32", "bf16"):
        yield f"matmul/{cube(4096)}/{dtype}", [(4096, 4096)] * 2, lambda x, w: x @ w
        yield f"linear+gelu/{cube(4096)}/{dtype}", [(4096, 4096)] * 2 + [(4096,)], linear_gelu_torch
        yield f"softmax/16384x8192/{dtype}", [(R, C)], lambda x: torch.softmax(x, -1)
        yield f"column sum of squares/16384x8192/{dtype}", [(R, C)], lambda x: (x * x).sum(0)
        yield f"chain of gelu/16384x8192/{dtype}", [(R, C)], lambda x: F.gelu(x * 2 + 1) * x - torch.tanh(x)


def convolutions():
    for size, channels, outputs, window, stride, padding, groups in (
        (224, 3, 64, 7, 2, 3, 1),
        (56, 64, 64, 3, 1, 1, 1),
        (28, 128, 128, 3, 1, 1, 1),
        (14, 256, 256, 3, 1, 1, 1),
        (7, 512, 512, 3, 1, 1, 1),
        (56, 128, 128, 3, 2, 1, 1),
        (28, 256, 256, 3, 1, 1, 32),
        (56, 256, 512, 1, 2, 0, 1),
    ):
        at = (size + 2 * padding - window) // stride + 1
        x, w, y = (64, channels, size, size), (outputs, channels // groups, window, window), (64, outputs, at, at)
        how = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups)
        window_text = f"{window}x{window}" + (f" by {stride}" if stride > 1 else "")
        window_text += f", {groups} groups" if groups > 1 else ""
        by = lambda mask, how=how: lambda x, w, y: torch.ops.aten.convolution_backward(y, x, w, None, *how, mask)
        forward = lambda x, w, y, s=stride, p=padding, g=groups: F.conv2d(x, w, None, s, p, 1, g)
        made = {"conv2d": forward, "conv2d by x": by([True, False, False]), "conv2d by w": by([False, True, False])}
        for what, function in made.items():
            for precision, dtype in (("", "f32"), (" in tf32", "f32"), ("", "f16")):
                shape = f"64x{channels}x{size}x{size},{outputs}"
                yield f"{what}{precision}, {window_text}/{shape}/{dtype}", [x, w, y], function


def set_precision(is_tf32):
    if torch:
        torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = is_tf32
        torch.backends.cudnn.benchmark = True
    if jax:
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if is_tf32 else "highest")


def measure(report, name, peer, make, wait):
    """Times a row and, where the framework compiles, its first call."""
    first = report.measure(name, peer, make, wait)
    first_name = name.split("/")[0] + ", first call"
    if first is not None and peer != "torch eager" and report.wants(first_name):
        report.add_time(first_name, peer, 0, first)


def measure_torch(report, name, shapes, function):
    dtypes = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    dtype = dtypes[name.rsplit("/", 1)[1]]
    given = [
        torch.randint(0, shape[1], shape[2:], device="cuda")
        if shape[0] == "i"
        else torch.randn(*shape, device="cuda").to(dtype)
        for shape in shapes
    ]
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
    for name, shapes, by_torch in of_kernels() if torch else []:
        if report.wants(name):
            set_precision("tf32" in name)
            measure_torch(report, name, shapes, by_torch)
    report.write()


if __name__ == "__main__":
    main()
