"""Special functions, and what docs/op_coverage.md puts together for names that have no function."""
import math

import numpy as np
import scipy.special as sp
import torch

from rows import Config as C
from rows import Row, from_numpy, of_scipy

FLOAT = "f32 f64 f16 bf16"
EDGES = "v 0 -0.0 inf -inf nan 1 -1 0.5"
SHAPES = ["-", "7", "3,5", "2,3,4", "0", "4,3", "33", "2,1,3,2"]


def special(name, function, low, high, slope=None, dtypes="f32 f64", edges=True, wide=None, **options):
    """By SciPy, and the slope that is given."""
    configs = [C(f"* {s} u {low} {high}", grad=slope is not None) for s in SHAPES]
    if edges:
        configs += [C(f"* 8 {EDGES}", grad=False, once=True)]
    if wide:
        configs += [C(f"* 12 u {wide[0]} {wide[1]}", grad=False)]
    return Row(name, of_scipy(function, slope), configs, dtypes, **{"torch_names": [f"special.{name}"], "zeros": False} | options)


def bessel_edges(function, at_infinity):
    return lambda x: np.where(np.isposinf(x) | (np.isneginf(x) & ~np.isnan(function(-1.0))), at_infinity, function(x))


SQRT2PI = math.sqrt(2 * math.pi)


def zeta(x, a):
    return from_numpy(lambda s, q: np.where(np.isinf(s) & (q > 1), 1, sp.zeta(s, q)), *torch.broadcast_tensors(x[0], x[1]))


class Zeta(torch.autograd.Function):
    """d zeta(s, q) / dq = -s zeta(s + 1, q); not by s."""

    @staticmethod
    def forward(ctx, s, q):
        ctx.save_for_backward(s, q)
        return from_numpy(sp.zeta, *torch.broadcast_tensors(s, q))

    @staticmethod
    def backward(ctx, grad):
        s, q = ctx.saved_tensors
        slope = grad * -s * from_numpy(sp.zeta, *torch.broadcast_tensors(s + 1, q))
        return None, slope.sum_to_size(q.shape)


class Igamma(torch.autograd.Function):
    """The regularised incomplete gamma function, or one minus it; by x, not by a."""

    @staticmethod
    def forward(ctx, a, x, function, sign):
        ctx.sign = sign
        ctx.save_for_backward(a, x)
        return from_numpy(function, *torch.broadcast_tensors(a, x))

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        slope = from_numpy(lambda a, x: np.exp(sp.xlogy(a - 1, x) - x - sp.gammaln(a)), *torch.broadcast_tensors(a, x))
        return None, (ctx.sign * grad * slope).sum_to_size(x.shape), None, None


def incomplete_gamma(name, function, sign):
    shapes = [("-", "-"), ("7", "7"), ("3,5", "5"), ("2,1,4", "2,3,4"), ("0", "0"), ("33", "33"), ("3,1", "3,4")]
    return Row(name, lambda x, a: Igamma.apply(x[0], x[1], function, sign), [C(f"*c {s} u 0.2 9", f"* {t} u 0.05 12") for s, t in shapes] + [
        C("* 4 v 0.5 1 2 30", "* 4 v 0 0 inf 1e-3", grad=False)], "f32 f64", ulp=8, floor=2, slope_ulp=64, torch_names=[name], zeros=False)


POLYNOMIALS = {"chebyshev_t": torch.special.chebyshev_polynomial_t, "chebyshev_u": torch.special.chebyshev_polynomial_u,
               "chebyshev_v": torch.special.chebyshev_polynomial_v, "chebyshev_w": torch.special.chebyshev_polynomial_w,
               "shifted_chebyshev_t": torch.special.shifted_chebyshev_polynomial_t,
               "shifted_chebyshev_u": torch.special.shifted_chebyshev_polynomial_u,
               "shifted_chebyshev_v": torch.special.shifted_chebyshev_polynomial_v,
               "shifted_chebyshev_w": torch.special.shifted_chebyshev_polynomial_w,
               "hermite_h": torch.special.hermite_polynomial_h, "hermite_he": torch.special.hermite_polynomial_he,
               "laguerre_l": torch.special.laguerre_polynomial_l, "legendre_p": torch.special.legendre_polynomial_p}


