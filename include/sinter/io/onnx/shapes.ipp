// Operators of ONNX that arrange elements, join and cut, and make tensors from nothing. What extents are computed of
// stays known, so that shapes that a model computes from shapes are no values.
#pragma once

#include <sinter/io/onnx/shapes.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/convolution.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/matrices.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/expr/parts.hpp>
#include <sinter/expr/shapes.hpp>

#include <algorithm>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

inline Shape shape_of(const std::vector<Dim>& dims) { return Shape(std::span<const Dim>(dims)); }

inline Operands run_constant(const NodeCall& call) {
  if (const FileTensor* tensor = call.tensor("value")) return {Operand::of_file(*tensor)};
  if (call.has_attribute("value_int") || call.has_attribute("value_ints")) {
    const bool is_list = call.has_attribute("value_ints");
    FileTensor numbers;
    numbers.integers = is_list ? call.integers("value_ints") : std::vector{call.integer("value_int", 0)};
    const Shape shape = is_list ? Shape{Dim(numbers.integers->size())} : Shape();
    numbers.value = adopt(std::vector(*numbers.integers), shape, call.where());
    return {Operand::of_file(numbers)};
  }
  FileTensor of_reals;
  if (call.has_attribute("value_float")) {
    of_reals.reals = {call.real("value_float", 0)};
    of_reals.value = full({}, Scalar((*of_reals.reals)[0]), {.dtype = DType::f32}, call.where());
    return {Operand::of_file(of_reals)};
  }
  if (!call.has_attribute("value_floats")) call.fail("a constant of texts or of a sparse tensor");
  of_reals.reals = call.reals("value_floats");
  std::vector<float> floats(of_reals.reals->size());
  std::transform(of_reals.reals->begin(), of_reals.reals->end(), floats.begin(),
                 [](double x) { return static_cast<float>(x); });
  const Shape shape{Dim(floats.size())};
  of_reals.value = adopt(std::move(floats), shape, call.where());
  return {Operand::of_file(of_reals)};
}

inline Operands run_constant_of_shape(const NodeCall& call) {
  const std::vector<Dim> dims = call.dims(0);
  const FileTensor* value = call.tensor("value");
  if (value == nullptr) return {zeros(shape_of(dims), {.dtype = DType::f32}, call.where())};
  if (value->value.numel().value() != 1) call.fail("a value of several elements");
  const DType dtype = value->value.dtype();
  if (value->integers && (dtype == DType::i64 || dtype == DType::i32) && are_small({Dim((*value->integers)[0])}) &&
      dims.size() == 1 && dims[0].is_static() && dims[0].value() >= 0 && dims[0].value() <= max_rank)
    return {
        Operand::of_integers(std::vector<Dim>(as_index(dims[0].value()), Dim((*value->integers)[0])), false, dtype)};
  return {expand(call.in(reshape(call.in(value->value), {})), shape_of(dims))};
}

inline Operands run_shape(const NodeCall& call) {
  const Shape shape = call.operand(0).shape();
  const std::int64_t rank = shape.rank();
  const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  std::vector<Dim> dims;
  for (std::int64_t i = bound(call.integer("start", 0)); i < bound(call.integer("end", rank)); ++i)
    dims.push_back(shape[static_cast<int>(i)]);
  return {Operand::of_integers(std::move(dims), false)};
}
inline Operands run_size(const NodeCall& call) {
  return {Operand::of_integers({call.operand(0).shape().numel(call.where())}, true)};
}

