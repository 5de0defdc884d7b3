#!/usr/bin/env python3
"""Reads a file of safetensors that Sinter wrote, and writes two: what it read, and the same Tensors made here.

The file holds under each dtype's name in Sinter 0, 1, 2, ... in the shape (2, 3): for bool whether they are odd, for
c64 times 1 + 2i. Prints the dtypes that it knows. Exits with 77 where a package is missing.

Usage: exchange.py IN OUT MADE     (needs safetensors, and PyTorch or NumPy; without PyTorch bf16 and f8 are left out)
"""
import sys

try:
    import numpy as np
    import safetensors
except ImportError as error:
    sys.exit(print(error) or 77)
try:
    import torch
except ImportError:
    torch = None

WHOLE = {"u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32", "u64": "uint64",
         "i64": "int64"}
FLOATS = {"f16": "float16", "f32": "float32", "f64": "float64"}
OF_TORCH = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def made(name):
    counts = np.arange(6).reshape(2, 3)
    if name == "bool":
        value = counts % 2 == 1
    elif name == "c64":
        value = (counts * (1 + 2j)).astype("complex64")
    elif name in OF_TORCH:
        return torch.from_numpy(counts.astype("float32")).to(getattr(torch, OF_TORCH[name]))
    else:
        value = counts.astype((WHOLE | FLOATS)[name])
    return value if torch is None else torch.from_numpy(value)


def same(found, wanted):
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if torch is None:
        return found.tobytes() == wanted.tobytes()
    return torch.equal(found.contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8))


def main():
    source, back, own = sys.argv[1:]
    if torch is None:
        from safetensors.numpy import save_file
    else:
        from safetensors.torch import save_file
    names = ["bool", "c64", *WHOLE, *FLOATS, *(OF_TORCH if torch is not None else ())]
    with safetensors.safe_open(source, framework="pt" if torch is not None else "np") as file:
        found = {name: file.get_tensor(name) for name in names}
        more = {name: file.get_tensor(name) for name in ("number", "nothing")}
        metadata = file.metadata()
    for name in names:
        if not same(found[name], made(name)):
            sys.exit(f"{name}: Python reads {found[name]}, not {made(name)}")
    if more["number"].shape != () or float(more["number"]) != 7 or tuple(more["nothing"].shape) != (0, 4):
        sys.exit(f"Python reads {more}")
    save_file(found | more, back, metadata=metadata)
    save_file({name: made(name) for name in names}, own)
    print(" ".join(names))


if __name__ == "__main__":
    main()
