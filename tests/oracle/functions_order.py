"""Order along an axis, and reading, changing and finding elements at positions that are data."""
import math

import numpy as np
import torch

from rows import Config as C
from rows import Row

FLOAT = "f32 f64 f16 bf16"
REAL = "f32 f64 f16 bf16 i32 i64 u8 i8"
ANY = REAL + " i16 bool"
SPECIAL = "v 1 nan -2 inf 0 -inf 3 -0.0 0.5"
ALONG = [("7", 0), ("3,5", 1), ("3,5", 0), ("2,3,4", 1), ("2,3,4", -1), ("33", 0), ("2,67", 1), ("1", 0), ("2,3000", 1), ("700,3", 0)]
EMPTY = [("0", 0), ("0,3", 1), ("4,0", 1)]


def ordered(name, run, fill="u -3 3", dtypes=REAL, empty=False, special=True, attributes=({},), shapes=None, **options):
    """Along an axis; numbers of few values too, so that some are equal."""
    shapes = (shapes or ALONG) + (EMPTY if empty else [])
    configs = [C(f"* {s} {fill if k % 3 else 'i 0 4'}", axis=axis, **attributes[k % len(attributes)])
               for k, (s, axis) in enumerate(shapes)]
    if special:
        configs += [C(f"* 3,3 {SPECIAL}", dtypes=FLOAT, grad=False, axis=axis, **attributes[axis % len(attributes)])
                    for axis in (0, 1)]
    options = {"ulp": 0, "first_result_slope": True, "zeros": False} | options
    return Row(name, run, configs, dtypes, **options)


def mode_of(x, axis, keep):
    """The least of those that are there most often, and their last position."""
    values = torch.mode(x.detach(), axis, keepdim=True).values
    same = x == values
    n = x.shape[axis]
    places = torch.arange(n).reshape([n if d == axis % x.dim() else 1 for d in range(x.dim())])
    index = torch.where(same, places, -1).amax(axis, keepdim=True)
    picked = torch.gather(x, axis, index)
    return (picked, index) if keep else (picked.squeeze(axis), index.squeeze(axis))


def first_topk(x, a):
    """Of equal elements the first ones."""
    order = torch.sort(x[0].detach(), dim=a["axis"], descending=a["largest"], stable=True).indices
    index = order.narrow(a["axis"], 0, a["count"])
    return torch.gather(x[0], a["axis"], index), index


def kth(x, a):
    order = torch.sort(x[0].detach(), dim=a["axis"], stable=True).indices
    index = order.narrow(a["axis"], a["k"] - 1, 1)
    picked = torch.gather(x[0], a["axis"], index)
    return (picked, index) if a["keepdim"] else (picked.squeeze(a["axis"]), index.squeeze(a["axis"]))


def median_of_axes(x, axes, keep):
    others = [d for d in range(x.dim()) if d not in axes]
    rows = x.permute(others + axes).reshape([x.shape[d] for d in others] + [-1])
    return torch.median(rows, -1).values.reshape([1 if d in axes else x.shape[d] for d in range(x.dim()) if keep or d not in axes])


def median_of(x, a, ignore_nan=False):
    """Of an even number the lower one; of NaN the first, or of the others; of equal elements the first."""
    axis = a["axis"]
    y = x[0]
    n = y.shape[axis]
    if n == 0:
        none = y.sum(axis, keepdim=a["keepdim"]).to(y.dtype)
        return none, none.detach().to(torch.int64)
    nan = torch.isnan(y)
    order = torch.sort(y.detach(), dim=axis, stable=True).indices
    count = (~nan).sum(axis, keepdim=True) if ignore_nan else torch.full_like(nan.sum(axis, keepdim=True), n)
    at = torch.clamp((count - 1).div(2, rounding_mode="floor"), 0)
    if not ignore_nan:
        at = torch.where(nan.any(axis, keepdim=True), n - nan.sum(axis, keepdim=True), at)
    index = torch.gather(order, axis, at)
    picked = torch.gather(y, axis, index)
    return (picked, index) if a["keepdim"] else (picked.squeeze(axis), index.squeeze(axis))


