"""Layers as functions: softmax and normalisations, embeddings, attention, convolution, pooling, images at other sizes, and
losses."""
import math

import torch
import torch.nn.functional as F

from rows import Config as C
from rows import Row

FLOAT = "f32 f64 f16 bf16"
NN = "nn.functional."


def layer(name, run, configs, dtypes="f32 f64 f16", torch_names=None, **options):
    names = [NN + name] if torch_names is None else torch_names
    return Row(name, run, configs, dtypes, torch_names=names, **{"ulp": 8, "floor": 8, "half": 3} | options)


def along(*shapes):
    return [C(f"* {s} u -4 4", axis=axis) for s, axis in shapes]


ALONG = along(("7", 0), ("3,5", 1), ("3,5", 0), ("2,3,4", 1), ("2,67", -1), ("0,3", 1), ("1,1", 0), ("3,2051", 1), ("131,9", 0)) + [
    C("* 2,8 v 0 -0.0 inf -inf nan 1 -1 0.5 3 1 2 -inf -inf 100 -100 0", axis=1, grad=False),
    C("* 2,4 v -inf -inf -inf -inf 1e4 -1e4 1e4 3", axis=1, grad=False)]


def weighted(run):
    """With weight and bias where they are given."""
    return lambda x, a: run(x[0], x[1] if len(x) > 1 else None, x[2] if len(x) > 2 else None, a)


def channels(shapes, weights=True, **attributes):
    return [C(f"* {s} u -3 3", *([f"* {s.split(',')[1]} u 0.5 2", f"* {s.split(',')[1]} u -1 1"] if w else []), **attributes)
            for s in shapes for w in ((False, True) if weights else (False,))]


def batch_norm_training(x, a):
    mean, var = x[1].clone(), x[2].clone()
    axes = [0, *range(2, x[0].dim())]
    batch_mean, batch_var = x[0].mean(axes), x[0].var(axes, correction=1)
    value = F.batch_norm(x[0], None, None, x[3] if len(x) > 3 else None, x[4] if len(x) > 4 else None, training=True, eps=a["eps"])
    m = a["momentum"]
    return value, (mean * (1 - m) + m * batch_mean).detach(), (var * (1 - m) + m * batch_var).detach()


def instance_norm_training(x, a):
    mean, var = x[1].clone(), x[2].clone()
    value = F.instance_norm(x[0], mean, var, x[3] if len(x) > 3 else None, x[4] if len(x) > 4 else None, use_input_stats=True, momentum=a["momentum"], eps=a["eps"])
    return value, mean.detach(), var.detach()


def batch_norm(x, a):
    """By the formula, which can be differentiated by the statistics too."""
    shape = [1, -1] + [1] * (x[0].dim() - 2)
    z = (x[0] - x[1].reshape(shape)) / torch.sqrt(x[2].reshape(shape) + a["eps"])
    return z * x[3].reshape(shape) + x[4].reshape(shape) if len(x) > 3 else z


def lrn(x, a):
    return F.local_response_norm(x[0], a["size"], a["alpha"], a["beta"], a["k"])


def layer_norm(x, a):
    return F.layer_norm(x[0], a["shape"], x[1], x[2], a["eps"])


def rms_norm(x, a):
    return F.rms_norm(x[0], a["shape"], x[1] if len(x) > 1 else None, a["eps"])


