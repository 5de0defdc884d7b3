// Which quantised products are computed whole, and their launches.
#pragma once

#include <sinter/backend/cuda/library/quantized.hpp>

#include <sinter/backend/cuda/library/library_launch.ipp>
#include <sinter/backend/cuda/library/quantized_kernels.ipp>
#include <sinter/backend/cuda/product/cublaslt_api.hpp>
#include <sinter/backend/cuda/product/library_product.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/quantized.hpp>

#include <algorithm>
#include <array>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

inline constexpr std::int64_t most_few_rows = 8;

inline BoundOp quantized_op(const Attrs& attrs, std::span<const Type> types) { return {nullptr, attrs, types, 4, {}}; }

/// x [rows, depth] of i8 by a weight of as many in each row, in i32. The library has none of fewer than 32 rows.
inline LibraryProduct integer_product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  LibraryProduct product;
  product.dtype = DType::i32;
  product.narrow = LibraryProduct::Narrow{DType::i8, DType::i32};
  product.rows = std::max<std::int64_t>(rows, 32);
  product.columns = columns;
  product.depth = depth;
  product.left = {0, 0, depth, 1, 0};
  product.right = {1, 0, depth, 1, 0};
  product.result = {2, 0, columns, 0};
  return product;
}
/// a [rows, depth] of f8 by b [columns, depth], with scales; operands as scaled_matmul_rows has them.
inline LibraryProduct f8_product(DType a, DType b, DType result, std::int64_t rows, std::int64_t depth,
                                 std::int64_t columns, bool are_scales_vectors) {
  LibraryProduct product = integer_product(rows, depth, columns);
  product.dtype = DType::f32;
  product.narrow = LibraryProduct::Narrow{a, result, b};
  product.rows = rows;
  product.result.operand = 4;
  product.left_scale = 2;
  product.right_scale = 3;
  product.are_scales_vectors = are_scales_vectors;
  return product;
}
/// Can the library compute it on a device of this capability?
inline bool has_product(Gpu& gpu, int least_capability, const LibraryProduct& product) {
  if (gpu.target().capability < least_capability || !has_cublaslt()) return false;
  gpu.enter();
  try {
    return !make_library_product(product)->algorithms(1).empty();
  } catch (const DeviceError& error) {
    if (is_logged("cuda")) note("cuda", error.what());
    return false;
  }
}

/// Launches of this file read and write by 16 bytes.
inline bool is_read_as_is(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; }

/// Rows rounded to i8, the product of integers by the library, and the scales.
class DynamicProductLaunch final : public LibraryLaunch {
 public:
  DynamicProductLaunch(Gpu& gpu, const BoundOp& op)
      : LibraryLaunch(gpu, op, StepContext{"quantized_matmul", {}, {}}),
        kernels_(module_of(gpu, dynamic_product_kernels(op.types[0].dtype, op.types[2].dtype))),
        rows_(op.types[0].shape[0].value()),
        depth_(op.types[0].shape[1].value()),
        columns_(op.types[1].shape[0].value()),
        product_(make_library_product(integer_product(rows_, depth_, columns_))) {}

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void enqueue(void* const* operands) override {
    if (rows_ == 0) return;
    const std::int64_t rows = integer_product(rows_, depth_, columns_).rows;
    const std::size_t q = aligned(as_index(rows * depth_)), scales = aligned(as_index(rows_) * sizeof(float)),
                      sums = aligned(as_index(rows * columns_) * sizeof(std::int32_t)),
                      scratch = aligned(product_->scratch_bytes()), weight = as_index(columns_ * depth_);
    void* values = operands[1];
    char* const room = workspace(q + scales + sums + scratch + (is_read_as_is(values) ? 0 : weight));
    char *const scales_at = room + q, *const sums_at = scales_at + scales;
    if (!is_read_as_is(values)) {
      values = sums_at + sums + scratch;
      copy(values, operands[1], weight);
    }
    launch(*kernels_, 0, rows_, 256, operands[0], static_cast<void*>(room), static_cast<void*>(scales_at), rows_,
           depth_);
    void* const places[] = {room, values, sums_at};
    product_->run(places, sums_at + sums, stream());
    launch_each(*kernels_, 1, rows_ * columns_ / 4, static_cast<void*>(sums_at), static_cast<void*>(scales_at),
                operands[2], operands[4], rows_, columns_);
  }

  std::shared_ptr<const Module> kernels_;
  std::int64_t rows_, depth_, columns_;
  std::unique_ptr<LibraryCall> product_;
};