def polynomial(x, a):
    """By the same recurrences in f64; PyTorch's have no derivatives, so SciPy's are not asked for them."""
    family, n, y = a["family"], a["degree"], x[0]
    shifted = family.startswith("shifted_")
    t = 2 * y - 1 if shifted else y
    kind = family.removeprefix("shifted_")
    one = torch.ones_like(t)
    first = {"chebyshev_t": t, "chebyshev_u": 2 * t, "chebyshev_v": 2 * t - 1, "chebyshev_w": 2 * t + 1, "hermite_h": 2 * t,
             "hermite_he": t, "laguerre_l": 1 - t, "legendre_p": t}[kind]
    before, now = one, first
    if n == 0:
        return one
    for k in range(1, n):
        if kind.startswith("chebyshev"):
            after = 2 * t * now - before
        elif kind == "hermite_h":
            after = 2 * t * now - 2 * k * before
        elif kind == "hermite_he":
            after = t * now - k * before
        elif kind == "laguerre_l":
            after = ((2 * k + 1 - t) * now - k * before) / (k + 1)
        else:
            after = ((2 * k + 1) * t * now - k * before) / (k + 1)
        before, now = now, after
    return now


def check_polynomials():
    """The recurrences above are PyTorch's functions."""
    t = torch.linspace(0.01, 0.99, 9, dtype=torch.float64)
    for family, function in POLYNOMIALS.items():
        for n in (0, 1, 4):
            assert torch.allclose(polynomial([t], {"family": family, "degree": n}), function(t, n), rtol=1e-9, atol=1e-9), family


