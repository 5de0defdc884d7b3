"""How cases are written: inputs as recipes that cases.hpp repeats number by number, results as elements and sums.

A line of a case is `inputs ; attributes ; results ; gradients`, items of a list have ` | ` between them.

input:  dtype shape layout seed recipe, as in `f32 3,4 t 7 u -2 2`; a shape of no axes is `-`
result: dtype shape elements, or for more than 8 of them `~ sum magnitude` and 5 elements. The sum is of the finite
        elements, each times a weight; the magnitude is that of their absolute values. `a/b` stands for either.
gradient: as a result; `-` for inputs that have none

Knows nothing of functions.
"""
import math

import numpy as np
import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
    "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32, "u32": torch.uint32,
    "i64": torch.int64, "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = ("f32", "f64", "f16", "bf16")
ALL_ELEMENTS = 8   # so many are written, and of more the samples
SAMPLES = 5


def unit_values(seed, count):
    """`count` numbers in [0, 1), multiples of 2^-22, by splitmix64 (Steele, Lea and Flood 2014)."""
    position = np.arange(count, dtype=np.uint64)
    z = np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % (1 << 64)) + position * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (((z ^ (z >> np.uint64(31))) >> np.uint64(42)) / (1 << 22)).tolist()


def numbers_of(recipe, shape, seed):
    """The numbers of an input, in row-major order, before they are rounded to its dtype. ` * c r k` behind a recipe: the number
    in row i and column j times 2^(c + r i + k j)."""
    recipe, *scales = recipe.split(" * ")
    numbers = plain_numbers_of(recipe, shape, seed)
    if not scales:
        return numbers
    constant, by_row, by_column = map(int, scales[0].split())
    n, m = shape[-1], shape[-2]
    return [math.ldexp(x, constant + by_row * (i // n % m) + by_column * (i % n)) for i, x in enumerate(numbers)]


def of_singular_values(values, rows, columns):
    """A matrix with these, over and over: reflections by the vector of ones on both sides, exact where both extents are
    powers of two; a square one is symmetric, and these are its eigenvalues."""
    assert rows & (rows - 1) == 0 and columns & (columns - 1) == 0

    def reflection(n, i, j):
        return (1 if i == j else 0) - 2 / n

    matrix = []
    for i in range(rows):
        for j in range(columns):
            total = 0.0   # sum() would compensate, which C++ does not
            for k in range(min(rows, columns)):
                total += reflection(rows, i, k) * float(values[k % len(values)]) * reflection(columns, k, j)
            matrix.append(total)
    return matrix


def plain_numbers_of(recipe, shape, seed):
    count = math.prod(shape)
    kind, *rest = recipe.split()
    if kind == "v":                       # these values, over and over
        return [float(rest[i % len(rest)]) for i in range(count)]
    if kind == "h":                       # Hilbert's matrix, 1 / (row + column + rest)
        n, m = shape[-1], shape[-2]
        return [1 / (i // n % m + i % n + float(rest[0])) for i in range(count)]
    if kind == "e":
        matrix = of_singular_values(rest, shape[-2], shape[-1])
        return [matrix[i % len(matrix)] for i in range(count)]
    low, high = float(rest[0]), float(rest[1])
    units = unit_values(seed, count)
    if kind == "u":                       # uniform
        return [low + (high - low) * u for u in units]
    if kind == "i":                       # whole numbers, without the upper bound
        return [math.floor(low + (high - low) * u) for u in units]
    if kind == "a":                       # ascending along the last axis
        n = shape[-1] if shape else 1
        return [low + (high - low) * ((i % n) + u) / n for i, u in enumerate(units)]
    n = shape[-1]
    if kind == "s":                       # square matrices: symmetric, with n added to the diagonal
        for i in range(count):
            row, column = i // n % n, i % n
            source = i - row * n - column + min(row, column) * n + max(row, column)
            units[i] = units[source]
    assert kind in "sd"                   # d: with n added to the diagonal
    m = shape[-2]
    return [low + (high - low) * u + (n if i // n % m == i % n else 0) for i, u in enumerate(units)]


def repeated_axis(shape):
    """The axis along which the layout `e` holds one index for all: the first with more than one."""
    return next((axis for axis, extent in enumerate(shape) if extent > 1), -1)


def as_dtype(numbers, shape, dtype):
    if dtype == "bool":
        return torch.tensor([x > 0.5 for x in numbers], dtype=torch.bool).reshape(shape)
    if dtype in FLOATS:
        return torch.from_numpy(np.array(numbers, dtype=np.float64).reshape(shape)).to(DTYPES[dtype])
    return torch.from_numpy(np.array([int(math.floor(x)) for x in numbers], dtype=np.int64).reshape(shape)).to(
        DTYPES[dtype])


def make_input(dtype, shape, layout, seed, recipe):
    value = as_dtype(numbers_of(recipe, shape, seed), shape, dtype)
    axis = repeated_axis(shape)
    if layout == "e" and axis >= 0:
        value = value.narrow(axis, 0, 1).expand(shape).clone()
    return value


def text_of_shape(shape):
    return ",".join(str(extent) for extent in shape) if len(shape) else "-"


def text_of_input(dtype, shape, layout, seed, recipe):
    return f"{dtype} {text_of_shape(shape)} {layout} {seed} {recipe}"


def text_of_number(x, dtype):
    if dtype not in FLOATS:
        return str(int(x))
    if x != x:
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    text = repr(x) if dtype == "f64" else f"{x:.{9 if dtype == 'f32' else 7}g}"
    text = text.removesuffix(".0")
    return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def rounded(x, dtype):
    return x if dtype not in FLOATS else float(torch.tensor(x, dtype=torch.float64).to(DTYPES[dtype]))


def kind_of(x):
    return "nan" if x != x else "inf" if math.isinf(x) else "zero" if x == 0 else "number"


def text_of_element(exact, native, dtype):
    """An element, and what computing in its dtype gives where that is another kind of number."""
    text = text_of_number(exact, dtype)
    if native is None or dtype not in FLOATS or kind_of(rounded(exact, dtype)) == kind_of(native):
        return text
    return text + "/" + text_of_number(native, dtype)


def text_of_result(value, dtype, native=None):
    """`value` is what is right, and of the same shape `native` what the dtype's own arithmetic gives."""
    flat = value.detach().reshape(-1).tolist()
    other = [None] * len(flat) if native is None else native.detach().reshape(-1).to(value.dtype).tolist()
    head = f"{dtype} {text_of_shape(value.shape)}"
    if len(flat) <= ALL_ELEMENTS:
        return " ".join([head] + [text_of_element(x, y, dtype) for x, y in zip(flat, other)])
    total = magnitude = 0.0
    for x, weight in zip(flat, unit_values(3, len(flat))):
        if math.isfinite(x) and kind_of(rounded(x, dtype)) != "inf":
            total += x * (0.5 + weight)
            magnitude += abs(x) * (0.5 + weight)
    picked = [k * (len(flat) - 1) // (SAMPLES - 1) for k in range(SAMPLES)]
    return " ".join([head, "~", f"{total:.14g}", f"{magnitude:.5g}"] +
                    [text_of_element(flat[i], other[i], dtype) for i in picked])


def text_of_attributes(attributes):
    def text(value):
        if isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(value, (list, tuple)):
            return ",".join(text(each) for each in value) if value else "-"
        return f"{value:.17g}" if isinstance(value, float) else str(value)
    return " ".join(f"{name}={text(value)}" for name, value in attributes.items() if value is not None)
