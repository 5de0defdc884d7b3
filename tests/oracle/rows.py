"""What a function's cases are made of, and how they are computed: a row has the function of PyTorch (or of NumPy, SciPy),
configurations of inputs and attributes, and a tolerance. Knows no function."""
import pathlib
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from case_format import (DTYPES, FLOATS, NAMES, make_input, text_of_attributes, text_of_input, text_of_result,
                         unit_values)

LAYOUTS = "ctcsec"
AT_LEAST = 20


class Config:
    """Inputs `dtype shape recipe`, where the dtype `*` is that of the case (`*c`: without derivatives), and attributes. `dtypes` holds the
    configuration to some; a layout may be given; `grad` False: no gradients; `once`: without repetition."""

    def __init__(self, *inputs, dtypes=None, layout=None, grad=True, once=False, **attributes):
        self.constants = [each.startswith("*c ") for each in inputs]   # without derivatives
        self.inputs = [self.parsed(each.replace("*c ", "* ")) for each in inputs]
        self.dtypes, self.layout, self.grad, self.once = dtypes, layout, grad, once
        self.attributes = attributes

    @staticmethod
    def parsed(text):
        dtype, shape, recipe = text.split(None, 2)
        return dtype, [int(e) for e in shape.split(",")] if shape != "-" else [], recipe


class Row:
    def __init__(self, name, run, configs, dtypes="f32 f64 f16 bf16", *, ulp=2, floor=0, slope_ulp=None, slope_floor=None,
                 half=1, slope=True, torch_names=None, differs=None, vmap=True, native=True, first_result_slope=False,
                 zeros=True, in_dtype=False, layouts=LAYOUTS, at_least=AT_LEAST):
        self.name, self.run, self.configs, self.dtypes = name, run, configs, dtypes.split()
        self.ulp, self.floor, self.half = ulp, floor, half
        self.slope_ulp = 4 * ulp + 4 if slope_ulp is None else slope_ulp
        self.slope_floor = floor + 4 if slope_floor is None else slope_floor
        self.slope, self.differs, self.vmap, self.native = slope, differs, vmap, native
        self.torch_names = torch_names if torch_names is not None else [name]
        self.layouts = layouts
        self.at_least = at_least
        self.in_dtype = in_dtype   # what is right depends on the dtype: it is computed in that
        self.zeros = zeros   # whether the sign of a zero counts
        self.first_result_slope = first_result_slope
        self.called = set()


class WithSlope(torch.autograd.Function):
    """A function and its derivative, both of NumPy's arrays of f64."""

    @staticmethod
    def forward(ctx, x, function, slope):
        ctx.slope = slope
        ctx.save_for_backward(x)
        return from_numpy(function, x)

    @staticmethod
    def backward(ctx, grad):
        return grad * from_numpy(ctx.slope, ctx.saved_tensors[0]), None, None


def from_numpy(function, *operands):
    """A function of NumPy's arrays, of tensors; computed in f64, rounded to f32 at least."""
    dtype = operands[0].dtype if operands[0].is_floating_point() else torch.float32
    found = function(*[v.detach().to(torch.float64).numpy() for v in operands])
    return torch.as_tensor(found, dtype=torch.float64).to(dtype)


def of_scipy(function, slope=None):
    if slope is None:
        return lambda x, a: from_numpy(function, *x)
    return lambda x, a: WithSlope.apply(x[0] if x[0].is_floating_point() else x[0].to(torch.float32), function, slope)


class Functions(TorchFunctionMode):
    """Notes the functions of PyTorch that are called while it is entered, by their last names."""

    def __init__(self, names):
        super().__init__()
        self.names = names

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """And the operators that these are made of."""

    def __init__(self, names):
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


TORCH = str(pathlib.Path(torch.__file__).parent)


def run_of(row, values, attributes):
    """What the row's function gives; names of what it calls are added to row.called. It is run once more to be watched: some functions of
    PyTorch lose an argument under a mode (l1_loss its weight)."""
    watch(row, [value.detach().clone() for value in values], attributes)
    return as_list(row.run(values, attributes))


def watch(row, values, attributes):
    def note(frame, event, arg):   # functions of PyTorch that are written in Python
        if event == "call" and frame.f_code.co_filename.startswith(TORCH):
            row.called.add(frame.f_code.co_name)
    sys.setprofile(note)
    try:
        with torch.no_grad(), Functions(row.called), Operators(row.called):
            row.run(values, attributes)
    finally:
        sys.setprofile(None)


