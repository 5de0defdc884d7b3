"""Singular and ill-conditioned matrices: Hilbert's, nearly singular ones, graded scales from 1e-8 to 1e8, repeated and clustered
eigenvalues and singular values, ranks that are not full.

Tolerances are those of each case. What a backward stable algorithm gives is right for a matrix that differs by some units of the
last place of the largest number, and so, as the condition says, is the result: it times three times the extent, which bounds have too. Singular values and eigenvalues
have condition 1, eigenvectors the spread of eigenvalues by their least distance. Graded matrices D A D and A D by powers of two
take each number of the result with the condition of A: there units are counted of each number, and what cancels in it counts too.
A dtype in which the tolerance would be a tenth of the result is left out."""
import math

import torch

from case_format import DTYPES, make_input
from functions_linalg import L, MANY, cond, symmetric, whole_spectrum
from rows import Config as C
from rows import Row

LOOSEST = 0.1
EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}

HILBERT = ["3,3 h 1", "4,4 h 1", "6,6 h 1", "8,8 h 1", "10,10 h 1"]
NEARLY = ["4,4 e 1 1 1 0.0009765625", "8,8 e 1 3 0.5 2 5 4 7 9.5367431640625e-07", "2,4,4 e 1 2 3 1.52587890625e-05", "32,32 e 2 1 3 0.0001220703125"]
SKEW = ["3,3 v 1 2 3 4 5 6 7 8 9.0009765625", "2,2 v 1 1 1 1.0000152587890625", "5,5 h 1 * 0 1 -3", "12,12 u -2 2"]   # not symmetric
GRADED_COLUMNS = ["4,4 e 1 2 3 5 * -27 0 18", "3,3 h 1 * 27 0 -27", "8,8 e 1 2 3 5 7 1 2 3 * -28 0 8", "2,3,3 h 2 * -27 0 27", "4,4 h 1 * 27 0 -18"]
GRADED_BOTH = ["4,4 e 1 2 3 5 * -27 9 9", "3,3 h 1 * -27 13 13", "8,8 e 1 2 3 5 7 1 2 3 * 28 -4 -4", "2,4,4 h 1 * -28 9 9"]
TALL = ["8,4 e 1 2 3 0.0009765625", "6,3 h 1", "8,5 h 1", "16,8 e 1 4 2 9.5367431640625e-07", "4,8 e 3 1 2 0.0009765625", "3,5 h 2", "2,8,2 e 1 0.0001220703125"]
REPEATED = ["4,4 e 2 2 1 2", "8,8 e 1", "8,8 e 3 3 -1 -1 0 0", "2,2 v 2 0 0 2", "16,16 e 5 5 5 1", "3,3 v 0"]
CLUSTERED = ["4,4 e 1 1.0009765625 2 3", "8,8 e 1 1.00006103515625 1.0001220703125 4 5 6 7 8", "2,2 v 1 0.0001220703125 0.0001220703125 1", "4,4 e 1 1.0000000009313226 3 2"]
SPREAD = ["4,4 e 1e8 1 1e-8 1e4", "8,8 e 1e8 1e6 1e4 1e2 1 1e-2 1e-4 1e-8", "4,4 s 0 1 * -27 9 9"]
DEFICIENT = ["3,3 v 1 2 3 2 4 6 1 1 1", "4,4 e 1 2 0 3", "8,4 e 1 0 2 0", "4,8 e 3 0.5 1 0", "8,8 e 1 4 0 2 0", "2,4,4 e 0 0 0 7", "2,3 v 1 2 3 2 4 6", "16,16 e 1 2 0 0"]
ZERO = ["2,2 v 0", "3,2 v 0"]


def matrix_of(recipe, dtype="f64"):
    shape, rest = recipe.split(None, 1)
    return make_input(dtype, [int(n) for n in shape.split(",")], "c", 1, rest).to(torch.float64)


def condition(recipe):
    """Of those singular values that are not zero."""
    values = L.svdvals(matrix_of(recipe))
    return float(values.max() / values[values > 1e-14 * values.max()].min()) if values.max() > 0 else 1


def condition_of_scaled(recipe):
    """Times how much smaller than the largest a number of the inverse or of the factors is."""
    plain = recipe.split(" * ")[0]
    inverse, factor = L.inv(matrix_of(plain)), L.cholesky_ex(matrix_of(plain))[0]
    return condition(plain) * max(float(x.abs().max() / x[x != 0].abs().min()) for x in (inverse, factor))


def condition_of_vectors(recipe):
    w = L.eigvalsh(symmetric(matrix_of(recipe)))
    return float(w.abs().max() / w.diff(dim=-1).min())


def one(recipe):
    """Of singular values and eigenvalues: their largest by the largest number, of which units are counted."""
    return max(float(L.svdvals(a).max() / a.abs().max()) if a.any() else 1 for a in matrix_of(recipe).reshape(-1, *matrix_of(recipe).shape[-2:]))


