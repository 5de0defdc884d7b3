// Everything but operations on elements as operators of ONNX: reductions, views, products, windows, indices.
#pragma once

#include <sinter/io/onnx/export_structure.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/format.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

inline std::vector<std::int64_t> list_of(const IntVector& list) { return {list.begin(), list.end()}; }

// ---- from nothing

inline Names write_full(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  const std::string value = is_floating(dtype) ? node.to().number(node.attrs().value, dtype)
                                               : node.to().whole_number(node.attrs().integer, dtype);
  const Shape& shape = node.result().shape;
  return {shape.rank() == 0 ? value : node.make("Expand", {value, node.to().extents(shape.dims())})};
}
inline Names write_constant(const NodeExport& node) { return {node.to().weight(Tensor(node.attrs().constant))}; }
inline std::string as_scalar(const NodeExport& node, const std::string& list) {
  return node.make("Squeeze", {list, node.to().integers({0})});
}
inline Names write_iota(const NodeExport& node) {
  const Shape& shape = node.result().shape;
  const auto axis = static_cast<int>(node.attrs().axes[0]);
  const std::string end = as_scalar(node, node.to().extent(shape[axis]));
  std::string line =
      node.make("Range", {node.to().whole_number(0, DType::i64), end, node.to().whole_number(1, DType::i64)});
  line = node.to().cast(line, DType::i64, node.result().dtype);
  if (shape.rank() == 1) return {line};
  std::vector<std::int64_t> along(as_index(shape.rank()), 1);
  along[as_index(axis)] = -1;
  return {
      node.make("Expand", {node.make("Reshape", {line, node.to().integers(along)}), node.to().extents(shape.dims())})};
}
inline Names write_extent(const NodeExport& node) {
  return {as_scalar(node, node.to().extent(node.attrs()[ops::Extent::extent]))};
}

// ---- reductions

inline Names write_reduction(const NodeExport& node) {
  const std::string_view op = node.op();
  const DType dtype = node.result().dtype;
  const std::string axes = node.to().integers(list_of(node.attrs().axes));
  const std::vector<OutAttribute> keep{{"keepdims", node.attrs().keepdim ? 1 : 0}};
  if (node.attrs().axes.empty()) return {node.as(0, dtype)};
  if (op == "all" || op == "any") {
    const std::string truth = node.to().cast(node.as(0, DType::bool_), DType::bool_, DType::i32);
    const std::string found = node.make(op == "all" ? "ReduceMin" : "ReduceMax", {truth, axes}, keep);
    return {node.to().cast(found, DType::i32, DType::bool_)};
  }
  const std::string_view name = op == "sum" || op == "window_sum" ? "ReduceSum"
                                : op == "prod"                    ? "ReduceProd"
                                : op == "mean"                    ? "ReduceMean"
                                : op == "amax"                    ? "ReduceMax"
                                : op == "amin"                    ? "ReduceMin"
                                                                  : "ReduceLogSumExp";
  if (dtype == DType::bool_) node.fail("of bools");
  return {node.make_of(dtype, name, {node.as(0, dtype), axes}, keep, 1)};
}
/// Over all axes positions count through all elements.
inline Names write_arg(const NodeExport& node) {
  const IntVector& axes = node.attrs().axes;
  const std::string_view name = node.op() == "argmax" ? "ArgMax" : "ArgMin";
  if (axes.size() == 1)
    return {node.make_of(node.type().dtype, name, {node.x()},
                         {{"axis", axes[0]}, {"keepdims", node.attrs().keepdim ? 1 : 0}})};
  if (axes.size() != as_index(node.rank())) node.fail("over several axes, not all,");
  const std::string flat = node.make("Reshape", {node.x(), node.to().integers({-1})});
  const std::string at = node.make_of(node.type().dtype, name, {flat}, {{"axis", 0}, {"keepdims", 0}});
  return {node.make("Reshape", {at, node.to().extents(node.result().shape.dims())})};
}
inline Names write_softmax(const NodeExport& node) {
  return {node.make(node.op() == "softmax" ? "Softmax" : "LogSoftmax", {node.x()}, {{"axis", node.attrs().axes[0]}})};
}
inline Names write_layer_norm(const NodeExport& node) {
  return {node.make("LayerNormalization", {node.x(0), node.as(1, node.type().dtype), node.as(2, node.type().dtype)},
                    {{"axis", node.attrs().axes[0]}, {"epsilon", node.attrs()[ops::LayerNorm::eps]}})};
}
inline Names write_cumsum(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  if (dtype == DType::bool_) node.fail("of bools");
  return {node.make_of(dtype, "CumSum", {node.as(0, dtype), node.to().whole_number(node.attrs().axes[0], DType::i64)},
                       {{"exclusive", node.attrs()[ops_detail::is_exclusive] ? 1 : 0},
                        {"reverse", node.attrs()[ops_detail::is_reversed] ? 1 : 0}},
                       1)};
}

