"""Products, and linear algebra. Where a decomposition is not unique, what is compared is made of it."""
import math

import torch

from rows import Config as C
from rows import Row

FLOAT = "f32 f64 f16 bf16"
NUMBERS = "f32 f64 f16 bf16 i32 i64"
L = torch.linalg


def product(name, run, *cases, dtypes=FLOAT, torch_names=None, **options):
    """Cases: shapes of the operands, and attributes."""
    configs = [C(*[f"* {s} u -2 2" for s in shapes], **(rest[0] if rest else {})) for shapes, *rest in cases]
    return Row(name, run, configs, dtypes, torch_names=torch_names, **{"ulp": 2, "floor": 16, "half": 2} | options)


MANY = 30   # cases of a function of matrices
MATRIX = {"layouts": "tcscsct"}   # all rows of an expanded matrix are equal
SCALED = [{"beta": 1, "alpha": 1}, {"beta": 0.5, "alpha": 2}, {"beta": 0, "alpha": -1}]


def scaled(name, shapes, function=None):
    function = function or getattr(torch, name)
    return product(name, lambda x, a: function(*x, beta=a["beta"], alpha=a["alpha"]),
                   *[(each, how) for each in shapes for how in SCALED])


ROWS = [
    product("matmul", lambda x, a: torch.matmul(x[0], x[1]), (("3,4", "4,5"),), (("4", "4"),), (("3,4", "4"),), (("4", "4,5"),),
            (("2,3,4", "4,5"),), (("2,1,3,4", "3,4,2"),), (("0,4", "4,5"),), (("3,0", "0,5"),), (("17,33", "33,9"),), (("1,7", "7,1"),),
            (("5,4", "2,4,3"),), (("130,67", "67,190"),), (("7,300", "300,5"),), (("1,513", "513,33"),), (("3,65,31", "3,31,70"),), dtypes=NUMBERS, torch_names=["matmul", "__rmatmul__"]),
    product("mm", lambda x, a: torch.mm(*x), (("3,4", "4,5"),), (("1,4", "4,1"),), (("16,8", "8,16"),), (("257,19", "19,35"),)),
    product("mv", lambda x, a: torch.mv(*x), (("3,4", "4"),), (("1,4", "4"),), (("0,3", "3"),), (("33,17", "17"),)),
    product("bmm", lambda x, a: torch.bmm(*x), (("2,3,4", "2,4,5"),), (("1,2,2", "1,2,3"),), (("3,1,5", "3,5,1"),)),
    product("dot", lambda x, a: torch.dot(*x), (("4", "4"),), (("0", "0"),), (("67", "67"),), (("1", "1"),), dtypes=NUMBERS),
    product("vdot", lambda x, a: torch.dot(x[0].reshape(-1), x[1].reshape(-1)), (("4", "4"),), (("2,3", "2,3"),), (("67", "67"),)),
    product("inner", lambda x, a: torch.inner(*x), (("4", "4"),), (("2,3", "5,3"),), (("2,2,3", "4,3"),), (("-", "3"),)),
    product("outer", lambda x, a: torch.outer(*x), (("4", "3"),), (("1", "5"),), (("0", "2"),), dtypes=NUMBERS, ulp=1),
    product("kron", lambda x, a: torch.kron(*x), (("2,3", "2,2"),), (("3", "2"),), (("2", "2,3"),), (("1,2,2", "2,1,3"),), dtypes=NUMBERS, ulp=1),
    product("cross", lambda x, a: L.cross(x[0], x[1], dim=a["axis"]), (("3", "3"), {"axis": -1}), (("4,3", "4,3"), {"axis": 1}), (("3,5", "3,5"), {
        "axis": 0}), (("2,1,3", "1,4,3"), {"axis": -1}), floor=4, torch_names=["cross", "linalg.cross"], at_least=MANY),
    product("tensordot", lambda x, a: torch.tensordot(x[0], x[1], a["axes"]), (("2,3,4", "3,4,5"), {"axes": 2}), (("2,3", "3,4"), {"axes": 1}), (("2,3", "4"), {
        "axes": 0})),
    product("tensordot over axes", lambda x, a: torch.tensordot(x[0], x[1], (a["a"], a["b"])), (("2,3,4", "4,5,2"), {"a": [0, 2], "b": [2, 0]}), (("2,3",
        "5,3"), {"a": [1], "b": [1]}), (("3,3", "3,3"), {"a": [0, 1], "b": [1, 0]}), torch_names=[]),
    product("einsum", lambda x, a: torch.einsum(a["equation"], *x), *[((s, t), {"equation": e}) for s, t, e in (("3,4", "4,5", "ij,jk->ik"), ("3,4", "4,5",
        "ij,jk"), ("2,3,4", "2,4,5", "bij,bjk->bik"), ("3,4", "3,4", "ij,ij->i"), ("3,4", "3,4", "ij,ij->"), ("3,4", "5", "ij,k->ijk"), ("2,3,4", "4,3",
        "...ij,ji->..."), ("3,3", "3", "ii,i->i"), ("2,3,4", "1,4", "abc,dc->ad"), ("3,4", "3,4", "ij,ij->ji"), ("2,2,3", "2,3", "aab,ab->b"))],
        torch_names=["einsum"]),
    product("einsum of one", lambda x, a: torch.einsum(a["equation"], *x), *[((s,), {"equation": e}) for s, e in (("3,4", "ij->ji"), ("3,3", "ii"), ("3,3",
        "ii->i"), ("2,3,4", "ijk->j"), ("2,3,4", "...k->k..."))], torch_names=[]),
    product("einsum of three", lambda x, a: torch.einsum(a["equation"], *x), *[((s, t, u), {"equation": e}) for s, t, u, e in (("2,3", "4,3,5", "2,5",
        "bi,oij,bj->bo"), ("3,4", "4,5", "5,2", "ij,jk,kl->il"), ("3", "3", "3", "i,i,i->"))], ulp=8, torch_names=["nn.functional.bilinear"]),
    scaled("addmm", [("3,5", "3,4", "4,5"), ("5", "3,4", "4,5")]),
    scaled("addmv", [("3", "3,4", "4"), ("1", "3,4", "4")]),
    scaled("addr", [("3,4", "3", "4"), ("4", "3", "4")]),
    scaled("baddbmm", [("2,3,5", "2,3,4", "2,4,5"), ("3,5", "2,3,4", "2,4,5")]),
    scaled("addbmm", [("3,5", "2,3,4", "2,4,5"), ("5", "2,3,4", "2,4,5")]),
    product("multi_dot", lambda x, a: L.multi_dot(x), (("3,4", "4,5", "5,2"),), (("4", "4,5", "5"),), (("2,3", "3,1", "1,4", "4,2"),), dtypes="f32 f64", floor=64,
            torch_names=["linalg.multi_dot"], at_least=MANY),
    product("matrix_power", lambda x, a: L.matrix_power(x[0], a["power"]), *[(("3,3",), {"power": p}) for p in (0, 1, 2, 3, 5)], (("2,2,2",), {"power": 4}),
            dtypes="f32 f64", floor=64, torch_names=["linalg.matrix_power"], at_least=MANY),
    product("linear", lambda x, a: torch.nn.functional.linear(*x), (("3,4", "5,4", "5"),), (("3,4", "5,4"),), (("2,3,4", "2,4", "2"),), (("4", "3,4", "3"),),
            (("0,4", "3,4"),), torch_names=["nn.functional.linear"]),
]