def quantile(function):
    def run(x, a):
        if x[0].numel() == 0:
            none = x[0].sum(a["axes"], keepdim=a["keepdim"])
            return none.expand(list(x[1].shape) + list(none.shape))
        y = x[0].reshape(-1) if a.get("axes") is None else x[0]
        axis = None if a.get("axes") is None else a["axes"][0]
        if len(a.get("axes") or []) < 2:
            return function(y, x[1], axis, a["keepdim"] and axis is not None, interpolation=a["interpolation"])
        chosen = sorted(d % y.dim() for d in a["axes"])
        others = [d for d in range(y.dim()) if d not in chosen]
        found = function(y.permute(others + chosen).flatten(len(others)), x[1], -1, interpolation=a["interpolation"])
        kept = [1 if d in chosen else n for d, n in enumerate(y.shape)]
        return found.reshape([*x[1].shape, *kept]) if a["keepdim"] else found
    return run


QUANTILES = [C(f"* {s} {fill}", f"* {q}", axes=axes, keepdim=keep, interpolation=how, layout="t",
               grad=fill[0] == "u") for (s, axes, keep), fill, (q, how) in zip(
    [("7", None, False), ("3,5", [1], False), ("3,5", [0], True), ("2,3,4", [1], False), ("33", [0], False), ("4,3", None,
     False), ("8,2", [0], False), ("7", [0], True), ("5,5", [1], False), ("6", None, False)],
    ["u -3 3", "i 0 5"] * 5,
    [("- v 0.3", "linear"), ("3 v 0 0.5 1", "linear"), ("2 v 0.21 0.77", "lower"), ("2 v 0.21 0.77", "higher"),
     ("2 v 0.4 0.13", "nearest"), ("- v 0.61", "midpoint"), ("2 v 0.9 0.1", "midpoint"), ("- v 0.5", "linear"),
     ("3 v 0.33 0.66 1", "linear"), ("- v 0.25", "nearest")])]
QUANTILES += [C("* 2,3,4 u -3 3", f"* {q}", axes=axes, keepdim=keep, interpolation=how, layout="t") for axes, keep, q, how in (
    ([0, 2], False, "- v 0.3", "linear"), ([1, -1], True, "2 v 0.2 0.9", "linear"), ([1, 0], False, "2 v 0.5 1", "lower"))]
NAN_QUANTILES = [C("* 2,2,3 v 1 nan -2 0.5 3 nan 2 4 nan -1 7 0", "* 2 v 0.3 0.75", axes=[2, 0], keepdim=False,
                   interpolation="linear", grad=False)] + [C(f"* 3,4 v 1 nan -2 0.5 3 2 nan nan -1", f"* {q}", axes=axes, keepdim=False, interpolation="linear",
                   grad=False) for q in ("- v 0.3", "2 v 0 0.75") for axes in ([0], [1], None)]

NO_QUANTILES = [C("* 0,0 u -3 3", f"* {q}", axes=axes, keepdim=keep, interpolation="linear") for axes, keep, q in (
    ([1], False, "- v 0.5"), ([0], True, "2 v 0.2 0.9"))]
NO_ROWS = [("0,0", 1), ("0,2,0", 0), ("3,0,0", -1)]
OF_NO_ROWS = "of an axis without elements, where there are no rows either, nothing (as NumPy; PyTorch: an error)"
ONE_OF_EQUAL = "of equal elements the first gets the gradient; PyTorch shares it"
INFINITE_NEIGHBOURS = "between a number and an infinite one it is that, and at an infinite one itself (PyTorch: NaN for some)"


