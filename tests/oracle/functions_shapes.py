"""Arrangements of elements, joins and parts, matrices by their diagonals, padding, and tensors from nothing."""
import numpy as np
import torch

from case_format import DTYPES
from rows import Config as C
from rows import Row

ANY = "f32 f64 f16 bf16 i32 i64 u8 i8 i16 bool"
SOME = "f32 f64 bf16 i32 u8"


def arranged(name, run, *cases, dtypes=ANY, **options):
    """Cases: a shape, or several, and attributes. Elements are only moved."""
    configs = []
    for shapes, attributes in cases:
        shapes = shapes if isinstance(shapes, (list, tuple)) else [shapes]
        configs.append(C(*[f"* {s} u -3 3" for s in shapes], **attributes))
    return Row(name, run, configs, dtypes, **{"ulp": 0, "slope_ulp": 4, "slope_floor": 2} | options)


def padded(x, a):
    """NumPy's order of axes; negative widths cut off first."""
    low, high, mode = a["low"], a["high"], a["mode"]
    y = x[0]
    for axis, (l, h) in enumerate(zip(low, high)):
        y = y.narrow(axis, max(-l, 0), y.shape[axis] - max(-l, 0) - max(-h, 0))
    for axis, (l, h) in enumerate(zip(low, high)):
        l, h, n = max(l, 0), max(h, 0), y.shape[axis]
        at = torch.arange(-l, n + h)
        if mode == "constant":
            inside = (at >= 0) & (at < n)
            fill = torch.full([1] * y.dim(), a["value"]).to(y.dtype)
            picked = torch.index_select(y, axis, at.clamp(0, max(n - 1, 0))) if n else y.new_zeros(
                [*y.shape[:axis], l + h, *y.shape[axis + 1:]])
            y = torch.where(inside.reshape([-1 if d == axis else 1 for d in range(y.dim())]), picked, fill)
        else:
            if mode == "reflect" and n > 1:
                at = torch.remainder(at, 2 * (n - 1))
                at = torch.minimum(at, 2 * (n - 1) - at)
            at = torch.remainder(at, n) if mode == "circular" else at.clamp(0, n - 1)
            y = torch.index_select(y, axis, at)
    return y


def sliced(x, a):
    """x[start:stop:step, ...] as NumPy has it, also with negative steps."""
    index = tuple(slice(b, e, s) for b, e, s in zip(a["starts"], a["stops"], a["steps"]))
    found = np.arange(x[0].numel()).reshape(x[0].shape)[index]
    return x[0].reshape(-1)[torch.from_numpy(found.copy())]