check_polynomials()
K = {"low": 0.05, "high": 9}
ROWS = [
    special("erfcx", sp.erfcx, -3, 9, lambda x: 2 * x * sp.erfcx(x) - 2 / math.sqrt(math.pi), wide=(-9, 60), ulp=6, slope_floor=64),
    incomplete_gamma("igamma", sp.gammainc, 1), incomplete_gamma("igammac", sp.gammaincc, -1),
    special("log_ndtr", sp.log_ndtr, -6, 4, lambda x: np.exp(-x * x / 2 - sp.log_ndtr(x)) / SQRT2PI, wide=(-60, 5), ulp=16, slope_ulp=64),
    special("ndtri", sp.ndtri, 0.001, 0.999, lambda p: SQRT2PI * np.exp(sp.ndtri(p) ** 2 / 2), ulp=6, slope_ulp=32),
    Row("zeta", lambda x, a: Zeta.apply(x[0], x[1]), [C(f"*c {s} u 1.1 9", f"* {t} u 0.1 9") for s, t in (("7", "7"), ("3,5", "5"), ("-", "4"), ("2,1", "1,3"), (
        "0", "1"))] + [C("*c 6 v 1 0.5 2 3 1.5 60", "* 6 v 1 1 0.25 100 1e4 2", grad=False)], "f32 f64", ulp=8, slope_ulp=64, torch_names=["special.zeta"],
        differs="NaN for negative q; PyTorch adds up the terms of whole orders one by one"),
    Row("multigammaln", lambda x, a: torch.mvlgamma(x[0], a["dimensions"]), [C(f"* {s} u 2.6 9", dimensions=d) for s in ("7", "3,5", "-") for d in (1, 2, 5)], "f32 f64",
        ulp=8, floor=8, slope_floor=32, torch_names=["mvlgamma"]),
    special("bessel_j0", bessel_edges(sp.j0, 0), -9, 9, lambda x: -sp.j1(x), wide=(-90, 90), ulp=2, floor=1, slope_floor=4),
    special("bessel_j1", bessel_edges(sp.j1, 0), -9, 9, lambda x: sp.jvp(1, x), wide=(-90, 90), ulp=2, floor=1, slope_floor=4),
    special("bessel_y0", bessel_edges(sp.y0, 0), 0.05, 9, lambda x: -sp.y1(x), wide=(0.1, 90), ulp=2, floor=1, slope_floor=4),
    special("bessel_y1", bessel_edges(sp.y1, 0), 0.05, 9, lambda x: sp.yvp(1, x), wide=(0.1, 90), ulp=2, floor=1, slope_floor=4),
    special("bessel_k0", sp.k0, 0.05, 9, lambda x: -sp.k1(x), wide=(0.1, 60), ulp=2, torch_names=["special.modified_bessel_k0"], slope_floor=4),
    special("bessel_k1", sp.k1, 0.05, 9, lambda x: sp.kvp(1, x), wide=(0.1, 60), ulp=2, torch_names=["special.modified_bessel_k1"], slope_floor=4),
    special("bessel_k0e", sp.k0e, 0.05, 9, lambda x: sp.k0e(x) - sp.k1e(x), wide=(0.1, 600), ulp=2, torch_names=["special.scaled_modified_bessel_k0"], slope_floor=4),
    special("bessel_k1e", sp.k1e, 0.05, 9, lambda x: sp.k1e(x) - (sp.k0e(x) + sp.k1e(x) / x), wide=(0.1, 600), ulp=2, torch_names=[
        "special.scaled_modified_bessel_k1"], slope_floor=4),
] + [
    Row(f"polygamma {n}", of_scipy(lambda x, n=n: sp.polygamma(n, x), lambda x, n=n: sp.polygamma(n + 1, x)), [C(f"* {s} u 0.1 9") for s in SHAPES], "f32 f64",
        ulp=16, slope_ulp=64, torch_names=["polygamma", "special.polygamma"]) for n in (1, 2, 4)
] + [
    Row("polynomial", polynomial, [C(f"* {s} u 0.01 0.99", family=family, degree=n) for s, n in (("7", 3), ("3,5", 0), ("4", 6)) for family in POLYNOMIALS], "f32 f64",
        ulp=16, floor=256, slope_floor=1024, torch_names=[f"special.{family.replace('chebyshev_', 'chebyshev_polynomial_').replace('hermite_', 'hermite_polynomial_').replace('laguerre_', 'laguerre_polynomial_').replace('legendre_', 'legendre_polynomial_')}" for family in POLYNOMIALS]),
]

M = [C(f"* {s} u -3 3", f"bool {s} u -0.2 1.3") for s in ("3,5", "4,3", "2,7")]


def masked(name, run, configs=M, **options):
    return Row(f"masked.{name}", lambda x, a: run(*x), configs, "f32 f64", **{"ulp": 8, "floor": 8} | options)


def masked_spread(name):
    """The variance or its root, of all elements and of a sample; two are always left, for there is no slope of fewer."""
    def run(x, a):
        mask = x[1] | (torch.arange(x[1].shape[1]) < 2)
        return getattr(torch.masked, name)(x[0], 1, unbiased=a["correction"] == 1, mask=mask)
    return Row(f"masked.{name}", run, [
        C(f"* {s} u -3 3", f"bool {s} u -0.2 1.3", correction=c) for s in ("3,5", "4,3", "2,7") for c in (0, 1)], "f32 f64", ulp=8, floor=8)


def masked_average(function):
    return lambda x, m: function(x, 1, mask=m)