// ---- views and joins

inline Names write_reshape(const NodeExport& node) {
  return {node.make("Reshape", {node.x(), node.to().extents(node.result().shape.dims())}, {{"allowzero", 1}})};
}
inline Names write_permute(const NodeExport& node) {
  return {node.make("Transpose", {node.x()}, {{"perm", list_of(node.attrs().axes)}})};
}
inline Names write_expand(const NodeExport& node) {
  return {node.make("Expand", {node.x(), node.to().extents(node.result().shape.dims())})};
}
inline Names write_slice(const NodeExport& node) {
  const Shape &starts = node.attrs()[ops::Slice::starts], &ends = node.attrs()[ops::Slice::ends];
  const IntVector& steps = node.attrs()[ops::Slice::steps];
  std::vector<std::int64_t> axes, strides;
  std::vector<Dim> from, to;
  for (int i = 0; i < node.rank(); ++i) {
    const std::int64_t step = steps.empty() ? 1 : steps[as_index(i)];
    if (identical(starts[i], Dim(0)) && identical(ends[i], node.type().shape[i]) && step == 1) continue;
    axes.push_back(i);
    strides.push_back(step);
    from.push_back(starts[i]);
    to.push_back(ends[i]);
  }
  if (axes.empty()) return {node.x()};
  return {node.make("Slice", {node.x(), node.to().extents(from), node.to().extents(to), node.to().integers(axes),
                              node.to().integers(strides)})};
}
inline Names write_flip(const NodeExport& node) {
  const std::size_t n = node.attrs().axes.size();
  const std::vector<std::int64_t> last(n, -1), before(n, std::numeric_limits<std::int64_t>::min());
  return {node.make("Slice", {node.x(), node.to().integers(last), node.to().integers(before),
                              node.to().integers(list_of(node.attrs().axes)), node.to().integers(last)})};
}
inline Names write_pad(const NodeExport& node) {
  std::vector<Dim> widths;
  for (const Dim width : node.attrs()[ops::Pad::low]) widths.push_back(width);
  for (const Dim width : node.attrs()[ops::Pad::high]) widths.push_back(width);
  return {
      node.make("Pad", {node.x(), node.to().extents(widths), node.to().number(node.attrs().value, node.type().dtype)})};
}
inline Names write_concat(const NodeExport& node) {
  Names parts;
  for (std::size_t i = 0; i < node.count(); ++i) parts.push_back(node.as(i, node.result().dtype));
  return {node.make("Concat", parts, {{"axis", node.attrs().axes[0]}})};
}
/// The value where it belongs, by a gather along each axis that it does not fill, and the base elsewhere.
inline Names write_update_slice(const NodeExport& node) {
  const Shape &base = node.type(0).shape, &part = node.type(1).shape, &starts = node.attrs()[ops::UpdateSlice::starts];
  const IntVector& steps = node.attrs()[ops::UpdateSlice::steps];
  std::string value = node.as(1, node.result().dtype), mask;
  for (int axis = 0; axis < base.rank(); ++axis) {
    const std::int64_t step = steps.empty() ? 1 : steps[as_index(axis)];
    if (identical(base[axis], part[axis]) && identical(starts[axis], Dim(0)) && step == 1) continue;
    const std::int64_t n = node.static_extents({base[axis]})[0], count = node.static_extents({part[axis]})[0];
    const std::int64_t start = node.static_extents({starts[axis]})[0];
    if (count == 0) return {node.x(0)};
    std::vector<std::int64_t> places, along(as_index(base.rank()), 1);
    std::vector<bool> is_inside;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = i >= start && (i - start) % step == 0 ? (i - start) / step : -1;
      is_inside.push_back(at >= 0 && at < count);
      places.push_back(is_inside.back() ? at : 0);
    }
    along[as_index(axis)] = n;
    value = node.make("Gather", {value, node.to().integers(places)}, {{"axis", axis}});
    const std::string inside = node.to().bools(is_inside, along);
    mask = mask.empty() ? inside : node.make("And", {mask, inside});
  }
  return {mask.empty() ? value : node.make("Where", {mask, value, node.x(0)})};
}

