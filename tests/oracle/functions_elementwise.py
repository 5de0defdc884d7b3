"""Elementwise functions of one and of several operands, and activations."""
import math

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from case_format import DTYPES, FLOATS
from rows import Config as C
from rows import Row, from_numpy, of_scipy

FLOAT = "f32 f64 f16 bf16"
REAL = "f32 f64 f16 bf16 i32 i64 u8 i8"
ANY = "f32 f64 f16 bf16 i32 i64 u8 i8 i16 bool"
INTS = "i32 i64 u8 i8 i16"
EDGES = "v 0 -0.0 inf -inf nan 1 -1 0.5"
HUGE = "v 1e-45 -1e-40 1e-38 3e38 -3e38 1e10 -65504 1e-5"
HUGE64 = "v 5e-324 1e-310 -1e-308 1e308 -1.7e308 1e20 3e-160 1e155"
HALVES = "v 0.5 1.5 -0.5 -1.5 2.5 -2.5 1 -1"
SHAPES = ["-", "1", "0", "7", "3,5", "2,3,4", "4,3", "5,4", "17", "2,1,3,2", "33", "3,0,2", "1027", "37,29"]


def signed_zero(x, other):
    """x, where a zero has the sign of `other`."""
    return torch.where(x == 0, torch.copysign(torch.zeros_like(x), other.detach()), x)


def larger(x, y):
    """IEEE 754-2019's maximum of zeros: -0 is less than +0."""
    z = torch.maximum(x, y)
    if not z.is_floating_point():
        return z
    return torch.where((z == 0) & (x == 0) & (y == 0), signed_zero(z, x + y), z)


def fmax_of(x, y):
    z = torch.fmax(x, y)
    if not z.is_floating_point():
        return z
    return torch.where((z == 0) & (x == 0) & (y == 0), signed_zero(z, x + y), z)


def smaller(largest, smallest, x):
    """By the largest of the negative numbers, which unsigned ones do not have."""
    return -largest(-x[0], -x[1]) if x[0].is_floating_point() else smallest(x[0], x[1])


def sinc_of(x):
    """sin(pi x) / (pi x), exact at whole numbers, 0 at infinity."""
    if not x.is_floating_point():
        return torch.sinc(x)
    nearest = torch.round(x).detach()
    is_middle = x.abs() < 0.5
    outside = torch.where(is_middle, torch.ones_like(x), x)
    sine = torch.sin(math.pi * (outside - nearest)) * (1 - 2 * torch.remainder(nearest, 2))
    return torch.where(is_middle, torch.sinc(x), torch.where(torch.isinf(x), 0, sine / (math.pi * outside)))


def to_limit(function):
    """The function, with the value at -infinity that it goes to: -0."""
    def run(x, _):
        z = function(x[0])
        return torch.where(torch.isneginf(x[0]), torch.full_like(z, -0.0), z)
    return run


def hardsigmoid_of(x):
    """PyTorch's derivative has the digits of f32."""
    return torch.clamp(x / 6 + 0.5, 0, 1)


def celu_of(x, alpha):
    """PyTorch's derivative has the digits of f32."""
    below = torch.where(x > 0, torch.zeros_like(x), x)
    return torch.where(x > 0, x, alpha * torch.expm1(below / alpha))


class Gelu:
    """By SciPy's ndtr, which keeps its digits on the left, and its derivative."""
    def __call__(self, x):
        return np.where(np.isneginf(x), -0.0, x * scipy.special.ndtr(x))

    @staticmethod
    def slope(x):
        return scipy.special.ndtr(x) + x * math.sqrt(0.5 / math.pi) * np.exp(-x * x / 2)


def exact_remainder(function, exact):
    """PyTorch's function, but where it gives NaN for finite numbers: of very large and very small ones."""
    def run(x, _):
        z = function(x[0], x[1])
        right = from_numpy(exact, *torch.broadcast_tensors(x[0], x[1]))
        right = signed_zero(right, x[0])
        return torch.where(torch.isnan(z) & torch.isfinite(x[0]) & (x[1] != 0), right.to(z.dtype), z)
    return run


def sign_of(x, _):
    z = torch.sign(x[0])
    return torch.where(torch.isnan(x[0]) | (x[0] == 0), x[0].detach(), z) if z.is_floating_point() else z


