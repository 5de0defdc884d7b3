#!/usr/bin/env python3
"""Writes tests/conformance/gradient_table.inc: values and gradients at kinks, bounds, ties, zeros, infinities and NaN, and the
excerpt of it in docs/gradients.md.

    python3 tools/gradient_table.py            # writes both; needs PyTorch (pip install torch numpy)
    python3 tools/gradient_table.py --check    # fails where what is stored is not what PyTorch gives

A row holds the name of a case, its operands, its result, and the gradients by the operands of the sum of the result.
Operands and gradients are separated by ';'. Every row is run by tests/conformance/gradient_table_test.cpp.
"""
import itertools
import pathlib
import sys

import torch
import torch.nn.functional as functional

nan, inf = float("nan"), float("inf")
PROJECT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PAGE = PROJECT / "tests/conformance/gradient_table.inc", PROJECT / "docs/gradients.md"
HEAD = "| | operands | result | gradients |\n|---|---|---|---|\n"

# What the page shows: rows by name and operands.
SHOWN = [
    ("relu", "0"), ("relu", "nan"), ("abs", "0"), ("abs", "nan"), ("sqrt", "0"), ("sqrt", "-1.0"), ("log", "0"), ("rsqrt", "0"), ("reciprocal", "0"),
    ("floor", "0.5"), ("sign", "0"), ("maximum", "1.0; 1.0"), ("maximum", "nan; 1.0"), ("minimum", "0; -0"), ("clamp_numbers", "1.0"),
    ("clamp_numbers", "0.5"), ("clamp_numbers", "nan"), ("clamp", "1.0; -1.0; 1.0"), ("clamp", "2.0; -1.0; 1.0"), ("div", "1.0; 0"), ("pow", "0; 0"),
    ("pow", "0; 1.0"), ("pow", "-1.0; 2.0"), ("rem", "1.0; -inf"), ("amax", "2.0 1.0 2.0"), ("amax", "nan 1.0"), ("prod", "0 2.0 3.0"), ("prod", "0 0 3.0"),
    ("prod", "0 nan 2.0"), ("logsumexp", "-inf 1.0"), ("logsumexp", "-inf -inf"), ("softmax", "-inf -inf"), ("var", "3.0"), ("max_pool2d", "4.0 4.0 4.0 4.0"),
    ("max_pool2d", "nan nan 1.0 2.0"),
]
NAMES = {"clamp_numbers": "clamp(x, -1, 1)", "max_pool2d": "max_pool2d, one window"}

POINTS = [nan, -inf, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, inf]
PAIR_POINTS = [nan, -inf, -1.0, -0.0, 0.0, 1.0, 2.0, inf]

UNARY = {
    # Values pass NaN on, which torch.sign does not.
    "abs": torch.abs, "sign": lambda x: torch.where(x.isnan(), x.detach(), torch.sign(x)), "neg": torch.neg, "square": torch.square, "reciprocal": torch.reciprocal,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "erf": torch.erf,
    "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "maximum": torch.maximum,
    "minimum": torch.minimum, "rem": torch.remainder,
}
# Rows of one axis.
ROWS = [
    [nan, 1.0], [1.0, nan], [nan, nan], [nan, 1.0, nan], [2.0, 2.0], [2.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0], [0.0, -0.0], [-0.0, 0.0],
    [inf, 1.0], [inf, inf], [-inf, 1.0], [-inf, -inf], [-inf, inf], [inf, nan], [-inf, nan, 1.0], [3.0], [nan], [inf], [-inf], [0.0],
    [0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, nan], [0.0, nan, 2.0], [0.0, 0.0, nan], [0.0, inf], [0.0, inf, 2.0], [2.0, inf],
    [2.0, -3.0, 4.0], [0.0, inf, nan, 2.0], [1e30, 1e30], [1.0, 1.0, 1.0],
]
ROW_OPS = {
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "prod": lambda x: x.prod(0), "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(0),
    "var": lambda x: x.var(0, correction=0), "logsumexp": lambda x: x.logsumexp(0),
    # Weighted, as a sum of softmax is constant.
    "softmax": lambda x: (x.softmax(0) * weights(x)), "log_softmax": lambda x: (x.log_softmax(0) * weights(x)),
}
WINDOWS = [
    [[1, 2], [3, 4]], [[4, 4], [4, 4]], [[1, 4], [4, 2]], [[0.0, -0.0], [-0.0, 0.0]], [[nan, 1], [2, 3]], [[1, nan], [2, 3]], [[nan, nan], [1, 2]],
    [[-inf, -inf], [-inf, -inf]], [[-inf, 1], [nan, 2]], [[inf, inf], [1, 2]],
]