NORMS = [
    layer("softmax", lambda x, a: F.softmax(x[0], a["axis"]), ALONG, FLOAT, torch_names=["softmax"]),
    layer("log_softmax", lambda x, a: F.log_softmax(x[0], a["axis"]), ALONG, FLOAT, torch_names=["log_softmax"]),
    layer("softmin", lambda x, a: F.softmin(x[0], a["axis"]), ALONG, FLOAT),
    layer("layer_norm", layer_norm, [C(f"* {s} u -3 3", f"* {w} u 0.5 2", f"* {w} u -1 1", shape=[int(e) for e in w.split(",")], eps=eps)
        for s, w in (("3,5", "5"), ("2,3,4", "3,4"), ("2,67", "67"), ("7", "7"), ("0,4", "4"), ("2,3,4", "4"), ("19,1030", "1030")) for eps in (1e-5, 0.1)],
        floor=24, slope_floor=96),
    layer("rms_norm", rms_norm, [C(f"* {s} u -3 3", *([f"* {w} u 0.5 2"] if has else []), shape=[int(e) for e in w.split(",")], eps=eps)
        for s, w in (("3,5", "5"), ("2,3,4", "3,4"), ("2,67", "67"), ("7", "7")) for eps, has in ((1e-5, True), (0.1, False))], "f32 f64",
        floor=8, slope_floor=64),
    layer("batch_norm", batch_norm, [
        C(f"* {s} u -3 3", f"* {c} u -1 1", f"* {c} u 0.2 2", *([f"* {c} u 0.5 2", f"* {c} u -1 1"] if w else []), eps=eps)
        for s, c in (("3,5", 5), ("2,3,4", 3), ("2,3,2,2", 3), ("0,2", 2)) for w, eps in ((False, 1e-5), (True, 0.1))], "f32 f64", slope_floor=32),
    layer("batch_norm_training", batch_norm_training, [
        C(f"* {s} u -3 3", f"*c {c} u -1 1", f"*c {c} u 0.2 2", *([f"* {c} u 0.5 2", f"* {c} u -1 1"] if w else []), eps=eps, momentum=m)
        for s, c in (("4,3", 3), ("2,3,4", 3), ("3,2,2,2", 2)) for w, eps, m in ((False, 1e-5, 0.1), (True, 0.1, 0.3))], "f32 f64", floor=24,
        slope_floor=128, first_result_slope=True, vmap=False, torch_names=["_native_batch_norm_legit", "native_batch_norm", "_batch_norm_with_update"]),
    layer("instance_norm_training", instance_norm_training, [
        C(f"* {s} u -3 3", f"*c {c} u -1 1", f"*c {c} u 0.2 2", *([f"* {c} u 0.5 2", f"* {c} u -1 1"] if w else []), eps=eps, momentum=m)
        for s, c in (("4,3,5", 3), ("2,3,4", 3), ("3,2,2,2", 2)) for w, eps, m in ((False, 1e-5, 0.1), (True, 0.1, 0.3))], "f32 f64", floor=24,
        slope_floor=128, first_result_slope=True, vmap=False, torch_names=[]),
    layer("instance_norm", weighted(lambda x, w, b, a: F.instance_norm(x, weight=w, bias=b, eps=a["eps"])), channels(
        ("2,3,4", "1,2,3,3", "2,2,2,2,2"), eps=1e-5) + channels(("2,3,5",), eps=0.1), "f32 f64", floor=24, slope_floor=128),
    layer("group_norm", weighted(lambda x, w, b, a: F.group_norm(x, a["groups"], w, b, a["eps"])), [c for g in (1, 2, 4) for c in channels(
        ("2,4,3", "1,4,2,2", "2,4,5"), groups=g, eps=1e-5)], "f32 f64", floor=24, slope_floor=128, torch_names=[NN + "group_norm", "native_group_norm"]),
    layer("local_response_norm", lrn, [C(f"* {s} u -3 3", size=size, alpha=alpha, beta=beta, k=k) for s in ("2,5,3", "1,4,2,2", "2,3,4") for size, alpha, beta, k
        in ((3, 1e-4, 0.75, 1.0), (2, 0.5, 0.5, 2.0), (5, 1.0, 1.5, 0.5))], "f32 f64"),
    layer("embedding", lambda x, a: F.embedding(x[0].to(torch.int64), x[1], padding_idx=a.get("padding")), [C(f"{d} {i} i 0 5", f"* {t} u -3 3", padding=p)
        for d in ("i64", "i32") for i, t in (("4", "5,3"), ("2,3", "5,4"), ("0", "5,2")) for p in (None, 2)], floor=2),
    layer("embedding_bag", lambda x, a: F.embedding_bag(x[0].to(torch.int64), x[1], mode=a["mode"], per_sample_weights=x[2] if len(x) > 2 else None,
        padding_idx=a.get("padding")), [C(f"{d} {i} i 0 5", f"* {t} u -3 3", mode=mode, padding=p, layout="c") for d in ("i64", "i32") for i, t in (("2,3",
        "5,4"), ("3,1", "5,2")) for mode in ("sum", "mean", "max") for p in (None, 2)] + [C("i64 2,3 i 0 5", "* 5,4 u -3 3", "* 2,3 u -1 1", mode="sum",
        layout="c")], "f32 f64"),
    layer("embedding_bag of offsets", lambda x, a: F.embedding_bag(x[0].to(torch.int64), x[1], x[2].to(torch.int64), mode=a["mode"], include_last_offset=a["last"],
        per_sample_weights=x[3] if len(x) > 3 else None, padding_idx=a.get("padding")), [C(f"{d} 9 i 0 5", "* 5,4 u -3 3", f"{d} 4 v {offsets}", mode=mode, last=last,
        padding=p, layout="c") for d in ("i64", "i32") for mode in ("sum", "mean", "max") for offsets, last in (("0 2 2 5", False), ("0 3 4 9", True)) for p in (None, 2)] + [
        C("i64 9 i 0 5", "* 5,4 u -3 3", "i64 4 v 0 2 2 5", "* 9 u -1 1", mode="sum", last=False, layout="c")], "f32 f64", torch_names=[], vmap=False),
    layer("one_hot", lambda x, a: F.one_hot(x[0].to(torch.int64), a["classes"]).to(torch.float32), [C(f"{d} {i} i 0 5", classes=n) for d in ("i64", "i32")
        for i in ("4", "2,3", "0", "-") for n in (5, 7, 9)], ulp=0, slope=False, differs="f32 unless told otherwise (PyTorch: i64)"),
]