NOT_A_NUMBER_OF_INFINITY = "PyTorch's value of infinity is NaN; here it is the limit"
EXACT_REMAINDER = "exact for all finite numbers; PyTorch gives NaN where the quotient is beyond the range"
TENTHS = [C("* 8 v 1 -1 0.3 6 -6 0.5 2 0.7", f"* 1 v {b}") for b in (0.1, -0.1, 0.3)]
AT_BOUND = "at the bound the derivative by x is 0; PyTorch shares it"
def saturated_cast(x, a):
    dtype = DTYPES[a["dtype"]]
    if not x[0].is_floating_point() or dtype.is_floating_point or dtype == torch.bool:
        return x[0].to(dtype)
    limits = torch.iinfo(dtype)
    return torch.nan_to_num(x[0].to(torch.float64), 0).clamp(limits.min, limits.max).to(torch.int64).to(dtype)


LIMIT = "at -infinity it is -0, the limit (PyTorch: NaN)"
SIGNED_ZEROS = "of zeros -0 is less than +0 (IEEE 754-2019); PyTorch's choice depends on the order"


def unary(name, run=None, low=-3, high=3, dtypes=ANY, edges=True, kinks=True, torch_names=None, more=(), **options):
    run = run or (lambda x, a, f=getattr(torch, name): f(x[0]))
    configs = [C(f"* {shape} u {low} {high}") for shape in SHAPES]
    if edges:
        configs += [C(f"* 8 {EDGES}", dtypes="f32 f64 f16 bf16", grad=False, once=True),
                    C(f"* 8 {HUGE}", dtypes="f32 f64", grad=False), C(f"* 8 {HUGE64}", dtypes="f64", grad=False),
                    C(f"* 8 {HALVES}", dtypes="f32 f64", grad=kinks)]
    if kinks:
        configs += [C("* 4 v 0 1 -1 -0.0", dtypes="f32 f64", once=True)]
    configs += [C(f"* 2,6 u {low * 10} {high * 10}", dtypes=dtypes, grad=edges)]
    return Row(name, run, configs + list(more), dtypes, torch_names=torch_names, **options)


def binary(name, run=None, a="u -3 3", b="u -3 3", dtypes=ANY, edges=True, kinks=True, torch_names=None, more=(), **options):
    run = run or (lambda x, _, f=getattr(torch, name): f(x[0], x[1]))
    shapes = [("-", "-"), ("7", "7"), ("3,5", "5"), ("0", "1"), ("2,3,4", "3,1"), ("4,3", "4,1"), ("5,4", "5,4"),
              ("1", "17"), ("2,1,3", "4,1"), ("33", "-"), ("3,1,2", "1,0,2"), ("67,1", "1,43"), ("19,67", "67")]
    configs = [C(f"* {s} {a}", f"* {t} {b}") for s, t in shapes]
    if edges:
        configs += [C(f"* 8,1 {EDGES}", f"* {one} v {two}", dtypes="f32 f64 f16 bf16", grad=False)
                    for one, two in (("1", "0"), ("1", "-0.0"), ("1", "inf"), ("1", "nan"), ("1", "-2.5"))]
        configs += [C(f"* 8 {HUGE}", f"* 8 v 1e38 3e-39 -2 1e-45 0.5 1e30 7 -1e-40", dtypes="f32 f64", grad=False),
                    C(f"* 8 {HUGE64}", f"* 8 v 1e300 3e-310 -2 5e-324 0.5 1e200 7 -1e-300", dtypes="f64", grad=False)]
    if kinks:
        configs += [C("* 6 v 0 1 -1 2 -2 3", "* 6 v 1 1 -1 2 2 -0.5", dtypes="f32 f64", once=True)]
    return Row(name, run, configs + list(more), dtypes, torch_names=torch_names, **options)


