#!/usr/bin/env python3
"""The rows of bench/*.cpp by PyTorch (eager and torch.compile) and JAX, on one core: tools/bench --peers torch,jax.

BENCH_WORKERS=2: on two cores, those rows that have `workers:2` in their names.

    python3 bench/peers/frameworks.py --rows NAMES.txt --out FILE.json

Rows of other names are left out. Inputs are normal numbers in f32; results of compiled functions are compared with
those of PyTorch's eager mode before they are timed. Rows of f64, bf16 and c64 are PyTorch's alone.
"""

import os

# One core, or as many as are asked for, for all that a framework does; it must be set before it starts threads.
workers = int(os.environ.get("BENCH_WORKERS", "1"))
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-workers:])
os.environ.update(CUDA_VISIBLE_DEVICES="", JAX_PLATFORMS="cpu", OMP_NUM_THREADS=str(workers))

import functools  # noqa: E402
import re  # noqa: E402

import numpy as np  # noqa: E402
import timing  # noqa: E402
import transformer  # noqa: E402

options = timing.parsed(__doc__, eager="PyTorch without torch.compile")
torch = jax = None
if "torch" in options.peers.split(","):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(workers)
if "jax" in options.peers.split(","):
    import jax
    import jax.numpy as jnp


def layer_norm_jax(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def gelu_chain(x, y, z, w, tanh):
    u = x * y + z
    return 0.5 * u * (1 + tanh(0.79788456 * (u + 0.044715 * u * u * u))) * w + x


def attention_by_hand_torch(q, k, v, is_causal):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(scores, -1) @ v


def attention_jax(q, k, v, is_causal):
    scores = q @ jnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ v


def conv2d_jax(x, w):
    pad = w.shape[-1] // 2
    return jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad), (pad, pad)])


def mlp_step_torch(w1, b1, w2, b2, x, labels):
    weights = [w.detach().requires_grad_() for w in (w1, b1, w2, b2)]
    loss = F.cross_entropy(torch.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3], labels)
    return [w.detach() - 0.01 * g for w, g in zip(weights, torch.autograd.grad(loss, weights))]


def mlp_step_jax(w1, b1, w2, b2, x, labels):
    def loss(weights):
        logits = jax.nn.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    weights = [w1, b1, w2, b2]
    return [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))]


def same(count):
    """That many operands of the row's shape."""
    return lambda shape: [shape] * count


def product(shape):
    *batch, m, n, k = shape
    return [[*batch, m, k], [*batch, k, n]]


def layer(shape):
    return [*product(shape), [shape[1]]]


def attended(shape):
    return [shape] * 3


def indexed(table, count):
    """A table, numbers of its rows, and as many rows."""
    return [table, ("rows of", table[0], count[0]), [count[0], *table[1:]]]


def interpolated(name, mode, antialias):
    # The second operand is there for its extents.
    return (
        name,
        lambda x, to: [x, to],
        lambda x, y: F.interpolate(x, size=y.shape, mode=mode, antialias=antialias),
        None,
    )


