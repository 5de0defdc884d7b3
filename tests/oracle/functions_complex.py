"""Functions of complex numbers. A complex input or result is stored as its pairs, a real array with a last axis of 2, so
that a gradient is that of the pairs: d loss / d(re) + i d loss / d(im), PyTorch's convention."""
import torch

from rows import Config as C
from rows import Row

SHAPES = ["2", "7,2", "0,2", "3,5,2", "2,3,4,2", "33,2", "4,3,2", "1,2", "17,2", "2,1,3,2", "5,2,2", "37,29,2"]
LIST = ["7,2", "3,5,2", "2,3,4,2", "33,2", "4,3,2", "1,2", "17,2", "2,1,3,2", "6,2,2", "13,9,2"]
ON_AXES = "v -2 0 2 0 0.5 0 0 3 0 -3 -0.25 0 0 0.5"
PAIR = torch.view_as_complex


def z(x):
    """The complex numbers of an array of pairs."""
    return PAIR(x.clone(memory_format=torch.contiguous_format))


def pairs(value):
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def as_pairs(results):
    return [pairs(each) for each in results] if isinstance(results, (list, tuple)) else pairs(results)


def row(name, run, configs, torch_names=(), **options):
    """`run` gets complex tensors. Zeros have the sign that the formula gives them."""
    return Row(f"complex {name}", lambda x, a: as_pairs(run([z(each) for each in x], a)), configs, "f32 f64",
               **{"ulp": 4, "floor": 8, "zeros": False, "torch_names": list(torch_names)} | options)


def unary(name, run=None, low=-3, high=3, at=ON_AXES, shapes=SHAPES, torch_names=(), grad=True, **options):
    run = run or getattr(torch, name)
    configs = [C(f"* {shape} u {low} {high}", grad=grad) for shape in shapes]
    if at:
        configs.append(C(f"* 7,2 {at}", grad=False))
    return row(name, lambda x, a: run(x[0]), configs, torch_names, **options)


def binary(name, run, low=-3, high=3, torch_names=(), shapes=None, **options):
    shapes = shapes or [("7,2", "7,2"), ("3,5,2", "5,2"), ("4,1,2", "3,2"), ("2", "6,2"), ("2,3,4,2", "3,4,2"), ("0,2", "2"),
                        ("33,2", "33,2"), ("1,2", "1,2"), ("5,2", "2"), ("6,2,2", "2,2")]
    return row(name, lambda x, a: run(x[0], x[1]), [C(f"* {a} u {low} {high}", f"* {b} u 0.5 2.5") for a, b in shapes],
               torch_names, **options)


def mixed(name, run, **options):
    """Of complex and of real numbers."""
    shapes = [("7,2", "7"), ("3,5,2", "5"), ("4,1,2", "3"), ("2", "6"), ("2,3,4,2", "3,4"), ("0,2", "-"), ("33,2", "33"),
              ("5,2", "-"), ("6,2,2", "2"), ("1,2", "1")]
    return Row(f"complex {name}", lambda x, a: as_pairs(run(z(x[0]), x[1])),
               [C(f"* {a} u -3 3", f"* {b} u 0.5 2.5") for a, b in shapes], "f32 f64",
               **{"ulp": 4, "floor": 8, "zeros": False, "torch_names": []} | options)


def reduction(name, run, shapes=LIST, low=-2, high=2, **options):
    configs = [C(f"* {shape} u {low} {high}", dim=dim, keepdim=keepdim) for k, shape in enumerate(shapes)
               for dim, keepdim in [(k % max(1, shape.count(",")), k % 3 == 0)]]
    return row(name, lambda x, a: run(x[0], a), configs, **{"ulp": 8, "floor": 16} | options)


def along(name, run, **options):
    return row(name, lambda x, a: run(x[0], a), [C(f"* {shape} u -2 2", dim=k % shape.count(",")) for k, shape in enumerate(LIST)],
               **{"ulp": 8, "floor": 16} | options)