def of_matrices(name, run, shapes=("3,3", "2,4,4", "1,1", "5,5", "2,2,3,3", "19,19"), fill="d -1 1", others=(), attributes=({},), dtypes="f32 f64",
                torch_names=None, more=(), **options):
    configs = [C(f"* {s} {fill}", *[f"* {s[:-len(s.split(',')[-1])] + t if s.count(',') else t} u -2 2" for t in others], **each)
               for s in shapes for each in attributes] + list(more)
    names = [f"linalg.{name}"] if torch_names is None else torch_names
    return Row(name if "." in name else f"linalg.{name}", run, configs, dtypes, torch_names=names,
               **MATRIX | {"ulp": 16, "floor": 64, "slope_ulp": 64, "slope_floor": 256, "at_least": MANY} | options)


def cond(x, a):
    """PyTorch's own cannot be differentiated with some norms."""
    if a.get("p", 2) in (2, -2):
        return L.cond(x[0], a.get("p", 2))
    return L.matrix_norm(x[0], a["p"]) * L.matrix_norm(L.inv(x[0]), a["p"])


def one_triangle(x, a):
    return torch.triu(x[0]) if a["upper"] else torch.tril(x[0])


def symmetric(x):
    return (x + x.mT) / 2


def lower(x, a):
    """PyTorch reads one triangle, as here; its gradient is symmetric."""
    return L.cholesky(x[0], upper=a["upper"])


def whole_spectrum(x):
    return L.svd(x, full_matrices=False)