inline Operands run_reshape(const NodeCall& call) {
  std::vector<Dim> dims;
  if (call.has(1)) dims = call.dims(1);
  else
    for (const std::int64_t extent : call.integers("shape")) dims.push_back(Dim(extent));
  const Operand& from = call.operand(0);
  if (from.integers() != nullptr && dims.size() <= 1) {
    const bool is_list = dims.size() == 1;
    if (is_list ? identical(dims[0], Dim(-1)) || identical(dims[0], Dim(from.integers()->size()))
                : from.integers()->size() == 1)
      return {Operand::of_integers(*from.integers(), !is_list, from.dtype())};
  }
  const Tensor x = call.x(0);
  const bool keeps_zero = call.flag("allowzero");
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (!keeps_zero && identical(dims[i], Dim(0)) && static_cast<int>(i) < x.rank())
      dims[i] = x.shape()[static_cast<int>(i)];
  return {reshape(call.in(x), shape_of(dims))};
}
inline Operands run_flatten(const NodeCall& call) {
  const Tensor x = call.x(0);
  const std::int64_t given = call.integer("axis", 1);
  const std::int64_t axis = given < 0 ? given + x.rank() : given;
  Dim before = 1, after = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? before : after) *= x.shape()[i];
  return {reshape(call.in(x), Shape{before, after})};
}
inline Operands run_squeeze(const NodeCall& call) {
  const auto axes = call.integers("axes", 1);
  const Operand& from = call.operand(0);
  if (from.integers() != nullptr && from.rank() == 1 && from.integers()->size() == 1)
    return {Operand::of_integers(*from.integers(), true, from.dtype())};
  if (axes && axes->empty()) return {from};
  if (from.bounds() != nullptr && from.rank() == 1)
    return {Operand::with_bounds(squeeze(call.in(call.x(0))), *from.bounds())};
  return {axes ? squeeze(call.in(call.x(0)), Axes(*axes)) : squeeze(call.in(call.x(0)))};
}
inline Operands run_unsqueeze(const NodeCall& call) {
  const auto axes = call.integers("axes", 1);
  if (!axes) call.fail("there are no axes");
  const Operand& from = call.operand(0);
  if (from.integers() != nullptr && from.rank() == 0 && axes->size() == 1)
    return {Operand::of_integers(*from.integers(), false, from.dtype())};
  if (axes->empty()) return {from};
  if (from.bounds() != nullptr && from.rank() == 0 && axes->size() == 1)
    return {Operand::with_bounds(unsqueeze(call.in(call.x(0)), Axes(*axes)), *from.bounds())};
  return {unsqueeze(call.in(call.x(0)), Axes(*axes))};
}
inline Operands run_transpose(const NodeCall& call) {
  const Tensor x = call.x(0);
  std::vector<std::int64_t> order = call.integers("perm");
  if (order.empty())
    for (int i = x.rank() - 1; i >= 0; --i) order.push_back(i);
  return {permute(call.in(x), Axes(order))};
}
inline Operands run_expand(const NodeCall& call) {
  const Tensor x = call.x(0);
  return {expand(call.in(x), broadcast(x.shape(), shape_of(call.dims(1)), "load_onnx", call.where()))};
}
inline Operands run_tile(const NodeCall& call) {
  const std::vector<Dim> counts = call.dims(1);
  return {tile(call.in(call.x(0)), DimList(std::span<const Dim>(counts)))};
}

inline Operands run_concat(const NodeCall& call) {
  std::vector<Dim> dims;
  bool is_bounded = true, is_known = true;
  for (std::size_t i = 0; i < call.count() && is_bounded; ++i) {
    const Operand& part = call.operand(i);
    is_bounded = part.bounds() != nullptr && part.rank() == 1 && part.dtype() == call.operand(0).dtype();
    is_known = is_known && part.integers() != nullptr;
    if (is_bounded) dims.insert(dims.end(), part.bounds()->begin(), part.bounds()->end());
  }
  if (is_bounded && is_known) return {Operand::of_integers(std::move(dims), false, call.operand(0).dtype())};
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < call.count(); ++i) parts.push_back(call.x(i));
  Tensor joined = concat(parts, call.axis(call.integer("axis", 0), parts[0].rank()), call.where());
  if (is_bounded) return {Operand::with_bounds(std::move(joined), std::move(dims))};
  return {joined};
}

