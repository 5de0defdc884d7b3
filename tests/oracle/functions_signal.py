"""Frequencies and convolutions by Fourier transforms; the transforms themselves are in tests/unit/fft_values.py."""
import numpy as np
import torch
from scipy import signal

from functions_shapes import created, of
from rows import Config as C
from rows import Row

SIZES = [{"n": n, "d": d} for n in (1, 2, 5, 8, 13, 32) for d in (1.0, 0.5, 0.125, 3.0)]


def convolve(x, a):
    """The full convolution by transforms, and its middle: as SciPy, which has no derivatives."""
    axes = a["axes"]
    first, second = ([each.shape[axis] for axis in axes] for each in x)
    size = [m + n - 1 for m, n in zip(first, second)]
    product = torch.fft.fftn(x[0], size, axes) * torch.fft.fftn(x[1], size, axes)
    out = torch.fft.ifftn(product, size, axes).real
    if a["mode"] != "full":
        wanted = first if a["mode"] == "same" else [abs(m - n) + 1 for m, n in zip(first, second)]
        for axis, extent, whole in zip(axes, wanted, size):
            out = out.narrow(axis, (whole - extent) // 2, extent)
    by_scipy = signal.fftconvolve(*[each.detach().to(torch.float64).numpy() for each in x], a["mode"], axes=axes)
    assert np.allclose(by_scipy, out.detach().numpy(), atol=1e-4)
    return out


ROWS = [
    created("fftfreq", lambda a: torch.fft.fftfreq(a["n"], a["d"], dtype=torch.float64).to(of(a)), SIZES, "f32 f64", ulp=1, in_dtype=False, torch_names=["fft.fftfreq"], at_least=30),
    created("rfftfreq", lambda a: torch.fft.rfftfreq(a["n"], a["d"], dtype=torch.float64).to(of(a)), SIZES, "f32 f64", ulp=1, in_dtype=False, torch_names=["fft.rfftfreq"], at_least=30),
    Row("fftconvolve", convolve, [C(f"* {s} u -2 2", f"* {t} u -2 2", axes=axes, mode=mode) for s, t, axes in (("7", "3", [0]), ("9,5", "4,3", [0, 1]), ("3,8", "3,5", [1]), ("33", "17", [0]),
        ("2,6,5", "2,3,2", [1, 2]), ("1", "1", [0]), ("130", "7", [0])) for mode in ("full", "same", "valid")], "f32 f64", ulp=16, floor=256, slope_ulp=64, slope_floor=1024, torch_names=[], at_least=30),
]