def product(name, run, shapes, **options):
    return row(name, lambda x, a: run(*x), [C(*[f"* {each} u -2 2" for each in shape]) for shape in shapes],
               **{"ulp": 8, "floor": 32, "slope_floor": 64} | options)


def moved(name, run, configs, **options):
    """Elements in other places: exact."""
    return row(name, lambda x, a: run(x, a), configs, **{"ulp": 0, "floor": 0, "slope_ulp": 4, "zeros": True} | options)


def shapes_of(*attributes):
    return [C(f"* {shape} u -3 3", **each) for shape in ("7,2", "3,5,2", "2,3,4,2", "4,3,2", "6,2,2") for each in attributes]


def cumprod_of(x, dim):
    """By products of what is before: PyTorch's derivative divides by the factors."""
    parts, product = [], None
    for each in x.unbind(dim):
        product = each if product is None else product * each
        parts.append(product)
    return torch.stack(parts, dim)


MATRICES = [("3,4,2", "4,2,2"), ("1,1,2", "1,1,2"), ("7,5,2", "5,9,2"), ("2,3,4,2", "2,4,3,2"), ("2,3,4,2", "4,5,2"), ("33,17,2", "17,9,2"),
            ("4,2", "4,2"), ("3,4,2", "4,2"), ("4,2", "4,3,2"), ("5,1,2", "1,6,2")]