/// Into parts of stated lengths, or as many equal ones as there are outputs, of which the last may be shorter.
inline Operands run_split(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  std::vector<Dim> lengths;
  if (call.has(1)) lengths = call.dims(1);
  for (const std::int64_t length : call.integers("split")) lengths.push_back(Dim(length));
  if (lengths.empty()) {
    const auto parts = call.integer("num_outputs", static_cast<std::int64_t>(call.outputs()));
    if (parts < 1 || parts > static_cast<std::int64_t>(call.outputs()))
      call.fail("there are " + std::to_string(parts) + " parts");
    const Dim n = x.shape()[axis], length = (n + Dim(parts - 1)) / Dim(parts);
    for (std::int64_t i = 0; i + 1 < parts; ++i) lengths.push_back(length);
    lengths.push_back(n - length * Dim(parts - 1));
  }
  Operands out;
  Dim at = 0;
  for (const Dim length : lengths) {
    out.push_back(narrow(call.in(x), axis, at, length));
    at += length;
  }
  return out;
}

struct SliceBounds {
  std::vector<Dim> starts, ends;
  std::vector<std::int64_t> axes, steps;
};
inline SliceBounds slice_bounds(const NodeCall& call) {
  SliceBounds out;
  if (call.has(1)) {
    out.starts = call.dims(1);
    out.ends = call.dims(2);
    if (call.has(3)) out.axes = call.integers(3);
    if (call.has(4)) out.steps = call.integers(4);
  } else {
    for (const std::int64_t at : call.integers("starts")) out.starts.push_back(Dim(at));
    for (const std::int64_t at : call.integers("ends")) out.ends.push_back(Dim(at));
    out.axes = call.integers("axes");
  }
  if (out.axes.empty()) {
    out.axes.resize(out.starts.size());
    std::iota(out.axes.begin(), out.axes.end(), 0);
  }
  if (out.steps.empty()) out.steps.assign(out.starts.size(), 1);
  if (out.ends.size() != out.starts.size() || out.axes.size() != out.starts.size() ||
      out.steps.size() != out.starts.size())
    call.fail("starts, ends, axes and steps are of different lengths");
  return out;
}
/// Numbers from here on are beyond any axis.
inline constexpr std::int64_t beyond_axes = (std::int64_t{1} << 31) - 1;
/// Where a slice begins. Beyond the axis forwards nothing is left, backwards all is.
inline Dim slice_start(Dim at, Dim extent, bool is_backwards) {
  if (!at.is_static()) return at;
  const std::int64_t number = at.value();
  if (extent.is_static()) {
    const std::int64_t n = extent.value(), from = number < 0 ? number + n : number;
    return Dim(std::clamp<std::int64_t>(from, 0, is_backwards ? std::max<std::int64_t>(n - 1, 0) : n));
  }
  if (number >= beyond_axes) return is_backwards ? extent - 1 : extent;
  return number <= -beyond_axes ? Dim(0) : at;
}
/// Where it ends; nothing: all that is left in its direction is in it.
inline std::optional<Dim> slice_end(Dim at, Dim extent, bool is_backwards) {
  if (!at.is_static()) return at;
  const std::int64_t number = at.value();
  if (number >= beyond_axes) return is_backwards ? std::optional<Dim>(extent - 1) : std::optional<Dim>();
  if (number <= -beyond_axes) return is_backwards ? std::optional<Dim>() : std::optional<Dim>(Dim(0));
  if (is_backwards && extent.is_static() && number < -extent.value()) return {};
  return at;
}
inline Operands run_slice(const NodeCall& call) {
  const SliceBounds bounds = slice_bounds(call);
  const Operand& from = call.operand(0);
  if (from.integers() != nullptr && from.rank() == 1 && bounds.starts.size() == 1 && bounds.starts[0].is_static() &&
      bounds.ends[0].is_static() && bounds.steps[0] == 1) {
    const auto n = static_cast<std::int64_t>(from.integers()->size());
    const auto at = [&](Dim dim) {
      return std::clamp<std::int64_t>(dim.value() < 0 ? dim.value() + n : dim.value(), 0, n);
    };
    std::vector<Dim> part;
    for (std::int64_t i = at(bounds.starts[0]); i < at(bounds.ends[0]); ++i)
      part.push_back((*from.integers())[as_index(i)]);
    return {Operand::of_integers(std::move(part), false, from.dtype())};
  }
  const Tensor x = call.x(0);
  std::vector<Index> positions(as_index(x.rank()), Index(all, call.where()));
  for (std::size_t i = 0; i < bounds.starts.size(); ++i) {
    const int axis = call.axis(bounds.axes[i], x.rank());
    const bool back = bounds.steps[i] < 0;
    const Dim extent = x.shape()[axis];
    positions[as_index(axis)] = Index(
        Slice{slice_start(bounds.starts[i], extent, back), slice_end(bounds.ends[i], extent, back), bounds.steps[i]},
        call.where());
  }
  return {index(call.in(x), positions)};
}

