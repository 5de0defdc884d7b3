#!/usr/bin/env python3
"""Convolutions of f32 and their gradients beside PyTorch's (oneDNN) on the same numbers, in turns.

    bench/convolutions/compare.py PROGRAM [--before PROGRAM] [--rows REGEX] [--kinds forward,relu,x,w] [--threads 2]

A PROGRAM is convolutions.cpp, which CMake builds as bench_convolutions, in a process of its own.
Each round lets ours, the code before and PyTorch's run for some milliseconds each; what is printed are medians over the
rounds of ratios of the same round: above 1, ours is faster. Results are compared first.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np
import torch

# name, [one, several] images, channels, extent, outputs, taps, stride, padding, dilation, groups, transposed
ROWS = []


def add(name, many, channels, extent, outputs, taps, stride=1, padding=0, dilation=1, groups=1, is_transposed=False):
    for images in (1, many):
        label = f"{name} x{images}"
        ROWS.append((label, images, channels, extent, outputs, taps, stride, padding, dilation, groups, is_transposed))


def add_image(window, channels, size, outputs, stride=1, groups=1, name=None, many=8, dilation=1):
    reach = (window - 1) * dilation // 2
    label = name or f"{window}x{window}{f's{stride}' if stride > 1 else ''} {channels}x{size}x{size} {outputs}"
    add(label, many, channels, (size, size), outputs, (window, window), stride, reach, dilation, groups)


def add_depthwise(channels, size, stride=1):
    label = f"dw3x3{f's{stride}' if stride > 1 else ''} {channels}x{size}x{size} {channels}"
    add_image(3, channels, size, channels, stride, channels, label)


def add_rows():
    add_image(7, 3, 224, 64, 2)
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        add_image(3, channels, size, channels)
    add_image(3, 128, 56, 128, 2)
    add_image(3, 512, 14, 512, 2)
    for channels, size, outputs in ((64, 56, 256), (256, 56, 64), (1024, 14, 256), (512, 7, 2048)):
        add_image(1, channels, size, outputs)
    add_image(1, 256, 56, 512, 2)
    add_image(3, 3, 224, 32, 2)
    for channels, size, stride in ((32, 112, 1), (64, 112, 2), (256, 28, 1), (512, 14, 1), (1024, 7, 1)):
        add_depthwise(channels, size, stride)
    add_image(1, 32, 112, 64)
    add_image(3, 3, 32, 16)
    add("1d k5 64x4096 64", 4, 64, (4096,), 64, (5,), 1, 2)
    add("1d k3 dil4 128x2048 128", 4, 128, (2048,), 128, (3,), 1, 4, 4)
    add("1d k9 s2 32x8192 64", 4, 32, (8192,), 64, (9,), 2, 4)
    add("1d dw k7 256x1024 256", 4, 256, (1024,), 256, (7,), 1, 3, 1, 256)
    add("3d 3x3x3 16x16x32x32 32", 4, 16, (16, 32, 32), 32, (3, 3, 3), 1, 1)
    add("3d 3x3x3 s2 32x16x28x28 64", 4, 32, (16, 28, 28), 64, (3, 3, 3), 2, 1)
    add_image(3, 64, 56, 64, name="2d dil2 64x56x56 64", many=4, dilation=2)
    add_image(3, 128, 28, 128, name="2d dil4 128x28x28 128", many=4, dilation=4)
    add_image(3, 128, 28, 128, groups=4, name="2d groups4 128x28x28 128", many=4)
    add_image(3, 256, 28, 256, groups=32, name="2d groups32 256x28x28 256", many=4)
    add("T2d k4 s2 64x28x28 32", 4, 64, (28, 28), 32, (4, 4), 2, 1, is_transposed=True)
    add("T2d k2 s2 128x28x28 64", 4, 128, (28, 28), 64, (2, 2), 2, 0, is_transposed=True)
    add("T2d k3 s1 64x56x56 64", 4, 64, (56, 56), 64, (3, 3), 1, 1, is_transposed=True)
    add("T1d k8 s4 64x1024 32", 4, 64, (1024,), 32, (8,), 4, 2, is_transposed=True)
    add("T3d k2 s2 32x8x16x16 16", 4, 32, (8, 16, 16), 16, (2, 2, 2), 2, 0, is_transposed=True)


KINDS = {"forward": 0, "relu": 1, "x": 2, "w": 3}


class Ours:
    """A program of convolutions.cpp, which runs when it is told to."""

    def __init__(self, path, threads, command):
        self.command = command
        self.program = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.ask("threads", threads)

    def ask(self, *words):
        self.program.stdin.write(" ".join(map(str, words)) + "\n")
        return float(self.program.stdout.readline())

    def make(self, row, kind, folder):
        _, images, channels, extent, outputs, taps, stride, padding, dilation, groups, is_transposed = row
        axes = len(extent)

        def aligned(numbers, filler):
            return [filler] * (3 - axes) + list(numbers)

        numbers = [axes, images, channels, outputs, groups, int(is_transposed), *aligned(extent, 1), *aligned(taps, 1)]
        numbers += [*aligned([stride] * axes, 1), *aligned([padding] * axes, 0), *aligned([dilation] * axes, 1)]
        self.ask("row", *numbers, KINDS[kind], folder)

    def run(self, calls):
        return self.ask(self.command, calls)


def peer_call(row, kind, x, w, b, gradient):
    _, _, _, extent, outputs, _, stride, padding, dilation, groups, is_transposed = row
    axes = len(extent)
    numbers = [[stride] * axes, [padding] * axes, [dilation] * axes, is_transposed, [0] * axes, groups]
    forward, backward = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
    if kind == "forward":
        return lambda: forward(x, w, None, *numbers)
    if kind == "relu":
        return lambda: torch.relu_(forward(x, w, b, *numbers))
    which = 0 if kind == "x" else 1
    mask = [which == 0, which == 1, False]
    return lambda: backward(gradient, x, w, None, *numbers, mask)[which]


def seconds_of(call, calls, clock):
    begin = clock()
    for _ in range(calls):
        call()
    return clock() - begin


def array(folder, name, shape):
    return torch.from_numpy(np.fromfile(f"{folder}/{name}", np.float32).reshape(shape))


def compare(ours, before, row, kind, options):
    name, images, channels, extent, outputs, taps, stride, padding, dilation, groups, is_transposed = row
    weight = (channels, outputs // groups, *taps) if is_transposed else (outputs, channels // groups, *taps)
    after = [
        (e - 1) * stride - 2 * padding + dilation * (k - 1) + 1
        if is_transposed
        else (e + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for e, k in zip(extent, taps)
    ]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if before is not None:
            before.make(row, kind, folder)
        ours.make(row, kind, folder)
        shapes = [(images, channels, *extent), weight, (outputs,), (images, outputs, *after)]
        call = peer_call(row, kind, *(array(folder, i, shape) for i, shape in enumerate(shapes)))
        wanted = call()
        found = array(folder, "result", wanted.shape)
    difference = float((wanted - found).abs().max() / wanted.abs().max())
    if not difference < 2e-5:
        print(f"{name} {kind}: results differ by {difference}")
    clock = time.process_time if options.busy else time.perf_counter
    turns = [ours.run, *([before.run] if before is not None else []), lambda calls: seconds_of(call, calls, clock)]
    time.sleep(0.02)
    counts = [max(1, int(options.milliseconds * 1e-3 / max((turn(2), turn(2))[1] / 2, 1e-7))) for turn in turns]
    time.sleep(0.02)
    ratios, times = [], []
    for _ in range(options.rounds):
        took = []
        for turn, count in zip(turns, counts):
            turn(1)  # its threads wake up, its data come back
            took.append(turn(count) / count)
        time.sleep(0.02)  # PyTorch's threads spin for a while when there is nothing left for them
        times.append(took)
        ratios.append([took[-1] / t for t in took[:-1]])
    median = [statistics.median(column) for column in zip(*ratios)]
    own = statistics.median(t[0] for t in times)
    theirs = statistics.median(t[-1] for t in times)
    old_text = f"  before {median[1]:5.2f}" if before is not None else ""
    text = f"{name:30} {kind:8} {median[0]:5.2f}{old_text}   ours {own * 1e3:9.4f} ms, PyTorch {theirs * 1e3:9.4f}"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--before")
    parser.add_argument("--rows", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", action="store_true", help="processor time, for one thread on a busy machine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--milliseconds", type=float, default=10)
    options = parser.parse_args()
    add_rows()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    command = "busy" if options.busy else "run"
    ours = Ours(options.program, options.threads, command)
    before = Ours(options.before, options.threads, command) if options.before else None
    for row in ROWS:
        for kind in options.kinds.split(","):
            if re.search(options.rows, f"{row[0]} {kind}"):
                compare(ours, before, row, kind, options)


if __name__ == "__main__":
    main()