def short(x):
    return float(f"{x:.1e}")


def cases(recipes, how=condition, *others, power=1, slope_power=None, by_number=False, slope=True, **attributes):
    """A configuration for each dtype; `others` are right sides `columns`, or a vector. Errors grow by `power` of the condition."""
    configs = []
    for recipe in recipes:
        shape, rest = recipe.split(None, 1)
        number, extent = max(how(recipe), 1), max(4, *map(int, shape.split(",")))
        value, slopes = 3 * extent * number**power, 24 * extent * number**(slope_power or power)
        for dtype, epsilon in EPSILON.items():
            if value * epsilon > LOOSEST:
                continue
            kind, other = ("ulp", "floor") if by_number else ("floor", "ulp")
            rows = shape.rsplit(",", 1)[0]
            configs.append(C(f"* {shape} {rest}", *[f"* {rows},{t} u -2 2" for t in others], dtypes=dtype, grad=slope and slopes * epsilon <= LOOSEST,
                             **{kind: short(value), other: 0, f"slope_{kind}": short(slopes), f"slope_{other}": 0}, **attributes))
    return configs


def hard(name, run, configs, **options):
    return Row(f"ill-conditioned linalg.{name}", run, configs, "f32 f64", layouts="tcsct", torch_names=[],
               **{"zeros": False, "at_least": max(MANY, len(configs))} | options)


ALL_SQUARE = HILBERT + NEARLY + SKEW
POSITIVE = HILBERT + NEARLY


def graded(recipes, *others, **options):
    return cases(recipes, condition_of_scaled, *others, by_number=True, **options)


def has_clear_pivots(recipe):
    """Whether rounding cannot choose other rows."""
    for a in matrix_of(recipe).reshape(-1, *matrix_of(recipe).shape[-2:]):
        a = a.clone()
        for k in range(len(a) - 1):
            order = a[k:, k].abs().sort(descending=True)
            if order.values[0] < 1.05 * order.values[1]:
                return False
            row = k + int(order.indices[0])
            a[[k, row]] = a[[row, k]]
            a[k + 1:] -= torch.outer(a[k + 1:, k] / a[k, k], a[k])
    return True


def condition_of_singular_vectors(recipe):
    values = L.svdvals(matrix_of(recipe))
    return float(values.max() / min(values.min(), -values.diff(dim=-1).max()))


def condition_of_exponential(recipe):
    from scipy.linalg import expm_cond
    return max(float(expm_cond(a.numpy())) for a in matrix_of(recipe).reshape(-1, *matrix_of(recipe).shape[-2:]))


def gram(u):
    return u.mT @ u


def by_parts(found):
    w, v = found
    return (v * w.unsqueeze(-2)) @ v.mT, w, gram(v)


def by_singular_parts(found):
    u, s, v = found
    return (u * s.unsqueeze(-2)) @ v, s, gram(u), v @ v.mT


def sums(w):
    return (w**2).sum(-1), (w**3).sum(-1)


PIVOTED = [each for each in ALL_SQUARE + ["4,4 h 1 * 0 1 0", "6,6 h 1 * 0 2 0", "4,4 u -1 1", "3,3 v 0.0009765625 1 2 1 1 3 4 2 1"] + GRADED_COLUMNS if has_clear_pivots(each)]
PLAIN_PIVOTED = [each for each in PIVOTED if each not in GRADED_COLUMNS]
EXPONENTS = ["2,2 v -49 24 -64 31", "2,2 v 1 1024 0 -1", "3,3 v 2 1 0 0 2 1 0 0 2", "4,4 v 0 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0", "2,2 v 1 1 0 1.0009765625", "2,2 v 0 -40 40 0", "4,4 h 1",
             "3,3 s -1 1 * -12 4 4", "6,6 u -30 1", "8,8 e 2 2 -30 0", "2,3,3 v 0 1e4 0 0 0 1e-4 0 0 1", "2,2 v -300 1 0 -300.0009765625"]
KINDS = [{"p": p} for p in (2, 1, math.inf, "fro", -2)]

ANY = ALL_SQUARE + TALL + DEFICIENT + ZERO + REPEATED + CLUSTERED + SPREAD
SYMMETRIC = HILBERT + NEARLY + REPEATED + CLUSTERED + SPREAD + GRADED_BOTH
NOT_WIDE = ALL_SQUARE + [each for each in TALL if "4,8 " not in each and "3,5 " not in each]
GRADED = GRADED_COLUMNS + GRADED_BOTH
APART = CLUSTERED[:3] + ["3,3 h 1", "4,4 h 1", "6,3 h 1", "8,4 e 1 2 3 0.0009765625", "4,8 e 3 1 2 0.0009765625", "2,2 v 1 1 1 1.0009765625"]
FOR_PINV = ["3,3 h 1", "4,4 h 1", "4,4 e 1 1 1 0.0009765625", "2,2 v 1 1 1 1.0009765625"] + TALL + DEFICIENT + ZERO + REPEATED[:5]
FOR_COND = ["3,3 h 1", "4,4 h 1", "6,6 h 1", *NEARLY[1:2], *SKEW[:2], SKEW[3]]   # whose columns have distinct sums, of which p chooses one
WITHOUT_INVERSE = ["2,2 v 1 2 2 4", "3,3 v 1 2 3 2 4 6 1 1 1", "4,4 v 1 0 0 0 0 0 0 0 0 2 0 0 0 0 0 3", "2,2,2 v 1 0 0 0 1 0 0 2"]
FOR_RANK = HILBERT[:2] + NEARLY + SKEW[:2] + TALL[:2] + DEFICIENT + ZERO + REPEATED + CLUSTERED[:3] + SPREAD[:1]

