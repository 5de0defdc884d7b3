#!/usr/bin/env python3
"""Writes cases.bin, which tests/unit/onnx_test.cpp reads: small ONNX models, each with its inputs and with the outputs
that onnx.reference computes, as initializers "given.NAME" and "wanted.NAME" that no node uses. A model is its length
in 4 bytes, then its bytes.

Usage: make.py     (needs onnx and NumPy)
"""
import pathlib

import numpy as np
import onnx
import onnx.reference
from onnx import helper, numpy_helper

random = np.random.default_rng(16)
models = []


def floats(*shape, low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def finish(name, nodes, given, constants, outputs, opset, wanted=None):
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype),
                                       [f"{key}_{axis}" for axis in range(value.ndim)]) for key, value in given.items()],
        [helper.make_empty_tensor_value_info(key) for key in outputs],
        [numpy_helper.from_array(value, key) for key, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    wanted = wanted or onnx.reference.ReferenceEvaluator(model).run(None, given)
    for prefix, values in (("given", given), ("wanted", dict(zip(outputs, wanted)))):
        for key, value in values.items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"{prefix}.{key}"))
    models.append(model.SerializeToString())


def case(op, *operands, constant=(), outputs=1, opset=18, **attributes):
    """One node; the operands numbered in `constant` are initializers, None is left out."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(operands)]
    values = {name: value for name, value in zip(names, operands) if value is not None}
    given = {name: value for i, (name, value) in enumerate(values.items()) if int(name[1:]) not in constant}
    constants = {name: value for name, value in values.items() if name not in given}
    results = [f"y{i}" for i in range(outputs)]
    finish(op, [helper.make_node(op, names, results, name=op.lower(), **attributes)], given, constants, results, opset)


x, y, positive = floats(3, 4), floats(3, 4), floats(3, 4, low=0.1, high=0.9)
image = floats(2, 4, 7, 6)
for op in "Abs Asin Atan Ceil Cos Erf Exp Floor HardSwish Mish Neg Relu Round Sigmoid Sign Sin Softplus Softsign Tan Tanh".split():
    case(op, x)
for op in "Log Sqrt Reciprocal".split():
    case(op, positive)
case("Gelu", x, opset=20)
case("Gelu", x, opset=20, approximate="tanh")
for op, attributes in (("LeakyRelu", {"alpha": 0.2}), ("Elu", {"alpha": 0.7}), ("Celu", {"alpha": 0.7}), ("Selu", {}),
                       ("HardSigmoid", {}), ("ThresholdedRelu", {"alpha": 0.3}), ("Shrink", {"lambd": 0.3, "bias": 0.1})):
    case(op, x, **attributes)
case("PRelu", x, floats(4))
for op in "Add Sub Mul Max Min Less GreaterOrEqual Equal".split():
    case(op, x, floats(4))
case("Pow", positive, y)
case("Div", ints(-7, 7, 8), ints(2, -2, 2))
case("Mod", ints(-7, 7, 8), ints(2, -2, 3))
case("Mod", x, y, fmod=1)
case("Where", x > 0, x, y)
case("Clip", x, np.float32(-0.3), np.float32(0.4), constant=(1, 2))
case("Cast", x * 3, to=onnx.TensorProto.INT32)
case("Sum", x, y, x)
case("Mean", x, y, x)
for op in "ReduceSum ReduceMean ReduceMax ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare ReduceProd".split():
    case(op, x, ints(-1), constant=(1,), keepdims=0)
case("ReduceSum", x)
case("ReduceMin", x, opset=13, axes=[0])
case("ArgMax", x, axis=1, keepdims=0)
case("ArgMin", np.round(x), axis=0, select_last_index=1)
case("MatMul", floats(2, 3, 4), floats(4, 5))
case("Gemm", floats(4, 3), floats(5, 4), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0)
case("Einsum", floats(2, 3), floats(3, 4), equation="ij,jk->ki")
case("MatMulInteger", np.uint8([[1, 2], [3, 4]]), np.uint8([[5, 6], [7, 8]]), np.uint8(1), np.uint8(2))
case("Softmax", floats(2, 3, 4), axis=1)
case("LogSoftmax", x)
# Before version 13 all axes from `axis` on are one; the reference has no such version.
cube = floats(2, 3, 2)
exponentials = np.exp(cube)
finish("Softmax", [helper.make_node("Softmax", ["x"], ["y"], axis=1)], {"x": cube}, {}, ["y"], 11,
       [exponentials / exponentials.sum((1, 2), keepdims=True)])
case("Hardmax", x)
case("Conv", image, floats(6, 2, 3, 3), floats(6), group=2, pads=[1, 0, 1, 2], strides=[2, 1])
case("Conv", image, floats(3, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
case("Conv", floats(1, 2, 9), floats(3, 2, 3), dilations=[2])
case("ConvTranspose", image, floats(4, 3, 3, 3), floats(3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
case("MaxPool", image, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1)
case("AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
case("AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
case("GlobalAveragePool", image)
case("GlobalMaxPool", image)
case("LRN", floats(3, 3, 4, 2), size=3, alpha=0.1)   # the reference takes as many channels as examples
case("BatchNormalization", image, floats(4), floats(4), floats(4), floats(4, low=0.5, high=1))
case("InstanceNormalization", image, floats(4), floats(4))
case("LayerNormalization", floats(2, 3, 4), floats(4), floats(4), axis=-1)
case("LpNormalization", x, axis=1, p=2)
case("Resize", image, None, np.float32([1, 1, 2, 1.5]), constant=(2,), mode="nearest")
case("Resize", image, None, None, ints(2, 4, 5, 9), constant=(3,), mode="linear", coordinate_transformation_mode="align_corners")
case("Resize", image, None, np.float32([1, 1, 0.6, 2]), constant=(2,), mode="cubic")
case("Concat", x, y, axis=-1)
case("Split", x, ints(1, 3), constant=(1,), outputs=2, axis=1)
case("Split", floats(7, 2), outputs=3, num_outputs=3)
case("Slice", x, ints(2, -1), ints(-99, 0), ints(0, 1), ints(-1, -2), constant=(1, 2, 3, 4))
case("Reshape", floats(2, 3, 4), ints(0, -1), constant=(1,))
case("Flatten", floats(2, 3, 4), axis=2)
case("Squeeze", floats(1, 3, 1), ints(0), constant=(1,))
case("Unsqueeze", x, ints(0, -1), constant=(1,))
case("Transpose", floats(2, 3, 4), perm=[2, 0, 1])
case("Expand", floats(3, 1), ints(2, 1, 4), constant=(1,))
case("Tile", x, ints(2, 3), constant=(1,))
for mode in "constant reflect edge wrap".split():
    case("Pad", x, ints(1, 2, 0, 1), constant=(1,), mode=mode)
case("Gather", x, ints(0, -1, 2), axis=1)
case("GatherElements", floats(2, 4), ints([0, -1], [2, 1]), axis=1)
case("GatherND", floats(2, 3, 4), ints([0, 1], [1, -1]))
case("GatherND", floats(2, 3, 4), ints([0], [-1]), batch_dims=1)
case("ScatterElements", x, ints([0, -1]), floats(1, 2), axis=1, reduction="add")
case("ScatterND", x, ints([0], [2]), floats(2, 4))
case("OneHot", ints(0, 2, -1), np.int64(4), np.float32([0.5, 2]), constant=(1,))
case("TopK", x, ints(2), constant=(1,), outputs=2, largest=0)
case("CumSum", x, np.int64(1), constant=(1,), exclusive=1, reverse=1)
case("Trilu", floats(4, 4), np.int64(1), constant=(1,), upper=0)
case("EyeLike", x, k=1)
case("Range", np.int64(2), np.int64(9), np.int64(3), constant=(0, 1, 2))
case("ConstantOfShape", ints(2, 3), constant=(0,), value=helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [2.5]))
case("DepthToSpace", image, blocksize=2, mode="CRD")
case("SpaceToDepth", floats(1, 2, 4, 6), blocksize=2)
case("NonZero", np.round(x))
case("IsNaN", np.float32([1, np.nan]))
case("IsInf", np.float32([1, np.inf, -np.inf]), detect_negative=0)
case("QuantizeLinear", x, np.float32(0.01), np.uint8(128), opset=21)
case("QuantizeLinear", x, np.float32([0.01, 0.02, 0.03, 0.04]), np.int8([1, 2, 3, 4]), axis=1, opset=21)
case("DequantizeLinear", np.uint8([[0, 128, 255]]), np.float32(0.1), np.uint8(128), opset=21)
case("DynamicQuantizeLinear", x, outputs=3)
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    case(op, floats(5, 2, 3), floats(1, gates * 4, 3), floats(1, gates * 4, 4), floats(1, gates * 8), outputs=2, hidden_size=4)

# Shapes that a model computes from shapes, as exporters write them: (n, 3, 4) to (n, 12), and a mask of that width.
finish("shapes", [
    helper.make_node("Shape", ["x"], ["shape"]),
    helper.make_node("Gather", ["shape", "zero"], ["n"]),
    helper.make_node("Gather", ["shape", "two"], ["k"]),
    helper.make_node("Mul", ["k", "three"], ["width"]),
    helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
    helper.make_node("Unsqueeze", ["width", "axis"], ["width1"]),
    helper.make_node("Concat", ["n1", "width1"], ["wanted_shape"], axis=0),
    helper.make_node("Reshape", ["x", "wanted_shape"], ["flat"]),
    helper.make_node("Range", ["zero", "width", "one"], ["line"]),
    helper.make_node("Cast", ["line"], ["line_f"], to=1),
    helper.make_node("Mul", ["flat", "line_f"], ["y"]),
], {"x": floats(2, 3, 4)}, {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2), "three": np.int64(3),
                            "axis": ints(0)}, ["y"], 17)

with open(pathlib.Path(__file__).parent / "cases.bin", "wb") as file:
    for model in models:
        file.write(len(model).to_bytes(4, "little") + model)
print(len(models), "models")