ROWS = [
    unary("exp"), unary("exp2"), unary("expm1"), unary("log"), unary("log2"), unary("log10"), unary("log1p"),
    unary("sqrt", grad=True), unary("rsqrt", low=0.3, at="v 2 0 0.5 0 0 3 0 -3 1 1 0 0.5"), unary("square"), unary("reciprocal", low=0.3, at=None),
    unary("sin"), unary("cos"), unary("tan", low=-1, high=1, floor=16), unary("sinh"), unary("cosh"), unary("tanh", low=-1, high=1, floor=16),
    unary("asin", floor=16, at=None, slope_floor=64), unary("acos", floor=16, at=None, slope_floor=64), unary("atan", floor=16, at=None, slope_floor=64),
    unary("asinh", floor=16, at=None, slope_floor=64), unary("acosh", floor=16, at=None, slope_floor=64),
    unary("atanh", floor=16, at=None, slope_floor=64), unary("sigmoid", low=-2, high=2, floor=16),
    unary("sinc", low=-1, high=1, at="v 0 0 0.5 0 0 0.5", floor=32, slope_floor=64), unary("negative"), unary("abs", torch_names=["abs"]),
    unary("angle", torch_names=["angle"]), unary("sgn", lambda x: x / x.abs(), at=None),
    unary("conj", lambda x: torch.conj_physical(torch.conj(torch.conj_physical(x))), torch_names=["conj", "conj_physical"]),
    unary("real", lambda x: torch.real(x), torch_names=["real"]), unary("imag", lambda x: torch.imag(x), torch_names=["imag"]),
    unary("isreal", grad=False, slope=False), unary("isnan", grad=False, slope=False, at="v nan 1 0 0 1 nan"),
    unary("isinf", grad=False, slope=False, at="v inf 1 0 0 1 -inf"), unary("isfinite", grad=False, slope=False, at="v inf 1 0 0 1 nan"),
    binary("add", lambda a, b: a + b), binary("sub", lambda a, b: a - b), binary("mul", lambda a, b: a * b),
    binary("div", lambda a, b: a / b, floor=16), binary("pow", torch.pow, low=0.3, high=2, floor=64, slope_floor=256),
    binary("equal", lambda a, b: a == b, slope=False), binary("not equal", lambda a, b: a != b, slope=False),
    binary("lerp", lambda a, b: torch.lerp(a, b, 0.25 + 0j)), binary("where", lambda a, b: torch.where(a.real > 0, a, b)),
    mixed("add real", lambda a, b: a + b), mixed("mul real", lambda a, b: a * b), mixed("div real", lambda a, b: a / b),
    mixed("real div", lambda a, b: b / a, floor=64, slope_floor=256), mixed("real pow", lambda a, b: torch.pow(b.to(a.dtype), a), floor=32, slope_floor=128),
    row("pow of whole numbers", lambda x, a: torch.pow(x[0], a["exponent"]), [C(f"* {shape} u 0.5 2", exponent=n) for shape in ("7,2", "3,5,2", "0,2")
        for n in (-3, -1, 0, 1, 2, 5)], floor=32, slope_floor=128),
    reduction("sum", lambda x, a: torch.sum(x, a["dim"], a["keepdim"])), reduction("mean", lambda x, a: torch.mean(x, a["dim"], a["keepdim"])),
    reduction("prod", lambda x, a: torch.prod(x, a["dim"], a["keepdim"]), low=0.5, high=1.5, floor=64, slope_floor=256,
              shapes=["7,2", "3,5,2", "2,3,4,2", "4,3,2", "1,2", "5,2", "2,1,3,2", "6,2,2"]),
    reduction("var", lambda x, a: torch.var(x, a["dim"], correction=0, keepdim=a["keepdim"])),
    reduction("vector_norm", lambda x, a: torch.linalg.vector_norm(x, 2, a["dim"], a["keepdim"])),
    reduction("any", lambda x, a: torch.any(x, a["dim"], a["keepdim"]), slope=False), reduction("all", lambda x, a: torch.all(x, a["dim"], a["keepdim"]), slope=False),
    along("cumsum", lambda x, a: torch.cumsum(x, a["dim"])),
    along("cumprod", lambda x, a: cumprod_of(x, a["dim"]), floor=64, slope_floor=512),
    along("trapezoid", lambda x, a: torch.trapezoid(x, dim=a["dim"])),
    along("cumulative_trapezoid", lambda x, a: torch.cumulative_trapezoid(x, dim=a["dim"])),
    product("matmul", torch.matmul, MATRICES), product("einsum", lambda a, b: torch.einsum("ij,kj->ik", a, b), [("3,4,2", "5,4,2"), ("1,1,2", "1,1,2"), (
        "7,5,2", "9,5,2"), ("2,3,2", "4,3,2"), ("6,2,2", "3,2,2"), ("5,17,2", "2,17,2")]),
    product("vdot", torch.vdot, [("7,2", "7,2"), ("1,2", "1,2"), ("33,2", "33,2"), ("130,2", "130,2"), ("3,2", "3,2")], torch_names=["vdot"]),
    product("outer", torch.outer, [("7,2", "5,2"), ("1,2", "1,2"), ("33,2", "2,2"), ("2,2", "13,2"), ("3,2", "3,2")]),
    product("kron", torch.kron, [("3,2,2", "2,4,2"), ("1,1,2", "1,1,2"), ("2,2,2", "3,3,2"), ("5,1,2", "1,4,2"), ("2,3,2", "3,2,2")]),
    moved("permute", lambda x, a: x[0].mT if x[0].dim() > 1 else x[0], shapes_of({})), moved("reshape", lambda x, a: x[0].reshape(-1), shapes_of({})),
    moved("flip", lambda x, a: x[0].flip(a["dim"]), shapes_of({"dim": 0}, {"dim": -1})),
    moved("roll", lambda x, a: x[0].roll(a["shift"], a["dim"]), shapes_of({"dim": 0, "shift": 2}, {"dim": -1, "shift": -1})),
    moved("concat", lambda x, a: torch.cat(x, a["dim"]), [C(f"* {s} u -3 3", f"* {s} u -2 2", dim=d) for s in ("7,2", "3,5,2", "2,3,4,2", "4,3,2") for d in (0, -1)]),
    moved("stack", lambda x, a: torch.stack(x, a["dim"]), [C(f"* {s} u -3 3", f"* {s} u -2 2", dim=d) for s in ("7,2", "3,5,2", "4,3,2") for d in (0, 1)]),
    moved("tril", lambda x, a: torch.tril(x[0], a["diagonal"]), [C(f"* {s} u -3 3", diagonal=k) for s in ("3,5,2", "4,4,2", "2,3,3,2") for k in (0, -1, 1)], zeros=False),
    moved("pad", lambda x, a: torch.nn.functional.pad(x[0], a["widths"]), [C(f"* {s} u -3 3", widths=w) for s in ("7,2", "3,5,2", "2,3,4,2") for w in ([1, 2], [0, 1], [-1, 3])],
          zeros=False),
    moved("select", lambda x, a: x[0].select(a["dim"], a["index"]), shapes_of({"dim": 0, "index": 1}, {"dim": -1, "index": 0})),
    moved("take along", lambda x, a: torch.index_select(x[0], a["dim"], torch.tensor(a["positions"])), shapes_of({"dim": 0, "positions": [1, 0, 1]}, {
        "dim": -1, "positions": [0, 1, 1, 0]}), slope_ulp=8),
    moved("index_add", lambda x, a: torch.index_add(x[0], 0, torch.tensor(a["positions"]), x[1]), [C(f"* {s} u -3 3", f"* {t} u -3 3", positions=p) for s, t, p in (
        ("7,2", "3,2", [1, 4, 1]), ("3,5,2", "2,5,2", [2, 0]), ("4,3,2", "4,3,2", [3, 3, 3, 0]), ("5,2,2", "1,2,2", [4]))], ulp=4, floor=4, zeros=False),
    Row("complex of parts", lambda x, a: pairs(torch.complex(x[0], x[1])), [C(f"* {s} u -3 3", f"* {s} u -3 3") for s in ("7", "3,5", "-", "0", "2,3,4", "33")],
        "f32 f64", ulp=0, torch_names=["complex"]),
    Row("polar", lambda x, a: pairs(torch.polar(x[0], x[1])), [C(f"* {s} u 0.1 3", f"* {s} u -3 3") for s in ("7", "3,5", "-", "0", "2,3,4", "33")],
        "f32 f64", ulp=4, floor=4, zeros=False, torch_names=["polar"]),
    Row("complex views", lambda x, a: pairs(torch.view_as_complex(x[0].contiguous()) * 1), [C(f"* {s} u -3 3") for s in SHAPES],
        "f32 f64", ulp=0, zeros=False, torch_names=["view_as_real", "view_as_complex"]),
]