def activation(name, run, ulp, attributes=({},), torch_name="", **options):
    names = [] if torch_name is None else [f"nn.functional.{torch_name or name}"]
    shapes = ["-", "7", "3,5", "2,3,4", "0", "4,3", "2,1,3,2", "33", "37,29"]
    configs = [C(f"* {s} u -4 4", **attributes[k % len(attributes)]) for k, s in enumerate(shapes)]
    for each in attributes:
        configs += [C(f"* 8 {EDGES}", grad=False, once=True, **each),
                    C(f"* 8 {HUGE}", dtypes="f32 f64", grad=False, **each), C("* 2,6 u -40 40", **each)]
    configs += [C("* 8 v 0 1 -1 -0.0 0.5 -0.5 3 -3", dtypes="f32 f64", once=True, **attributes[0])]
    return Row(name, run, configs, FLOAT, ulp=ulp, torch_names=names, **options)


def ternary(name, run, ulp, operands=3, a="u -3 3", b="u -3 3", c="u -3 3", attributes=({},), **options):
    shapes = [("-", "-", "-"), ("7", "7", "7"), ("3,5", "5", "3,1"), ("2,3,4", "4", "1"), ("0", "1", "0"),
              ("4,3", "4,3", "1,3"), ("2,1,3", "4,1", "-"), ("33", "33", "33")]
    configs = [C(*[f"* {s} {fill}" for s, fill in zip(each, (a, b, c))][:operands], **attributes[k % len(attributes)])
               for k, each in enumerate(shapes)]
    return Row(name, run, configs, FLOAT, ulp=ulp, **options)