// ---- products and windows

inline Names write_matmul(const NodeExport& node) {
  const DType dtype = node.result().dtype;
  if (dtype == DType::bool_) node.fail("of bools");
  return {node.make_of(dtype, "MatMul", {node.as(0, dtype), node.as(1, dtype)})};
}
inline Names write_conv(const NodeExport& node) {
  std::vector<OutAttribute> attributes{{"strides", list_of(node.attrs()[ops::Conv2d::stride])}};
  std::vector<std::int64_t> pads;
  if (node.op() == "conv2d") {
    pads = list_of(node.attrs()[ops::Conv2d::padding]);
    pads.insert(pads.end(), {pads[0], pads[1]});
  } else {
    using ops::ConvolutionAttributes;
    pads = node.static_extents(node.attrs()[ConvolutionAttributes::low]);
    const std::vector<std::int64_t> high = node.static_extents(node.attrs()[ConvolutionAttributes::high]);
    pads.insert(pads.end(), high.begin(), high.end());
    attributes.emplace_back("dilations", list_of(node.attrs()[ConvolutionAttributes::dilation]));
    attributes.emplace_back("group", node.attrs()[ConvolutionAttributes::groups]);
  }
  attributes.emplace_back("pads", pads);
  const DType dtype = node.type().dtype;
  if (!is_floating(dtype)) node.fail("of integers");
  return {node.make_of(dtype, "Conv", {node.x(0), node.as(1, dtype)}, std::move(attributes))};
}
inline Names write_pool(const NodeExport& node) {
  const DType dtype = node.type().dtype;
  if (!is_floating(dtype)) node.fail("of integers");
  return {node.make_of(dtype, node.op() == "max_pool2d" ? "MaxPool" : "AveragePool", {node.x()},
                       {{"kernel_shape", list_of(node.attrs()[ops::PoolAttributes::window])},
                        {"strides", list_of(node.attrs()[ops::PoolAttributes::stride])}})};
}
/// Each axis gathered at the places of its windows, whose axes then go to the end.
inline Names write_windows(const NodeExport& node) {
  const IntVector &axes = node.attrs().axes, &sizes = node.attrs()[ops::Windows::sizes],
                  &strides = node.attrs()[ops::Windows::strides];
  std::string value = node.x();
  // Where each axis of the operand, and then each window, is in the value.
  std::vector<std::int64_t> place(as_index(node.rank()));
  std::iota(place.begin(), place.end(), 0);
  std::vector<std::int64_t> windows;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int>(axes[i]);
    const std::int64_t count = node.static_extents({node.result().shape[axis]})[0], size = sizes[i];
    std::vector<std::int64_t> at;
    for (std::int64_t window = 0; window < count; ++window)
      for (std::int64_t k = 0; k < size; ++k) at.push_back(window * strides[i] + k);
    const std::string places = node.make("Reshape", {node.to().integers(at), node.to().integers({count, size})});
    const std::int64_t here = place[as_index(axis)];
    value = node.make("Gather", {value, places}, {{"axis", here}});
    for (std::int64_t& other : place) other += other > here ? 1 : 0;
    for (std::int64_t& other : windows) other += other > here ? 1 : 0;
    windows.push_back(here + 1);
  }
  place.insert(place.end(), windows.begin(), windows.end());
  std::string out = node.make("Transpose", {value}, {{"perm", place}});
  node.to().note_windows(out, node.x());
  return {std::move(out)};
}
/// The maximum or the sum of each window of an image is a pool.
inline Names write_window_fold(const NodeExport& node) {
  const Node& from = node.graph().node(node.node().inputs[0]);
  const IntVector& axes = node.attrs().axes;
  bool is_pool = from.op == &op_info<ops::Windows> && is_floating(node.type().dtype) && !node.attrs().keepdim;
  if (is_pool) {
    const IntVector& windowed = from.attrs.axes;
    const auto rank = static_cast<std::int64_t>(node.rank() - static_cast<int>(windowed.size()));
    is_pool = windowed.size() == axes.size() && rank == static_cast<std::int64_t>(windowed.size()) + 2 &&
              windowed.size() <= 3;
    for (std::size_t i = 0; is_pool && i < axes.size(); ++i)
      is_pool = windowed[i] == static_cast<std::int64_t>(i) + 2 && axes[i] == rank + static_cast<std::int64_t>(i);
  }
  if (!is_pool)
    return node.op() == "window_max"
               ? Names{node.make_of(node.type().dtype, "ReduceMax", {node.x(), node.to().integers(list_of(axes))},
                                    {{"keepdims", 0}}, 1)}
               : write_reduction(node);
  const std::vector<std::int64_t> sizes = list_of(from.attrs[ops::Windows::sizes]);
  const std::string operand = node.to().operand_of(node.x());
  const std::vector<OutAttribute> attributes{{"kernel_shape", sizes},
                                             {"strides", list_of(from.attrs[ops::Windows::strides])}};
  const DType dtype = node.type().dtype;
  if (node.op() != "sum" && node.op() != "window_sum") return {node.make_of(dtype, "MaxPool", {operand}, attributes)};
  double count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return {node.make("Mul", {node.make_of(dtype, "AveragePool", {operand}, attributes), node.number(count)})};
}

