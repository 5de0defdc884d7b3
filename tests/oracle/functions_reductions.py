"""Reductions, statistics and norms, sums along an axis, and what combines the slices of an axis."""
import math

import torch

from rows import Config as C
from rows import Row

FLOAT = "f32 f64 f16 bf16"
REAL = "f32 f64 f16 bf16 i32 i64 u8 i8"
ANY = REAL + " i16 bool"
SPECIAL = "v 1 nan -2 inf 0 -inf 3 -0.0 0.5"

# Shapes, axes (None: all) and whether these are kept; without empty reductions, and with them.
REDUCED = [("7", None, False), ("3,5", [1], False), ("3,5", [0], True), ("2,3,4", [0, 2], False), ("2,3,4", [-1], True),
           ("-", None, False), ("4,3", [0, 1], True), ("5,4", [-2], False), ("1,17", [1], False), ("2,3,2,3", [1, 3], False),
           ("33", [0], False), ("67", None, False), ("9,31", [1], False), ("31,9", [0], False), ("0,3", [1], False),
           ("41000", None, False), ("5,3001", [1], False), ("2049,7", [0], False), ("33,65,9", [1], False), ("17,9,35", [0, 2], True)]
EMPTY = [("0", None, False), ("0,3", [0], False), ("2,0,3", [1], True)]
TINY = "v 1e-45 3e38 -1e-38 2 1e10"


def dims(x, axes):
    return tuple(range(x.dim())) if axes is None else tuple(axes)


def reduction(name, run, fill="u -3 3", dtypes=REAL, empty=True, special=True, attributes=({},),
              torch_names=None, more=(), **options):
    """`run` of a tensor, axes, whether they are kept, and attributes."""
    def over_axes(x, a):
        return run(x[0], dims(x[0], a.get("axes")), a["keepdim"], a)
    shapes = REDUCED + (EMPTY if empty else [])
    configs = [C(f"* {s} {fill}", axes=axes, keepdim=keep, **attributes[k % len(attributes)])
               for k, (s, axes, keep) in enumerate(shapes)]
    if special:
        configs += [C(f"* 3,3 {SPECIAL}", dtypes=FLOAT, grad=False, axes=[axis], keepdim=False, **attributes[-1])
                    for axis in (0, 1)]
        configs += [C("* 5 v -0.0 0 -0.0", dtypes=FLOAT, grad=False, axes=None, keepdim=False, **attributes[0])]
    return Row(name, over_axes, configs + list(more), dtypes, torch_names=[name] if torch_names is None else torch_names, **options)


