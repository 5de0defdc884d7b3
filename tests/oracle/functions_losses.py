"""Losses."""
import torch
import torch.nn.functional as F

from rows import Config as C
from rows import Row

HOW = ("mean", "sum", "none")
NN = "nn.functional."


def loss(name, run, shapes, fills=("u -2 2", "u -2 2"), attributes=({},), dtypes="f32 f64", extra=(), torch_names=None, **options):
    """Elementwise: two operands, and the reductions in turn."""
    configs = [C(*[f"{'*c' if fill == 'i 0 2' else '*'} {s} {fill}" for s, fill in zip(each, fills)], **attributes[(k + j) % len(attributes)], reduction=how)
               for k, each in enumerate(shapes) for j, how in enumerate(HOW)] + list(extra)
    return Row(name, run, configs, dtypes, torch_names=[NN + name] if torch_names is None else torch_names,
               **{"ulp": 8, "floor": 8} | options)


PAIRS = [("7", "7"), ("3,5", "3,5"), ("2,3,4", "2,3,4"), ("-", "-"), ("33", "33")]
EDGE = [C("* 6 v 0 1 -1 0.5 2 -2", "* 6 v 0 0 0 0 1 -1", reduction="none", dtypes="f32 f64")]
SIGNED = [("7", "7"), ("3,5", "3,5"), ("33", "33")]


def signed(t):
    """1 and -1 of 1 and 0."""
    return 2 * t - 1


def cross_entropy(x, a):
    weight = x[2] if len(x) > 2 else None
    return F.cross_entropy(x[0], x[1].to(torch.int64), weight, ignore_index=a["ignore"], label_smoothing=a["smoothing"], reduction=a["reduction"])


def taxi(a, b):
    return (a - b).abs().sum(-1)


def nll(x, a):
    return F.nll_loss(x[0], x[1].to(torch.int64), x[2] if len(x) > 2 else None, ignore_index=a["ignore"], reduction=a["reduction"])


def ctc(x, a):
    """Of scores: PyTorch's derivative is right for normalised logarithms only."""
    return F.ctc_loss(torch.log_softmax(x[0], -1), x[1], x[2], x[3], a["blank"], a["reduction"], a["zero_infinity"])


def bce(function):
    def run(x, a):
        return function(x[0], x[1], weight=x[2] if len(x) > 2 else None, reduction=a["reduction"])
    return run


