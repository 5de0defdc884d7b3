#!/usr/bin/env python3
"""Writes fft_values.hpp: Fourier transforms and their gradients by PyTorch, each as two numbers: a weighted sum of the
result, and a weighted sum of that sum's gradient. fft_test.cpp makes the same operands and weights.

Usage: fft_values.py > fft_values.hpp
"""
import itertools

import torch

torch.set_default_dtype(torch.float64)
NORMS = ("backward", "ortho", "forward")


def numbers(count, step, modulus):
    """The numbers that `numbers` of fft_test.cpp gives."""
    return (torch.arange(count) * step + 11) % modulus / (modulus / 4) - 2


def operand(shape, is_complex):
    count = torch.Size(shape).numel()
    x = torch.complex(numbers(count, 37, 101), numbers(count, 53, 97)) if is_complex else numbers(count, 37, 101)
    return x.reshape(shape).requires_grad_()


def weighed(y, first, second):
    """Sum of the parts of y times weights."""
    flat = torch.view_as_real(torch.resolve_conj(y)) if y.is_complex() else y[..., None]
    out = (flat[..., 0].reshape(-1) * numbers(y.numel(), *first)).sum()
    return out + (flat[..., 1].reshape(-1) * numbers(y.numel(), *second)).sum() if y.is_complex() else out


def row(name, function, shape, is_complex, *arguments):
    x = operand(shape, is_complex)
    loss = weighed(function(x), (29, 89), (31, 83))
    loss.backward()
    slope = weighed(x.grad, (41, 79), (43, 73))
    lists = " ".join(",".join(map(str, each)) or "-" for each in (shape, *arguments))
    print(f"{name} {lists} {loss.item()!r} {slope.item()!r}")


ONE = [((7,), (), -1), ((8,), (), 0), ((1,), (), -1), ((2, 5), (), 0), ((3, 6), (4,), -1), ((3, 6), (9,), 1),
       ((2, 3, 4), (), 1), ((2, 4, 3), (5,), -2), ((97,), (), 0), ((2, 37), (), -1), ((30,), (31,), -1),
       ((2, 48), (), -1)]
TWO = [((3, 4), (), ()), ((5, 5), (), ()), ((2, 3, 4), (), ()), ((1, 6), (), ()), ((4, 2), (), ()),
       ((3, 4, 5), (2, 6), (0, 2)), ((3, 4, 5), (), (0, 1)), ((3, 4), (5, 3), ()), ((3, 4), (), (1, 0)),
       ((2, 16, 11), (), ()), ((6, 7), (-1, 8), ()), ((2, 3, 2, 3), (3, 4), (-3, -1))]
MANY = [((3, 4), (), ()), ((5,), (), ()), ((2, 3, 4), (), ()), ((1, 6), (), ()), ((4, 2), (), ()),
        ((3, 4, 5), (2, 6), (0, 2)), ((3, 4, 5), (), (0, 1, 2)), ((3, 4), (5,), ()), ((3, 4), (), (1, 0)),
        ((2, 6, 3, 5), (), (3, 0)), ((6, 7), (-1, 8), ()), ((2, 3, 2, 3), (3, 4, 2), (-3, -1, 0))]


def transforms():
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft"):
        for (shape, n, dim), norm in itertools.product(ONE, range(3)):
            if name in ("irfft", "hfft") and not n and shape[dim] == 1:
                n = (1,)
            row(name, lambda x: getattr(torch.fft, name)(x, n=n[0] if n else None, dim=dim, norm=NORMS[norm]), shape,
                name not in ("rfft", "ihfft"), n, (dim,), (norm,))
    for kind, cases in (("2", TWO), ("n", MANY)):
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            for (shape, s, dim), norm in itertools.product(cases, range(3)):
                function = getattr(torch.fft, name + kind)
                axes = {"dim": dim} if dim else {}
                row(name + kind, lambda x: function(x, s=s or None, norm=NORMS[norm], **axes), shape,
                    name not in ("rfft", "ihfft"), s, dim, (norm,))
    for name in ("fftshift", "ifftshift"):
        for shape, dim in itertools.product([(5,), (6,), (1, 4), (3, 4), (7, 2), (2, 3, 5), (1,), (2, 9)], [(), (0,), (-1,), (-1, 0), (0,)]):
            if len(shape) > 1 or len(dim) < 2:
                row(name, lambda x: getattr(torch.fft, name)(x, dim=dim or None), shape, True, (), dim, (0,))


def frames():
    for (n_fft, hop, win, samples), center, normalized in itertools.product(
            [(4, 1, 4, 9), (8, 2, 8, 20), (8, 3, 6, 17), (5, 2, 5, 14), (6, 2, 3, 12), (16, 4, 16, 40), (7, 1, 6, 11), (10, 5, 8, 25)],
            (True, False), (True, False)):
        window = torch.hann_window(win) + 0.1
        for name, shape in (("stft", (samples,)), ("stft", (2, samples))):
            def function(x):
                return torch.stft(x, n_fft, hop, win, window, center, "reflect", normalized, True, return_complex=True)
            row(name, function, shape, False, (n_fft, hop, win), (int(center), int(normalized)), (0,))
        count = torch.stft(torch.ones(samples), n_fft, hop, win, window, center, return_complex=True).shape[-1]
        for shape in ((n_fft // 2 + 1, count), (2, n_fft // 2 + 1, count)):
            if not center and win < n_fft:
                continue  # the ends are covered by no window
            def function(x):
                return torch.istft(x, n_fft, hop, win, window, center, normalized, True)
            row("istft", function, shape, True, (n_fft, hop, win), (int(center), int(normalized)), (0,))


print(f'''// Fourier transforms and their gradients by PyTorch {torch.__version__.split('+')[0]}: written by fft_values.py. Each line: the function, shape,
// lengths (stft: n_fft, hop_length, win_length), axes (stft: center, normalized), norm, value, gradient.
#pragma once

inline constexpr const char* fft_values = R"(''', end="")
transforms()
frames()
print(')";')