def split_parts(x, a):
    return torch.split(x[0], x[0].shape[a["axis"]] // a["parts"], a["axis"])


def powers(x, n, increasing):
    exponents = torch.arange(n, dtype=x.dtype)
    return x.unsqueeze(-1) ** (exponents if increasing else exponents.flip(0))


def as_strided(x, a):
    return torch.as_strided(x[0].contiguous(), a["shape"], a["strides"], a["offset"])


ROWS = [
    arranged("reshape", lambda x, a: torch.reshape(x[0], a["shape"]), ("2,6", {"shape": [3, -1]}), ("2,3,4", {"shape": [24]}),
             ("0,3", {"shape": [3, 0]}), ("7", {"shape": [7, 1]}), ("-", {"shape": [1, 1]}), ("4,3", {"shape": [2, 2, 3]}),
             torch_names=["reshape", "view", "view_copy"]),
    arranged("permute", lambda x, a: torch.permute(x[0], a["order"]), ("2,6", {"order": [1, 0]}), ("2,3,4", {"order": [2, 0, 1]}),
             ("0,3", {"order": [-1, 0]}), ("67,130", {"order": [1, 0]}), ("9,33,17", {"order": [2, 0, 1]}), ("2,3,1,2", {"order": [0, 2, 3, 1]})),
    arranged("transpose", lambda x, a: torch.transpose(x[0], a["a"], a["b"]), ("2,6", {"a": 0, "b": 1}), ("2,3,4", {
        "a": 0, "b": -1}), ("2,3,4", {"a": 1, "b": 1}), torch_names=["transpose", "swapaxes"]),
    arranged("expand", lambda x, a: x[0].expand(a["shape"]), ("3,1", {"shape": [-1, 4]}), ("1,5", {"shape": [2, 3, 5]}),
             ("-", {"shape": [2, 2]}), ("1", {"shape": [0]}), ("7", {"shape": [7]})),
    arranged("unsqueeze", lambda x, a: torch.unsqueeze(x[0], a["axis"]), ("7", {"axis": 0}), ("3,5", {"axis": -1}), ("-", {
        "axis": 0}), ("2,3,4", {"axis": 2})),
    arranged("squeeze", lambda x, a: torch.squeeze(x[0], a["axes"]) if "axes" in a else torch.squeeze(x[0]), ("1,7,1", {}), ("1,7,1", {
        "axes": [0]}), ("1,7,1", {"axes": [0, -1]}), ("1,1", {}), ("3,5", {})),
    arranged("flatten", lambda x, a: torch.flatten(x[0], a["first"], a["last"]), ("2,3,4", {"first": 0, "last": -1}), ("2,3,4", {
        "first": 1, "last": 2}), ("2,3,4", {"first": 0, "last": 1}), ("7", {"first": 0, "last": 0}), ("-", {"first": 0, "last": -1})),
    arranged("ravel", lambda x, a: torch.ravel(x[0]), ("2,3,4", {}), ("7", {}), ("-", {}), ("0,2", {})),
    arranged("unflatten", lambda x, a: torch.unflatten(x[0], a["axis"], a["shape"]), ("12", {"axis": 0, "shape": [3, 4]}), ("2,6", {
        "axis": -1, "shape": [-1, 3]}), ("4,3", {"axis": 0, "shape": [2, 1, 2]})),
    arranged("movedim", lambda x, a: torch.movedim(x[0], a["from"], a["to"]), ("2,3,4", {"from": [0], "to": [2]}), ("2,3,4", {
        "from": [0, 1], "to": [-1, 0]}), ("2,1,3,2", {"from": [3, 1], "to": [0, 1]}), torch_names=["movedim"]),
    arranged("atleast_1d", lambda x, a: torch.atleast_1d(x[0]), ("-", {}), ("7", {}), ("2,3", {})),
    arranged("atleast_2d", lambda x, a: torch.atleast_2d(x[0]), ("-", {}), ("7", {}), ("2,3", {})),
    arranged("atleast_3d", lambda x, a: torch.atleast_3d(x[0]), ("-", {}), ("7", {}), ("2,3", {}), ("2,3,2", {})),
    arranged("broadcast_to", lambda x, a: torch.broadcast_to(x[0], a["shape"]), ("3,1", {"shape": [3, 4]}), ("5", {"shape": [2, 3, 5]}), ("-", {
        "shape": [0, 2]})),
    arranged("expand_as", lambda x, a: x[0].expand_as(x[1]), (("3,1", "3,4"), {}), (("5", "2,5"), {}), (("-", "2,1"), {})),
    arranged("broadcast_tensors", lambda x, a: torch.broadcast_tensors(*x), (("3,1", "4"), {}), (("5", "2,5"), {}), (("-", "2,1", "1,3"), {})),
    arranged("narrow", lambda x, a: torch.narrow(x[0], a["axis"], a["start"], a["length"]), ("7", {"axis": 0, "start": 2, "length": 3}), ("3,5", {
        "axis": 1, "start": 0, "length": 0}), ("2,3,4", {"axis": -2, "start": 1, "length": 2})),
    arranged("select", lambda x, a: torch.select(x[0], a["axis"], a["index"]), ("7", {"axis": 0, "index": -1}), ("3,5", {"axis": 1, "index": 2}), (
        "2,3,4", {"axis": -1, "index": 0})),
    arranged("unfold along an axis", lambda x, a: x[0].unfold(a["axis"], a["size"], a["step"]), ("7", {"axis": 0, "size": 3, "step": 2}), ("3,5", {
        "axis": 1, "size": 2, "step": 1}), ("2,6,2", {"axis": 1, "size": 6, "step": 4}), ("9", {"axis": 0, "size": 2, "step": 5}),
        torch_names=["unfold"]),
    arranged("sum_to_size", lambda x, a: x[0].sum_to_size(a["shape"]), ("3,5", {"shape": [1, 5]}), ("2,3,4", {"shape": [3, 1]}), ("7", {
        "shape": [1]}), ("2,2", {"shape": [2, 2]}), dtypes="f32 f64 i64", ulp=1, floor=4),
    arranged("diagonal", lambda x, a: torch.diagonal(x[0], a["offset"], a["a"], a["b"]), ("4,5", {"offset": 0, "a": 0, "b": 1}), ("4,5", {
        "offset": 2, "a": 0, "b": 1}), ("4,5", {"offset": -1, "a": 1, "b": 0}), ("2,3,4", {"offset": 1, "a": 2, "b": 0}), ("3,3", {
        "offset": 3, "a": 0, "b": 1})),
    Row("as_strided", as_strided, [C(f"* {s} u -3 3", layout="c", shape=shape, strides=strides, offset=offset) for s, shape, strides, offset in (
        ("12", [3, 2], [4, 1], 1), ("3,4", [2, 2, 2], [4, 1, 1], 0), ("7", [4], [0], 3), ("9", [2, 2], [1, 5], 2))], ANY, ulp=0),
    arranged("flip", lambda x, a: torch.flip(x[0], a["axes"]), ("7", {"axes": [0]}), ("3,5", {"axes": [0, 1]}), ("2,3,4", {"axes": [-2]}), ("0,2", {
        "axes": [0]}), ("37,131", {"axes": [1]})),
    arranged("fliplr", lambda x, a: torch.fliplr(x[0]), ("3,5", {}), ("2,3,4", {}), ("1,7", {})),
    arranged("flipud", lambda x, a: torch.flipud(x[0]), ("3,5", {}), ("2,3,4", {}), ("7", {})),
    arranged("rot90", lambda x, a: torch.rot90(x[0], a["times"], a["plane"]), *[("3,5", {"times": k, "plane": [0, 1]}) for k in (1, 2, 3, -1, 4)],
             ("2,3,4", {"times": 1, "plane": [2, 0]})),
    arranged("repeat", lambda x, a: x[0].repeat(a["counts"]), ("7", {"counts": [2]}), ("3,5", {"counts": [2, 1]}), ("3", {"counts": [2, 3]}), ("2,2", {
        "counts": [0, 2]}), ("-", {"counts": [3]}), slope_floor=4),
    arranged("tile", lambda x, a: torch.tile(x[0], a["counts"]), ("7", {"counts": [2]}), ("3,5", {"counts": [2]}), ("3", {"counts": [2, 3]}), ("2,2", {
        "counts": [1, 2]}), slope_floor=4),
    arranged("repeat_interleave", lambda x, a: torch.repeat_interleave(x[0], a["count"], a["axis"]), ("7", {"count": 2, "axis": 0}), ("3,5", {
        "count": 3, "axis": 1}), ("2,3,4", {"count": 2, "axis": -2}), ("3", {"count": 0, "axis": 0}), slope_floor=4),
    arranged("repeat_interleave of all", lambda x, a: torch.repeat_interleave(x[0], a["count"]), ("7", {"count": 2}), ("3,5", {"count": 3}), ("-", {
        "count": 2}), torch_names=[], slope_floor=4),
    Row("repeat_interleave by counts", lambda x, a: torch.repeat_interleave(x[0], x[1].to(torch.int64), a["axis"]), [
        C(f"* {s} u -3 3", f"{d} {len(n.split())} v {n}", axis=axis, total=sum(map(int, n.split()))) for d in ("i64", "i32")
        for s, axis, n in (("4", 0, "2 0 1 3"), ("3,5", 0, "1 2 0"), ("3,5", 1, "0 1 2 1 1"), ("2,3,4", -2, "2 2 1"))],
        "f32 f64 f16 i32 i64 bool", ulp=0, slope_floor=4, torch_names=[], vmap=False, layouts="cts"),
    Row("repeat_interleave of all by counts", lambda x, a: torch.repeat_interleave(x[0], x[1].to(torch.int64)), [
        C(f"* {s} u -3 3", f"{d} {len(n.split())} v {n}") for d in ("i64", "i32")
        for s, n in (("4", "2 0 1 3"), ("2,3", "1 2 0 1 0 2"), ("2,2", "3 0 0 1"))],
        "f32 f64 f16 i32 i64 bool", ulp=0, slope_floor=4, torch_names=[], vmap=False),
    arranged("concat", lambda x, a: torch.cat(x, a["axis"]), (("7", "3"), {"axis": 0}), (("3,5", "3,2", "3,1"), {"axis": 1}), (("2,3", "0,3"), {
        "axis": 0}), (("70,33", "65,33"), {"axis": 0}), (("2,3,4", "2,1,4"), {"axis": -2}), torch_names=["cat"]),
    arranged("stack", lambda x, a: torch.stack(x, a["axis"]), (("7", "7"), {"axis": 0}), (("3,5", "3,5", "3,5"), {"axis": 1}), (("2,3", "2,3"), {
        "axis": -1}), (("-", "-"), {"axis": 0})),
    arranged("split", split_parts, ("6", {"parts": 3, "axis": 0}), ("3,4", {"parts": 2, "axis": 1}), ("4,2", {"parts": 1, "axis": 0})),
    arranged("chunk", lambda x, a: torch.chunk(x[0], a["parts"], a["axis"]), ("7", {"parts": 3, "axis": 0}), ("3,5", {"parts": 2, "axis": 1}), ("2,3", {
        "parts": 4, "axis": 0}), torch_names=["chunk", "unsafe_chunk", "unsafe_split"]),
    arranged("split_with_sizes", lambda x, a: torch.split_with_sizes(x[0], a["sizes"], a["axis"]), ("7", {"sizes": [1, 4, 2], "axis": 0}), ("3,5", {
        "sizes": [0, 5], "axis": 1}), ("2,3,4", {"sizes": [2, 1], "axis": -2})),
    arranged("tensor_split", lambda x, a: torch.tensor_split(x[0], a["parts"], a["axis"]), ("7", {"parts": 3, "axis": 0}), ("3,5", {"parts": 2,
        "axis": 1}), ("2,3", {"parts": 4, "axis": 1})),
    arranged("tensor_split at", lambda x, a: torch.tensor_split(x[0], a["positions"], a["axis"]), ("7", {"positions": [2, 5], "axis": 0}), ("3,5", {
        "positions": [1, -1], "axis": 1}), torch_names=[]),
    arranged("unbind", lambda x, a: torch.unbind(x[0], a["axis"]), ("3", {"axis": 0}), ("3,5", {"axis": 0}), ("2,3,4", {"axis": -2})),
    arranged("hsplit", lambda x, a: torch.hsplit(x[0], a["parts"]), ("6", {"parts": 3}), ("3,4", {"parts": 2}), ("2,6,2", {"parts": 3})),
    arranged("vsplit", lambda x, a: torch.vsplit(x[0], a["parts"]), ("6,2", {"parts": 3}), ("4,3", {"parts": 2}), ("2,6,2", {"parts": 1})),
    arranged("dsplit", lambda x, a: torch.dsplit(x[0], a["parts"]), ("2,2,6", {"parts": 3}), ("1,4,2", {"parts": 2})),
    arranged("hstack", lambda x, a: torch.hstack(x), (("3", "4"), {}), (("2,3", "2,1"), {}), (("-", "2"), {})),
    arranged("vstack", lambda x, a: torch.vstack(x), (("3", "3"), {}), (("2,3", "1,3"), {}), (("3", "2,3"), {})),
    arranged("dstack", lambda x, a: torch.dstack(x), (("3", "3"), {}), (("2,3", "2,3"), {}), (("2,3,1", "2,3,2"), {})),
    arranged("column_stack", lambda x, a: torch.column_stack(x), (("3", "3"), {}), (("2,3", "2"), {}), (("2,3", "2,2"), {})),
    arranged("block_diag", lambda x, a: torch.block_diag(*x), (("2,3", "1,2"), {}), (("3", "2,2"), {}), (("2,2", "1", "3,1"), {})),
    arranged("cartesian_prod", lambda x, a: torch.cartesian_prod(*x), (("3", "2"), {}), (("2", "2", "3"), {}), (("4",), {})),
    arranged("combinations", lambda x, a: torch.combinations(x[0], a["count"], a["again"]), ("5", {"count": 2, "again": False}), ("4", {"count": 3,
        "again": False}), ("4", {"count": 2, "again": True})),
    arranged("meshgrid", lambda x, a: torch.meshgrid(*x, indexing=a["indexing"]), *[((s, t), {"indexing": how}) for s, t in (("3", "4"), ("1", "5"))
        for how in ("ij", "xy")], (("2", "3", "2"), {"indexing": "ij"})),
    arranged("tril", lambda x, a: torch.tril(x[0], a["k"]), *[(s, {"k": k}) for s in ("3,5", "2,4,3") for k in (0, 1, -2)]),
    arranged("triu", lambda x, a: torch.triu(x[0], a["k"]), *[(s, {"k": k}) for s in ("3,5", "2,4,3") for k in (0, 1, -2)]),
    arranged("diag", lambda x, a: torch.diag(x[0], a["k"]), *[(s, {"k": k}) for s in ("3", "4,3", "1") for k in (0, 1, -2)]),
    arranged("diagflat", lambda x, a: torch.diagflat(x[0], a["k"]), *[(s, {"k": k}) for s in ("3", "2,2") for k in (0, 1, -2)]),
    arranged("diag_embed", lambda x, a: torch.diag_embed(x[0], a["k"], a["a"], a["b"]), ("3", {"k": 0, "a": -2, "b": -1}), ("2,3", {"k": 1, "a": 0,
        "b": 2}), ("2,3", {"k": -1, "a": 2, "b": 1})),
    arranged("trace", lambda x, a: torch.diagonal(x[0], a["k"]).sum(-1), ("3,5", {"k": 0}), ("4,4", {"k": 1}), ("5,2", {"k": -1}), ("2,2,3", {"k": 0}),
             dtypes="f32 f64 i64 i32", ulp=1, floor=4, torch_names=["trace"]),
    arranged("vander", lambda x, a: powers(x[0], a["n"], a["increasing"]), ("4", {"n": 3, "increasing": False}), ("3", {"n": 5, "increasing": True}),
             ("5", {"n": 1, "increasing": False}), dtypes="f32 f64", ulp=8, torch_names=[]),
    arranged("roll", lambda x, a: torch.roll(x[0], a["shifts"], a["axes"]), ("7", {"shifts": [2], "axes": [0]}), ("3,5", {"shifts": [-1, 7], "axes": [0, 1]}),
             ("2,3,4", {"shifts": [1], "axes": [-2]}), ("0,2", {"shifts": [1], "axes": [0]})),
    arranged("pad", padded, *[(s, {"low": low, "high": high, "mode": mode, "value": 1}) for s, low, high in (("7", [2], [1]), ("3,5", [1, 0], [0, 2]), ("4,5",
        [-1, 2], [2, -1]), ("2,3,4", [0, 1, 2], [0, 2, 1])) for mode in ("constant", "reflect", "replicate", "circular")], ("0,2", {"low": [1, 0], "high":
        [1, 1], "mode": "constant", "value": 1}), ("7", {"low": [-3], "high": [-2], "mode": "constant", "value": 1}), slope_floor=4,
        torch_names=["nn.functional.pad", "constant_pad_nd"]),
    arranged("index by slices", sliced, *[(s, {"starts": b, "stops": e, "steps": t}) for s, b, e, t in (("7", [1], [6], [2]), ("3,5", [0, 1], [3, 4], [1, 2]), (
        "2,3,4", [0, -2, 3], [2, 3, -5], [1, 1, 2]), ("9", [-8], [8], [3]), ("4,4", [3, 0], [9, 9], [1, 3]), ("5", [3], [3], [1]))],
        torch_names=["__getitem__", "slice"]),
    arranged("reshape_as", lambda x, a: x[0].reshape_as(x[1]), (("2,6", "3,4"), {}), (("2,3,4", "24"), {}), (("7", "7,1"), {}),
             torch_names=["reshape_as", "view_as"]),
    arranged("zeros_like", lambda x, a: torch.zeros_like(x[0]), ("7", {}), ("3,5", {}), ("-", {}), ("0", {})),
    arranged("ones_like", lambda x, a: torch.ones_like(x[0]), ("7", {}), ("3,5", {}), ("-", {}), ("0", {})),
    arranged("full_like", lambda x, a: torch.full_like(x[0], a["value"]), ("7", {"value": 1}), ("3,5", {"value": 0}), ("-", {"value": 1}), ("0", {
        "value": 1})),
]


def created(name, run, cases, dtypes="f32 f64 f16 bf16 i64 i32", **options):
    return Row(name, lambda x, a: run(a), [C(dtype=d, **case) for case in cases for d in dtypes.split()], "f32",
               **{"ulp": 0, "slope": False, "in_dtype": True, "vmap": False} | options)


def of(a):
    return DTYPES[a["dtype"]]


def window(name, run=None, attributes=({},), **options):
    function = getattr(torch.signal.windows, name)
    run = run or (lambda a, n, **o: function(n, **o))
    cases = [{"n": n, "periodic": periodic, **each} for n in (5, 8, 1, 0, 13, 3, 32, 100) for periodic in (False, True)
             for each in attributes]
    return created(name, lambda a: run(a, a["n"], sym=not a["periodic"], dtype=torch.float64).to(of(a)), cases,
                   "f32 f64", ulp=8, floor=4, in_dtype=False, torch_names=[f"signal.windows.{name}"], at_least=30, **options)


W = torch.signal.windows
ROWS += [
    created("arange", lambda a: torch.arange(a["start"], a["stop"], a["step"], dtype=of(a)), [
        {"start": 0, "stop": 7, "step": 1}, {"start": 2, "stop": -5, "step": -2}, {"start": 3, "stop": 3, "step": 1}, {"start": -3, "stop": 9, "step": 4}]),
    created("arange of fractions", lambda a: torch.arange(a["start"], a["stop"], a["step"], dtype=torch.float64).to(of(a)), [
        {"start": 0.5, "stop": 3.0, "step": 0.75}, {"start": 2.0, "stop": -1.0, "step": -0.3}, {"start": 0.0, "stop": 1.0, "step": 0.1},
        {"start": 1.5, "stop": 1.5, "step": 1.0}, {"start": -1.0, "stop": 1.0, "step": 0.5}, {"start": 0.1, "stop": 5.1, "step": 1.7}],
        "f32 f64 f16 bf16", ulp=1, floor=1, torch_names=[]),
    created("linspace", lambda a: torch.linspace(a["start"], a["stop"], a["n"], dtype=torch.float64).to(of(a)), [
        {"start": 0.0, "stop": 1.0, "n": 5}, {"start": -2.0, "stop": 3.0, "n": 7}, {"start": 1.0, "stop": 2.0, "n": 1}, {"start": 1.0, "stop": 0.0, "n": 0},
        {"start": 5.0, "stop": -5.0, "n": 11}], "f32 f64 f16 bf16", ulp=1, floor=1),
    created("logspace", lambda a: torch.logspace(a["start"], a["stop"], a["n"], a["base"], dtype=torch.float64).to(of(a)), [
        {"start": 0.0, "stop": 1.0, "n": 5, "base": 10.0}, {"start": -2.0, "stop": 3.0, "n": 7, "base": 2.0}, {"start": 1.0, "stop": 2.0, "n": 1, "base":
        10.0}, {"start": 1.0, "stop": 0.0, "n": 0, "base": 10.0}, {"start": 0.5, "stop": 1.5, "n": 4, "base": 3.0}], "f32 f64 f16 bf16", ulp=4),
    created("eye", lambda a: torch.diag_embed(torch.ones(max(a["n"], a["m"]) + abs(a["k"]), dtype=of(a)))[:0] if a["n"] == 0 else torch.from_numpy(
        np.eye(a["n"], a["m"], a["k"])).to(of(a)), [{"n": 3, "m": 3, "k": 0}, {"n": 2, "m": 4, "k": 1}, {"n": 4, "m": 2, "k": -1}, {"n": 3, "m": 3, "k": 5}]),
    created("zeros", lambda a: torch.zeros(a["shape"], dtype=of(a)), [{"shape": s} for s in ([3], [2, 3], [], [0, 2])]),
    created("ones", lambda a: torch.ones(a["shape"], dtype=of(a)), [{"shape": s} for s in ([3], [2, 3], [], [0, 2])]),
    created("full", lambda a: torch.full(a["shape"], a["value"], dtype=of(a)), [{"shape": s, "value": 3} for s in ([3], [2, 3], [], [0, 2])]),
    created("tril_indices", lambda a: torch.tril_indices(a["n"], a["m"], a["k"]), [{"n": n, "m": m, "k": k} for n, m in ((3, 3), (2, 4), (4, 2), (0, 3),
        (1, 1), (5, 3), (3, 6)) for k in (0, 1, -1)], "i64"),
    created("triu_indices", lambda a: torch.triu_indices(a["n"], a["m"], a["k"]), [{"n": n, "m": m, "k": k} for n, m in ((3, 3), (2, 4), (4, 2), (0, 3),
        (1, 1), (5, 3), (3, 6)) for k in (0, 1, -1)], "i64"),
    window("hann"), window("hamming"), window("blackman"), window("nuttall"), window("bartlett"), window("cosine"),
    window("gaussian", lambda a, n, **o: W.gaussian(n, std=a["std"], **o), [{"std": 1.0}, {"std": 2.5}]),
    window("exponential", lambda a, n, **o: W.exponential(n, tau=a["tau"], **o), [{"tau": 1.0}, {"tau": 3.0}]),
    window("kaiser", lambda a, n, **o: W.kaiser(n, beta=a["beta"], **o), [{"beta": 12.0}, {"beta": 2.0}]),
    window("general_hamming", lambda a, n, **o: W.general_hamming(n, alpha=a["alpha"], **o), [{"alpha": 0.54}, {"alpha": 0.7}]),
    window("general_cosine", lambda a, n, **o: W.general_cosine(n, a=[0.5, 0.3, 0.2], **o)),
]
