"""Eigenvalues of any matrices, and what functions_complex.py leaves out of linear algebra over complex matrices. What is
compared does not depend on the order of eigenvalues or on phases."""
import math

import torch

from functions_complex import ANY, SINGULAR, SQUARE, UPPER, of_matrices, pairs, positive, row, shifted, z
from rows import Config as C
from rows import Row

L = torch.linalg
ROTATION, TRIANGULAR, NEARLY_DEFECTIVE = "* 2,2 v 0 -1 1 0", "* 3,3 v 1 2 3 0 -2 1 0 0 0.5", "* 2,2 v 1 1 0 1.0009765625"
HARD = [C(each, layout="c", grad=False) for each in (ROTATION, TRIANGULAR, NEARLY_DEFECTIVE, "* 2,2 v 2 0 0 2", "* 3,3 v 1 2 3 2 4 6 1 1 1.5", "* 2,2 v 1024 1 0 0.0009765625")]


def of_eigenvalues(w):
    return w.real.sort().values, w.abs().sort().values


def sums_of_eigenvalues(w):
    return (w.abs() ** 2).sum(-1), (w ** 3).sum(-1).real, torch.exp(0.25 * w).sum(-1).real


def parts_of(values, vectors):
    """The matrix, and the lengths of the eigenvectors."""
    return (vectors * values.unsqueeze(-2)) @ L.inv(vectors), (vectors.abs() ** 2).sum(-2)


def sums_of_parts(values, vectors):
    return ((vectors.abs() ** 2) * (values.abs() ** 2).unsqueeze(-2)).sum(-1)


def real(name, run, shapes=("3,3", "2,4,4", "1,1", "5,5", "8,8", "0,0"), fill="u -2 2", more=(), **options):
    return Row(f"linalg.{name}", lambda x, a: run(x[0]), [C(f"* {s} {fill}") for s in shapes] + list(more), "f32 f64",
               **{"ulp": 32, "floor": 256, "slope_ulp": 256, "slope_floor": 4096, "at_least": 30, "layouts": "tcscsct", "torch_names": []} | options)


ROWS = [
    real("eigvals", lambda x: of_eigenvalues(L.eigvals(x)), slope=False, more=[each for each in HARD if "1.0009765625" not in each.inputs[0][2]], torch_names=["linalg.eigvals"]),
    real("eigvals slopes", lambda x: sums_of_eigenvalues(L.eigvals(x)), more=HARD[:2]),
    real("eig", lambda x: (lambda m, n: (m.real, n))(*parts_of(*L.eig(x))), slope=False, fill="d -1 1", more=HARD[:2] + HARD[3:4], torch_names=["linalg.eig"]),
    real("eig slopes", lambda x: sums_of_parts(*L.eig(x)), ("3,3", "2,4,4", "1,1", "5,5"), fill="d -1 1", more=HARD[:2], slope_floor=16384),
]

# ---- complex ones

NORMS = [{"p": p} for p in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf)]
TALL = ("4,3,2", "3,3,2", "2,5,2,2", "1,1,2")


def norm_of(x, a):
    return L.matrix_norm(x[0], a["p"] if isinstance(a["p"], str) else float(a["p"]))


def cond_of(x, a):
    m = shifted(x[0])
    if a["p"] in (2, -2):
        return L.cond(m, a["p"])
    return norm_of([m], a) * norm_of([L.inv(m)], a)


def power(x, a):
    return L.matrix_power(shifted(x[0]), a["power"])