L = torch.linalg
SQUARE = ("3,3,2", "2,2,2,2", "1,1,2", "4,4,2", "2,3,3,3,2", "9,9,2")
ANY = ("4,3,2", "3,3,2", "2,3,2", "2,3,2,2", "1,4,2", "5,1,2")
SINGULAR = ("* 2,2,2 v 0", "* 2,2,2 v 1 1 -1 1 2 2 -2 2", "* 3,3,2 v 1 0 0 1 1 1 0 1 -1 0 -1 1 2 0 0 2 2 2", "* 2,2,2 v 1 0 1 0 1 0 1 0")


def shifted(x):
    return x + 3 * torch.eye(x.shape[-1], dtype=x.dtype)


def positive(x):
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


def of_matrices(name, run, shapes=SQUARE, columns=None, singular=False, attributes=({},), **options):
    """Of matrices, which `run` makes regular; with `columns` of right sides of so many of them; singular ones without slopes."""
    right = lambda s: [] if columns is None else [f"* {s[:-len('3,2')]}{columns},2 u -2 2"]
    configs = [C(f"* {s} u -1 1", *right(s), **each) for s in shapes for each in attributes]
    if singular:
        configs += [C(each, layout="c", grad=False, **a) for each in SINGULAR for a in attributes]
    return row(f"linalg.{name}", run, configs, **{"ulp": 32, "floor": 64, "slope_ulp": 128, "slope_floor": 512, "at_least": 30, "layouts": "tcscsct"} | options)


