#!/usr/bin/env python3
"""The rows of bench/accuracy_reductions.cpp by PyTorch, from the same numbers: name, terms, errors in f32 and in f64.

    python3 bench/accuracy_reductions.py [cuda]

Given the output of the other program (--beside FILE), prints both side by side as a table in Markdown. On a GPU, products
are in full f32.
"""
import argparse

import numpy as np
import torch

torch.set_float32_matmul_precision("highest")


def uniform(seed, shape):
    """Uniform in [0, 1) with 24 bits (splitmix64)."""
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(seed << 40) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float64) * 2.0**-24).reshape(shape)


def exact_sum(terms, axis):
    """Pairwise in extended precision: exact for our purpose."""
    terms = np.moveaxis(terms.astype(np.longdouble), axis, 0)
    while len(terms) > 1:
        if len(terms) % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[:1])])
        terms = terms[0::2] + terms[1::2]
    return terms[0]


def exact_product(a, b):
    return np.stack([exact_sum(row[:, None].astype(np.longdouble) * b, 0) for row in a])


def exact_var(x, axis):
    count = x.shape[axis]
    mean = exact_sum(x, axis) / count
    return exact_sum((x.astype(np.longdouble) - np.expand_dims(mean, axis)) ** 2, axis) / count


def rows():
    """Name, number of terms, inputs, function of tensors, exact result."""
    for k in (256, 1024, 4096, 16384):
        a, b = uniform(1, (64, k)), uniform(2, (k, 64))
        yield "matmul", k, (a, b), lambda x, y: x @ y, exact_product(a, b)
    for k in (4096, 50176):
        a, b = uniform(3, (k, 64)), uniform(4, (k, 64))
        yield "A^T B", k, (a, b), lambda x, y: x.t() @ y, exact_product(a.T, b)
    a, b = uniform(5, (64, 4096)), uniform(6, (64, 4096))
    yield "A B^T", 4096, (a, b), lambda x, y: x @ y.t(), exact_product(a, b.T)
    a, v, b = uniform(7, (512, 4096)), uniform(8, (4096,)), uniform(9, (4096, 512))
    yield "matrix vector", 4096, (a, v), lambda x, y: x @ y, exact_product(a, v[:, None])[:, 0]
    yield "vector matrix", 4096, (v, b), lambda x, y: x @ y, exact_product(v[None], b)[0]
    for k in (10000, 1000000):
        a, b = uniform(10, (k,)), uniform(11, (k,))
        yield "dot", k, (a, b), lambda x, y: x @ y, exact_sum(a.astype(np.longdouble) * b, 0)
    x, w = uniform(12, (1, 512, 16, 16)), uniform(13, (32, 512, 3, 3))
    patches = np.stack([x[0, :, i : i + 14, j : j + 14] for i in range(3) for j in range(3)], 1).reshape(4608, 196)
    yield "conv 3x3x512", 4608, (x, w), torch.nn.functional.conv2d, exact_product(w.reshape(32, 4608), patches).reshape(1, 32, 14, 14)
    for shape in ((64, 1024), (1024, 256), (4096, 64), (100000, 16)):
        x = uniform(14, shape)
        yield "column sums", shape[0], (x,), lambda t: t.sum(0), exact_sum(x, 0)
        yield "var of columns", shape[0], (x,), lambda t: t.var(0, correction=0), exact_var(x, 0)
    y, z, u = uniform(15, (64, 4096)), uniform(16, (1000000,)), uniform(17, (8, 64, 28, 28))
    yield "row sums", 4096, (y,), lambda t: t.sum(1), exact_sum(y, 1)
    yield "var of rows", 4096, (y,), lambda t: t.var(1, correction=0), exact_var(y, 1)
    yield "sum of all", 1000000, (z,), lambda t: t.sum(), exact_sum(z, 0)
    yield "var of all", 1000000, (z,), lambda t: t.var(correction=0), exact_var(z, 0)
    channels = np.moveaxis(u, 1, 0).reshape(64, -1)
    yield "sum over a batch and an image", 6272, (u,), lambda t: t.sum((0, 2, 3)), exact_sum(channels, 1)


def worst(dtype, device, inputs, function, expected):
    found = function(*(torch.from_numpy(x).to(dtype).to(device) for x in inputs)).cpu().numpy().astype(np.longdouble)
    return float(np.max(np.abs(found - expected) / (torch.finfo(dtype).eps * expected)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--beside", help="output of bench_accuracy_reductions")
    options = parser.parse_args()
    ours = {}
    if options.beside:
        for line in open(options.beside):
            name, terms, *errors = line.split()
            ours[name.replace("~", " "), int(terms)] = [float(error) for error in errors]
        print("| | terms | f32 | PyTorch | f64 | PyTorch |\n|---|---|---|---|---|---|")
    for name, terms, inputs, function, expected in rows():
        single, double = (worst(dtype, options.device, inputs, function, expected) for dtype in (torch.float32, torch.float64))
        if options.beside:
            own = ours[name, terms]
            print(f"| {name} | {terms} | {own[0]:.2f} | {single:.2f} | {own[1]:.2f} | {double:.2f} |", flush=True)
        else:
            print(f"{name.replace(' ', '~')} {terms} {single:.2f} {double:.2f}", flush=True)


main()