ROWS = [
    unary("exp"), unary("exp2"), unary("expm1"),
    unary("log", low=0.01, high=9), unary("log2", low=0.01, high=9), unary("log10", low=0.01, high=9),
    unary("log1p", low=-0.9, high=9),
    unary("sqrt", low=0, high=9, ulp=0.5), unary("rsqrt", low=0.1, high=9),
    unary("square", dtypes=REAL, ulp=0.5, differs="of bool it is bool, as x * x; PyTorch gives i64"), unary("reciprocal", ulp=0.5),
    unary("cbrt", of_scipy(scipy.special.cbrt, lambda x: 1 / (3 * scipy.special.cbrt(x) ** 2)), torch_names=[]),
    unary("sin"), unary("cos"), unary("tan", ulp=5), unary("asin", low=-1, high=1), unary("acos", low=-1, high=1),
    unary("atan"), unary("sinh", ulp=3), unary("cosh", ulp=3), unary("tanh"), unary("asinh", ulp=3),
    unary("acosh", low=1, high=9, ulp=3, kinks=False), unary("atanh", low=-1, high=1, ulp=3),
    unary("rad2deg", dtypes=REAL, torch_names=["rad2deg"]), unary("deg2rad", dtypes=REAL),
    unary("erf"), unary("erfc", ulp=6), unary("erfinv", low=-1, high=1, ulp=5, more=[C("* 6 v 1 -1 0.999999 -0.99999 1e-30 1.5", dtypes="f32 f64", grad=False)]),
    unary("lgamma", ulp=6, floor=4, more=[C("* 8 v 0 -1 -2 -0.5 -1.5 -2.5 171 1e5", dtypes="f32 f64", grad=False, once=True)]), unary("digamma", of_scipy(scipy.special.digamma, lambda x: scipy.special.polygamma(1, x)), ulp=10, floor=4),
    unary("sinc", lambda x, a: sinc_of(x[0]), ulp=5, zeros=False, differs="0 at whole numbers and at infinity; PyTorch's value has the rounding of pi, and NaN"),
    unary("i0", of_scipy(lambda x: np.where(np.isinf(x), np.inf, scipy.special.i0(x)), scipy.special.i1), ulp=6, torch_names=["i0", "special.modified_bessel_i0"], differs=NOT_A_NUMBER_OF_INFINITY),
    unary("i0e", lambda x, a: torch.special.i0e(x[0]), ulp=5, torch_names=["special.i0e"]),
    unary("i1", of_scipy(lambda x: np.where(np.isinf(x), x, scipy.special.i1(x)), lambda x: scipy.special.ivp(1, x)), ulp=6, zeros=False,
          differs=NOT_A_NUMBER_OF_INFINITY + "; i1(-0) is -0", torch_names=["special.i1", "special.modified_bessel_i1"]),
    unary("i1e", lambda x, a: torch.special.i1e(x[0]), ulp=5, zeros=False, differs="i1e(-0) is -0 (PyTorch: 0)", torch_names=["special.i1e"]),
    unary("entr", lambda x, a: torch.special.entr(x[0]), low=0, high=3, ulp=4, floor=1, kinks=False,
          differs="below 0 the derivative is 0 (PyTorch: NaN)", more=[C("* 4 v 0 1 -0.0 0.5", dtypes="f32 f64", once=True)],
          torch_names=["special.entr"]),
    unary("ndtr", of_scipy(scipy.special.ndtr, lambda x: math.sqrt(0.5 / math.pi) * np.exp(-x * x / 2)), ulp=100, half=2,
          differs="the rounding of x / sqrt(2) counts x^2 times", torch_names=["special.ndtr"]),
    unary("logit", low=0.01, high=0.99, ulp=4, floor=1, kinks=False, more=[C("* 6 v 0 1 -0.5 1.5 nan 0.25", dtypes="f32 f64", once=True)]),
    unary("sigmoid", ulp=3), unary("logsigmoid", lambda x, a: F.logsigmoid(x[0]), dtypes=FLOAT, ulp=3, zeros=False,
                                   differs="of large numbers it is -0: it underflows from below",
                                   torch_names=["nn.functional.logsigmoid"]),
    unary("abs", dtypes=REAL, ulp=0), unary("sign", sign_of, dtypes=REAL, ulp=0, differs="passes NaN and -0 on; PyTorch gives 0"),
    unary("sgn", sign_of, dtypes=REAL, ulp=0, differs="passes NaN and -0 on; PyTorch gives 0"),
    unary("floor", dtypes=REAL, ulp=0), unary("ceil", dtypes=REAL, ulp=0), unary("trunc", dtypes=REAL, ulp=0),
    unary("round", dtypes=REAL, ulp=0), unary("frac", dtypes=FLOAT, ulp=0.5),
    unary("negative", dtypes=REAL, ulp=0, torch_names=["neg"]), unary("positive", dtypes=REAL, ulp=0),
    unary("isnan"), unary("isinf"), unary("isfinite"), unary("isposinf"), unary("isneginf"), unary("signbit"),
    unary("isreal"), unary("logical_not"), unary("bitwise_not", dtypes=INTS + " bool", edges=False, kinks=False),
    unary("popcount", lambda x, a: torch.tensor(
        [bin(v & ((1 << (x[0].element_size() * 8)) - 1)).count("1") for v in x[0].reshape(-1).tolist()],
        dtype=x[0].dtype).reshape(x[0].shape), dtypes=INTS, low=-200, high=200, edges=False, kinks=False,
          torch_names=[]),
    unary("nan_to_num", dtypes=REAL, ulp=0), unary("relu", lambda x, a: torch.relu(x[0]) + 0, dtypes=REAL, ulp=0, differs="relu(-0) is 0; PyTorch's is -0",
           torch_names=["nn.functional.relu"]),
    unary("frexp", lambda x, a: torch.frexp(x[0]), dtypes=FLOAT, ulp=0),
    binary("add", ulp=0.5, torch_names=["add"]), binary("sub", dtypes=REAL, ulp=0.5, torch_names=["sub"]),
    binary("mul", ulp=0.5, torch_names=["mul"]), binary("div", b="u 0.5 3", ulp=0.5, torch_names=["div"]),
    binary("true_divide", b="u 0.5 3", ulp=0.5), binary("pow", a="u 0.1 3", dtypes=FLOAT, ulp=2, more=[C(f"* 8,1 {EDGES}", f"* 1,8 {EDGES}", dtypes="f32 f64", grad=False, once=True), C(
        "* 5,1 v -2 -0.5 0 -0.0 -3", "* 6 v 3 2 -3 -2 0 0.5", dtypes="f32 f64", grad=False, once=True)]),
    binary("pow of whole numbers", lambda x, _: torch.pow(x[0], x[1]), b="i 0 5", dtypes=INTS, edges=False,
           kinks=False, ulp=0, torch_names=[]),
    binary("float_power", a="u 0.1 3", dtypes=FLOAT, ulp=3), binary("maximum", lambda x, _: larger(x[0], x[1]), ulp=0, differs=SIGNED_ZEROS),
    binary("minimum", lambda x, _: smaller(larger, torch.minimum, x), ulp=0, differs=SIGNED_ZEROS),
    binary("fmax", lambda x, _: fmax_of(x[0], x[1]), ulp=0, differs=SIGNED_ZEROS),
    binary("fmin", lambda x, _: smaller(fmax_of, torch.fmin, x), ulp=0, differs=SIGNED_ZEROS),
    binary("floor_divide", b="u 1 4", dtypes=FLOAT, slope=False, ulp=0, in_dtype=True, more=TENTHS),
    binary("floor_divide of integers", lambda x, _: torch.floor_divide(x[0], x[1]), a="i -50 50", b="i 1 9",
           dtypes=INTS, edges=False, kinks=False, ulp=0, torch_names=[]),
    binary("remainder", exact_remainder(torch.remainder, np.remainder), b="u 0.5 3", dtypes=FLOAT, ulp=0.5,
           differs=EXACT_REMAINDER),
    binary("remainder of integers", lambda x, _: torch.remainder(x[0], x[1]), a="i -50 50", b="i 1 9", dtypes=INTS,
           edges=False, kinks=False, ulp=0, torch_names=[]),
    binary("fmod", exact_remainder(torch.fmod, np.fmod), b="u 0.5 3", dtypes=FLOAT, ulp=0.5, differs=EXACT_REMAINDER),
    binary("fmod of integers", lambda x, _: torch.fmod(x[0], x[1]), a="i -50 50", b="i 1 9", dtypes=INTS, edges=False,
           kinks=False, ulp=0, torch_names=[]),
    binary("divmod", in_dtype=True, more=TENTHS, run=lambda x, _: (torch.floor_divide(x[0], x[1]), torch.remainder(x[0], x[1])), b="u 0.5 3",
           dtypes=FLOAT, edges=False, slope=False, ulp=0.5, torch_names=[]),
    binary("atan2", ulp=3), binary("hypot", ulp=2, dtypes=FLOAT, differs="the derivative at (0, 0) is 0 (PyTorch: NaN)"), binary("logaddexp", ulp=4, floor=1, dtypes=FLOAT),
    binary("logaddexp2", ulp=4, floor=1, dtypes=FLOAT), binary("xlogy", b="u 0.01 3", ulp=3, floor=1),
    binary("xlog1py", lambda x, _: torch.special.xlog1py(x[0], x[1]), b="u -0.9 3", ulp=4, floor=1,
           torch_names=["special.xlog1py"]),
    binary("copysign", ulp=0), binary("nextafter", dtypes="f32 f64", ulp=0, slope=False, in_dtype=True),
    Row("ldexp", lambda x, _: torch.ldexp(x[0], x[1]),
        [C(f"* {s} u -3 3", f"i32 {t} i -9 9") for s, t in (("7", "7"), ("3,5", "5"), ("2,1,3", "4,1"), ("0", "1"))] +
        [C(f"* 8 {EDGES}", "i32 8 i -2 2", grad=False)], ulp=0.5,
        differs="no derivative by floating exponents"),
    binary("heaviside", dtypes=REAL, ulp=0, slope=False),
    binary("bitwise_and", dtypes=INTS + " bool", edges=False, kinks=False),
    binary("bitwise_or", dtypes=INTS + " bool", edges=False, kinks=False),
    binary("bitwise_xor", dtypes=INTS + " bool", edges=False, kinks=False),
    binary("bitwise_left_shift", b="i 0 7", dtypes=INTS, edges=False, kinks=False),
    binary("bitwise_right_shift", a="i -100 100", b="i 0 7", dtypes=INTS, edges=False, kinks=False),
    binary("logical_and"), binary("logical_or"), binary("logical_xor"),
    binary("eq", b="i -2 3", torch_names=["eq"]), binary("ne", b="i -2 3", torch_names=["ne"]),
    binary("lt", torch_names=["lt"]), binary("le", torch_names=["le"]), binary("gt", torch_names=["gt"]),
    binary("ge", torch_names=["ge"]), binary("gcd", a="i -60 60", b="i -60 60", dtypes=INTS, edges=False, kinks=False),
    binary("lcm", a="i -60 60", b="i -60 60", dtypes="i32 i64 i16", edges=False, kinks=False),
    binary("isclose", b="u -3 3", dtypes=REAL),
    binary("clamp_min", ulp=0, dtypes=REAL, kinks=False, zeros=False, differs=AT_BOUND),
    binary("clamp_max", ulp=0, dtypes=REAL, kinks=False, zeros=False, differs=AT_BOUND),
    activation("gelu", of_scipy(Gelu(), Gelu.slope), ulp=5, torch_name="gelu", differs=LIMIT),
    activation("gelu_tanh", to_limit(lambda x: F.gelu(x, approximate="tanh")), ulp=6, floor=1, torch_name=None, differs=LIMIT),
    activation("silu", to_limit(F.silu), ulp=5, differs=LIMIT), activation("mish", to_limit(F.mish), ulp=6, differs=LIMIT),
    activation("softsign", lambda x, a: F.softsign(x[0]), ulp=3, half=2),
    activation("hardsigmoid", lambda x, a: hardsigmoid_of(x[0]), ulp=3, half=2),
    activation("hardswish", to_limit(lambda x: x * hardsigmoid_of(x)), differs=LIMIT, ulp=4, half=2, zeros=False, floor=1),
    activation("tanhshrink", lambda x, a: F.tanhshrink(x[0]), ulp=4, floor=1, half=2),
    activation("relu6", lambda x, a: F.relu6(x[0] + 0.0) + 0, ulp=0),
    activation("selu", lambda x, a: F.selu(x[0]), ulp=4, half=3),
    activation("leaky_relu", lambda x, a: F.leaky_relu(x[0], a["negative"]), ulp=1, attributes=[
        {"negative": 0.01}, {"negative": 0.3}, {"negative": -0.5}]),
    activation("hardshrink", lambda x, a: F.hardshrink(x[0], a["width"]), ulp=0, zeros=False, attributes=[
        {"width": 0.5}, {"width": 1.25}]),
    activation("softshrink", lambda x, a: F.softshrink(x[0], a["width"]), ulp=1, zeros=False, attributes=[
        {"width": 0.5}, {"width": 1.25}]),
    activation("hardtanh", lambda x, a: F.hardtanh(x[0], a["low"], a["high"]), ulp=0, attributes=[
        {"low": -1, "high": 1}, {"low": -0.5, "high": 2}]),
    activation("elu", lambda x, a: F.elu(x[0], a["alpha"]), ulp=4, attributes=[{"alpha": 1}, {"alpha": 0.3}]),
    activation("celu", lambda x, a: celu_of(x[0], a["alpha"]), ulp=4, attributes=[{"alpha": 1}, {"alpha": 0.3}]),
    activation("softplus", lambda x, a: F.softplus(x[0], a["beta"], a["threshold"]), ulp=4, half=4, attributes=[
        {"beta": 1, "threshold": 20}, {"beta": 2.5, "threshold": 20}, {"beta": 1, "threshold": 2}]),
    activation("threshold", lambda x, a: F.threshold(x[0], a["threshold"], a["value"]), ulp=0, attributes=[
        {"threshold": 0.5, "value": -7}, {"threshold": 0, "value": 0.1}]),
    activation("rrelu", lambda x, a: F.rrelu(x[0], a["lower"], a["upper"], training=False), ulp=1, attributes=[
        {"lower": 0.125, "upper": 0.25}]),
    Row("glu", lambda x, a: F.glu(x[0], a["axis"]), [C(f"* {s} u -4 4", axis=axis) for s, axis in (
        ("6", 0), ("4,6", 1), ("4,6", -2), ("2,3,8", -1), ("0,4", 1), ("2,2", 0))], ulp=5, half=2,
        torch_names=["nn.functional.glu"]),
    Row("prelu", lambda x, a: F.prelu(x[0], x[1]), [C(f"* {s} u -4 4", f"* {w} u 0 1") for s, w in (
        ("2,6", "6"), ("2,3,4", "3"), ("5,4", "1"), ("0,4", "4"), ("2,3,2,2", "3"))], ulp=1, floor=1,
        torch_names=["nn.functional.prelu"]),
    ternary("lerp", lambda x, a: torch.lerp(x[0], x[1], x[2]), ulp=3, floor=1),
    ternary("lerp by a number", lambda x, a: torch.lerp(x[0], x[1], a["weight"]), operands=2, ulp=3, floor=1,
            torch_names=[], attributes=[{"weight": 0.25}, {"weight": 1.5}, {"weight": -0.5}]),
    ternary("addcmul", lambda x, a: torch.addcmul(x[0], x[1], x[2], value=a["value"]), ulp=2, floor=1, half=3,
            attributes=[{"value": 1}, {"value": -0.5}]),
    ternary("addcdiv", lambda x, a: torch.addcdiv(x[0], x[1], x[2], value=a["value"]), ulp=2, floor=1, half=3,
            c="u 0.5 3", attributes=[{"value": 1}, {"value": -0.5}]),
    ternary("clamp", lambda x, a: torch.clamp(x[0], x[1], x[2]), ulp=0, a="u -5 5", b="u -3 0", c="u 0 3"),
    ternary("clamp to numbers", lambda x, a: torch.clamp(x[0], a["low"], a["high"]), operands=1, ulp=0,
            torch_names=[], attributes=[{"low": -1, "high": 1.5}, {"low": 1, "high": -1}]),
    ternary("rsub", lambda x, a: torch.rsub(x[0], x[1], alpha=a["alpha"]), operands=2, ulp=1, floor=1, half=2,
            attributes=[{"alpha": 1}, {"alpha": -2}]),
    Row("where", lambda x, a: torch.where(x[0], x[1], x[2]), [C(f"bool {s} u 0 1", f"* {t} u -3 3", f"* {u} u -3 3")
        for s, t, u in (("-", "-", "-"), ("7", "7", "7"), ("3,5", "5", "3,1"), ("2,1", "1,3", "-"), ("0", "1", "0"),
                        ("4,3", "4,3", "4,1"))] +
        [C("bool 8 v 1 0 1 0 1", f"* 8 {EDGES}", "f32 8 u 0 1", dtypes=FLOAT, grad=False)], ANY, ulp=0),
    Row("nan_to_num with numbers", lambda x, a: torch.nan_to_num(x[0], a["nan"], a["posinf"], a["neginf"]), [
        C(f"* 8 {EDGES}", nan=nan, posinf=high, neginf=low) for nan, high, low in (
            (0, 1, -1), (2.5, 100, -3), (-1, 0, 0))], FLOAT, ulp=0, torch_names=[]),
    Row("isclose with tolerances", lambda x, a: torch.isclose(x[0], x[1], a["rtol"], a["atol"], a["equal_nan"]), [
        C(f"* {s} u -1 1", f"* {s} u -1 1", rtol=0.5, atol=0.25, equal_nan=False) for s in ("7", "3,5", "0", "-")] + [
        C(f"* 8,1 {EDGES}", f"* 1,8 {EDGES}", rtol=0.1, atol=0.1, equal_nan=e) for e in (False, True)], FLOAT, ulp=0,
        torch_names=[]),
    Row("cast", saturated_cast, [C(f"* {s} u {low} {high}", dtype=d)
        for d in DTYPES for s, low, high in (("7", -3, 3), ("3,5", 0, 100))] + [
        C(f"* 8 {EDGES}", dtype=d, dtypes=FLOAT) for d in FLOATS] + [
        C("* 8 v 16777217 33554435 65519 65520 257 -129 40000 4294967295", dtype=d, dtypes=t)
        for d in DTYPES for t in ("f32 i64", "i32 f64")], " ".join(DTYPES), ulp=0.5, half=0.51, slope=False,
        in_dtype=True, differs="numbers beyond the range of an integer dtype become its limits",
        torch_names=["to", "bool", "byte", "char", "short", "int", "long", "half", "bfloat16", "float",
                                    "double"]),
    Row("bitcast", lambda x, a: x[0].view(DTYPES[a["dtype"]]), [C(f"{d} {s} {fill}", dtype=e)
        for d, e, fill in (("f32", "i32", "u -3 3"), ("i32", "f32", "i 1000000000 1100000000"), ("f64", "i64", "u -3 3"),
                           ("i64", "f64", "i 4600000000000000000 4610000000000000000")) for s in (
                               "7", "3,5", "2,3,4", "-", "0")], "f32", ulp=0, slope=False, in_dtype=True,
        torch_names=[]),
]