ROWS = [
    ordered("sort", lambda x, a: tuple(torch.sort(x[0], dim=a["axis"], descending=a["descending"], stable=True)),
            dtypes=ANY, empty=True, attributes=[{"descending": False}, {"descending": True}]),
    ordered("argsort", lambda x, a: torch.argsort(x[0], dim=a["axis"], descending=a["descending"], stable=True),
            dtypes=ANY, empty=True, attributes=[{"descending": False}, {"descending": True}]),
    ordered("msort", lambda x, a: torch.sort(x[0], dim=0, stable=True).values, empty=True),
    ordered("topk", first_topk, shapes=[s for s in ALONG if s[0] not in ("1",)], attributes=[
        {"count": 2, "largest": True}, {"count": 3, "largest": False}, {"count": 1, "largest": True}],
            differs="of equal elements those that come first; PyTorch's choice is not specified"),
    ordered("kthvalue", kth, attributes=[{"k": 1, "keepdim": False}], dtypes=REAL),
    ordered("kthvalue of more", kth, shapes=[s for s in ALONG if s[0] != "1"], attributes=[{"k": 3, "keepdim": True}, {"k": 2, "keepdim": False}],
            dtypes="f32 f64 i32", torch_names=[]),
    ordered("median", median_of, attributes=[{"keepdim": False}, {"keepdim": True}], shapes=ALONG + NO_ROWS, differs=OF_NO_ROWS),
    ordered("nanmedian", lambda x, a: median_of(x, a, True), attributes=[{"keepdim": False}, {"keepdim": True}], shapes=ALONG + NO_ROWS,
            differs=OF_NO_ROWS),
    Row("median of all", lambda x, a: torch.median(x[0]), [C(f"* {s} u -3 3", layout="s") for s in ("7", "4,3", "2,3,4", "1", "-")] +
        [C(f"* 5 {SPECIAL}", grad=False), C("* 0 u -3 3", dtypes=FLOAT), C("* 2,0,3 u -3 3", dtypes=FLOAT)], FLOAT + " i32", ulp=0, torch_names=[],
        differs=ONE_OF_EQUAL + "; of no integers it is an error (PyTorch: the least number)"),
    Row("nanmedian of all", lambda x, a: torch.nanmedian(x[0]), [C(f"* {s} u -3 3", layout="t") for s in ("7", "4,3", "2,3,4", "1")] +
        [C(f"* 5 {SPECIAL}", grad=False), C("* 0 u -3 3"), C("* 2,0,3 u -3 3")], FLOAT, ulp=0, torch_names=[], differs=ONE_OF_EQUAL),
    Row("median of axes", lambda x, a: median_of_axes(x[0], a["axes"], a["keepdim"]), [C(f"* {s} u -3 3", axes=axes, keepdim=keep)
        for s, axes, keep in (("3,5", [0, 1], False), ("2,3,4", [0, 2], True), ("2,3,4", [1, 2], False), ("2,2,2,3", [0, 3], False))],
        FLOAT + " i32", ulp=0, torch_names=[]),
    ordered("mode", lambda x, a: mode_of(x[0], a["axis"], a["keepdim"]), fill="i -2 3", special=False, attributes=[
        {"keepdim": False}, {"keepdim": True}]),
    Row("quantile", quantile(torch.quantile), QUANTILES + NAN_QUANTILES + NO_QUANTILES, "f32 f64", ulp=2, floor=2, first_result_slope=True,
        differs=OF_NO_ROWS + "; " + INFINITE_NEIGHBOURS),
    Row("nanquantile", quantile(torch.nanquantile), QUANTILES[:4] + NAN_QUANTILES + NO_QUANTILES, "f32 f64", ulp=2, floor=2,
        differs=OF_NO_ROWS + "; " + INFINITE_NEIGHBOURS),
    Row("searchsorted", lambda x, a: torch.searchsorted(x[0].contiguous(), x[1].contiguous(), right=a["right"]), [
        C(f"* {s} a -3 3", f"* {t} u -4 4", right=right) for s, t in (("7", "5"), ("7", "3,4"), ("2,5", "2,3"), ("1", "4"),
        ("33", "-"), ("0", "3")) for right in (False, True)] + [C("* 5 v 1 1 2 2 3", "* 4 v 1 2 3 nan", right=r, dtypes=
        "f32 f64", layout="c") for r in (False, True)], "f32 f64 i32 i64", ulp=0, slope=False),
    Row("searchsorted by a sorter", lambda x, a: torch.searchsorted(x[0].contiguous(), x[1].contiguous(), right=a["right"],
        sorter=torch.argsort(x[0])), [C(f"* {s} u -3 3", f"* {t} u -4 4", right=right) for s, t in (("7", "5"), ("7", "3,4"), ("2,5", "2,3"),
        ("1", "4"), ("33", "-")) for right in (False, True)], "f32 f64 i32 i64", ulp=0, slope=False, vmap=False, torch_names=[]),
    Row("bucketize", lambda x, a: torch.bucketize(x[0], x[1].contiguous(), right=a["right"]), [
        C(f"* {t} u -4 4", f"* {s} a -3 3", right=right, layout="c") for s, t in (("7", "5"), ("7", "3,4"), ("4", "-"), (
            "33", "0")) for right in (False, True)], "f32 f64 i32 i64", ulp=0, slope=False),
    Row("isin", lambda x, a: torch.isin(x[0], x[1], invert=a["invert"]), [C(f"* {s} i 0 6", f"* {t} i 0 6", invert=v)
        for s, t in (("7", "3"), ("3,5", "2,2"), ("0", "2"), ("4", "0"), ("-", "5")) for v in (False, True)],
        "f32 f64 i32 i64 u8", ulp=0, slope=False),

    Row("take", lambda x, a: torch.index_select(x[0], a["axis"], wrapped(x[1], x[0].shape[a["axis"]]).reshape(-1)).reshape(
        list(x[0].shape[:a["axis"]]) + list(x[1].shape) + list(x[0].shape[a["axis"] + 1:])), [
        C(f"* {s} u -3 3", f"{d} {i} i 0 {n}", axis=axis) for s, i, axis, n in (("7", "4", 0, 7), ("3,5", "2,3", 1, 5), ("300,67", "190", 0, 300),
        ("3,5", "-", 0, 3), ("2,3,4", "5", 1, 3), ("4,3", "0", 0, 4), ("5,2", "2,1,2", 0, 5)) for d in ("i64", "i32")],
        ANY, ulp=0, torch_names=["take"], differs="negative positions are an IndexError"),
    Row("index_select", lambda x, a: torch.index_select(x[0], a["axis"], x[1].to(torch.int64)), [
        C(f"* {s} u -3 3", f"{d} {i} i 0 {n}", axis=axis) for s, i, axis, n in (("7", "4", 0, 7), ("3,5", "9", 1, 5), (
            "2,3,4", "5", -2, 3), ("4,3", "0", 0, 4)) for d in ("i64", "i32")], ANY, ulp=0),
    Row("take_along_axis", lambda x, a: torch.take_along_dim(x[0], wrapped(x[1], x[0].shape[a["axis"]]), a["axis"]), [
        C(f"* {s} u -3 3", f"{d} {i} i -{n} {n}", axis=axis) for s, i, axis, n in (("7", "4", 0, 7), ("3,5", "3,2", 1, 5), (
            "3,5", "2,5", 0, 3), ("2,3,4", "2,1,4", 1, 3), ("3,5", "1,5", 0, 3), ("1,5", "3,2", 1, 5))
        for d in ("i64", "i32")], ANY, ulp=0, torch_names=["gather", "take_along_dim"]),
]