ROWS = [
    hard("solve", lambda x, a: L.solve(x[0], x[1]), cases(ALL_SQUARE, condition, "2") + graded(GRADED_COLUMNS + GRADED_BOTH[1:], "2")),
    hard("inv", lambda x, a: L.inv(x[0]), cases(ALL_SQUARE) + graded(GRADED_COLUMNS + GRADED_BOTH[1:])),
    hard("det", lambda x, a: L.det(x[0]), cases(ALL_SQUARE, by_number=True) + graded(GRADED)),
    hard("slogdet", lambda x, a: tuple(L.slogdet(x[0])), cases(ALL_SQUARE)),
    hard("cholesky", lambda x, a: L.cholesky(x[0]), cases(POSITIVE) + graded(GRADED_BOTH)),
    hard("cholesky_solve", lambda x, a: torch.cholesky_solve(x[1], L.cholesky(x[0])), cases(POSITIVE, condition, "3") + graded(GRADED_BOTH, "3")),
    hard("lu", lambda x, a: tuple(L.lu(x[0])), cases(PLAIN_PIVOTED) + graded([each for each in PIVOTED if each in GRADED_COLUMNS])),
    hard("qr", lambda x, a: (lambda q, r: (q @ r, gram(q), r.abs()))(*L.qr(x[0])), cases(ALL_SQUARE + TALL, slope=False)),
    hard("qr of any rank", lambda x, a: (lambda q, r: (q @ r, gram(q)))(*L.qr(x[0])), cases(DEFICIENT + ZERO + REPEATED + SPREAD, one, slope=False)),
    hard("qr slopes", lambda x, a: (lambda q, r: (q * q, r * r))(*L.qr(x[0])), cases(NOT_WIDE)),
    hard("svd", lambda x, a: by_singular_parts(whole_spectrum(x[0])), cases(ANY, one, slope=False)),
    hard("svd slopes", lambda x, a: (lambda u, s, v: (u * u, s, v * v))(*whole_spectrum(x[0])), cases(APART, condition_of_singular_vectors)),
    hard("svdvals", lambda x, a: L.svdvals(x[0]), cases(ANY, one, slope=False)),
    hard("svdvals slopes", lambda x, a: sums(L.svdvals(x[0])), cases(ALL_SQUARE + TALL + DEFICIENT[:5] + REPEATED + CLUSTERED, one)),
    hard("eigh", lambda x, a: by_parts(L.eigh(symmetric(x[0]))), cases(SYMMETRIC, one, slope=False)),
    hard("eigh slopes", lambda x, a: (lambda w, v: (w, v * v))(*L.eigh(symmetric(x[0]))),
         cases(CLUSTERED + ["3,3 h 1", "4,4 h 1", "6,6 h 1", "8,8 e 1 -1 2 -2 3 -3 4 4.0009765625"], condition_of_vectors)),
    hard("eigvalsh", lambda x, a: L.eigvalsh(symmetric(x[0])), cases(SYMMETRIC, one, slope=False)),
    hard("eigvalsh slopes", lambda x, a: sums(L.eigvalsh(symmetric(x[0]))), cases(HILBERT + NEARLY + REPEATED + CLUSTERED, one)),
    hard("matrix_rank", lambda x, a: L.matrix_rank(x[0]), cases(FOR_RANK, one, slope=False), in_dtype=True, slope=False),
    hard("pinv", lambda x, a: L.pinv(x[0]), cases(FOR_PINV, slope_power=2)),
    hard("lstsq", lambda x, a: L.lstsq(x[0], x[1], driver="gelsd").solution,
         cases(TALL + ["3,3 h 1", "4,4 h 1", "4,4 e 1 1 1 0.0009765625"] + DEFICIENT + ZERO, condition, "2", power=2)),
    hard("cond", cond, [each for kind in KINDS for each in cases(FOR_COND, **kind)]),
    hard("cond of singular", lambda x, a: L.cond(x[0], a["p"]), [each for kind in KINDS[1:4] for each in cases(WITHOUT_INVERSE, one, slope=False, **kind)]),
    hard("matrix_exp", lambda x, a: torch.matrix_exp(x[0]), cases(EXPONENTS, condition_of_exponential)),
]