def weights(x):
    return torch.arange(1, x.numel() + 1, dtype=x.dtype)


def text(value):
    if value != value:
        return "nan"
    return repr(float(value)) if abs(value) == inf or value else ("-0" if torch.signbit(value) else "0")


def numbers(tensor):
    return " ".join(text(v) for v in tensor.reshape(-1))


def row(name, function, operands):
    tensors = [torch.tensor(o, dtype=torch.float64, requires_grad=True) for o in operands]
    result = function(*tensors)
    gradients = [torch.zeros_like(t) for t in tensors]
    if result.requires_grad:
        found = torch.autograd.grad(result.sum(), tensors, allow_unused=True)
        gradients = [g if g is not None else z for g, z in zip(found, gradients)]
    return '{"%s", "%s", "%s", "%s"},' % (name, "; ".join(numbers(t.detach()) for t in tensors), numbers(result.detach()), "; ".join(map(numbers, gradients)))


def table():
    for name, function in UNARY.items():
        for x in POINTS:
            yield row(name, function, [x])
    for name, function in BINARY.items():
        for a, b in itertools.product(PAIR_POINTS, PAIR_POINTS):
            yield row(name, function, [a, b])
    for a, b in itertools.product(PAIR_POINTS, PAIR_POINTS):
        yield row("where_true", lambda a, b: torch.where(torch.tensor(True), a, b), [a, b])
        yield row("where_false", lambda a, b: torch.where(torch.tensor(False), a, b), [a, b])
    for x in POINTS:
        yield row("clamp_numbers", lambda x: torch.clamp(x, -1.0, 1.0), [x])
        yield row("clamp_empty", lambda x: torch.clamp(x, 1.0, -1.0), [x])
    for x, low, high in itertools.product([nan, -2.0, -1.0, 0.0, 1.0, 2.0], [-1.0, 1.0, nan], [1.0, -1.0, nan]):
        yield row("clamp", torch.clamp, [x, low, high])
    for name, function in ROW_OPS.items():
        for x in ROWS:
            yield row(name, function, [x])
    for window in WINDOWS:
        yield row("max_pool2d", lambda x: functional.max_pool2d(x.reshape(1, 1, 2, 2), 2), [window])
        yield row("avg_pool2d", lambda x: functional.avg_pool2d(x.reshape(1, 1, 2, 2), 2), [window])
    for x in ([1, 2, 2, 1, 2, 2, 1, 1, 1], [1, 1, 1, 1, nan, 1, 1, 1, 1], [3, 3, 3, 3, 3, 3, 3, 3, 3]):
        yield row("max_pool2d_overlapping", lambda x: functional.max_pool2d(x.reshape(1, 1, 3, 3), 2, 1), [x])


def excerpt(rows):
    by_key = {}
    for line in rows:
        name, operands, result, gradients = line[2:-3].split('", "')
        by_key[name, operands] = (result, gradients)
    lines = [f"| `{NAMES.get(name, name)}` | {operands} | {' | '.join(by_key[name, operands])} |" for name, operands in SHOWN]
    return HEAD + "\n".join(lines).replace(".0 ", " ").replace(".0;", ";") + "\n"


def page(text):
    start = text.index(HEAD)
    return text[:start] + excerpt(list(table())) + text[text.index("\n\n", start) + 1:]


def main():
    lines = ["// Written by tools/gradient_table.py from PyTorch. Operands and gradients are separated by ';'."]
    lines += table()
    wanted = {TABLE: "\n".join(lines) + "\n", PAGE: page(PAGE.read_text())}
    if "--check" in sys.argv[1:]:
        for path, text in wanted.items():
            if path.read_text() != text:
                sys.exit(f"{path} is not what PyTorch {torch.__version__} gives: run tools/gradient_table.py")
        return
    for path, text in wanted.items():
        path.write_text(text)
    print(f"{len(lines) - 1} rows in {TABLE}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