def wrapped(index, n):
    return torch.where(index < 0, index + n, index).to(torch.int64)


def scatter_last(x, a):
    """Of several values for a place the last one in row-major order."""
    out = x[0].clone()
    index, src = x[1], x[2] if len(x) > 2 else None
    axis = a["axis"] % max(x[0].dim(), 1)
    rows = []
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[axis] = int(index[at]) % x[0].shape[axis]
        rows.append((tuple(to), at))
    winners = {to: at for to, at in rows}
    if winners:
        to = tuple(torch.tensor([t[k] for t in winners]) for k in range(x[0].dim()))
        frm = tuple(torch.tensor([winners[t][k] for t in winners]) for k in range(x[0].dim()))
        out = out.index_put(to, src[frm])
    return out


SCATTERS = [C(f"* {s} u -3 3", f"{d} {i} i 0 {n}", f"* {i if same else t} u -3 3", axis=axis)
            for s, i, t, axis, n, same in (("7", "4", "4", 0, 7, True), ("3,5", "2,5", "2,5", 0, 3, True),
                                           ("3,5", "3,9", "3,9", 1, 5, True), ("4,3", "2,2", "3,3", 0, 4, False), ("70,33", "500,33", "500,33", 0, 70, True),
                                           ("2,3,4", "2,2,4", "2,2,4", 1, 3, True), ("5", "0", "0", 0, 5, True))
            for d in ("i64", "i32")]


def with_attributes(configs, **more):
    return [C(*[" ".join([d, ",".join(map(str, s)) or "-", r]) for d, s, r in c.inputs], dtypes=c.dtypes,
              **{**c.attributes, **more}) for c in configs]