inline constexpr std::int64_t most_width = 1 << 30;
/// Widths of all axes, or of some: before each, then after each.
inline std::vector<std::pair<int, int>> pad_widths(const NodeCall& call, int rank) {
  std::vector<std::int64_t> pads = call.has(1) ? call.integers(1) : call.integers("pads");
  if (pads.empty()) pads = call.integers("paddings");
  std::vector<int> axes(as_index(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.axes(call.integers(3), rank);
  if (pads.size() != 2 * axes.size())
    call.fail("there are " + std::to_string(pads.size()) + " widths for " + std::to_string(axes.size()) + " axes");
  std::vector<std::pair<int, int>> widths(as_index(rank), {0, 0});
  for (const std::int64_t width : pads)
    if (width < -most_width || width > most_width) call.fail("a width is " + std::to_string(width));
  for (std::size_t i = 0; i < axes.size(); ++i)
    widths[as_index(axes[i])] = {static_cast<int>(pads[i]), static_cast<int>(pads[i + axes.size()])};
  return widths;
}
inline Operands run_pad(const NodeCall& call) {
  const Tensor x = call.x(0);
  const auto widths = pad_widths(call, x.rank());
  const std::string mode = call.text("mode", "constant");
  if (mode == "constant") return {pad(call.in(x), widths, call.has(2) ? call.real(2) : call.real("value", 0))};
  if (mode == "reflect") return {pad(call.in(x), widths, PadMode::reflect)};
  if (mode == "edge") return {pad(call.in(x), widths, PadMode::replicate)};
  if (mode == "wrap") return {pad(call.in(x), widths, PadMode::circular)};
  call.fail("the mode is '" + mode + "'");
}
inline Operands run_center_crop_pad(const NodeCall& call) {
  const Tensor x = call.x(0);
  const std::vector<std::int64_t> wanted = call.integers(1);
  std::vector<int> axes(as_index(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has_attribute("axes")) axes = call.axes(call.integers("axes"), x.rank());
  if (wanted.size() != axes.size()) call.fail("there are " + std::to_string(wanted.size()) + " extents");
  std::vector<std::pair<int, int>> widths(as_index(x.rank()), {0, 0});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] > most_width) call.fail("an extent is " + std::to_string(wanted[i]));
    const auto missing = static_cast<int>(wanted[i] - static_cast<std::int64_t>(x.shape()[axes[i]]));
    const int before = missing < 0 ? -((-missing) / 2) : missing / 2;
    widths[as_index(axes[i])] = {before, missing - before};
  }
  return {pad(call.in(x), widths)};
}

inline Operands run_range(const NodeCall& call) {
  const Operand &start = call.operand(0), &stop = call.operand(1), &step = call.operand(2);
  if (start.integers() != nullptr && stop.integers() != nullptr && step.integers() != nullptr)
    return {arange(call.dim(0), call.dim(1), call.dim(2), {.dtype = start.dtype()}, call.where())};
  const double from = call.real(0), to = call.real(1), by = call.real(2);
  const double steps = std::ceil((to - from) / by);
  if (!(steps < 0x1p40)) call.fail("it has " + std::to_string(steps) + " elements");
  const auto count = static_cast<std::int64_t>(std::max(steps, 0.0));
  const Tensor places = arange(Dim(count), {.dtype = start.dtype()}, call.where());
  const Tensor scaled = call.make("mul", {call.in(places), call.in(call.x(2))});
  return {call.make("add", {call.in(scaled), call.in(call.x(0))}).to(start.dtype(), call.where())};
}
inline Operands run_eye_like(const NodeCall& call) {
  const Operand& like = call.operand(0);
  if (like.rank() != 2) call.fail("the operand is " + like.shape().text() + ", no matrix");
  return {eye(like.shape()[0], like.shape()[1], static_cast<int>(call.integer("k", 0)),
              {.dtype = call.dtype("dtype", like.dtype())}, call.where())};
}
inline Operands run_trilu(const NodeCall& call) {
  const int k = static_cast<int>(call.has(1) ? call.integer(1) : 0);
  const In x = call.in(call.x(0));
  return {call.flag("upper", true) ? triu(x, k) : tril(x, k)};
}