ROWS += [
    masked("sum", lambda x, m: torch.masked.sum(x, 1, mask=m)),
    masked("prod", lambda x, m: torch.where(m, x, 1).prod(1)),
    masked("amax", lambda x, m: torch.where(m, x, -math.inf).amax(1)), masked("amin", lambda x, m: torch.where(m, x, math.inf).amin(1)),
    masked("argmax", lambda x, m: torch.masked.argmax(x, 1, mask=m).to(torch.int64), ulp=0), masked("argmin", lambda x, m: torch.masked.argmin(x, 1, mask=m).to(torch.int64), ulp=0),
    masked("cumsum", lambda x, m: torch.masked.cumsum(x, 1, mask=m)), masked("cumprod", lambda x, m: torch.where(m, x, 1).cumprod(1)),
    masked("mean", masked_average(torch.masked.mean)),
    masked_spread("var"), masked_spread("std"),
    masked("median", lambda x, m: torch.nanmedian(torch.where(m, x, math.nan), 1).values, ulp=0),
    masked("norm", lambda x, m: torch.linalg.vector_norm(torch.where(m, x, 0), 3, 1), ulp=24),
    masked("normalize", lambda x, m: torch.nn.functional.normalize(torch.where(m, x, 0), 3, 1), ulp=24),
    masked("softmax", lambda x, m: torch.softmax(torch.where(m, x, -math.inf), 1)),
    masked("softmin", lambda x, m: torch.softmax(torch.where(m, -x, -math.inf), 1)),
    masked("log_softmax", lambda x, m: torch.log_softmax(torch.where(m, x, -math.inf), 1)),
    masked("logsumexp", lambda x, m: torch.logsumexp(torch.where(m, x, -math.inf), 1)),
    masked("logaddexp", lambda x, m: torch.logaddexp(torch.where(m, x, -math.inf), torch.where(m, -x, -math.inf))),
    Row("angle", lambda x, a: torch.angle(x[0]), [C(f"* {s} u -3 3") for s in SHAPES] + [C("* 5 v 1 -1 0 nan -inf")], "f32 f64", ulp=1, slope=False),
    Row("special.spherical_bessel_j0", of_scipy(lambda x: sp.spherical_jn(0, x)), [C(f"* {s} u -9 9") for s in SHAPES], "f32 f64", ulp=16, floor=2, slope=False),
    Row("select_scatter", lambda x, a: torch.select_scatter(x[0], x[1], 1, a["at"]), [C("* 3,4 u -3 3", "* 3 u -3 3", at=k) for k in (0, 2, -1)] + [C("* 2,3,2 u -3 3",
        "* 2,2 u -3 3", at=1)], "f32 f64 i32 bf16", ulp=0),
    Row("slice_scatter", lambda x, a: torch.slice_scatter(x[0], x[1], 1, a["start"], a["stop"], a["step"]), [C("* 3,6 u -3 3", "* 3,2 u -3 3", start=b, stop=e, step=s)
        for b, e, s in ((0, 2, 1), (1, 5, 2), (4, 6, 1), (0, 6, 3))], "f32 f64 i32 bf16", ulp=0),
    Row("diagonal_scatter", lambda x, a: torch.diagonal_scatter(x[0], x[1]), [C(f"* {s} u -3 3", f"* {n} u -3 3") for s, n in (("3,3", 3), ("4,4", 4), ("1,1", 1), (
        "5,5", 5))], "f32 f64 i32 bf16", ulp=0),
    Row("fft.fftshift", lambda x, a: torch.fft.fftshift(x[0], 0), [C(f"* {s} u -3 3") for s in ("7", "3,5", "4,2", "1")], "f32 f64 i32 bf16", ulp=0, torch_names=[
        "fft.fftshift", "fft.ifftshift"]),
    Row("triplet_margin_with_distance_loss", lambda x, a: torch.nn.functional.triplet_margin_with_distance_loss(*x), [C(*[f"* {s} u -3 3"] * 3) for s in ("3,5", "4,2",
        "1,7")], "f32 f64", ulp=16, floor=16, torch_names=["nn.functional.triplet_margin_with_distance_loss"]),
]