/// At most 8 rows in one launch.
class FewRowsLaunch final : public LibraryLaunch {
 public:
  FewRowsLaunch(Gpu& gpu, const BoundOp& op)
      : LibraryLaunch(gpu, op, StepContext{"quantized_matmul", {}, {}}),
        rows_(op.types[0].shape[0].value()),
        depth_(op.types[0].shape[1].value()),
        columns_(op.types[1].shape[0].value()),
        group_(op.attrs[ops::QuantizedMatmul::group]),
        weight_bytes_(as_index(op.types[1].shape.numel().value())),
        row_bytes_(size_of(op.types[0].dtype)) {
    product_.activations = op.types[0].dtype;
    product_.scales = op.types[2].dtype;
    product_.bits = op.attrs[ops::QuantizedMatmul::bits] == WeightBits::four ? 4 : 8;
    product_.has_zero_points = op.types[3].shape[1].value() > 0;
    constexpr std::int64_t many_columns = 8192;  // with fewer, blocks of 32 are too few for the device
    product_.tall = columns_ >= many_columns ? 2 : 1;
    product_.on_tensor_cores =
        gpu.target().capability >= 80 && group_ % 128 == 0 && rows_ * product_.parts() <= most_few_rows;
    for (std::int64_t first = 0; first < rows_; first += most_few_rows) {
      product_.rows = static_cast<int>(std::min(most_few_rows, rows_ - first));
      parts_.push_back({first, product_, module_of(gpu, few_rows_kernel(product_))});
    }
  }

 private:
  struct Part {
    std::int64_t first;
    PackedProduct product;
    std::shared_ptr<const Module> kernel;
  };
  void enqueue(void* const* operands) override {
    void* values = operands[1];
    if (!is_read_as_is(values)) {
      values = workspace(weight_bytes_);
      copy(values, operands[1], weight_bytes_);
    }
    for (const Part& part : parts_) {
      char* const from = static_cast<char*>(operands[0]) + part.first * depth_ * row_bytes_;
      char* const to = static_cast<char*>(operands[4]) + part.first * columns_ * row_bytes_;
      const PackedProduct& product = part.product;
      const std::int64_t columns = product.columns() * (product.on_tensor_cores ? 1 : product.warps());  // of a block
      launch(*part.kernel, 0, (columns_ + columns - 1) / columns, 32 * product.warps(), static_cast<void*>(from),
             values, operands[2], operands[3], static_cast<void*>(to), columns_, depth_, group_);
    }
  }

  std::int64_t rows_, depth_, columns_, group_;
  std::size_t weight_bytes_;
  std::int64_t row_bytes_;  // of an element
  PackedProduct product_;
  std::vector<Part> parts_;
};

/// A product of the library alone: of i8 in i32, or of f8.
class SmallProductLaunch final : public LibraryLaunch {
 public:
  SmallProductLaunch(Gpu& gpu, const char* name, const BoundOp& op, const LibraryProduct& product)
      : LibraryLaunch(gpu, op, StepContext{name, {}}),
        bytes_(bytes_of(op)),
        result_bytes_(as_index(op.types.back().shape.numel().value() * size_of(op.types.back().dtype))),
        result_(op.inputs) {
    if (result_bytes_ == 0) return;
    product_ = make_library_product(product);
    product_->note_use();
  }

 private:
  /// Of operands that the library wants at multiples of 16: numbers are not among them.
  static std::array<std::size_t, 4> bytes_of(const BoundOp& op) {
    std::array<std::size_t, 4> bytes{};
    for (std::size_t i = 0; i < op.inputs; ++i)
      if (const Type& type = op.types[i]; type.shape.rank() > 0)
        bytes[i] = as_index(type.shape.numel().value() * size_of(type.dtype));
    return bytes;
  }
  void enqueue(void* const* operands) override {
    if (result_bytes_ == 0) return;
    const auto room = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::size_t scratch = room(product_->scratch_bytes());
    std::size_t copied = is_read_as_is(operands[result_]) ? 0 : room(result_bytes_);
    const auto is_copied = [&](std::size_t i) { return bytes_[i] > 0 && !is_read_as_is(operands[i]); };
    for (std::size_t i = 0; i < bytes_.size(); ++i) copied += is_copied(i) ? room(bytes_[i]) : 0;
    char* at = workspace(scratch + copied);
    void* places[5] = {};
    std::copy_n(operands, result_ + 1, places);
    char* to = at + scratch;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if (is_copied(i)) {
        copy(to, operands[i], bytes_[i]);
        places[i] = to;
        to += room(bytes_[i]);
      }
    if (!is_read_as_is(operands[result_])) places[result_] = to;
    product_->run(places, at, stream());
    if (places[result_] != operands[result_]) copy(operands[result_], places[result_], result_bytes_);
  }
  std::array<std::size_t, 4> bytes_;
  std::size_t result_bytes_, result_;
  std::unique_ptr<LibraryCall> product_;
};