inline std::int64_t block_size(const NodeCall& call) {
  const std::int64_t size = call.integer("blocksize", 1);
  if (size < 1 || size > 1 << 15) call.fail("blocksize is " + std::to_string(size));
  return size;
}
inline bool is_depth_first(const NodeCall& call) {
  const std::string mode = call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.fail("the mode is '" + mode + "'", "DCR or CRD");
  return mode == "DCR";
}
/// (n, c b b, h, w) to (n, c, h b, w b): the block's axes come first among the channels (DCR), or last (CRD).
inline Operands run_depth_to_space(const NodeCall& call) {
  const Tensor x = call.x(0);
  if (x.rank() != 4) call.fail("the operand is " + x.shape().text() + ", not (n, c, h, w)");
  const std::int64_t b = block_size(call);
  const Dim n = x.shape()[0], c = x.shape()[1] / Dim(b * b), h = x.shape()[2], w = x.shape()[3];
  const bool is_dcr = is_depth_first(call);
  const Tensor cut = reshape(call.in(x), is_dcr ? Shape{n, b, b, c, h, w} : Shape{n, c, b, b, h, w});
  const Tensor moved = is_dcr ? permute(call.in(cut), {0, 3, 4, 1, 5, 2}) : permute(call.in(cut), {0, 1, 4, 2, 5, 3});
  return {reshape(call.in(moved), Shape{n, c, h * Dim(b), w * Dim(b)})};
}
inline Operands run_space_to_depth(const NodeCall& call) {
  const Tensor x = call.x(0);
  if (x.rank() != 4) call.fail("the operand is " + x.shape().text() + ", not (n, c, h, w)");
  const std::int64_t b = block_size(call);
  const Dim n = x.shape()[0], c = x.shape()[1], h = x.shape()[2] / Dim(b), w = x.shape()[3] / Dim(b);
  const Tensor cut = reshape(call.in(x), Shape{n, c, h, b, w, b});
  const bool is_dcr = is_depth_first(call);
  const Tensor moved = permute(call.in(cut), is_dcr ? Axes{0, 3, 5, 1, 2, 4} : Axes{0, 1, 3, 5, 2, 4});
  return {reshape(call.in(moved), Shape{n, c * Dim(b * b), h, w})};
}

SINTER_DECL std::span<const Operator> shape_operators() {
  static constexpr Operator table[] = {
      {"Constant", run_constant},
      {"ConstantOfShape", run_constant_of_shape},
      {"Shape", run_shape},
      {"Size", run_size},
      {"Identity", [](const NodeCall& call) -> Operands { return {call.operand(0)}; }},
      {"Reshape", run_reshape},
      {"Flatten", run_flatten},
      {"Squeeze", run_squeeze},
      {"Unsqueeze", run_unsqueeze},
      {"Transpose", run_transpose},
      {"Expand", run_expand},
      {"Tile", run_tile},
      {"Concat", run_concat},
      {"Split", run_split},
      {"Slice", run_slice},
      {"Pad", run_pad},
      {"CenterCropPad", run_center_crop_pad},
      {"Range", run_range},
      {"EyeLike", run_eye_like},
      {"Trilu", run_trilu},
      {"DepthToSpace", run_depth_to_space},
      {"SpaceToDepth", run_space_to_depth},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