// ---- indices and order

inline Names write_one_hot(const NodeExport& node) {
  const DType result = node.result().dtype, dtype = result == DType::bf16 ? DType::f32 : result;
  const std::string off = node.make("Unsqueeze", {node.to().whole_number(0, dtype), node.to().integers({0})});
  const std::string on = node.make("Unsqueeze", {node.to().whole_number(1, dtype), node.to().integers({0})});
  const std::string classes = as_scalar(node, node.to().extent(node.attrs()[ops::OneHot::classes]));
  const std::string made =
      node.make("OneHot", {node.x(), classes, node.make("Concat", {off, on}, {{"axis", 0}})}, {{"axis", -1}});
  return {node.to().cast(made, dtype, result)};
}
/// Is there one index for each element of the other axes?
inline bool is_elementwise_index(const NodeExport& node, std::int64_t shared, std::int64_t inner) {
  const std::int64_t axis = node.attrs().axes[0];
  return shared == axis && inner == node.rank() - 1 - axis && node.rank(1) == node.rank();
}
inline Names write_take(const NodeExport& node) {
  const std::int64_t shared = node.attrs()[ops::Take::shared], inner = node.attrs()[ops::Take::inner];
  if (shared == 0 && inner == 0)
    return {node.make("Gather", {node.x(0), node.as(1, DType::i64)}, {{"axis", node.attrs().axes[0]}})};
  const std::int64_t axis = node.attrs().axes[0];
  if (shared == axis && inner == node.rank() - 1 - axis && node.rank(1) == node.rank() - 1) {
    const std::string at = node.to().integers({axis});
    const std::string index = node.make("Unsqueeze", {node.as(1, DType::i64), at});
    return {node.make("Squeeze", {node.make("GatherElements", {node.x(0), index}, {{"axis", axis}}), at})};
  }
  if (shared == axis && inner == 0) {
    const std::string index = node.make("Unsqueeze", {node.as(1, DType::i64), node.to().integers({-1})});
    return {node.make("GatherND", {node.x(0), index}, {{"batch_dims", shared}})};
  }
  if (!is_elementwise_index(node, shared, inner)) node.fail("with indices for some axes");
  return {node.make("GatherElements", {node.x(0), node.as(1, DType::i64)}, {{"axis", node.attrs().axes[0]}})};
}
inline Names write_scatter(const NodeExport& node) {
  const std::int64_t shared = node.attrs()[ops::Scatter::shared], inner = node.attrs()[ops::Scatter::inner];
  constexpr std::array<std::string_view, 5> reductions{"none", "add", "mul", "min", "max"};
  const OutAttribute reduction("reduction",
                               reductions[as_index(static_cast<int>(node.attrs()[ops::Scatter::combine]))]);
  const std::string value = node.as(2, node.result().dtype);
  if (is_elementwise_index(node, shared, inner))
    return {node.make("ScatterElements", {node.x(0), node.as(1, DType::i64), value},
                      {{"axis", node.attrs().axes[0]}, reduction})};
  if (shared != 0 || inner != 0 || node.attrs().axes[0] != 0) node.fail("along an axis that is not the first");
  const std::string index = node.make("Unsqueeze", {node.as(1, DType::i64), node.to().integers({-1})});
  return {node.make("ScatterND", {node.x(0), index, value}, {reduction})};
}
inline Names write_scatter_add(const NodeExport& node) {
  if (node.attrs().axes[0] != 0) node.fail("along an axis that is not the first");
  const std::string zeros = node.make("Expand", {node.number(0), node.to().extents(node.result().shape.dims())});
  const std::string index = node.make("Unsqueeze", {node.as(0, DType::i64), node.to().integers({-1})});
  return {node.make("ScatterND", {zeros, index, node.as(1, node.result().dtype)}, {{"reduction", "add"}})};
}
/// Values and positions, in descending or ascending order.
inline Names top_of(const NodeExport& node, const std::string& count, bool is_largest, ops::OrderedPart part) {
  const DType dtype = node.type().dtype, taken = dtype == DType::bf16    ? DType::f32
                                                 : dtype == DType::bool_ ? DType::u8
                                                                         : dtype;
  Names both = node.to().nodes("TopK", {node.as(0, taken), count}, 2,
                               {{"axis", node.attrs().axes[0]}, {"largest", is_largest ? 1 : 0}});
  both[0] = node.to().cast(both[0], taken, dtype);
  if (part == ops::OrderedPart::both) return both;
  return {part == ops::OrderedPart::values ? both[0] : both[1]};
}
inline Names write_sort(const NodeExport& node) {
  const auto axis = static_cast<int>(node.attrs().axes[0]);
  return top_of(node, node.to().extent(node.type().shape[axis]), node.attrs()[ops::Sort::descending],
                node.attrs()[ops::Sort::part]);
}
inline Names write_topk(const NodeExport& node) {
  if (node.attrs()[ops::Topk::in_place]) node.fail("in the order of the operand");
  return top_of(node, node.to().extent(node.attrs()[ops::Topk::count]), !node.attrs()[ops::Topk::smallest],
                node.attrs()[ops::Topk::part]);
}
inline Names write_det(const NodeExport& node) { return {node.make_of(node.result().dtype, "Det", {node.x()})}; }