inline std::unique_ptr<Launch> launch_integer_product(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<SmallProductLaunch>(
      Gpu::get(types.back().device, "integer_matmul_rows"), "integer_matmul_rows",
      BoundOp{nullptr, attrs, types, 2, {}},
      integer_product(types[0].shape[0].value(), types[0].shape[1].value(), types[1].shape[0].value()));
}
inline std::unique_ptr<Launch> launch_scaled_product(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<SmallProductLaunch>(
      Gpu::get(types.back().device, "scaled_matmul_rows"), "scaled_matmul_rows", BoundOp{nullptr, attrs, types, 4, {}},
      f8_product(types[0].dtype, types[1].dtype, types.back().dtype, types[0].shape[0].value(),
                 types[0].shape[1].value(), types[1].shape[0].value(), types[2].shape.rank() > 0));
}
/// Products of rows by rows: of i8 of 32 rows or more, or of f8 of which one is f8e4m3; other ones are decomposed.
inline Intrinsic small_product_intrinsic(Gpu& gpu, const Graph& graph, const Node& node) {
  const Type &a = graph.type(node.inputs[0]), &b = graph.type(node.inputs[1]);
  if (!a.shape[1].is_static() || !b.shape[0].is_static()) return nullptr;
  const std::int64_t depth = a.shape[1].value(), columns = b.shape[0].value();
  constexpr std::int64_t multiple = 16;  // of columns and depth
  if (depth == 0 || columns == 0 || depth % multiple != 0 || columns % multiple != 0) return nullptr;
  const bool has_rows = a.shape[0].is_static();
  if (node.op == &op_info<ops::IntegerMatmul>) {
    constexpr int least_capability = 75;
    if (a.dtype != DType::i8 || b.dtype != DType::i8 || !has_rows || a.shape[0].value() < 32) return nullptr;
    return has_product(gpu, least_capability, integer_product(a.shape[0].value(), depth, columns))
               ? launch_integer_product
               : nullptr;
  }
  constexpr int least_capability = 89;
  if (a.dtype == DType::f8e5m2 && b.dtype == DType::f8e5m2) return nullptr;
  const bool has_vectors = graph.type(node.inputs[2]).shape.rank() > 0;
  const auto has = [&](std::int64_t rows) {
    return has_product(gpu, least_capability,
                       f8_product(a.dtype, b.dtype, node.types[0].dtype, rows, depth, columns, has_vectors));
  };
  if (has_rows) return a.shape[0].value() != 0 && has(a.shape[0].value()) ? launch_scaled_product : nullptr;
  // Of any number of rows: one, odd ones and whole tiles have algorithms, or none is asked for later.
  return has(1) && has(5) && has(multiple) ? launch_scaled_product : nullptr;
}

inline std::unique_ptr<Launch> launch_dynamic_product(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<DynamicProductLaunch>(Gpu::get(types.back().device, "quantized_matmul"),
                                                quantized_op(attrs, types));
}
inline std::unique_ptr<Launch> launch_few_rows(const Attrs& attrs, std::span<const Type> types) {
  return std::make_unique<FewRowsLaunch>(Gpu::get(types.back().device, "quantized_matmul"), quantized_op(attrs, types));
}

}  // namespace cuda_detail

SINTER_DECL Intrinsic quantized_intrinsic(Gpu& gpu, const Graph& graph, const Node& node) {
  if (node.op == &op_info<ops::IntegerMatmul> || node.op == &op_info<ops::ScaledMatmul>)
    return cuda_detail::small_product_intrinsic(gpu, graph, node);
  if (node.op != &op_info<ops::QuantizedMatmul>) return nullptr;
  const Type &x = graph.type(node.inputs[0]), &values = graph.type(node.inputs[1]),
             &scales = graph.type(node.inputs[2]), &zero_points = graph.type(node.inputs[3]);
  const auto is_known = [](const Type& type) { return type.shape[0].is_static() && type.shape[1].is_static(); };
  const auto is_read = [](const Type& type) {
    return type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16;
  };
  if (!is_known(values) || !is_known(scales) || !is_known(zero_points) || !x.shape[1].is_static()) return nullptr;
  if (!is_read(x) || !is_read(scales) || values.shape[0].value() == 0) return nullptr;
  const std::int64_t depth = x.shape[1].value(), group = node.attrs[ops::QuantizedMatmul::group];
  if (scales.shape[1].value() * group != depth) return nullptr;
  if (node.attrs[ops::QuantizedMatmul::activations] == ActivationUse::as_is) {
    const bool is_few = x.shape[0].is_static() && x.shape[0].value() <= cuda_detail::most_few_rows;
    return is_few && group % 32 == 0 ? cuda_detail::launch_few_rows : nullptr;
  }
  constexpr std::int64_t most_depth = 1 << 16;  // sums of products of bytes fit into i32
  const bool is_one_group = scales.shape[1].value() == 1 && zero_points.shape[1].value() == 0;
  const bool has_many_rows = !x.shape[0].is_static() || x.shape[0].value() > 16;
  const bool fits = is_one_group && has_many_rows && node.attrs[ops::QuantizedMatmul::bits] == WeightBits::eight &&
                    depth % 16 == 0 && values.shape[0].value() % 16 == 0 && depth <= most_depth;
  const std::int64_t rows = x.shape[0].is_static() ? x.shape[0].value() : 0;
  constexpr int least_capability = 75;
  return fits && cuda_detail::has_product(gpu, least_capability,
                                          cuda_detail::integer_product(rows, depth, values.shape[0].value()))
             ? cuda_detail::launch_dynamic_product
             : nullptr;
}

}  // namespace cuda
SINTER_NAMESPACE_END