def attention(x, a):
    """A query that sees no key gets zeros."""
    q, k, v = x[:3]
    mask = x[3] if len(x) > 3 else None
    if a.get("grouped"):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = q @ k.mT * (a["scale"] if "scale" in a else 1 / math.sqrt(q.shape[-1]))
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if a.get("causal"):
        seen = seen.tril(scores.shape[-1] - scores.shape[-2] if a["causal"] == "to_end" else 0)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    scores = torch.where(seen, scores, -math.inf)
    empty = torch.isneginf(scores).all(-1, keepdim=True)
    return torch.where(empty, 0, torch.softmax(torch.where(empty, 0, scores), -1)) @ v


def attention_of_torch(x, a):
    return F.scaled_dot_product_attention(x[0], x[1], x[2], x[3] if len(x) > 3 else None, is_causal="causal" in a,
                                          scale=a.get("scale"), enable_gqa=bool(a.get("grouped")))


# Queries, keys and values; masks under which each query sees something.
HEADS = [("4,3,5", "2,6,5", "2,6,3"), ("2,6,3,4", "2,2,5,4", "2,2,5,4"), ("3,4,2", "1,4,2", "1,4,2")]
SOME = "v 1 0 1 1 0 1 1"
ATTENTIONS = [C(*[f"* {s} u -2 2" for s in qkv], *([mask] if mask else []), grouped=True, scale=scale)
              for qkv, masks in ((HEADS[0], ("", "* 3,6 u -3 3", f"bool 3,6 {SOME}", "* 4,3,6 u -3 3", f"bool 4,3,6 {SOME}")),
                                 (HEADS[1], ("* 3,5 u -3 3", f"bool 2,6,3,5 {SOME}", f"bool 3,5 {SOME}", "* 2,1,3,5 u -2 2")),
                                 (HEADS[2], ("* 4,4 u -3 3", f"bool 4,4 {SOME}")))
              for mask, scale in zip(masks, (None, 0.3, None, 1.0, 0.5))]


def multi_head(x, a):
    """Queries, keys (which are the values too), and weight and bias of each projection: (batch, length, features)."""
    q, k = (t.transpose(0, 1) for t in x[:2])
    return F.multi_head_attention_forward(q, k, k, q.shape[-1], a["heads"], torch.cat([x[2], x[4], x[6]]), torch.cat([x[3], x[5], x[7]]), None, None, False, 0.0, x[8],
                                          x[9], training=False, need_weights=False)[0].transpose(0, 1)