def reduced_into(x, a, index, src):
    """Where the old elements do not count, PyTorch still gives them a share of an extremum's gradient, and drops it: they are
    set to the other end first."""
    old, how = x, a["reduction"]
    if not a["include_self"] and how in ("amax", "amin"):
        is_hit = torch.zeros_like(x, dtype=torch.bool).scatter(a["axis"], index, torch.ones_like(src, dtype=torch.bool))
        worst = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
        old = torch.where(is_hit, worst.min if how == "amax" else worst.max, x)
    return torch.scatter_reduce(old, a["axis"], index, src, how, include_self=a["include_self"])


def scatter_reduce(x, a):
    index = x[1].to(torch.int64)
    src = x[2][tuple(slice(0, n) for n in index.shape)]   # whose gradient PyTorch refuses where it is larger
    return reduced_into(x[0], a, index, src)


def index_reduce(x, a):
    shape = [-1 if d == a["axis"] % x[0].dim() else 1 for d in range(x[0].dim())]
    index = x[1].to(torch.int64).reshape(shape).expand(x[2].shape)
    return reduced_into(x[0], a, index, x[2])


SLICES = [C(f"* {s} u -3 3", f"{d} {i} i 0 {n}", f"* {t} u -3 3", axis=axis) for s, i, t, axis, n in (
    ("7", "4", "4", 0, 7), ("3,5", "4", "4,5", 0, 3), ("3,5", "9", "3,9", 1, 5), ("2,3,4", "2", "2,2,4", 1, 3), ("61,35", "200", "200,35", 0, 61),
    ("4,3", "0", "0,3", 0, 4)) for d in ("i64", "i32")]


def index_copy(x, a):
    """Of several slices for a place the last one."""
    out, axis = x[0], a["axis"]
    for k, at in enumerate(x[1].tolist()):
        mask = torch.arange(out.shape[axis]).reshape([-1 if d == axis % out.dim() else 1 for d in range(out.dim())]) == at
        out = torch.where(mask, x[2].narrow(axis, k, 1), out)
    return out


def dynamic_slice(x, a):
    starts = [min(max(s, 0), n - size) for s, n, size in zip(a["starts"], x[0].shape, a["sizes"])]
    return x[0][tuple(slice(s, s + size) for s, size in zip(starts, a["sizes"]))]


def dynamic_update(x, a):
    starts = [min(max(s, 0), n - size) for s, n, size in zip(a["starts"], x[0].shape, x[1].shape)]
    out = x[0].clone()
    out[tuple(slice(s, s + size) for s, size in zip(starts, x[1].shape))] = x[1]
    return out


def in_rows(run):
    """Positions counted through all elements."""
    return lambda x, a: run(x[0].reshape(-1), x, a).reshape(x[0].shape)


# Equal elements share the gradient of an extremum; with a zero a product's goes to it, with two to none.
TIES = [C(f"* {s} i -1 3", f"i64 {i} i 0 {n}", f"* {i} i -1 3", axis=axis) for s, i, axis, n in (
    ("5", "12", 0, 5), ("3,5", "3,9", 1, 5), ("4,2", "9,2", 0, 4))]
SLICE_TIES = [C(f"* {s} i -1 3", f"i64 {i} i 0 {n}", f"* {t} i -1 3", axis=axis) for s, i, t, axis, n in (
    ("5", "12", "12", 0, 5), ("3,5", "9", "3,9", 1, 5), ("4,2", "9", "9,2", 0, 4))]