# The rows of bench/ops.cpp.
OPS = [
    (
        "take_along_axis",
        lambda x, i: [x, ("rows of", x[1], i)],
        lambda x, i: torch.take_along_dim(x, i, 1),
        lambda x, i: jnp.take_along_axis(x, i, 1),
    ),
    ("index_add", indexed, lambda t, i, v: t.index_add(0, i, v), lambda t, i, v: t.at[i].add(v)),
    ("scatter_add", indexed, lambda t, i, v: t.scatter_add(0, i, v), lambda t, i, v: t.at[i].add(v)),
    (
        "one_hot of 1000",
        lambda n: [("rows of", 1000, n)],
        lambda i: F.one_hot(i, 1000).float(),
        lambda i: jax.nn.one_hot(i, 1000),
    ),
    (
        "masked row sums",
        same(2),
        lambda a, b: torch.where(a > b, a, 0).sum(1),
        lambda a, b: jnp.where(a > b, a, 0).sum(1),
    ),
    ("masked_select", same(1), lambda x: torch.masked_select(x, x > 0), None),
    ("nonzero of a mask", same(1), lambda x: (x > 0).nonzero().squeeze(1).float(), None),
    ("histogram of 64", same(1), lambda x: torch.histc(x, 64, -4, 4), None),
    ("bincount of 1000", lambda n: [("rows of", 1000, n)], lambda i: torch.bincount(i, minlength=1000).float(), None),
    (
        "searchsorted",
        lambda edges, x: [("sorted", edges), x],
        lambda e, x: torch.searchsorted(e, x).float(),
        lambda e, x: jnp.searchsorted(e, x).astype(jnp.float32),
    ),
    ("unique", lambda n: [("thousands", n)], lambda x: torch.unique(x), None),
    ("argsort", same(1), lambda x: x.argsort(1).float(), lambda x: jnp.argsort(x, 1).astype(jnp.float32)),
    ("median", same(1), lambda x: x.median(1).values, None),
    ("rms_norm", lambda s: [s, s[1:]], lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), None),
    ("group_norm of 8", same(1), lambda x: F.group_norm(x, 8), None),
    ("logsumexp", same(1), lambda x: x.logsumexp(1), lambda x: jax.scipy.special.logsumexp(x, 1)),
    ("cross_entropy", lambda s: [s, ("rows of", s[1], s[0])], lambda x, i: F.cross_entropy(x, i), None),
    ("mse_loss", same(2), lambda a, b: F.mse_loss(a, b), lambda a, b: ((a - b) ** 2).mean()),
    (
        "einsum bhqd,bhkd->bhqk",
        same(2),
        lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b),
        lambda a, b: jnp.einsum("bhqd,bhkd->bhqk", a, b),
    ),
    *(
        interpolated(f"interpolate {name}{' antialiased' if antialias else ''}", mode, antialias)
        for name, mode in (("linear", "bilinear"), ("bicubic", "bicubic"))
        for antialias in (False, True)
    ),
    (
        "grid_sample",
        lambda x, grid: [x, ("tanh", grid)],
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        None,
    ),
    ("max_pool2d of 3, stride 2", same(1), lambda x: F.max_pool2d(x, 3, 2), None),
    ("avg_pool2d of 2", same(1), lambda x: F.avg_pool2d(x, 2), None),
    *(
        (name, lambda n: [("positive", n)], function, None)
        for name, function in (
            ("log1p", lambda x: torch.log1p(x)),
            ("erf", lambda x: torch.erf(x)),
            ("tan", lambda x: torch.tan(x)),
            ("atan", lambda x: torch.atan(x)),
            ("lgamma", lambda x: torch.lgamma(x)),
            ("pow of 2.5", lambda x: x**2.5),
            ("sigmoid", lambda x: torch.sigmoid(x)),
            ("softplus", lambda x: F.softplus(x)),
        )
    ),
]