ROWS += [
    of_matrices("eigvals", lambda x, a: of_eigenvalues(L.eigvals(x[0])), slope=False, floor=256),
    of_matrices("eigvals slopes", lambda x, a: sums_of_eigenvalues(L.eigvals(x[0])), floor=256, slope_floor=4096),
    of_matrices("eig", lambda x, a: parts_of(*L.eig(shifted(x[0]))), slope=False, floor=512),
    of_matrices("eig slopes", lambda x, a: sums_of_parts(*L.eig(shifted(x[0]))), floor=512, slope_floor=16384),
    of_matrices("eigvalsh", lambda x, a: L.eigvalsh(positive(x[0]), "U" if a["upper"] else "L"), attributes=UPPER, slope_floor=1024),
    of_matrices("svd", lambda x, a: (lambda u, s, v: (u * s.unsqueeze(-2) @ v, s, (u.abs() ** 2).sum(-2)))(*L.svd(x[0], full_matrices=False)), ANY, slope=False, singular=True),
    of_matrices("svd slopes", lambda x, a: (lambda u, s, v: (u.abs() ** 2, s, v.abs() ** 2))(*L.svd(x[0], full_matrices=False)), ("3,3,2", "4,3,2", "3,4,2", "2,2,2,2"), ulp=64,
                floor=512, slope_ulp=512, slope_floor=16384),
    of_matrices("cholesky_inverse", lambda x, a: L.inv(positive(x[0])), attributes=UPPER),
    of_matrices("cholesky_ex", lambda x, a: tuple(L.cholesky_ex(positive(x[0])))),
    of_matrices("cholesky_ex of indefinite", lambda x, a: L.cholesky_ex(x[0] + x[0].mH)[1], singular=True, slope=False),
    of_matrices("solve_ex", lambda x, a: tuple(L.solve_ex(shifted(x[0]), x[1])), columns=2),
    of_matrices("solve_ex of singular", lambda x, a: L.solve_ex(x[0], torch.ones_like(x[0]))[1], singular=True, slope=False),
    of_matrices("inv_ex", lambda x, a: tuple(L.inv_ex(shifted(x[0])))),
    of_matrices("lu_factor_ex", lambda x, a: tuple(L.lu_factor_ex(shifted(x[0])))),
    Row("complex linalg.lstsq", lambda x, a: pairs(L.lstsq(z(x[0]), z(x[1])).solution), [C(f"* {s} u -1 1", f"* {t} u -2 2") for s, t in (("5,3,2", "5,2,2"), (
        "3,3,2", "3,1,2"), ("2,6,3,2", "2,6,2,2"), ("4,1,2", "4,2,2"))], "f32 f64", ulp=64, floor=512, slope_ulp=256, slope_floor=8192, zeros=False, torch_names=[], at_least=30,
        layouts="tcscsct"),
    of_matrices("matrix_power", power, attributes=[{"power": p} for p in (3, 0, 1, -1, -2, 5)], floor=512, slope_floor=4096),
    of_matrices("matrix_rank", lambda x, a: L.matrix_rank(x[0]), ANY, singular=True, slope=False),
    of_matrices("matrix_norm", norm_of, ("3,4,2", "2,3,3,2"), attributes=NORMS, slope_floor=2048),
    of_matrices("cond", cond_of, ("3,3,2", "2,2,2,2"), attributes=NORMS, floor=256, slope_floor=4096),
    of_matrices("vector_norm", lambda x, a: L.vector_norm(x[0], a["p"], -1), ("3,4,2", "2,3,3,2", "5,1,2"), attributes=[{"p": p} for p in (1, 2, 3, math.inf, -math.inf, 0)], slope_floor=512),
    row("linalg.vecdot", lambda x, a: L.vecdot(x[0], x[1], dim=a["axis"]), [C(f"* {s} u -2 2", f"* {t} u -2 2", axis=axis) for s, t, axis in (("3,4,2", "3,4,2", -1), ("2,3,4,2",
        "3,4,2", 1), ("5,2", "5,2", 0), ("3,4,2", "1,4,2", -1))], floor=32, at_least=30),
    of_matrices("diagonal", lambda x, a: L.diagonal(x[0], offset=a["k"]), ("3,4,2", "2,3,3,2"), attributes=[{"k": k} for k in (0, 1, -2)], ulp=0, floor=0, slope_ulp=4),
    row("linalg.tensorinv", lambda x, a: L.tensorinv(x[0] + 3 * torch.eye(4, dtype=x[0].dtype).reshape(x[0].shape), ind=a["ind"]), [C(f"* {s} u -1 1", ind=i) for s, i in (("4,2,2,2", 1), (
        "2,2,4,2", 2), ("4,4,2", 1))], ulp=64, floor=256, slope_ulp=64, slope_floor=1024, at_least=30),
    row("linalg.tensorsolve", lambda x, a: L.tensorsolve(x[0] + 3 * torch.eye(4, dtype=x[0].dtype).reshape(x[0].shape), x[1]), [C(f"* {s} u -1 1", f"* {t} u -2 2") for s, t in ((
        "4,2,2,2", "4,2"), ("2,2,4,2", "2,2,2"), ("4,4,2", "4,2"))], ulp=64, floor=256, slope_ulp=64, slope_floor=1024, at_least=30),
]