OLD_ONES = ("an old element that does not count (`include_self` false) takes no share of the gradient; PyTorch counts it among equal "
            "ones, and drops its share")
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]
ROWS += [
    Row("put_along_axis", scatter_last, SCATTERS[:6], "f32 f64 i32 bf16", ulp=0, torch_names=[]),
    Row("scatter", scatter_last, SCATTERS, ANY, ulp=0,
        differs="of several values for a place the last one; PyTorch's choice is not specified"),
    Row("scatter_add", lambda x, a: torch.scatter_add(
        x[0], a["axis"], x[1].to(torch.int64), x[2][tuple(slice(0, n) for n in x[1].shape)]), SCATTERS,
        FLOAT + " i32 i64", floor=4, half=4),
] + [
    Row(f"scatter_reduce {how}", scatter_reduce, [c for k, keep in enumerate((True, False)) for c in with_attributes(
        SCATTERS[k % 2:-2:2] + TIES, reduction=how, include_self=keep)], "f32 f64 i32" if how != "mean" else "f32 f64", ulp=8,
        floor=4, torch_names=["scatter_reduce"], differs=OLD_ONES if how in ("amax", "amin") else None)
    for how in REDUCTIONS
] + [
    Row(f"index_reduce {how}", index_reduce, [c for k, keep in enumerate((True, False)) for c in with_attributes(
        SLICES[k::2][:4] + SLICE_TIES, reduction=how, include_self=keep)], "f32 f64", ulp=8, floor=4, torch_names=["index_reduce"],
        differs=OLD_ONES if how in ("amax", "amin") else None)
    for how in ("prod", "mean", "amax", "amin")
] + [
    Row("index_add", lambda x, a: torch.index_add(x[0], a["axis"], x[1].to(torch.int64), x[2], alpha=a["alpha"]),
        with_attributes(SLICES, alpha=1) + with_attributes(SLICES[:5], alpha=-2), FLOAT + " i32 i64", floor=4, half=4),
    Row("index_copy", index_copy, SLICES, ANY, ulp=0),
    Row("index_fill", lambda x, a: torch.index_fill(x[0], a["axis"], x[1].to(torch.int64), a["value"]), [
        C(f"* {s} u -3 3", f"{d} {i} i 0 {n}", axis=axis, value=2) for s, i, axis, n in (("7", "4", 0, 7), (
            "3,5", "2", 1, 5), ("2,3,4", "2", 1, 3), ("4,3", "0", 0, 4)) for d in ("i64", "i32")], ANY, ulp=0),
    Row("index_put", lambda x, a: torch.index_put(x[0], [x[1].to(torch.int64), x[2].to(torch.int64)], x[3], accumulate=a[
        "accumulate"]), [C("* 4,5 u -3 3", f"{d} 6 v 0 1 2 3 0 1", f"{d} 6 v 0 1 2 3 4 0", "* 6 u -3 3", accumulate=add, layout="t")
        for d in ("i64", "i32") for add in (False, True)] + [C("* 4,5,2 u -3 3", "i64 3 v 0 -1 2", "i64 3 v 1 0 -2",
        "* 2 u -3 3", accumulate=add, layout="s") for add in (False, True)] + [C("* 4,5 u -3 3", "i64 2,1 v 1 3", "i64 3 v 0 2 4",
        "* 2,3 u -3 3", accumulate=add, layout="c") for add in (False, True)] + [C("* 4,5 u -3 3", f"{d} 7 v 0 1 0 3 0 1 -4",
        f"{d} 7 v 2 1 2 4 2 -4 2", "* 7 u -3 3", accumulate=True) for d in ("i64", "i32")] + [C("* 3,4,2 u -3 3",
        "i64 5 v 2 0 2 -1 2", "i64 5 v 1 0 1 1 3", "* 5,2 u -3 3", accumulate=True)], "f32 f64 i32 bf16", floor=2, half=2),
    Row("put", lambda x, a: torch.put(x[0], x[1].to(torch.int64), x[2], accumulate=a["accumulate"]), [
        C(f"* {s} u -3 3", f"{d} 4 v 0 3 -1 1", "* 4 u -3 3", accumulate=add, layout="s") for s in ("7", "3,5", "2,3,4")
        for d in ("i64", "i32") for add in (False, True)] + [C(f"* {s} u -3 3", f"{d} 6 v 0 3 0 -1 3 3", "* 6 u -3 3",
        accumulate=True) for s in ("7", "3,5", "2,2") for d in ("i64", "i32")], "f32 f64 i32", floor=2),
    Row("masked_fill", lambda x, a: torch.masked_fill(x[0], x[1], a["value"]), [C(f"* {s} u -3 3", f"bool {m} u 0 1",
        value=2) for s, m in (("7", "7"), ("3,5", "5"), ("2,3,4", "3,1"), ("0", "0"), ("-", "-"), ("4,3", "4,3"))], ANY,
        ulp=0),
    Row("masked_scatter", lambda x, a: torch.masked_scatter(x[0], x[1], x[2].contiguous()), [C(f"* {s} u -3 3",
        f"bool {s} u 0 1", f"* {n} u -3 3") for s, n in (("7", 7), ("3,5", 15), ("2,3,4", 30), ("4", 4))], ANY, ulp=0),
    Row("masked_select", lambda x, a: torch.masked_select(x[0], x[1]), [C(f"* {s} u -3 3", f"bool {m} u 0 1")
        for s, m in (("7", "7"), ("3,5", "5"), ("2,3,4", "2,3,4"), ("3,1", "4"))], ANY, ulp=0, vmap=False),
    Row("nonzero", lambda x, a: torch.nonzero(x[0]), [C(f"* {s} i -1 2") for s in ("7", "3,5", "2,3,4", "0", "33", "-")] + [
        C(f"* 8 {SPECIAL}", dtypes=FLOAT)], ANY, ulp=0, slope=False, vmap=False),
    Row("argwhere", lambda x, a: torch.argwhere(x[0]), [C(f"* {s} i -1 2") for s in ("7", "3,5", "2,3,4", "0")], ANY, ulp=0,
        slope=False, vmap=False),
    Row("flatnonzero", lambda x, a: torch.nonzero(x[0].reshape(-1)).reshape(-1), [C(f"* {s} i -1 2") for s in (
        "7", "3,5", "2,3,4", "0")], ANY, ulp=0, slope=False, torch_names=[], vmap=False),
    Row("unique", lambda x, a: tuple(torch.unique(x[0], sorted=True, return_inverse=True, return_counts=True)), [
        C(f"* {s} i -3 4") for s in ("7", "3,5", "2,3,4", "33", "1")], REAL, ulp=0, slope=False, vmap=False, zeros=False),
    Row("unique along an axis", lambda x, a: tuple(reversed(torch.unique(x[0], sorted=True, return_inverse=True,
        return_counts=True, dim=a["axis"]))), [C(f"* {s} i 0 2", axis=axis) for s, axis in (("7", 0), ("9,2", 0), ("2,9", 1),
        ("5,2,2", 0), ("2,7,2", 1), ("2,1,8", -1), ("1,3", 0))], REAL, ulp=0, slope=False, torch_names=[], vmap=False, zeros=False),
    Row("unique_consecutive along an axis", lambda x, a: tuple(reversed(torch.unique_consecutive(x[0], return_inverse=True,
        return_counts=True, dim=a["axis"]))), [C(f"* {s} i 0 2", axis=axis) for s, axis in (("7", 0), ("9,2", 0), ("2,9", 1),
        ("2,7,2", 1), ("1,3", 0))], REAL, ulp=0, slope=False, torch_names=[], vmap=False, zeros=False),
    Row("unique_consecutive", lambda x, a: tuple(torch.unique_consecutive(x[0], return_inverse=True, return_counts=True)),
        [C(f"* {s} i 0 2") for s in ("7", "3,5", "33", "1")], REAL, ulp=0, slope=False, vmap=False, zeros=False),
    Row("unravel_index", lambda x, a: tuple(torch.unravel_index(x[0].to(torch.int64), a["shape"])), [
        C(f"i64 {s} i 0 24", shape=shape) for s in ("7", "3,5", "-", "0") for shape in ([2, 3, 4], [24], [4, 6], [6, 4],
        [1, 24])], "f32", ulp=0, slope=False),
    Row("dynamic_slice", dynamic_slice, [C(f"* {s} u -3 3", starts=starts, sizes=sizes) for s, starts, sizes in (
        ("7", [2], [3]), ("3,5", [1, 2], [2, 3]), ("3,5", [0, 9], [1, 2]), ("2,3,4", [0, 1, 3], [2, 2, 2]), ("4", [0], [4]))],
        ANY, ulp=0, torch_names=[]),
    Row("dynamic_update_slice", dynamic_update, [C(f"* {s} u -3 3", f"* {t} u -3 3", starts=starts) for s, t, starts in (
        ("7", "3", [2]), ("3,5", "2,3", [1, 2]), ("3,5", "1,2", [0, 9]), ("2,3,4", "2,2,2", [0, 1, 3]), ("4", "4", [0]))],
        ANY, ulp=0, torch_names=[]),
]