# Name, shapes of the operands, by PyTorch, by JAX. The functions are looked up when they are called.
ROWS = [
    *OPS,
    ("guarded call, 3 tensors", same(3), lambda x, y, z: x * y + z, lambda x, y, z: x * y + z),
    ("exp", same(1), lambda x: torch.exp(x), lambda x: jnp.exp(x)),
    ("tanh", same(1), lambda x: torch.tanh(x), lambda x: jnp.tanh(x)),
    ("sin", same(1), lambda x: torch.sin(x), lambda x: jnp.sin(x)),
    ("gelu(a*x+b)*c+d", same(4), lambda *v: gelu_chain(*v, torch.tanh), lambda *v: gelu_chain(*v, jnp.tanh)),
    ("multiply-add chain", same(3), lambda x, y, z: (x * y + z) * x - y, lambda x, y, z: (x * y + z) * x - y),
    ("softmax", same(1), lambda x: torch.softmax(x, 1), lambda x: jax.nn.softmax(x, 1)),
    ("layer_norm", lambda s: [s, s[1:], s[1:]], lambda x, w, b: F.layer_norm(x, w.shape, w, b), layer_norm_jax),
    ("column sum", same(1), lambda x: x.sum(0), lambda x: x.sum(0)),
    ("full sum of squares", same(1), lambda x: (x * x).sum(), lambda x: (x * x).sum()),
    *(
        (
            f"sum over {{{','.join(map(str, axes))}}}",
            same(1),
            lambda x, axes=axes: x.sum(axes),
            lambda x, axes=axes: x.sum(axes),
        )
        for axes in ((0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2))
    ),
    ("matmul", product, lambda a, b: a @ b, lambda a, b: a @ b),
    ("batched matmul", product, lambda a, b: a @ b, lambda a, b: a @ b),
    ("linear", lambda s: [[s[0], s[2]], [s[1], s[2]]], lambda a, b: F.linear(a, b), None),
    ("solve", lambda s: [[s[0], s[1], s[1]], [s[0], s[1], 1]], lambda a, b: torch.linalg.solve(a, b), None),
    ("cholesky", lambda s: [("definite", s)], lambda a: torch.linalg.cholesky(a), None),
    ("eigh", lambda s: [("definite", s)], lambda a: tuple(torch.linalg.eigh(a)), None),
    ("fft", same(1), lambda x: torch.fft.fft(x), None),
    (
        "matmul + bias + relu",
        layer,
        lambda a, b, c: torch.relu(torch.addmm(c, a, b)),
        lambda a, b, c: jax.nn.relu(a @ b + c),
    ),
    (
        "matmul + bias + gelu",
        layer,
        lambda a, b, c: F.gelu(torch.addmm(c, a, b), approximate="tanh"),
        lambda a, b, c: jax.nn.gelu(a @ b + c, approximate=True),
    ),
    (
        "conv2d",
        lambda image, filters: [image, filters],
        lambda x, w: F.conv2d(x, w, padding=w.shape[-1] // 2),
        conv2d_jax,
    ),
    *(
        (
            f"attention{', causal' if causal else ''}",
            attended,
            lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
            lambda q, k, v, causal=causal: attention_jax(q, k, v, causal),
        )
        for causal in (False, True)
    ),
    *(
        (
            f"attention{', causal' if causal else ''}, by hand",
            attended,
            lambda q, k, v, causal=causal: attention_by_hand_torch(q, k, v, causal),
            lambda q, k, v, causal=causal: attention_jax(q, k, v, causal),
        )
        for causal in (False, True)
    ),
    ("transpose", same(1), lambda x: x.t().contiguous(), lambda x: x.T),
    ("take", lambda table, count: [table, ("rows of", table[0], count[0])], lambda t, i: t[i], lambda t, i: t[i]),
    (
        "scatter_add, as gradient of take",
        lambda table, count: [table, ("rows of", table[0], count[0]), [count[0], *table[1:]]],
        lambda t, i, v: torch.zeros_like(t).index_add_(0, i, v),
        lambda t, i, v: jnp.zeros_like(t).at[i].add(v),
    ),
    ("running sum, by jit::scan", same(1), lambda x: x.cumsum(1), lambda x: jnp.cumsum(x, 1)),
    *(
        (
            f"cumsum{where}",
            same(1),
            lambda x, axis=axis: x.cumsum(axis),
            lambda x, axis=axis: jnp.cumsum(x, axis),
        )
        for where, axis in (("", 1), (" along axis 0", 0))
    ),
    ("scatter", indexed, lambda t, i, v: t.index_copy(0, i, v), lambda t, i, v: t.at[i].set(v)),
    ("sort", same(1), lambda x: torch.sort(x), lambda x: (jnp.sort(x), jnp.argsort(x))),
    ("sorted values", same(1), lambda x: torch.sort(x).values, lambda x: jnp.sort(x)),
    ("topk of 50", same(1), lambda x: torch.topk(x, 50), lambda x: jax.lax.top_k(x, 50)),
    (
        "MLP training step",
        lambda s: [[s[1], s[2]], [s[2]], [s[2], s[3]], [s[3]], [s[0], s[1]], ("rows of", s[3], s[0])],
        mlp_step_torch,
        mlp_step_jax,
    ),
]


def operand(random, spec):
    if isinstance(spec, list):
        return random.standard_normal(spec, dtype=np.float32)
    if spec[0] == "rows of":
        return random.integers(0, spec[1], spec[2])
    x = random.standard_normal(spec[1], dtype=np.float32)
    change = {
        "sorted": np.sort,
        "thousands": lambda v: np.round(v * 1000),
        "tanh": np.tanh,
        "positive": lambda v: abs(v) + np.float32(0.25),
        "definite": lambda v: v @ v.T / np.float32(len(v)) + np.eye(len(v), dtype=np.float32),
    }
    return change[spec[0]](x)


def operands(shapes):
    random = np.random.default_rng(1)
    return [operand(random, spec) for spec in shapes]


def close(a, b):
    pairs = zip(a, b) if isinstance(a, (list, tuple)) else [(a, b)]
    return all(np.allclose(np.asarray(x), np.asarray(y), rtol=1e-3, atol=1e-2) for x, y in pairs)


def measure_torch(report, name, by_torch, arrays, dtype):
    change = {"f64": torch.float64, "bf16": torch.bfloat16, "c64": torch.complex64}.get(dtype)
    given = [torch.from_numpy(a) for a in arrays]
    if change:
        given = [x.to(change) if x.is_floating_point() else x for x in given]
    expected = by_torch(*given)
    report.measure(name, "torch eager", lambda: lambda: by_torch(*given), lambda _: None)
    if options.eager:
        return expected
    compiled = torch.compile(by_torch)

    def checked():
        if not close(compiled(*given), expected):
            raise ValueError("wrong result")
        return lambda: compiled(*given)

    report.measure(name, "torch.compile", checked, lambda _: None)
    torch._dynamo.reset()
    return expected


def measure_jax(report, name, by_jax, arrays, expected):
    given = [jnp.asarray(a) for a in arrays]
    compiled = jax.jit(by_jax)

    def checked():
        if expected is not None and not close(compiled(*given), expected):
            raise ValueError("wrong result")
        return lambda: compiled(*given)

    report.measure(name, "JAX", checked, jax.block_until_ready)


def measure_transformer(report, name, is_training):
    if torch:
        with torch.set_grad_enabled(is_training):
            wraps = {"torch eager": lambda f: f, "torch.compile": torch.compile}
            for peer in list(wraps)[: 1 if options.eager else 2]:
                make = functools.partial(transformer.torch_call, is_training, wraps[peer])
                report.measure(name, peer, make, lambda _: None)
            torch._dynamo.reset()
    if jax:
        report.measure(name, "JAX", lambda: transformer.jax_call(is_training), jax.block_until_ready)


def main():
    versions = {name: module.__version__ for name, module in (("PyTorch", torch), ("JAX", jax)) if module}
    report = timing.Report(options, **versions)
    table = {name: row for name, *row in ROWS}
    for name in report.names():
        what, shape, *rest = [*name.split("/"), "", ""]
        if ("workers:2" in rest) != (workers == 2):
            continue
        if what.startswith("transformer "):
            measure_transformer(report, name, "training" in what)
            continue
        if what not in table or not re.fullmatch(r"[\dx,]+", shape):
            continue
        shapes_of, by_torch, by_jax = table[what]
        arrays = operands(shapes_of(*([int(extent) for extent in part.split("x")] for part in shape.split(","))))
        expected = None
        if torch:
            needs_gradients = what == "MLP training step"
            with torch.set_grad_enabled(needs_gradients):
                expected = measure_torch(report, name, by_torch, arrays, rest[0])
        if jax and by_jax and rest[0] not in ("f64", "bf16", "c64"):
            measure_jax(report, name, by_jax, arrays, expected)
    report.write()


if __name__ == "__main__":
    main()