UNREAD = "the triangle that is not read has gradient 0; PyTorch gives it one"
SINGULAR = [C("* 3,3 v 1 2 3 2 4 6 1 1 1", layout="c", grad=False), C("* 2,2 v 0", layout="c", grad=False)]
# Nearly singular ones whose elimination is exact: what is compared is not what rounding makes of them.
HARD = ["* 2,2 v 1 1 1 1.0009765625", "* 3,3 v 0 1 2 1 0 0.0009765625 0 0.0009765625 1", "* 2,2 v 0.0009765625 1 1 1", "* 3,3 v 1024 0 0 0 1 0 1 0 0.0009765625"]


def hard(*others, grad=True, **attributes):
    """Systems of such matrices, and right sides of so many columns."""
    return [C(each, *[f"* {each[2]},{t} u -2 2" for t in others], layout="c", grad=grad, **attributes) for each in HARD]


POSITIVE = ["* 2,2 v 1 1 1 1.0009765625", "* 3,3 v 1024 0 1 0 1 0 1 0 1", "* 2,2 v 0.0009765625 0 0 1024"]
DEGENERATE = ["* 3,3 v 1 2 3 2 4 6 1 1 1", "* 2,2 v 0", "* 3,3 v 1 1 1 1 1 1 1 1 1", "* 2,2 v 1 1 1 1.0009765625"]
WITHOUT_SLOPES = [C(each, layout="c", grad=False) for each in DEGENERATE]
UPPER = ({"upper": False}, {"upper": True})
SQUARE = ("3,3", "2,4,4", "1,1", "5,5")
WIDE = ("3,5", "5,3", "4,4", "2,3,2", "1,3")
ROWS += [
    of_matrices("cholesky", lower, fill="s -1 1", attributes=UPPER, torch_names=["linalg.cholesky", "cholesky"], more=[C(each, layout="c", upper=u) for each in POSITIVE for u in (False, True)]),
    of_matrices("cholesky_ex", lambda x, a: tuple(L.cholesky_ex(x[0])), fill="s -1 1", more=[C(each, layout="c") for each in POSITIVE]),
    of_matrices("cholesky_solve", lambda x, a: torch.cholesky_solve(x[1], one_triangle(x, a), upper=a["upper"]), SQUARE, fill="d 0 1", others=("2",), attributes=UPPER,
                torch_names=["cholesky_solve"], differs=UNREAD),
    of_matrices("cholesky_inverse", lambda x, a: torch.cholesky_inverse(one_triangle(x, a), upper=a["upper"]), SQUARE, fill="d 0 1", attributes=UPPER,
                torch_names=["cholesky_inverse"], differs=UNREAD),
    of_matrices("solve", lambda x, a: L.solve(x[0], x[1], left=True), others=("2",), more=hard("2")),
    Row("linalg.solve of vectors", lambda x, a: L.solve(x[0], x[1]), [C(f"* {s} d -1 1", f"* {t} u -2 2") for s, t in (("3,3", "3"), ("4,4", "4"), ("2,3,3", "2,3"))],
        "f32 f64", ulp=16, floor=64, slope_ulp=64, slope_floor=256, torch_names=[], **MATRIX, at_least=MANY),
    Row("linalg.solve from the right", lambda x, a: L.solve(x[0], x[1], left=False), [C(f"* {s} d -1 1", f"* {t} u -2 2") for s, t in (("3,3", "2,3"), ("4,4",
        "1,4"), ("2,3,3", "2,5,3"))], "f32 f64", ulp=16, floor=64, slope_ulp=64, slope_floor=256, torch_names=[], **MATRIX, at_least=MANY),
    of_matrices("solve_ex", lambda x, a: tuple(L.solve_ex(x[0], x[1])), others=("2",), more=hard("2")),
    of_matrices("solve_ex of singular", lambda x, a: L.solve_ex(x[0], x[1])[1], fill="u -2 2", others=("2",), more=[C(each, f"* {each[2]},2 u -2 2", layout="c")
        for each in DEGENERATE], slope=False, torch_names=[]),
    of_matrices("inv_ex of singular", lambda x, a: L.inv_ex(x[0])[1], fill="u -2 2", more=WITHOUT_SLOPES, slope=False, torch_names=[]),
    of_matrices("cholesky_ex of indefinite", lambda x, a: L.cholesky_ex(x[0])[1], fill="u -2 2", more=WITHOUT_SLOPES, slope=False, torch_names=[]),
    of_matrices("solve_triangular", lambda x, a: L.solve_triangular(x[0], x[1], upper=a["upper"], unitriangular=a["ones"]), SQUARE, others=("2",), attributes=[
        {"upper": u, "ones": o} for u in (False, True) for o in (False, True)], torch_names=["linalg.solve_triangular", "triangular_solve"]),
    of_matrices("inv", lambda x, a: L.inv(x[0]), torch_names=["linalg.inv"], more=hard()),
    of_matrices("inv_ex", lambda x, a: tuple(L.inv_ex(x[0])), more=hard()),
    of_matrices("det", lambda x, a: L.det(x[0]), fill="u -2 2", more=SINGULAR, floor=512,
                differs="the derivative of a singular matrix is that of the determinant (PyTorch: 0)"),
    of_matrices("slogdet", lambda x, a: tuple(L.slogdet(x[0])), fill="d -3 3", floor=64, more=hard() + SINGULAR[1:]),
    of_matrices("lu", lambda x, a: tuple(L.lu(x[0])), ("3,3", "4,5", "5,3", "2,3,3"), fill="u -2 2", torch_names=["linalg.lu", "lu_unpack", "lu"], more=WITHOUT_SLOPES + hard()),
    of_matrices("lu_factor", lambda x, a: tuple(L.lu_factor(x[0])), ("3,3", "4,5", "5,3", "2,3,3"), fill="u -2 2", more=hard()),
    of_matrices("lu_factor_ex", lambda x, a: tuple(L.lu_factor_ex(x[0])), ("3,3", "4,5", "2,3,3"), fill="u -2 2", more=WITHOUT_SLOPES + hard()),
    of_matrices("lu_solve", lambda x, a: L.lu_solve(*L.lu_factor(x[0]), x[1], adjoint=a["adjoint"]), SQUARE, others=("2",), attributes=({"adjoint": False},
        {"adjoint": True}), torch_names=["linalg.lu_solve", "lu_solve"], more=[each for t in (False, True) for each in hard("2", adjoint=t)]),
    of_matrices("qr", lambda x, a: (lambda q, r: (q @ r, q @ q.mT, r.abs()))(*L.qr(x[0])), ("3,3", "5,3", "2,4,2", "4,4"), fill="d -1 1", slope=False, more=[C(each, layout="c") for each in HARD]),
    of_matrices("qr slopes", lambda x, a: (lambda q, r: (q * q, r * r))(*L.qr(x[0])), ("3,3", "5,3", "2,4,2", "4,4"), fill="d -1 1", torch_names=[]),
    Row("linalg.householder_product", lambda x, a: L.householder_product(x[0], x[1]), [C(f"* {s} u -1 1", f"* {t} u 0 1") for s, t in (("4,3", "3"), ("3,3", "2"), (
        "2,5,2", "2,2"))], "f32 f64", ulp=16, floor=32, slope_floor=1024, at_least=MANY),
    of_matrices("svd", lambda x, a: (lambda u, s, v: (u @ torch.diag_embed(s) @ v, s, u @ u.mT))(*whole_spectrum(x[0])), WIDE, fill="d -1 1", slope=False,
                torch_names=["linalg.svd", "svd"], more=WITHOUT_SLOPES),
    of_matrices("svd slopes", lambda x, a: (lambda u, s, v: (u * u, s, v * v))(*whole_spectrum(x[0])), ("3,3", "4,3", "3,4", "2,2,2"), fill="d -1 1", torch_names=[],
                ulp=64, floor=256, slope_ulp=512, slope_floor=4096),
    of_matrices("svdvals", lambda x, a: L.svdvals(x[0]), WIDE, fill="u -2 2", slope_floor=512, more=WITHOUT_SLOPES),
    of_matrices("eigh", lambda x, a: (lambda w, v: (w, v * v))(*L.eigh(symmetric(x[0]), "U" if a["upper"] else "L")), fill="s -1 1", attributes=UPPER, ulp=64, floor=256,
                slope_ulp=512, slope_floor=4096),
    of_matrices("eigvalsh", lambda x, a: L.eigvalsh(x[0], "U" if a["upper"] else "L"), fill="s -1 1", attributes=UPPER, more=[C(each, layout="c", grad=False, upper=u) for each in POSITIVE + DEGENERATE[1:] for u in (False, True)]),
    of_matrices("matrix_rank", lambda x, a: L.matrix_rank(x[0]), ("3,3", "4,2", "2,3,4"), fill="u -2 2", more=WITHOUT_SLOPES, slope=False),
    of_matrices("pinv", lambda x, a: L.pinv(x[0]), ("3,3", "5,3", "3,5", "2,4,3"), fill="d -1 1", more=WITHOUT_SLOPES[:3], torch_names=["linalg.pinv", "pinverse"], slope_floor=1024),
    Row("linalg.lstsq", lambda x, a: L.lstsq(x[0], x[1]).solution, [C(f"* {s} d -1 1", f"* {t} u -2 2") for s, t in (("5,3", "5,2"), ("3,3", "3,1"), ("2,6,3", "2,6,2"))],
        "f32 f64", ulp=64, floor=256, slope_ulp=256, slope_floor=1024, **MATRIX, at_least=MANY),
    of_matrices("vector_norm", lambda x, a: L.vector_norm(x[0], a["p"], a["axis"]), ("3,3", "2,5", "4,1,3"), fill="u -2 2", ulp=24, floor=4, slope_floor=8, attributes=[
        {"p": p, "axis": axis} for p in (2, 1, math.inf, -math.inf, 3, 0) for axis in (0, -1)]),
    of_matrices("matrix_norm", lambda x, a: L.matrix_norm(x[0], a["p"] if isinstance(a["p"], str) else float(a["p"])), ("3,4", "2,3,3"), fill="u -2 2", attributes=[
        {"p": p} for p in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf)], torch_names=["linalg.matrix_norm"], slope_floor=1024),
    of_matrices("norm", lambda x, a: L.norm(x[0]) if "p" not in a else L.norm(x[0], a["p"], a["axes"] if len(a["axes"]) > 1 else a["axes"][0]), ("3,4", "2,3,3"),
                fill="u -2 2", attributes=[{}, {"p": 1, "axes": [0]}, {"p": 3, "axes": [1]}, {"p": 2, "axes": [0, 1]}, {"p": 1, "axes": [1, 0]}], slope_floor=1024,
                torch_names=["linalg.norm"]),
    of_matrices("cond", cond, fill="d -1 1", attributes=[{}, {"p": 1}, {"p": math.inf}, {"p": -2}, {"p":
        "fro"}], slope_floor=1024),
    of_matrices("matrix_exp", lambda x, a: L.matrix_exp(x[0]), fill="u -1 1", more=[C("* 3,3 u -9 9"), C("* 2,2 v 0"), C("* 4,4 u -30 1")], torch_names=["matrix_exp"]),
    Row("linalg.vecdot", lambda x, a: L.vecdot(x[0], x[1], dim=a["axis"]), [C(f"* {s} u -2 2", f"* {t} u -2 2", axis=axis) for s, t, axis in (("3,4", "3,4", -1), (
        "2,3,4", "3,4", 1), ("5", "5", 0), ("3,4", "1,4", -1))], "f32 f64", floor=8, at_least=MANY),
    of_matrices("diagonal", lambda x, a: L.diagonal(x[0], offset=a["k"]), ("3,4", "2,3,3"), fill="u -2 2", attributes=[{"k": 0}, {"k": 1}, {"k": -2}], ulp=0, slope_ulp=4),
    of_matrices("vander", lambda x, a: x[0].unsqueeze(-1) ** torch.arange(a["n"], dtype=x[0].dtype), ("4", "2,3"), fill="u -2 2", attributes=[{"n": 3}, {"n": 5}], ulp=8,
                floor=0, slope_floor=8),
    Row("linalg.tensorinv", lambda x, a: L.tensorinv(x[0], ind=a["ind"]), [C(f"* {s} v 3 -1 0.5 2 0.25 4 1 -0.5 0.125 1.5 2.5 -2 0.75 -3 1.25 0.1 5", ind=ind) for s, ind in (
        ("4,2,2", 1), ("2,2,4", 2), ("3,3", 1))], "f32 f64", ulp=64, floor=256, slope_ulp=64, slope_floor=1024, **MATRIX, at_least=MANY),
    Row("linalg.tensorsolve", lambda x, a: L.tensorsolve(x[0], x[1]), [C(f"* {s} v 3 -1 0.5 2 0.25 4 1 -0.5 0.125 1.5 2.5 -2 0.75 -3 1.25 0.1 5", f"* {t} u -2 2")
        for s, t in (("4,2,2", "4"), ("2,2,4", "2,2"), ("3,3", "3"))], "f32 f64", ulp=64, floor=256, slope_ulp=64, slope_floor=1024, **MATRIX, at_least=MANY),
    of_matrices("logdet by slogdet", lambda x, a: torch.logdet(x[0]), fill="s -1 1", torch_names=["logdet"]),
    of_matrices("polar by svd", lambda x, a: (lambda u, s, v: u @ v)(*whole_spectrum(x[0])), SQUARE, fill="d -1 1", torch_names=["linalg.polar"], slope=False),
    of_matrices("matrix_sqrth by eigh", lambda x, a: (lambda w, v: v @ torch.diag_embed(w.sqrt()) @ v.mT)(*L.eigh(x[0])), fill="s -1 1", torch_names=[
        "linalg.matrix_sqrth"], slope=False),
]