ROWS = [
    loss("mse_loss", lambda x, a: F.mse_loss(x[0], x[1], reduction=a["reduction"]), PAIRS, dtypes="f32 f64 f16"),
    loss("l1_loss", lambda x, a: F.l1_loss(x[0], x[1], reduction=a["reduction"]), PAIRS, dtypes="f32 f64 f16", extra=EDGE),
    loss("smooth_l1_loss", lambda x, a: F.smooth_l1_loss(x[0], x[1], beta=a["beta"], reduction=a["reduction"]), PAIRS, attributes=[{"beta": 1.0}, {"beta":
        0.5}, {"beta": 0.0}]),
    loss("huber_loss", lambda x, a: F.huber_loss(x[0], x[1], delta=a["delta"], reduction=a["reduction"]), PAIRS, attributes=[{"delta": 1.0}, {"delta": 0.5}]),
    *[loss(f"{name} with weights", lambda x, a, f=function: f(x[0], x[1], weight=x[2], reduction=a["reduction"]), [(s, s, s) for s, _ in SIGNED], ("u -2 2",
        "u -2 2", "u 0.2 2"), torch_names=[]) for name, function in (("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss), ("huber_loss", F.huber_loss))],
    Row("cross_entropy", cross_entropy, [C(f"* {s} u -3 3", f"{d} {t} i 0 {c}", *([f"*c {c} u 0.5 2"] if w else []), ignore=ignore, smoothing=smooth, reduction=how)
        for k, (s, t, c) in enumerate((("3,5", "3", 5), ("7,2", "7", 2), ("1,4", "1", 4), ("2,3,4", "2,4", 3), ("2,2,2,3", "2,2,3", 2), ("5", "-", 5))) for j, how in enumerate(HOW) for d, w, ignore, smooth in (
            ("i64", False, -100, 0.0), ("i32", True, 1, 0.0), ("i64", True, 1, 0.25), ("i64", False, 0, 0.1))[(k + j) % 2::2]], "f32 f64", ulp=8, floor=8,
        torch_names=[NN + "cross_entropy"]),
    Row("cross_entropy of probabilities", lambda x, a: F.cross_entropy(x[0], x[1], x[2] if len(x) > 2 else None, label_smoothing=a["smoothing"],
        reduction=a["reduction"]), [C(f"* {s} u -3 3", f"* {s} u 0 1", *([f"*c {c} u 0.5 2"] if w else []), smoothing=smooth, reduction=how)
        for s, c in (("3,5", 5), ("2,3,4", 3), ("2,2,2,3", 2), ("5", 5)) for how in HOW for w, smooth in ((False, 0.0), (True, 0.25))], "f32 f64", ulp=8, floor=8,
        torch_names=[]),
    Row("cross_entropy of linear", lambda x, a: F.linear_cross_entropy(x[0], x[1], x[2].to(torch.int64), linear_bias=x[3] if len(x) > 3 else None,
        reduction=a["reduction"]), [C(f"* {n},4 u -2 2", "* 5,4 u -1 1", f"i64 {n} i 0 5", *(["* 5 u -1 1"] if b else []), reduction=how) for n in (3, 7) for how in HOW
        for b in (False, True)], "f32 f64", ulp=8, floor=16, torch_names=[NN + "linear_cross_entropy"]),
    Row("nll_loss", nll, [C(f"* {s} u -3 0", f"{d} {t} i 0 {c}", *([f"*c {c} u 0.5 2"] if w else []), ignore=ignore, reduction=how)
        for k, (s, t, c) in enumerate((("3,5", "3", 5), ("7,2", "7", 2), ("2,3,4", "2,4", 3), ("2,2,2,3", "2,2,3", 2), ("5", "-", 5))) for how in HOW for d, w, ignore in (
            ("i64", False, -100), ("i32", True, 1))], "f32 f64", ulp=8, floor=8, torch_names=[NN + "nll_loss"]),
    loss("binary_cross_entropy", bce(F.binary_cross_entropy), PAIRS, ("u 0.05 0.95", "u 0 1"), extra=[C("* 5 u 0.1 0.9", "* 5 u 0 1", "*c 5 u 0.5 2",
        reduction=how) for how in HOW] + [C("* 4 v 0 1 0 1", "* 4 v 0 1 1 0.5", reduction="none", grad=False)]),
    loss("binary_cross_entropy_with_logits", bce(F.binary_cross_entropy_with_logits), PAIRS, ("u -4 4", "u 0 1"), extra=[C("* 5 u -4 4", "* 5 u 0 1", "*c 5 u 0.5 2",
        reduction=how) for how in HOW] + [C("* 6 v 0 100 -100 1e4 -1e4 3", "* 6 v 0 1 1 0.5 0 1", reduction="none")]),
    Row("binary_cross_entropy_with_logits of positive weights", lambda x, a: F.binary_cross_entropy_with_logits(x[0], x[1], pos_weight=x[2], reduction=a["reduction"]),
        [C(f"* {s} u -4 4", f"* {s} u 0 1", f"*c {w} u 0.5 2", reduction=how) for s, w in (("7", "7"), ("3,5", "5")) for how in HOW], "f32 f64", ulp=8, floor=8,
        torch_names=[]),
    loss("kl_div", lambda x, a: F.kl_div(x[0], x[1] if not a["log"] else torch.log(x[1]), reduction=a["reduction"], log_target=a["log"]), PAIRS[:3] + PAIRS[4:], (
        "u -3 0", "u 0.1 1"), attributes=[{"log": False}, {"log": True}], extra=[C("* 3 u -3 0", "* 3 v 0 1 0.5", log=False, reduction="none")]),
    loss("poisson_nll_loss", lambda x, a: F.poisson_nll_loss(x[0], x[1], log_input=a["log"], full=a["full"], eps=a["eps"], reduction=a["reduction"]), PAIRS, (
        "u 0.1 2", "u 0 4"), attributes=[{"log": log, "full": full, "eps": eps} for log, full, eps in ((True, False, 1e-8), (False, True, 0.25), (True, True, 1e-8),
        (False, False, 1e-8))], ulp=16, floor=32),
    loss("gaussian_nll_loss", lambda x, a: F.gaussian_nll_loss(x[0], x[1], x[2], full=a["full"], eps=a["eps"], reduction=a["reduction"]), [("7", "7", "7"), ("3,5", "3,5",
        "3,5"), ("3,5", "3,5", "3,1")], ("u -2 2", "u -2 2", "u 0.2 2"), attributes=[{"full": False, "eps": 1e-6}, {"full": True, "eps": 0.5}], ulp=16, floor=8),
    loss("hinge_embedding_loss", lambda x, a: F.hinge_embedding_loss(x[0], signed(x[1]), a["margin"], reduction=a["reduction"]), SIGNED, ("u -2 2", "i 0 2"),
         attributes=[{"margin": 1.0}, {"margin": 0.25}]),
    loss("soft_margin_loss", lambda x, a: F.soft_margin_loss(x[0], signed(x[1]), reduction=a["reduction"]), SIGNED, ("u -2 2", "i 0 2")),
    loss("margin_ranking_loss", lambda x, a: F.margin_ranking_loss(x[0], x[1], signed(x[2]), a["margin"], reduction=a["reduction"]), [(s, s, s) for s, _ in SIGNED], (
        "u -2 2", "u -2 2", "i 0 2"), attributes=[{"margin": 0.0}, {"margin": 0.5}]),
    loss("cosine_embedding_loss", lambda x, a: F.cosine_embedding_loss(x[0], x[1], signed(x[2]), a["margin"], reduction=a["reduction"]), [("4,5", "4,5", "4"), ("2,3", "2,3",
        "2"), ("7", "7", "-")], ("u -2 2", "u -2 2", "i 0 2"), attributes=[{"margin": 0.0}, {"margin": 0.5}], ulp=16, floor=16),
    loss("triplet_margin_loss", lambda x, a: F.triplet_margin_loss(x[0], x[1], x[2], a["margin"], a["p"], a["eps"], a["swap"], reduction=a["reduction"]), [(s, s, s) for s in
        ("4,5", "2,3", "7")], ("u -2 2",) * 3, attributes=[{"margin": 1.0, "p": 2, "eps": 1e-6, "swap": False}, {"margin": 2.0, "p": 1, "eps": 0.1, "swap": True}, {
        "margin": 1.0, "p": 3, "eps": 1e-6, "swap": True}], ulp=16, floor=16),
    loss("triplet_margin_with_distance_loss", lambda x, a: F.triplet_margin_with_distance_loss(x[0], x[1], x[2], distance_function=taxi, margin=a["margin"], swap=a["swap"],
        reduction=a["reduction"]), [(s, s, s) for s in ("4,5", "2,3", "7")], ("u -2 2",) * 3, attributes=[{"margin": 1.0, "swap": False}, {"margin": 2.0, "swap": True}]),
    loss("multilabel_soft_margin_loss", lambda x, a: F.multilabel_soft_margin_loss(x[0], x[1], x[2] if len(x) > 2 else None, reduction=a["reduction"]), [("3,5", "3,5"), (
        "2,4", "2,4"), ("3,5", "3,5", "5")], ("u -2 2", "i 0 2", "u 0.5 2")),
    Row("ctc_loss of scores", ctc, [C("* 7,2,5 u -3 3", f"i64 2,3 v {labels}", "i64 2 v 7 6", f"i64 2 v {lengths}", layout="c", blank=blank, reduction=how, zero_infinity=zeroed)
        for labels, blank in (("1 2 2 4 1 3", 0), ("0 2 1 0 1 0", 4)) for lengths in ("3 2", "1 0", "2 3") for how in HOW for zeroed in (False, True)], "f32 f64", ulp=16,
        floor=16, torch_names=[NN + "ctc_loss"], vmap=False),
    Row("multilabel_margin_loss", lambda x, a: F.multilabel_margin_loss(x[0], x[1], reduction=a["reduction"]), [C(f"* {s} u -2 2", f"i64 {s} v {labels}", layout="c",
        reduction=how) for s, labels in (("3,4", "1 0 -1 0 3 -1 2 1 -1 0 0 0"), ("2,3", "0 -1 1 2 1 0"), ("4", "2 0 -1 3")) for how in HOW], "f32 f64", ulp=8, floor=8,
        torch_names=[NN + "multilabel_margin_loss"], vmap=False),
    Row("multi_margin_loss", lambda x, a: F.multi_margin_loss(x[0], x[1].to(torch.int64), p=a["p"], margin=a["margin"], weight=x[2] if len(x) > 2 else None,
        reduction=a["reduction"]), [C(f"* {s} u -2 2", f"i64 {t} i 0 {c}", *([f"*c {c} u 0.5 2"] if w else []), p=p, margin=m, reduction=how) for s, t, c in (("3,5", "3", 5), (
        "4,2", "4", 2)) for how in HOW for p, m, w in ((1, 1.0, False), (2, 0.5, True))], "f32 f64", ulp=8, floor=8, torch_names=[NN + "multi_margin_loss"]),
]