SINTER_DECL std::span<const Exporter> structure_exporters() {
  static constexpr Exporter table[] = {
      {"full", write_full},
      {"empty", write_full},
      {"constant", write_constant},
      {"iota", write_iota},
      {"extent", write_extent},
      {"prod", write_reduction},
      {"mean", write_reduction},
      {"amin", write_reduction},
      {"all", write_reduction},
      {"any", write_reduction},
      {"logsumexp", write_reduction},
      {"sum", write_window_fold},
      {"amax", write_window_fold},
      {"window_max", write_window_fold},
      {"window_sum", write_window_fold},
      {"argmax", write_arg},
      {"argmin", write_arg},
      {"softmax", write_softmax},
      {"log_softmax", write_softmax},
      {"layer_norm", write_layer_norm},
      {"cumsum", write_cumsum},
      {"reshape", write_reshape},
      {"permute", write_permute},
      {"expand", write_expand},
      {"slice", write_slice},
      {"flip", write_flip},
      {"pad", write_pad},
      {"concat", write_concat},
      {"update_slice", write_update_slice},
      {"matmul", write_matmul},
      {"conv2d", write_conv},
      {"convolution", write_conv},
      {"max_pool2d", write_pool},
      {"avg_pool2d", write_pool},
      {"windows", write_windows},
      {"one_hot", write_one_hot},
      {"take", write_take},
      {"scatter", write_scatter},
      {"scatter_add", write_scatter_add},
      {"sort", write_sort},
      {"topk", write_topk},
      {"det", write_det},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