def of_qr(q, r):
    return q @ r, q @ q.mH, r.abs()


ADJOINT = ({"adjoint": False}, {"adjoint": True})
UPPER = ({"upper": False}, {"upper": True})
ROWS += [
    of_matrices("solve", lambda x, a: L.solve(shifted(x[0]), x[1]), columns=2),
    of_matrices("inv", lambda x, a: L.inv(shifted(x[0]))),
    of_matrices("inv_ex of singular", lambda x, a: L.inv_ex(x[0])[1], singular=True, slope=False),
    of_matrices("det", lambda x, a: L.det(x[0]), singular=True, floor=512),
    of_matrices("slogdet", lambda x, a: tuple(L.slogdet(shifted(x[0])))),
    of_matrices("cholesky", lambda x, a: L.cholesky(positive(x[0]), upper=a["upper"]), attributes=UPPER),
    of_matrices("cholesky_solve", lambda x, a: torch.cholesky_solve(x[1], L.cholesky(positive(x[0]), upper=a["upper"]), upper=a["upper"]), columns=2, attributes=UPPER),
    of_matrices("solve_triangular", lambda x, a: L.solve_triangular(shifted(x[0]), x[1], upper=a["upper"]), columns=2, attributes=UPPER),
    of_matrices("lu", lambda x, a: tuple(L.lu(x[0])), ("3,3,2", "4,3,2", "2,3,4,2", "1,1,2", "9,9,2"), singular=True),
    of_matrices("lu_factor", lambda x, a: tuple(L.lu_factor(shifted(x[0]))), ("3,3,2", "2,3,3,2", "1,1,2", "9,9,2")),
    of_matrices("lu_solve", lambda x, a: L.lu_solve(*L.lu_factor(shifted(x[0])), x[1], adjoint=a["adjoint"]), columns=2, attributes=ADJOINT),
    of_matrices("lu_solve from the right", lambda x, a: L.lu_solve(*L.lu_factor(shifted(x[0])), x[1].mT, left=False, adjoint=a["adjoint"]), columns=2, attributes=ADJOINT),
    of_matrices("qr", lambda x, a: of_qr(*L.qr(x[0])), ANY, slope=False, singular=True),
    of_matrices("qr slopes", lambda x, a: (lambda q, r: (q * q, r * r))(*L.qr(x[0])), ANY, ulp=64, floor=256, slope_ulp=512, slope_floor=4096),
    Row("complex linalg.householder_product", lambda x, a: pairs(L.householder_product(z(x[0]), z(x[1]))), [C(f"* {s} u -1 1", f"* {t} u 0 1") for s, t in (("4,3,2",
        "3,2"), ("3,3,2", "2,2"), ("2,5,2,2", "2,2,2"))], "f32 f64", ulp=16, floor=32, slope_floor=1024, zeros=False, torch_names=[], at_least=30),
    of_matrices("eigh", lambda x, a: (lambda w, v: (w, v.abs() ** 2))(*L.eigh(positive(x[0]))), ulp=64, floor=256, slope_ulp=512, slope_floor=4096),
    of_matrices("svdvals", lambda x, a: L.svdvals(x[0]), ANY, slope_floor=1024),
    of_matrices("pinv", lambda x, a: L.pinv(x[0]), ANY, slope_floor=4096, floor=256),
    of_matrices("matrix_exp", lambda x, a: torch.matrix_exp(x[0])),
    row("linalg.multi_dot", lambda x, a: L.multi_dot(x), [C(f"* {s} u -2 2", f"* {t} u -2 2", f"* {u} u -2 2") for s, t, u in (("3,4,2", "4,5,2", "5,2,2"), ("1,2,2", "2,1,2",
        "1,3,2"), ("2,6,2", "6,2,2", "2,2,2"))], ulp=16, floor=64, at_least=30),
]
