#!/usr/bin/env python3
"""Writes the files of this folder, which tests/unit/io_test.cpp reads: each holds 0, 1, 2, ... in the shape (2, 3).

Usage: make.py     (needs NumPy, PyTorch, safetensors and gguf)
"""
import pathlib

import numpy as np
import torch
from numpy.lib import format as npy_format
from safetensors.torch import save_file

folder = pathlib.Path(__file__).parent
counts = np.arange(6).reshape(2, 3)
for code in "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
    np.save(folder / f"{code}.npy", counts.astype(code))
for code in "c8 c16 >c8".split():
    np.save(folder / f"{code.replace('>', 'big_endian_')}.npy", (counts * (1 + 2j)).astype(code))
np.save(folder / "b1.npy", counts % 2 == 1)
np.save(folder / "fortran.npy", np.asfortranarray(counts.astype("f4")))
np.save(folder / "big_endian.npy", counts.astype(">f4"))
for version in (2, 3):
    with open(folder / f"version{version}.npy", "wb") as file:
        npy_format.write_array(file, counts.astype("f4"), version=(version, 0))
np.savez(folder / "arrays.npz", first=counts.astype("f4"), second=counts)
np.savez_compressed(folder / "compressed.npz", first=counts)
dtypes = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]
tensors = {str(dtype).split(".")[1]: torch.from_numpy(counts).to(dtype) for dtype in dtypes}
save_file(tensors, folder / "dtypes.safetensors", metadata={"made by": "PyTorch"})


class Call:
    """An object whose pickle calls a function."""

    def __reduce__(self):
        return print, ("this must not run",)


floats = torch.from_numpy(counts).to(torch.float32)
linear = torch.nn.Linear(3, 2)
with torch.no_grad():
    linear.weight.copy_(floats)
    linear.bias.zero_()
torch.save({"model": linear.state_dict(), "list": [floats.to(torch.bfloat16), linear.weight], "step": 7, "rate": 0.5,
            "name": "net", "none": None, "transposed": floats.t().contiguous().t(), "large": 2**40,
            "part": torch.arange(10)[4:6], "expanded": torch.ones(3, 1).expand(3, 2), "flags": floats > 2},
           folder / "nested.pt")
torch.save({"weight": floats, "other": Call()}, folder / "calls.pt")
whole = torch.from_numpy(counts)
torch.save({"u16": whole.to(torch.uint16), "u32": whole.to(torch.uint32), "u64": whole.to(torch.uint64),
            "f8e4m3": floats.to(torch.float8_e4m3fn), "f8e5m2": floats.to(torch.float8_e5m2).T}, folder / "dtypes.pt")

import gguf  # noqa: E402
from gguf import quants  # noqa: E402

writer = gguf.GGUFWriter(folder / "model.gguf", "test")
writer.add_uint32("count", 7)
writer.add_float32("half", 0.5)
writer.add_array("words", ["a", "b\"c"])
for code in "i1 i2 i4 i8 f2 f4 f8".split():
    writer.add_tensor(code, counts.astype(code))
blocks = np.linspace(-2, 2, 128, dtype="f4").reshape(2, 64)
for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
    packed = quants.quantize(blocks, kind)
    writer.add_tensor(kind.name, packed, raw_dtype=kind)
    np.save(folder / f"{kind.name}.npy", quants.dequantize(packed, kind))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

# Every quantised type: blocks of random bytes, but for their f16 scales, and what the package makes of them.
bytes_of_scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
                   "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
random = np.random.default_rng(7)
writer = gguf.GGUFWriter(folder / "quantized.gguf", "test")
values = {}
for name, scales in bytes_of_scales.items():
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    packed = random.integers(0, 256, (2, 512 // elements, size), dtype=np.uint8)
    for at in scales:
        packed[:, :, at:at + 2] = random.uniform(-0.1, 0.1, packed.shape[:2] + (1,)).astype("f2").view(np.uint8)
    packed = packed.reshape(2, -1)
    writer.add_tensor(name, packed, raw_dtype=kind)
    values[name] = quants.dequantize(packed, kind).astype("f4")
writer.add_tensor("BF16", counts.astype("f4").view("u4").astype("u4").__rshift__(16).astype("u2").view(np.uint8),
                  raw_dtype=gguf.GGMLQuantizationType.BF16)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
with open(folder / "quantized.expected", "wb") as file:   # no .npz, which the fuzzer would begin with
    np.savez(file, **values)