def product(x, axes, keep):
    if x.dim() == 0:
        return torch.prod(x)
    for axis in sorted((d % max(x.dim(), 1) for d in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def arg(function):
    """Over several axes the position counts through them, the last one fastest."""
    def run(x, axes, keep, a):
        if 1 < len(axes) < x.dim():
            chosen = sorted(d % x.dim() for d in axes)
            others = [d for d in range(x.dim()) if d not in chosen]
            found = function(x.permute(others + chosen).flatten(len(others)), -1)
            return found.reshape([1 if d in chosen else n for d, n in enumerate(x.shape)]) if keep else found
        if len(axes) == x.dim() and x.dim() != 1:
            found = function(x.reshape(-1), 0) if x.dim() else function(x)
            return found.reshape([1] * x.dim()) if keep else found
        return function(x, axes[0], keepdim=keep)
    return run


def shared(name):
    """amax and amin with PyTorch's gradient, which equal elements share."""
    return lambda x, axes, keep, a: getattr(torch, name)(x, axes, keepdim=keep)


def without_nan(run, fill):
    """By the reduction of what is not NaN; NaN of nothing else."""
    def reduced(x, axes, keep, a):
        if not x.is_floating_point():
            return run(x, axes, keepdim=keep)
        z = run(torch.where(torch.isnan(x), torch.full_like(x, fill), x), axes, keepdim=keep)
        return torch.where(torch.isnan(x).all(axes, keepdim=keep) if x.dim() else torch.isnan(x), math.nan, z)
    return reduced


def variance_of_numbers(x, axes, keep, a):
    nan = torch.isnan(x)
    n = (~nan).to(x.dtype).sum(axes, keepdim=True)
    mean = torch.nansum(x, axes, keepdim=True) / n
    total = torch.where(nan, 0, x - mean).square().sum(axes, keepdim=keep)
    freedom = (~nan).to(x.dtype).sum(axes, keepdim=keep) - a["correction"]
    return torch.where(freedom > 0, total / freedom, math.nan)


def safe_root(x):
    return torch.where(x == 0, 0, torch.sqrt(torch.where(x == 0, 1, x)))


def variance(function):
    return lambda x, axes, keep, a: function(x, axes, correction=a["correction"], keepdim=keep)


def norm(x, axes, keep, a):
    return torch.linalg.vector_norm(x, a["p"], axes if x.dim() else None, keepdim=keep)


def average(x, a):
    axes = a.get("axes")
    w = x[1]
    if axes is not None and w.dim() == 1 and x[0].dim() > 1:
        w = w.reshape([-1 if d == axes[0] % x[0].dim() else 1 for d in range(x[0].dim())])
    w = torch.broadcast_to(w, x[0].shape)
    axes = dims(x[0], axes)
    return torch.sum(x[0] * w, axes, keepdim=a["keepdim"]) / torch.sum(w, axes, keepdim=a["keepdim"])


OF_BYTES = "bool of u8 too (PyTorch: u8)"
def cosine_similarity(x, y, axis, eps):
    def unit(v):
        return v / torch.clamp_min(torch.linalg.vector_norm(v, 2, axis, keepdim=True), eps)
    return (unit(x) * unit(y)).sum(axis)


def renormed(x, p, axis, largest):
    others = [d for d in range(x.dim()) if d != axis % x.dim()]
    lengths = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return torch.where(lengths > largest, x * (largest / lengths), x)


CORRECTIONS = [{"correction": 0}, {"correction": 1}, {"correction": 0.5}]
ORDERS = [{"p": p} for p in (2, 1, 3, 0, math.inf, -math.inf, 0.5, 2.5)]

TIES = [C("* 3,2,5 i 0 3", axes=axes, keepdim=keep) for axes, keep in (([0, 1], False), ([2, 0], True), ([-1, 1], False))]

ROWS = [
    reduction("sum", lambda x, axes, keep, a: torch.sum(x, axes, keepdim=keep), dtypes=ANY, floor=4),
    reduction("prod", lambda x, axes, keep, a: product(x, axes, keep), fill="u 0.5 1.5", dtypes=REAL, ulp=40, floor=2),
    reduction("prod with zeros", lambda x, axes, keep, a: product(x, axes, keep), fill="i -2 3", dtypes="f32 f64 i32",
              ulp=8, torch_names=[], special=False),
    reduction("mean", lambda x, axes, keep, a: torch.mean(x, axes, keepdim=keep), dtypes=FLOAT, floor=4),
    reduction("amax", shared("amax"), dtypes=ANY, ulp=0, empty=False, zeros=False),
    reduction("amin", shared("amin"), dtypes=ANY, ulp=0, empty=False, zeros=False),
    reduction("any", lambda x, axes, keep, a: torch.any(x, axes, keepdim=keep).to(torch.bool), fill="i 0 2",
              dtypes=ANY, ulp=0, differs=OF_BYTES),
    reduction("all", lambda x, axes, keep, a: torch.all(x, axes, keepdim=keep).to(torch.bool), fill="u -1 3",
              dtypes=ANY, ulp=0, differs=OF_BYTES),
    reduction("argmax", arg(torch.argmax), empty=False, more=TIES, dtypes=REAL, ulp=0),
    reduction("argmin", arg(torch.argmin), empty=False, more=TIES, dtypes=REAL, ulp=0),
    reduction("var", variance(torch.var), more=[C("* 3,1 u -3 3", axes=[1], keepdim=False, correction=c) for c in (0, 1)],
              empty=False, special=False, dtypes=FLOAT, attributes=CORRECTIONS, ulp=8,
              floor=8),
    reduction("stddev", variance(torch.std), empty=False, special=False, dtypes=FLOAT, attributes=CORRECTIONS[:1],
              ulp=8, floor=8, torch_names=["std"]),
    reduction("stddev corrected", variance(torch.std), empty=False, special=False, dtypes=FLOAT,
              attributes=CORRECTIONS[1:], ulp=8, floor=8, torch_names=[]),
    reduction("var_mean", variance(torch.var_mean), empty=False, special=False, dtypes=FLOAT, attributes=CORRECTIONS,
              ulp=8, floor=8),
    reduction("std_mean", variance(torch.std_mean), empty=False, special=False, dtypes=FLOAT,
              attributes=CORRECTIONS[:2], ulp=8, floor=8),
    reduction("norm", norm, more=[C("* 4 v 0", axes=None, keepdim=False, dtypes="f32 f64", **o) for o in ORDERS[:3] + ORDERS[4:5]],
              dtypes=FLOAT, attributes=ORDERS, empty=False, ulp=24, floor=4),
    reduction("nansum", lambda x, axes, keep, a: torch.nansum(x, axes, keepdim=keep), dtypes=FLOAT, floor=4),
    reduction("nanmean", lambda x, axes, keep, a: torch.nanmean(x, axes, keepdim=keep), dtypes=FLOAT, floor=4),
    reduction("nanvar", variance_of_numbers, more=[C("* 2,3 v 1 nan 4 nan nan 3", axes=[1], keepdim=False, correction=c) for c in (0, 1)],
              dtypes=FLOAT, attributes=CORRECTIONS, ulp=8, floor=8, torch_names=[]),
    reduction("nanstddev", lambda *x: safe_root(variance_of_numbers(*x)), empty=False, special=False, dtypes=FLOAT,
              attributes=CORRECTIONS[:1], ulp=8, floor=8, torch_names=[]),
    reduction("nanmax", without_nan(torch.amax, -math.inf), empty=False, dtypes=FLOAT, ulp=0, zeros=False,
              torch_names=[]),
    reduction("nanmin", without_nan(torch.amin, math.inf), empty=False, dtypes=FLOAT, ulp=0, zeros=False,
              torch_names=[]),
    reduction("count_nonzero", lambda x, axes, keep, a: torch.count_nonzero(x, axes) if not keep else torch.sum(
        (x != 0).to(torch.int64), axes, keepdim=True), fill="i -1 2", dtypes=ANY, ulp=0),
    reduction("logsumexp", more=[C("* 2,3 v -inf -inf -inf 1 -inf 100", axes=[1], keepdim=False, dtypes="f32 f64")], run=lambda x, axes, keep, a: torch.logsumexp(x, axes, keepdim=keep), dtypes=FLOAT, ulp=4,
              floor=4),
    reduction("ptp", lambda x, axes, keep, a: torch.amax(x, axes, keepdim=keep) - torch.amin(x, axes, keepdim=keep),
              empty=False, special=False, dtypes="f32 f64 f16 i32 i64", ulp=1, torch_names=[]),
    reduction("aminmax", lambda x, axes, keep, a: (torch.amin(x, axes, keepdim=keep), torch.amax(
        x, axes, keepdim=keep)), empty=False, dtypes=REAL, ulp=0, zeros=False),
    Row("average", average, [C(f"* {s} u -3 3", f"* {w} u 0.5 2", axes=axes, keepdim=keep) for s, w, axes, keep in (
        ("7", "7", None, False), ("3,5", "5", [1], False), ("3,5", "3,5", [0], True), ("2,3,4", "3", [1], False),
        ("4,3", "4,3", None, False), ("2,3,4", "2,3,4", [0, 2], False))], FLOAT, ulp=8, floor=8, half=3,
        torch_names=[]),
    Row("vector_distance", lambda x, a: torch.linalg.vector_norm(x[0] - x[1], a["p"]), [C(f"* {s} u -3 3", f"* {t} u -3 3", p=p) for s, t, p in (
        ("7", "7", 2), ("3,5", "5", 1), ("2,3", "2,3", 3), ("4", "4", math.inf), ("-", "-", 2), ("5", "5", 0))], FLOAT,
        ulp=24, floor=4, half=3, torch_names=["dist"]),
    Row("pdist", lambda x, a: torch.pdist(x[0], a["p"]), [C(f"* {s} u -3 3", p=p) for s in ("4,3", "2,5", "6,1", "1,3")
        for p in (2, 1, 3, math.inf)], "f32 f64", ulp=24, floor=4, torch_names=["nn.functional.pdist"]),
    Row("cdist", lambda x, a: torch.cdist(x[0], x[1], a["p"], compute_mode="donot_use_mm_for_euclid_dist"), [
        C(f"* {s} u -3 3", f"* {t} u -3 3", p=p) for s, t in (("4,3", "5,3"), ("2,4,2", "2,3,2"), ("1,5", "3,5"))
        for p in (2, 1, 0, 3, math.inf)] + [C("* 2,3 v 1 2 3", "* 2,3 v 1 2 3 0 2 3", p=p) for p in (1, 2)], "f32 f64", ulp=24, floor=8),
    Row("cov", lambda x, a: torch.cov(x[0], correction=a["correction"]).reshape([x[0].shape[0]] * 2 if x[0].dim() == 2 else []), [C(f"* {s} u -3 3", correction=c)
        for s in ("3,7", "2,5", "9", "1,4") for c in (0, 1)], "f32 f64", ulp=8, floor=16,
        differs="of a matrix of one row a matrix (PyTorch and NumPy: a number)"),
    Row("cov of weights", lambda x, a: torch.cov(x[0], correction=a["correction"], fweights=x[1], aweights=x[2]), [
        C(f"* {s} u -3 3", f"i64 {w} i 1 4", f"* {w} u 0.5 2", correction=c) for s, w in (("3,7", "7"), ("2,5", "5"), ("9", "9"))
        for c in (0, 1)], "f32 f64", ulp=8, floor=16, torch_names=[]),
    Row("corrcoef", lambda x, a: torch.corrcoef(x[0]), [C(f"* {s} u -3 3") for s in ("3,7", "2,5", "5,9")], "f32 f64",
        ulp=8, floor=16),
    Row("normalize", lambda x, a: torch.nn.functional.normalize(x[0], a["p"], a["axis"], a["eps"]), [
        C(f"* {s} u -3 3", p=p, axis=axis, eps=eps) for s, axis in (("3,5", 1), ("2,3,4", 0), ("7", -1))
        for p, eps in ((2, 1e-12), (1, 1e-12), (3, 0.5), (math.inf, 1e-12))] + [C("* 2,3 v 0 0 0 1 2 3", p=p, axis=1, eps=1e-12) for p in (1, 2)], FLOAT, ulp=24, floor=2, half=3,
        torch_names=["nn.functional.normalize"]),
    Row("cosine_similarity", lambda x, a: cosine_similarity(x[0], x[1], a["axis"], a["eps"]), [
        C(f"* {s} u -3 3", f"* {t} u -3 3", axis=axis, eps=eps) for s, t, axis in (
            ("3,5", "3,5", 1), ("3,5", "1,5", 1), ("2,3,4", "2,3,4", 0), ("7", "7", -1)) for eps in (1e-8, 4.0)],
        FLOAT, ulp=8, floor=8, half=3, torch_names=["nn.functional.cosine_similarity"],
        differs="a length below eps is a constant to derivatives; PyTorch differentiates it"),
    Row("renorm", lambda x, a: renormed(x[0], a["p"], a["axis"], a["largest"]), [
        C(f"* {s} u -3 3", p=p, axis=axis, largest=largest) for s, axis in (("3,5", 0), ("2,3,4", 1), ("4,3", -1))
        for p, largest in ((2, 1.5), (1, 4.0), (3, 0.25))], "f32 f64", ulp=24, floor=2,
        differs="exact, where PyTorch adds 1e-7 to the norm; zeros have a gradient (PyTorch: NaN)"),
    Row("pairwise_distance", lambda x, a: torch.nn.functional.pairwise_distance(x[0], x[1], a["p"], a["eps"], a[
        "keepdim"]), [C(f"* {s} u -3 3", f"* {t} u -3 3", p=p, eps=eps, keepdim=keep) for s, t in (
            ("3,5", "3,5"), ("2,3", "1,3"), ("7", "7")) for p, eps, keep in ((2, 1e-6, False), (1, 0.5, True), (
                3, 1e-6, False))], "f32 f64", ulp=24, floor=4, torch_names=["nn.functional.pairwise_distance"]),
]


CUT_SHAPES = [("7", 0), ("3,5", 1), ("3,5", 0), ("2,3,4", 1), ("2,3,4", -1), ("33", -1), ("2,67", 1), ("1,5", 0), ("3,4099", 1), ("1031,3", 0)]


def cumulative(name, run, fill="u -3 3", dtypes=REAL, special=True, attributes=({},), torch_names=None, shapes=None, **options):
    shapes = shapes or CUT_SHAPES + [("0", 0), ("4,0", 1)]
    configs = [C(f"* {s} {fill}", axis=axis, **attributes[k % len(attributes)]) for k, (s, axis) in enumerate(shapes)]
    if special:
        configs += [C(f"* 3,3 {SPECIAL}", dtypes=FLOAT, grad=False, axis=axis, **attributes[0]) for axis in (0, 1)]
    return Row(name, run, configs, dtypes, torch_names=torch_names, **options)


def in_direction(run, first):
    """With CumulativeOptions: reverse, and exclusive, where `first` comes before the first element."""
    def accumulated(x, a):
        y, axis = x[0], a["axis"]
        y = y.flip(axis) if a.get("reverse") else y
        z = run(y, axis)
        if a.get("exclusive") and z.shape[axis] > 0:
            start = torch.full_like(z.narrow(axis, 0, 1), first)
            z = torch.cat([start, z.narrow(axis, 0, z.shape[axis] - 1)], axis)
        return z.flip(axis) if a.get("reverse") else z
    return accumulated


DIRECTIONS = [{}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}]
ROWS += [
    cumulative("cumsum", in_direction(torch.cumsum, 0), attributes=DIRECTIONS, dtypes=ANY, floor=4, zeros=False),
    cumulative("cumprod", in_direction(torch.cumprod, 1), fill="u 0.5 1.5", attributes=DIRECTIONS, dtypes=REAL, ulp=70,
               floor=2, half=1.5),
    cumulative("cumprod with zeros", in_direction(torch.cumprod, 1), fill="i -1 3", dtypes="f32 f64 i32", ulp=8,
               special=False, torch_names=[]),
    cumulative("cummax", in_direction(lambda x, d: torch.cummax(x, d).values, 0), dtypes=REAL, attributes=[
        {}, {"reverse": True}], ulp=0, zeros=False),
    cumulative("cummin", in_direction(lambda x, d: torch.cummin(x, d).values, 0), dtypes=REAL, attributes=[
        {}, {"reverse": True}], ulp=0, zeros=False),
    cumulative("cummax_with_indices", lambda x, a: tuple(torch.cummax(x[0], a["axis"])), fill="i -3 4", ulp=0,
               special=False, torch_names=[]),
    cumulative("cummin_with_indices", lambda x, a: tuple(torch.cummin(x[0], a["axis"])), fill="i -3 4", ulp=0,
               special=False, torch_names=[]),
    cumulative("logcumsumexp", lambda x, a: torch.logcumsumexp(x[0], a["axis"]), dtypes=FLOAT, ulp=8, floor=4),
    cumulative("diff", lambda x, a: torch.diff(x[0], a["times"], a["axis"]), dtypes=ANY, ulp=1, floor=2, half=2,
               attributes=[{"times": 1}, {"times": 2}, {"times": 0}]),
    Row("diff with ends", lambda x, a: torch.diff(x[0], a["times"], a["axis"], prepend=x[1], append=x[2]), [
        C(f"* {s} u -3 3", f"* {p} u -3 3", f"* {q} u -3 3", axis=axis, times=n) for s, p, q, axis in (
            ("7", "1", "2", 0), ("3,5", "3,2", "3,1", 1), ("3,5", "1,5", "4,5", 0), ("2,3,4", "2,1,4", "2,2,4", -2))
        for n in (1, 2)], "f32 f64 i32 i64", ulp=1, floor=4, torch_names=[]),
    Row("gradient", lambda x, a: torch.gradient(x[0], spacing=a["spacing"], dim=a["axis"])[0], [
        C(f"* {s} u -3 3", spacing=h, axis=axis) for s, axis in (("7", 0), ("3,5", 1), ("3,5", 0), ("2,2,3", 1))
        for h in (1.0, 0.25)] + [C("* 8 v 1 inf 2 -0.0 -inf 3 nan 1", spacing=0.5, axis=0, grad=False), C("* 2,3 v 1 2 4", spacing=2.0, axis=-2)],
        "f32 f64", ulp=2, floor=2),
    Row("gradients", lambda x, a: list(torch.gradient(x[0], spacing=a["spacings"], dim=a["axes"])), [
        C(f"* {s} u -3 3", spacings=h, axes=axes) for s, axes, h in (("3,5", [0, 1], [1.0, 0.5]), ("3,5", [1, 0], [2.0, 0.25]), ("2,2,3", [0, 2], [1.0, 3.0]),
        ("4,2,3", [2, 1, 0], [0.5, 1.0, 2.0]), ("7", [0], [0.5]))], "f32 f64", ulp=2, floor=2, torch_names=[]),
    Row("gradient at", lambda x, a: torch.gradient(x[0], spacing=(x[1],), dim=a["axis"])[0], [
        C(f"* {s} u -3 3", f"*c {n} v {v}", axis=axis) for s, axis, n, v in (("5", 0, "5", "0 1 1.5 3.5 4"),
        ("3,4", 1, "4", "-1 0.25 2 2.5"), ("3,4", 0, "3", "-2 0 0.5"), ("2,2,3", -1, "3", "1 2 4"))], "f32 f64", ulp=8, floor=8,
        torch_names=[]),
    cumulative("trapezoid", lambda x, a: torch.trapezoid(x[0], dx=a["dx"], dim=a["axis"]), dtypes=FLOAT, floor=8,
               special=False, half=3, attributes=[{"dx": 1.0}, {"dx": 0.25}], torch_names=["trapezoid", "trapz"], shapes=CUT_SHAPES + [("0", 0), ("0,4", 0), ("3,0", -1)]),
    Row("trapezoid at", lambda x, a: torch.trapezoid(x[0], x[1], dim=a["axis"]), [
        C(f"* {s} u -3 3", f"* {t} a 0 4", axis=axis) for s, t, axis in (("7", "7", 0), ("3,5", "5", 1), (
            "2,3", "2,3", -1), ("0", "0", 0))], "f32 f64", floor=8, torch_names=[]),
    Row("cumulative_trapezoid", lambda x, a: torch.cumulative_trapezoid(x[0], dx=a["dx"], dim=a["axis"]), [
        C(f"* {s} u -3 3", dx=dx, axis=axis) for s, axis in (("7", 0), ("3,5", 1), ("3,5", 0), ("0,3", 0)) for dx in (1.0, 0.25)],
        "f32 f64", floor=8),
    Row("cumulative_trapezoid at", lambda x, a: torch.cumulative_trapezoid(x[0], x[1], dim=a["axis"]), [
        C(f"* {s} u -3 3", f"* {t} a 0 4", axis=axis) for s, t, axis in (("7", "7", 0), ("3,5", "5", 1), (
            "2,3", "2,3", -1))], "f32 f64", floor=8, torch_names=[]),
]


def segments(reduce, empty):
    def run(x, a):
        out = torch.full([a["segments"], *x[0].shape[1:]], 0, dtype=x[0].dtype)
        index = x[1].to(torch.int64).reshape([-1] + [1] * (x[0].dim() - 1)).expand(x[0].shape)
        z = out.scatter_reduce(0, index, x[0], reduce, include_self=False)
        has = torch.bincount(x[1].to(torch.int64), minlength=a["segments"])[:a["segments"]] > 0
        return torch.where(has.reshape([-1] + [1] * (x[0].dim() - 1)), z, empty(z.dtype))
    return run


def extreme(is_largest):
    def value(dtype):
        if dtype.is_floating_point:
            return torch.tensor(math.inf if is_largest else -math.inf, dtype=dtype)
        limits = torch.iinfo(dtype)
        return torch.tensor(limits.max if is_largest else limits.min, dtype=dtype)
    return value


def segment_row(name, reduce, empty, **options):
    return Row(name, segments(reduce, empty), [C(f"* {s} u -3 3", f"{index} {s.split(',')[0]} i 0 {n}", segments=n)
        for s, n in (("7", 3), ("9,2", 4), ("5,2,3", 6), ("12", 1)) for index in ("i64", "i32")], "f32 f64 i32 i64",
        torch_names=["_segment_reduce"], **options)


def histogram_row(name, arguments, configs):
    """Counts (of elements alone i64) and edges, by torch.histogram of what `arguments` gives."""
    def run(x, a):
        bins, options = arguments(x, a)
        counts, edges = torch.histogram(x[0].contiguous(), bins, density=bool(a["density"]), **options)
        return counts if a["density"] or "weight" in options else counts.to(torch.int64), edges
    return Row(name, run, configs, "f32 f64", ulp=4, floor=4, slope=False, torch_names=[], zeros=False, vmap=False)


ROWS += [
    segment_row("segment_sum", "sum", lambda d: torch.tensor(0, dtype=d), floor=4),
    segment_row("segment_mean", "mean", lambda d: torch.tensor(math.nan if d.is_floating_point else 0, dtype=d),
                floor=4),
    segment_row("segment_max", "amax", extreme(False), ulp=0),
    segment_row("segment_min", "amin", extreme(True), ulp=0),
    Row("bincount", lambda x, a: torch.bincount(x[0].to(torch.int64), minlength=a["bins"]), [
        C(f"{d} {s} i 0 5", bins=n) for d in ("i64", "i32") for s in ("7", "0", "33", "1") for n in (5, 9)], "f32", ulp=0,
        slope=False),
    Row("bincount with weights", lambda x, a: torch.zeros(a["bins"], dtype=x[1].dtype).index_add(
        0, x[0].to(torch.int64), x[1]), [C(f"i64 {s} i 0 5", f"* {s} u -1 3", bins=n) for s in ("7", "33") for n in (5, 9)],
        "f32 f64", floor=4, torch_names=[]),
    Row("histogram", lambda x, a: torch.histc(x[0], a["bins"], a["low"], a["high"]).to(torch.int64), [
        C(f"* {s} u -3 3", bins=n, low=low, high=high) for s in ("7", "33", "4,5", "0") for n, low, high in (
            (4, -2, 2), (5, -3, 3), (1, 0, 1))] + [C("* 9 v -2 -1 0 1 2 inf nan -inf 2.5", bins=4, low=-2, high=2)],
        "f32 f64", ulp=0, slope=False, torch_names=["histc", "histogram"]),
    histogram_row("histogram by range", lambda x, a: (a["bins"], {"range": (a["low"], a["high"])}), [
        C(f"* {s} u -3 3", bins=n, low=low, high=high, density=d) for s in ("7", "33", "4,5")
        for n, low, high in ((4, -2, 2), (5, -3, 3), (1, 0, 1)) for d in (0, 1)]),
    histogram_row("histogram of the elements' range", lambda x, a: (a["bins"], {}), [
        C(f"* {s} {fill}", bins=n, density=d) for s, fill in (("7", "u -3 3"), ("33", "u -3 3"), ("4,5", "u 0 1"))
        for n in (4, 1, 7) for d in (0, 1)] + [C("* 5 v 2", bins=n, density=0) for n in (4, 7)]),
    histogram_row("histogram with weights", lambda x, a: (a["bins"], {"range": (a["low"], a["high"]), "weight": x[1]}), [
        C(f"* {s} u -3 3", f"* {s} u 0.1 2", bins=n, low=low, high=high, density=d) for s in ("7", "33", "4,5")
        for n, low, high in ((4, -2, 2), (5, -3, 3)) for d in (0, 1)]),
    histogram_row("histogram of edges", lambda x, a: (x[1], {}), [
        C(f"* {s} u -3 3", f"* {len(e.split())} v {e}", density=d) for s in ("7", "33", "4,5")
        for e in ("-2 -1 0.5 2", "-3 3", "-1 0 0.25 0.5 4") for d in (0, 1)]),
    histogram_row("histogram of edges with weights", lambda x, a: (x[1], {"weight": x[2]}), [
        C(f"* {s} u -3 3", f"* {len(e.split())} v {e}", f"* {s} u 0.1 2", density=d) for s in ("7", "33", "4,5")
        for e in ("-2 -1 0.5 2", "-3 3") for d in (0, 1)]),
    Row("histogramdd", lambda x, a: torch.histogramdd(x[0].to(torch.float64), a["bins"], range=a["ranges"]).hist.to(
        torch.int64), [C(f"* {s},2 u -3 3", bins=[b, c], ranges=[-2.0, 2.0, -3.0, 1.0]) for s in (7, 33, 1)
                       for b, c in ((2, 3), (4, 1), (5, 5))], "f32 f64", ulp=0, slope=False),
]
