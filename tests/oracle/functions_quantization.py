"""Quantised numbers: by PyTorch's functions where it has them, which take f32 alone, and by what defines them; products by
the weight in f64. Numbers lie nowhere near the middle between two integers, where the dtype would decide."""
import torch

from rows import Config as C
from rows import Row

LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535), "i32": (-(1 << 31), (1 << 31) - 1)}
TORCH = {"i8": torch.qint8, "u8": torch.quint8}
WHOLE = {"i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32}
MANY = 30


def limits_of(a):
    low, high = LIMITS[a["dtype"]]
    if not a.get("bits"):
        return low, high
    count = 1 << a["bits"]
    return (-count // 2, count // 2 - 1) if low < 0 else (0, count - 1)


def spread(parameter, x, a):
    """A scale or zero point, of the shape of x."""
    axis, group = a.get("axis"), a.get("group", 0)
    if axis is None or parameter.dim() == 0:
        return parameter
    if group:
        return parameter.repeat_interleave(group, axis)
    shape = [1] * x.dim()
    shape[axis] = -1
    return parameter.reshape(shape)


def quantize(x, a):
    value, scale, zero = x[0], x[1], x[2]
    low, high = limits_of(a)
    found = (torch.round(value / spread(scale, value, a)) + spread(zero, value, a)).clamp(low, high).to(WHOLE[a["dtype"]])
    if a["dtype"] in TORCH and not a.get("bits") and not a.get("group") and value.numel() > 0:
        narrow = [value.detach().to(torch.float32), scale.detach().to(torch.float32), zero.detach()]
        by_torch = (torch.quantize_per_tensor(narrow[0], float(narrow[1]), int(narrow[2]), TORCH[a["dtype"]]) if a.get("axis") is None else
                    torch.quantize_per_channel(*narrow, a["axis"], TORCH[a["dtype"]])).int_repr()
        assert torch.equal(by_torch, found), "quantize"
    return found


def dequantize(x, a):
    wide = x[1].dtype   # small integers would wrap
    return (x[0].to(wide) - spread(x[2], x[0], a).to(wide)) * spread(x[1], x[0], a)


class Rounded(torch.autograd.Function):
    """fake_quantize with the derivatives of _fake_quantize_learnable_per_tensor_affine, which takes f32 alone
    (and is off by one in the slope by the scale where the zero point is negative)."""

    @staticmethod
    def forward(ctx, x, scale, zero, low, high):
        level = torch.round(x / scale) + zero
        ctx.save_for_backward(x, scale, zero, level)
        ctx.limits = low, high
        return (level.clamp(low, high) - zero) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale, zero, level = ctx.saved_tensors
        low, high = ctx.limits
        inside = (level >= low) & (level <= high)
        by_scale = torch.where(level < low, low - zero, torch.where(level > high, high - zero, (torch.round(x / scale) - x / scale)))
        by_zero = torch.where(inside, torch.zeros_like(x), -scale.expand_as(x))
        reduced = lambda g, like: (grad * g).sum_to_size(like.shape)
        return grad * inside, reduced(by_scale, scale), reduced(by_zero, zero), None, None


def check_by_torch(value, scale, zero, low, high):
    narrow = [each.detach().to(torch.float32).requires_grad_() for each in (value, scale.reshape(1), zero.reshape(1))]
    wide = [each.detach().to(torch.float64).requires_grad_() for each in (value, scale, zero)]
    found, formula = torch._fake_quantize_learnable_per_tensor_affine(*narrow, low, high, 1.0), Rounded.apply(*wide, low, high)
    assert torch.allclose(found.to(torch.float64), formula, atol=1e-4), "fake_quantize"
    for one, other in zip(torch.autograd.grad(found.sum(), narrow), torch.autograd.grad(formula.sum(), wide)):
        assert torch.allclose(one.reshape(other.shape).to(torch.float64), other, rtol=1e-3, atol=1e-2), "slopes of fake_quantize"


def fake_quantize(x, a):
    value, scale, zero = x
    low, high = a["low"], a["high"]
    out = Rounded.apply(value, spread(scale, value, a), spread(zero, value, a), low, high)
    if a.get("axis") is None and value.numel() > 0:
        with torch.enable_grad():
            check_by_torch(value, scale, zero, low, high)
    return out


def extremes(x, a):
    axis, group = a.get("axis"), a.get("group", 0)
    if axis is None:
        return x.amin(), x.amax()
    if group:
        parts = x.unflatten(axis, (-1, group))
        return parts.amin(axis + 1), parts.amax(axis + 1)
    others = [i for i in range(x.dim()) if i != axis]
    return (x.amin(others), x.amax(others)) if others else (x, x)


def choose(x, a):
    low, high = extremes(x[0], a)
    least, most = limits_of(a)
    one = lambda s: torch.where(s == 0, torch.ones_like(s), s)
    if a["affine"]:
        low, high = low.clamp(max=0), high.clamp(min=0)
        scale = one((high - low) / (most - least))
        return scale, (least - torch.round(low / scale)).clamp(least, most).to(torch.int32)
    scale = one(torch.maximum(low.abs(), high.abs()) / ((most - least - 1) / 2))
    return scale, torch.full(scale.shape, 0 if least < 0 else (most + 1) // 2, dtype=torch.int32)


def pack(x, a):
    low, high = x[0][..., 0::2].to(torch.int32), x[0][..., 1::2].to(torch.int32)
    return ((low & 15) | (high & 15) << 4).to(torch.uint8)


def unpack(x, a):
    both = torch.stack([x[0] & 15, x[0] >> 4], -1).flatten(-2).to(torch.int32)
    return (both - 16 * (both > 7)).to(torch.int8) if a["dtype"] == "i8" else both.to(torch.uint8)


def weight_of(w, a):
    """What the weight w [k, n] is after it was rounded, and its scales [n, groups]."""
    k, n = w.shape
    group = a["group"] or max(32, -(-k // 32) * 32)
    rows = torch.nn.functional.pad(w.T, (0, -k % group))
    how = {"dtype": "u8" if a["bits"] == 4 else "i8", "bits": a["bits"], "axis": 1, "group": group, "affine": a["affine"]}
    scale, zero = choose([rows], how)
    q = quantize([rows, scale, zero], how)
    return dequantize([q.to(w.dtype), scale, zero], how)[:, :k].T, scale


def rounded_rows(x):
    """Each row by its largest magnitude, as i8."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return torch.round(x / scale).clamp(-127, 127) * scale


def stored_weight(q, scales, zero):
    group = q.shape[1] // scales.shape[1]
    return ((q.to(scales.dtype) - zero.to(scales.dtype).repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)).T


def integer_product(x, a):
    return torch.matmul(x[0].to(torch.int64), x[1].to(torch.int64)).to(torch.int32)


F8 = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def scaled_product(x, a):
    left, right = (each.to(torch.float32).to(F8[a[name]]).to(x[0].dtype) for each, name in ((x[0], "left"), (x[1], "right")))
    return (left @ right) * x[2] * x[3]


PLACES = [("3,5", "-", {}), ("2,3,4", "3", {"axis": 1}), ("6", "6", {"axis": 0}), ("4,8", "4,2", {"axis": 1, "group": 4}), ("6,3", "2,3", {"axis": 0, "group": 3}),
          ("37", "-", {}), ("0,3", "-", {}), ("2,6,2", "2,2,2", {"axis": 1, "group": 3}), ("33,17", "17", {"axis": 1})]
DTYPES = [{"dtype": "i8"}, {"dtype": "u8"}, {"dtype": "i8", "bits": 4}, {"dtype": "u8", "bits": 4}, {"dtype": "i16"}, {"dtype": "u16"}, {"dtype": "i32"}]
ZERO = {"i8": "-5 5", "u8": "100 140", "i16": "-500 500", "u16": "100 900", "i32": "-1000 1000"}


def zero_of(how):
    return "1 9" if how.get("bits") and how["dtype"] == "u8" else "-3 3" if how.get("bits") else ZERO[how["dtype"]]


KINDS = [how | {"affine": affine} for how in DTYPES[:6] for affine in (False, True)]
WEIGHTS = [{"bits": b, "group": g, "affine": f} for b in (8, 4) for g in (0, 32, 8) for f in (False, True)]
PRODUCTS = [("3,40", "40,5"), ("1,64", "64,7"), ("2,3,32", "32,4"), ("0,32", "32,3"), ("5,33", "33,2")]

ROWS = [
    Row("quantize", quantize, [C(f"* {s} u -3 3", f"*c {p} u 0.03 0.2", f"i32 {p} i {zero_of(how)}", **how, **place) for k, (s, p, place) in enumerate(PLACES) for how in (
        DTYPES if k < 2 else DTYPES[k % 3:k % 3 + 3])], "f32 f64", ulp=0, slope=False, torch_names=[], at_least=MANY),
    Row("dequantize", dequantize, [C(f"{d} {s} i {low} {high}", f"* {p} u 0.03 0.2", f"i32 {p} i -5 5", **place) for s, p, place in PLACES for d, low, high in (("i8", -128, 128), (
        "u8", 0, 256), ("i16", -3000, 3000))], "f32 f64 f16 bf16", ulp=2, floor=8, slope_floor=64, torch_names=[], at_least=MANY),
    Row("fake_quantize", fake_quantize, [C(f"* {s} u -3 3", f"* {p} u 0.03 0.2", f"* {p} i 0 5", low=low, high=high, **place) for s, p, place in PLACES if "group" not in place
        for low, high in ((-128, 127), (0, 255), (-8, 7))], "f32 f64", ulp=4, floor=4, slope_ulp=64, slope_floor=1024, torch_names=[], at_least=MANY),
    Row("choose_quantization", choose, [C(f"* {s} u -3 2", **how, **place) for k, (s, p, place) in enumerate(PLACES) if "0," not in s for how in (KINDS if k < 2 else KINDS[k % 6:k % 6 + 4])] + [
        C("* 4 v 0", dtype="i8", affine=affine, layout="c") for affine in (False, True)], "f32 f64", ulp=4, slope=False, torch_names=[], at_least=MANY),
    Row("pack_int4", pack, [C(f"{d} {s} i {low} {high}") for s in ("8", "3,4", "2,3,6", "0,2", "1,2", "5,34") for d, low, high in (("i8", -8, 8), ("u8", 0, 16))], "f32",
        ulp=0, slope=False, torch_names=[], at_least=MANY),
    Row("unpack_int4", unpack, [C(f"u8 {s} i 0 256", dtype=d) for s in ("8", "3,4", "2,3,6", "0,2", "1,1", "5,17") for d in ("i8", "u8")], "f32", ulp=0, slope=False, torch_names=[],
        at_least=MANY),
    Row("quantize_weight", lambda x, a: weight_of(x[0], a), [C(f"* {s} u -3 3", **how) for s in ("40,5", "64,3", "33,2") for how in WEIGHTS], "f32", ulp=8, floor=4, slope=False,
        torch_names=[], at_least=MANY),
    Row("quantized_weight", lambda x, a: stored_weight(*x), [C(f"{'u8' if b == 4 else 'i8'} {n},{k} i {'0 16' if b == 4 else '-128 128'}", f"*c {n},{g} u 0.03 0.2",
        f"{'u8' if b == 4 else 'i8'} {n},{g} i {'1 9' if b == 4 else '-5 5'}", bits=b) for n, k, g in ((3, 64, 2), (5, 32, 1), (2, 96, 3), (4, 32, 4)) for b in (8, 4)], "f32 f16 bf16",
        ulp=4, floor=4, slope=False, torch_names=[], at_least=MANY),
    Row("quantized_matmul", lambda x, a: x[0] @ weight_of(x[1], a)[0], [C(f"* {s} u -2 2", f"f32 {t} u -3 3", **how) for s, t in PRODUCTS for how in WEIGHTS], "f32 f16 bf16",
        ulp=16, floor=256, half=2, slope=False, torch_names=[], at_least=MANY),
    Row("quantized_matmul of rounded rows", lambda x, a: rounded_rows(x[0]) @ weight_of(x[1], a)[0], [C(f"* {s} u -2 2", f"f32 {t} u -3 3", **how) for s, t in PRODUCTS[:3] for how in WEIGHTS],
        "f32", ulp=16, floor=256, slope=False, torch_names=[], at_least=MANY),
    Row("integer_matmul", integer_product, [C(f"{d} {s} i {'-128 128' if d == 'i8' else '0 256'}", f"{e} {t} i {'-128 128' if e == 'i8' else '0 256'}") for s, t in (("3,4", "4,5"), (
        "17,40", "40,18"), ("2,3,33", "33,4"), ("1,64", "64,7"), ("0,4", "4,2"), ("33,129", "129,65")) for d in ("i8", "u8") for e in ("i8", "u8")], "f32", ulp=0, slope=False,
        torch_names=[], at_least=MANY),
    Row("scaled_matmul", scaled_product, [C(f"*c {s} u -2 2", f"*c {t} u -2 2", f"* {p} u 0.5 2", f"* {q} u 0.5 2", left=l, right=r) for s, t, p, q in (("3,16", "16,5", "-", "-"), (
        "4,33", "33,3", "4,1", "1,3"), ("2,3,16", "16,2", "-", "1,2"), ("1,48", "48,1", "-", "-")) for l in F8 for r in F8], "f32", ulp=8, floor=256, slope_ulp=64, slope_floor=2048,
        torch_names=[], at_least=MANY, vmap=False),
]