def rope(x, a):
    y = x[0]
    features = a["features"] or y.shape[-1]
    half = features // 2
    positions = torch.arange(y.shape[-2], dtype=torch.float64) * a["scale"] + a["offset"] * a["scale"]
    angles = positions.unsqueeze(-1) * a["base"] ** (-2 * torch.arange(half, dtype=torch.float64) / features)
    cos, sin = torch.cos(angles).to(y.dtype), torch.sin(angles).to(y.dtype)
    turned, kept = y[..., :features], y[..., features:]
    first, second = (turned[..., :half], turned[..., half:]) if a["how"] == "halves" else (turned[..., ::2], turned[..., 1::2])
    one, two = first * cos - second * sin, first * sin + second * cos
    whole = torch.cat([one, two], -1) if a["how"] == "halves" else torch.stack([one, two], -1).flatten(-2)
    return torch.cat([whole, kept], -1)


QKV = ("2,3,4", "2,5,4", "2,5,3")
NORMS += [
    layer("scaled_dot_product_attention", attention, [C(*[f"* {s} u -2 2" for s in QKV]), C(*[f"* {s} u -2 2" for s in ("4,4", "4,4", "4,4")], causal="equal"),
        C(*[f"* {s} u -2 2" for s in QKV], causal="to_end"), C(*[f"* {s} u -2 2" for s in ("1,2,3,4", "1,2,3,4", "1,2,3,2")], scale=0.3, causal="equal"),
        C(*[f"* {s} u -2 2" for s in QKV], "* 3,5 u -3 3"), C(*[f"* {s} u -2 2" for s in QKV], "bool 3,5 u 0 1"), C(*[f"* {s} u -2 2" for s in QKV],
        "bool 2,3,5 u -1 1"), C(*[f"* {s} u -2 2" for s in ("4,3,2", "2,3,2", "2,3,2")], grouped=True), C(*[f"* {s} u -2 2" for s in ("17,8", "33,8", "33,5")]), C(*[f"* {s} u -2 2" for s in ("2,3,70,16", "2,3,130,16", "2,3,130,16")], causal="to_end")],
        "f32 f64", floor=16, torch_names=[NN + "scaled_dot_product_attention", "torch.ops.aten._safe_softmax.default",
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu", "torch.ops.aten._flash_attention_forward",
        "torch.ops.aten._efficient_attention_forward"]),
    layer("scaled_dot_product_attention of heads", attention_of_torch, ATTENTIONS + [
        C(*[f"* {s} u -2 2" for s in ("4,5,3", "2,5,3", "2,5,3")], grouped=True, causal="equal"), C(*[f"* {s} u -2 2" for s in QKV])],
        "f32 f64", floor=16, torch_names=[NN + "scaled_dot_product_attention"]),
    layer("multi-head attention", multi_head, [C(f"* 2,{n},8 u -1 1", f"* 2,{m},8 u -1 1", *["* 8,8 u -1 1", "* 8 u -1 1"] * 4, heads=h) for n, m in ((3, 5), (4, 4))
        for h in (1, 2, 4)], "f32 f64", floor=64, slope_floor=128, torch_names=[NN + "multi_head_attention_forward"]),
    layer("rotary_embedding", rope, [C(f"* {s} u -2 2", **{"features": f, "base": 10000, "scale": scale, "offset": offset, "how": how}) for s, f in (("3,4", 0), ("2,5,8", 4), ("7,2", 0)) for how in ("halves",
        "interleaved") for scale, offset in ((1.0, 0), (0.5, 3))], "f32 f64", floor=16, torch_names=[]),
]