def is_called(row, name):
    """Whether PyTorch's function of that name, or the operator behind it, computed the row's results."""
    last = name.removeprefix("torch.ops.aten.").removesuffix(".default").split(".")[-1]
    return any(each in row.called for each in (last, last.strip("_"), f"_{last}", f"{last}_", f"special_{last}", f"linalg_{last}", f"fft_{last}"))


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def precise(value, is_number):
    return value.to(torch.float64) if value.is_floating_point() or is_number else value


def slopes(row, results, inputs):
    """d (sum of results * weights) / d inputs; None where there is none."""
    chosen = results[:1] if row.first_result_slope else results
    loss = sum((r * (0.5 + torch.tensor(unit_values(99, r.numel()), dtype=torch.float64).reshape(r.shape))).sum()
               for r in chosen if r.is_floating_point())
    wanted = [x for x in inputs if x.requires_grad]
    if not wanted or not torch.is_tensor(loss) or not loss.requires_grad:
        return None
    found = iter(torch.autograd.grad(loss, wanted, allow_unused=True))
    out = [next(found) if x.requires_grad else None for x in inputs]
    return [None if not x.requires_grad else torch.zeros_like(x) if g is None else torch.zeros_like(x) + g
            for x, g in zip(inputs, out)]


def native_results(row, values, attributes):
    """In the dtypes of the inputs; None where PyTorch does not compute in them."""
    try:
        return run_of(row, [v.clone() for v in values], attributes)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return None


def case_of(row, config, dtype, layout, seed):
    """The line of a case, or None where PyTorch takes no such dtype."""
    specs = [(dtype if d == "*" else d, shape, layout, seed + 100 * k, recipe)
             for k, (d, shape, recipe) in enumerate(config.inputs)]
    values = [make_input(*spec) for spec in specs]
    native = native_results(row, values, config.attributes)
    if native is None and not all(v.is_floating_point() or d != "*" for v, (d, _, _) in zip(values, config.inputs)):
        return None
    inputs = [precise(v, is_number=d == "*" and (native is None or any(r.is_floating_point() for r in native)))
              for v, (d, _, _) in zip(values, config.inputs)]
    has_slope = row.slope and config.grad and dtype in ("f32", "f64")
    for value, x, is_constant in zip(values, inputs, config.constants):
        x.requires_grad_(has_slope and value.is_floating_point() and not is_constant)
    exact = native if row.in_dtype else run_of(row, list(inputs), config.attributes)
    texts = []
    for k, result in enumerate(exact):
        kept = None if native is None else native[k]
        name = NAMES[result.dtype if kept is None else kept.dtype]
        if kept is None and result.is_floating_point():
            name = dtype if dtype in FLOATS else "f32"
        texts.append(text_of_result(result, name, kept if row.native else None))
    grads = slopes(row, exact, inputs) if has_slope else None
    tail = "" if grads is None else " | ".join(
        "-" if g is None else text_of_result(g, NAMES[v.dtype]) for g, v in zip(grads, values))
    head = " | ".join(text_of_input(*spec) for spec in specs)
    return f"{head} ; {text_of_attributes(config.attributes)} ; {' | '.join(texts)} ; {tail}"


def text_of_row(row):
    """The row's cases: each configuration in several dtypes and layouts, as many as the row is to have at least."""
    lines, tried = [], 0
    while len(lines) < max(row.at_least, len(row.configs) + 4) and tried < 40 * len(row.configs) + 200:
        turn, at = divmod(tried, len(row.configs))
        config = row.configs[at]
        tried += 1
        dtypes = [d for d in (config.dtypes or " ".join(row.dtypes)).split() if d in row.dtypes]
        if not dtypes:
            continue
        if config.once and turn >= len(dtypes):
            continue
        dtype = dtypes[(at + turn) % len(dtypes) if not config.once else turn]
        layout = config.layout or row.layouts[(turn + at) % len(row.layouts)]
        line = case_of(row, config, dtype, layout, seed=tried)
        if line is not None and line not in lines:
            lines.append(line)
    assert len(lines) >= row.at_least, f"{row.name} has {len(lines)} cases"
    names = [name if is_called(row, name) else f"~{name}" for name in row.torch_names]
    header = (f"> {row.name} ulp={row.ulp:g} floor={row.floor:g} slope_ulp={row.slope_ulp:g} "
              f"slope_floor={row.slope_floor:g} half={row.half:g} zeros={int(row.zeros)} vmap={int(row.vmap)} "
              f"differs={int(row.differs is not None)} torch={','.join(names) or '-'}")
    return "\n".join([header] + lines)