def conv(n, transposed=False):
    function = getattr(F, f"conv_transpose{n}d" if transposed else f"conv{n}d")

    def run(x, a):
        more = {"output_padding": a.get("output_padding", 0)} if transposed else {}
        return function(x[0], x[1], x[2] if len(x) > 2 else None, stride=a["stride"], padding=a["padding"], dilation=a["dilation"],
                        groups=a["groups"], **more)
    sizes = {1: [("2,4,9", 3), ("1,4,5", 1), ("3,4,12", 4)], 2: [("2,4,6,7", 3), ("1,4,5,5", 1), ("2,4,4,9", 2), ("2,4,33,30", 5)],
             3: [("1,4,4,5,4", 2), ("2,4,3,3,3", 3)]}[n]
    settings = [{"stride": 1, "padding": 0, "dilation": 1, "groups": 1}, {"stride": 2, "padding": 1, "dilation": 1, "groups": 1},
                {"stride": 1, "padding": 2, "dilation": 2, "groups": 2}, {"stride": 2, "padding": 1, "dilation": 1, "groups": 4}]
    if transposed:
        settings[1] = {"stride": 2, "padding": 1, "dilation": 1, "groups": 1, "output_padding": 1}
        settings[2] = {"stride": 1, "padding": 1, "dilation": 2, "groups": 2}
    configs = []
    for k, (shape, kernel) in enumerate(sizes):
        for j, each in enumerate(settings):
            extents = [int(e) for e in shape.split(",")[2:]]
            if min(extents) + 2 * each["padding"] < each["dilation"] * (kernel - 1) + 1 or (transposed and kernel == 1 and each["padding"]):
                continue
            out = 4
            w = [4, out // each["groups"]] if transposed else [out, 4 // each["groups"]]
            inputs = [f"* {shape} u -2 2", f"* {','.join(map(str, w + [kernel] * n))} u -1 1"] + ([f"* {out} u -1 1"] if (k + j) % 2 else [])
            configs.append(C(*inputs, **each))
    return layer(f"conv{'_transpose' if transposed else ''}{n}d", run, configs, "f32 f64", floor=24, slope_floor=48)


def conv_per_axis(n):
    """With a number for each axis, and paddings that keep the extents."""
    function = getattr(F, f"conv{n}d")

    def run(x, a):
        padding = a["padding"] if "padding" in a else "same"
        return function(x[0], x[1], x[2] if len(x) > 2 else None, stride=a["stride"], padding=padding, dilation=a["dilation"],
                        groups=a["groups"])
    shapes = {1: [("2,4,9", "3"), ("1,4,8", "4")], 2: [("2,4,7,9", "3,2"), ("1,4,6,7", "2,3")], 3: [("1,4,4,5,6", "2,1,3")]}[n]
    strides, paddings, dilations = ([k[:n] for k in each] for each in (
        ([2, 1, 3], [1, 3, 2]), ([1, 0, 2], [0, 2, 1]), ([1, 2, 1], [2, 1, 1])))
    settings = [{"stride": s, "padding": p, "dilation": d} for s in strides for p, d in zip(paddings, dilations)]
    settings += [{"stride": [1] * n, "dilation": d} for d in dilations]
    return layer(f"conv{n}d per axis", run, [C(f"* {shape} u -2 2", f"* 4,{4 // groups},{kernel} u -1 1", *(["* 4 u -1 1"] if groups == 1 else []),
        groups=groups, **each) for shape, kernel in shapes for groups, each in zip((1, 2, 4, 1, 2, 1), settings)], "f32 f64", floor=24,
        slope_floor=48, torch_names=[])


def pool(n, largest):
    function = getattr(F, f"{'max' if largest else 'avg'}_pool{n}d")
    settings = [{"size": 2, "stride": 2, "padding": 0}, {"size": 3, "stride": 2, "padding": 1}, {"size": 3, "stride": 1, "padding": 0},
                {"size": 2, "stride": 3, "padding": 1}]
    shapes = {1: ["2,3,9", "1,2,5", "2,1,12"], 2: ["2,3,6,7", "1,2,5,5"], 3: ["1,2,4,5,4", "1,1,5,3,6"]}[n]
    extra = [{"ceil": c, "dilation": d} for c, d in ((False, 1), (True, 1), (False, 2))] if largest else [
        {"ceil": c, "count": p} for c, p in ((False, True), (True, True), (False, False), (True, False))]

    def run(x, a):
        if largest:
            return function(x[0], a["size"], a["stride"], a["padding"], a["dilation"], a["ceil"])
        return function(x[0], a["size"], a["stride"], a["padding"], a["ceil"], a["count"])
    configs = [C(f"* {s} u -3 3", layout="csct"[(i + j) % 4], **each, **more) for i, s in enumerate(shapes) for j, (each, more) in enumerate(
        [(e, extra[(i + k) % len(extra)]) for k, e in enumerate(settings)] + [(settings[1], m) for m in extra])
        if (each["size"] - 1) * more.get("dilation", 1) < min(int(e) for e in s.split(",")[2:]) + 2 * each["padding"]]
    return layer(f"{'max' if largest else 'avg'}_pool{n}d", run, configs, "f32 f64", ulp=0 if largest else 2, floor=0 if largest else 4, slope_floor=4)


def adaptive(largest):
    def run(x, a):
        n = len(a["size"])
        return getattr(F, f"adaptive_{'max' if largest else 'avg'}_pool{n}d")(x[0], a["size"])
    kind = "max" if largest else "avg"
    return layer(f"adaptive_{kind}_pool", run, [C(f"* {s} u -3 3", size=size, layout="t") for s, size in (("2,3,7", [3]), ("1,2,5", [1]), ("2,1,4", [6]), (
        "2,3,6,7", [2, 3]), ("1,2,5,5", [1, 1]), ("1,1,4,4", [4, 4]), ("1,1,4,5,3", [2, 2, 2]), ("1,2,3,3", [5, 4]))], "f32 f64", floor=4, torch_names=[
        f"{NN}adaptive_{kind}_pool{n}d" for n in (1, 2, 3)])


LAYERS = NORMS + [conv_per_axis(n) for n in (1, 2, 3)] + [conv(n, t) for t in (False, True) for n in (1, 2, 3)] + [pool(n, largest) for largest in (True, False) for n in (1, 2, 3)] + [
    adaptive(True), adaptive(False),
    layer("lp_pool2d", lambda x, a: F.lp_pool2d(x[0], a["p"], a["size"], a["stride"] or None), [C(f"* {s} u 0.1 3", p=p, size=size, stride=stride)
        for s in ("2,3,6,7", "1,2,5,5") for p, size, stride in ((2, 2, 0), (1, 3, 1), (3, 2, 2))], "f32 f64", ulp=16, torch_names=[]),
    layer("unfold", lambda x, a: F.unfold(x[0], a["kernel"], a["dilation"], a["padding"], a["stride"]), [C(f"* {s} u -3 3", kernel=k, dilation=d, padding=p, stride=t)
        for s in ("2,3,6,7", "1,2,5,5") for k, d, p, t in ((2, 1, 0, 1), (3, 1, 1, 2), (2, 2, 1, 1))], "f32 f64", ulp=0),
    layer("fold", lambda x, a: F.fold(x[0], a["size"], a["kernel"], a["dilation"], a["padding"], a["stride"]), [C(f"* {s} u -3 3", size=size, kernel=k, dilation=d,
        padding=p, stride=t) for s, size, k, d, p, t in (("2,12,30", [6, 7], 2, 1, 0, 1), ("1,18,9", [5, 5], 3, 1, 1, 2), ("1,4,25", [5, 5], 2, 2, 1, 1))],
        "f32 f64", floor=4, torch_names=[]),
    layer("pixel_shuffle", lambda x, a: F.pixel_shuffle(x[0], a["factor"]), [C(f"* {s} u -3 3", factor=f) for s, f in (("1,4,2,3", 2), ("2,9,1,2", 3), ("8,2,2", 2), (
        "1,2,3,3", 1))], ulp=0),
    layer("pixel_unshuffle", lambda x, a: F.pixel_unshuffle(x[0], a["factor"]), [C(f"* {s} u -3 3", factor=f) for s, f in (("1,1,4,6", 2), ("2,2,3,3", 3), ("2,4,4", 2))],
        ulp=0),
    layer("channel_shuffle", lambda x, a: F.channel_shuffle(x[0], a["groups"]), [C(f"* {s} u -3 3", groups=g) for s, g in (("1,4,2,3", 2), ("2,6,2", 3), ("1,6,1,2", 2))],
        ulp=0),
]

MODES = {"nearest": "nearest", "nearest_exact": "nearest-exact", "linear": None, "bicubic": "bicubic", "area": "area"}


def interpolate(x, a):
    mode = a["mode"] if a["mode"] != "linear" else {3: "linear", 4: "bilinear", 5: "trilinear"}[x[0].dim()]
    corners = a["centres"] if a["mode"] in ("linear", "bicubic") else None
    size, scale = a.get("size"), a.get("scale")
    return F.interpolate(x[0], size=size, scale_factor=scale, mode=mode.replace("_", "-"), align_corners=corners)


def grid_sample(x, a):
    return F.grid_sample(x[0], x[1], mode="bilinear" if a["mode"] == "linear" else a["mode"], padding_mode=a["padding"], align_corners=a["centres"])


LAYERS += [
    layer(f"interpolate {mode}", interpolate, [C(f"* {s} u -3 3", mode=mode, centres=centres, **to, layout="ctcs"[k % 4]) for k, (s, to) in enumerate((
        ("2,2,5", {"size": [8]}), ("1,2,5", {"size": [3]}), ("1,2,3,4", {"size": [6, 7]}), ("1,1,5,4", {"size": [2, 9]}), ("1,1,4,5", {"scale": [2.0, 1.5]}),
        ("1,2,6,6", {"scale": [0.5, 0.7]}), ("1,1,3,2,3", {"size": [5, 4, 2]}), ("2,1,4", {"scale": [2.6]}), ("1,1,3,3", {"size": [1, 1]})))
        for centres in ((False, True) if mode in ("linear", "bicubic") else (False,)) if not (mode == "bicubic" and s.count(",") != 3)], "f32 f64", ulp=8,
        floor=16, torch_names=[NN + "interpolate"] + ([NN + "upsample_bilinear"] if mode == "linear" else [NN + "upsample_nearest"] if mode == "nearest" else []))
    for mode in MODES
] + [
    layer(f"grid_sample {mode}", grid_sample, [C(f"* {s} u -3 3", f"* {g} u -1.5 1.5", mode=mode, padding=padding, centres=centres) for s, g in (("1,2,4,5", "1,3,3,2"),
        ("2,1,3,3", "2,2,4,2")) for padding in ("zeros", "border", "reflection") for centres in (False, True)], "f32 f64", ulp=8, floor=32, slope_floor=64,
        torch_names=[NN + "grid_sample", "grid_sampler_2d"] if mode == "linear" else []) for mode in ("linear", "nearest", "bicubic")
] + [
    layer("grid_sample of volumes", grid_sample, [C("* 2,1,2,3,4 u -3 3", "* 2,1,2,2,3 u -1.5 1.5", mode=mode, padding=padding, centres=centres)
        for mode in ("linear", "nearest") for padding in ("zeros", "border", "reflection") for centres in (False, True)], "f32 f64", ulp=8, floor=32, slope_floor=64,
        torch_names=["grid_sampler_3d"])
]
LAYERS += [
    layer("adaptive_max_pool_with_indices", lambda x, a: getattr(F, f"adaptive_max_pool{len(a['size'])}d")(x[0], a["size"], return_indices=True), [
        C(f"* {s} u -3 3", size=size) for s, size in (("2,3,7", [3]), ("2,1,4", [6]), ("2,3,6,7", [2, 3]), ("1,1,4,4", [4, 4]), ("1,1,4,5,3", [2, 2, 2]),
        ("1,2,3,3", [5, 4]))], "f32 f64", ulp=0, torch_names=[], vmap=False),
    layer("avg_pool2d with a divisor", lambda x, a: F.avg_pool2d(x[0], 2, 2, 1, ceil_mode=True, divisor_override=a["divisor"]), [C(f"* {s} u -3 3", divisor=d)
        for s in ("2,3,6,7", "2,5,5") for d in (1, 3, -2)], "f32 f64", ulp=2, floor=4, slope_floor=4, torch_names=[]),
    layer("conv2d of one example", lambda x, a: F.conv2d(x[0], x[1], x[2], padding=1), [C(f"* {s} u -2 2", "* 3,2,3,3 u -1 1", "* 3 u -1 1") for s in ("2,5,6", "2,4,4")],
        "f32 f64", floor=24, slope_floor=48, torch_names=[]),
]
ROWS = LAYERS


def with_indices(axes):
    function = getattr(F, f"max_pool{axes}d")
    return lambda x, a: function(x[0], a["size"], a["stride"] or None, a["padding"], a["dilation"], bool(a["ceil"]), True)


def unpooled(axes):
    function = getattr(F, f"max_unpool{axes}d")
    return lambda x, a: function(x[0], x[1], a["size"], a["stride"] or None)


def lp_pooled(axes):
    function = getattr(F, f"lp_pool{axes}d")
    return lambda x, a: function(x[0], a["p"], a["size"], a["stride"] or None)


def fractional(axes):
    function = getattr(F, f"fractional_max_pool{axes}d")
    return lambda x, a: function(x[0], a["size"], a["extent"], _random_samples=x[1])


POOLED = {1: ("2,3,9", "1,2,8"), 2: ("2,3,6,7", "1,2,5,5"), 3: ("1,2,5,4,6", "2,1,4,4,4")}
PLACES = {1: (("1,2,3", "0 3 5 1 2 4"), ("2,1,2", "1 3 0 2")), 2: (("1,1,2,2", "5 2 8 15"), ("2,1,1,2", "0 7 3 4")),
          3: (("1,1,1,2,1", "3 12"), ("1,2,1,1,2", "0 13 5 9"))}
LAYERS += [
    layer(f"max_pool{n}d_with_indices", with_indices(n), [C(f"* {s} u -3 3", size=size, stride=stride, padding=padding, dilation=dilation, ceil=ceil)
        for s in POOLED[n] for size, stride, padding, dilation, ceil in ((2, 0, 0, 1, 0), (3, 1, 1, 1, 0), (2, 2, 1, 1, 1), (2, 1, 0, 2, 0))], "f32 f64", ulp=0,
        first_result_slope=True, torch_names=[])
    for n in (1, 2, 3)
] + [
    layer(f"max_unpool{n}d", unpooled(n), [C(f"* {s} u -3 3", f"i64 {s} v {places}", layout="c", size=2, stride=stride) for s, places in PLACES[n] for stride in (0, 3)],
        "f32 f64", ulp=0, torch_names=[NN + f"max_unpool{n}d"], vmap=False)
    for n in (1, 2, 3)
] + [
    layer(f"lp_pool{n}d", lp_pooled(n), [C(f"* {s} u 0.1 3", p=p, size=size, stride=stride) for s in POOLED[n] for p, size, stride in ((2, 2, 0), (1, 3, 1), (3, 2, 2))],
        "f32 f64", ulp=16, torch_names=[])
    for n in (1, 3)
] + [
    layer(f"fractional_max_pool{n}d", fractional(n), [C(f"* {s} u -3 3", f"*c {samples} u 0 1", size=size, extent=extent) for s, samples in cases for size, extent in ((2, 2),
        (3, 2), (2, 3))], "f32 f64", ulp=0, torch_names=[NN + f"fractional_max_pool{n}d"], vmap=False)
    for n, cases in ((2, (("2,3,7,8", "2,3,2"), ("1,2,6,6", "1,2,2"))), (3, (("1,2,6,5,7", "1,2,3"), ("2,1,5,5,5", "2,1,3"))))
] + [
    layer("interpolate smoothed", lambda x, a: F.interpolate(x[0], size=a["size"], mode="bilinear" if a["mode"] == "linear" else a["mode"], align_corners=False, antialias=True),
        [C(f"* {s} u -3 3", mode=mode, size=size) for mode in ("linear", "bicubic") for s, size in (("1,2,9,8", [4, 3]), ("2,1,7,7", [5, 9]), ("1,1,12,5", [3, 5]),
        ("1,2,6,6", [6, 6]), ("1,2,5,4", [10, 8]), ("1,1,2,3", [6, 12]))], "f32 f64", ulp=8, floor=32, torch_names=["_upsample_bilinear2d_aa"])
]
