// Recognising the library's epilogues, and the product by the library.
#pragma once

#include <sinter/backend/cuda/source/library.hpp>
#include <sinter/backend/cuda/source/product.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>

#include <cmath>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Reads scale * product + sign * residual + bias from the stored value down to the product.
class EpilogueReader {
 public:
  EpilogueReader(const BoundKernel& bound, const ProductAxes& axes) : bound_(bound), axes_(axes) {}

  /// relu is not among them: the library makes 0 of NaN, and here NaN stays NaN. Nor is gelu: the library's is the tanh
  /// form.
  std::optional<cuda::LibraryProduct::Epilogue> read(InstId value) {
    const auto under_bias = operands_of(value, Prim::add, [&](InstId id) { return is_bias(id); });
    if (under_bias) {
      const std::uint16_t access = bound_.inst(under_bias->second).access;
      found_.bias = matrix(access);
      found_.bias.stride = 0;
      value = under_bias->first;
    }
    if (const auto added = operands_of(value, Prim::add, [&](InstId id) { return is_residual(id); })) {
      found_.residual = matrix(bound_.inst(added->second).access);
      value = added->first;
    } else if (bound_.inst(value).prim == Prim::sub) {
      const InstId left = bound_.inst(value).args[0], right = bound_.inst(value).args[1];
      if (is_residual(right)) {
        found_.residual = matrix(bound_.inst(right).access);
        found_.sign = -1;
        value = left;
      } else if (is_residual(left)) {
        found_.residual = matrix(bound_.inst(left).access);
        found_.scale = -1;
        value = right;
      }
    }
    if (value != axes_.contract &&
        found_.is_empty()) {  // times something and plus something may be one rounding or two
      const auto scaled = operands_of(value, Prim::mul, [&](InstId id) { return is_scale(id); });
      if (!scaled) return {};
      found_.scale = bound_.inst(scaled->second).number();
      value = scaled->first;
    }
    if (value != axes_.contract) return {};
    return found_;
  }

 private:
  /// The other operand, and the one that `is_wanted`.
  template <class F>
  std::optional<std::pair<InstId, InstId>> operands_of(InstId value, Prim prim, F&& is_wanted) const {
    const Inst& inst = bound_.inst(value);
    if (inst.prim != prim) return {};
    if (is_wanted(inst.args[1])) return std::pair(inst.args[0], inst.args[1]);
    if (is_wanted(inst.args[0])) return std::pair(inst.args[1], inst.args[0]);
    return {};
  }
  /// All but the operands of the product lie in memory in one dtype, the result's.
  bool is_load(InstId id) const {
    const Inst& inst = bound_.inst(id);
    return inst.prim == Prim::load && inst.dtype == bound_.inst(axes_.contract).dtype && !bound_.is_inner(id) &&
           bound_.dtype_of(inst.access) == bound_.dtype_of(bound_.kernel.stores[0].access);
  }
  bool is_bias(InstId id) const {
    if (!is_load(id)) return false;
    const std::uint16_t access = bound_.inst(id).access;
    return bound_.stride_class(access, axes_.column) == StrideClass::unit &&
           bound_.stride_class(access, axes_.row) == StrideClass::zero;
  }
  bool is_residual(InstId id) const {
    return is_load(id) && library_matrix(bound_, bound_.inst(id).access, axes_).has_value();
  }
  /// By 0 the library would not multiply at all, and NaN would be lost.
  bool is_scale(InstId id) const {
    const Inst& inst = bound_.inst(id);
    return inst.prim == Prim::immediate && is_finite_number(inst.number()) && inst.number() != 0;
  }
  cuda::LibraryProduct::Matrix matrix(std::uint16_t access) const {
    cuda::LibraryProduct::Matrix m;
    m.operand = bound_.kernel.accesses[access].operand;
    m.byte_offset = bound_.geometry.accesses[access].offset * size_of(bound_.dtype_of(access));
    m.stride = bound_.stride(access, axes_.row),
    m.batch_stride = axes_.batch < 0 ? 0 : bound_.stride(access, axes_.batch);
    return m;
  }
  friend std::optional<cuda::LibraryProduct::Matrix> library_matrix(const BoundKernel&, std::uint16_t,
                                                                    const ProductAxes&);

  const BoundKernel& bound_;
  const ProductAxes& axes_;
  cuda::LibraryProduct::Epilogue found_;
};

SINTER_DECL std::optional<cuda::LibraryProduct::Matrix> library_matrix(const BoundKernel& bound, std::uint16_t access,
                                                                       const ProductAxes& axes) {
  const cuda::LibraryProduct::Matrix matrix = EpilogueReader(bound, axes).matrix(access);
  if (bound.stride_class(access, axes.column) != StrideClass::unit || matrix.stride < bound.extent(axes.column) ||
      matrix.batch_stride < 0)
    return {};
  return matrix;
}

SINTER_DECL DType narrow_operands(const BoundKernel& bound, InstId contract) {
  const auto in_memory = [&](InstId id) {
    const Inst& inst = bound.inst(id);
    return inst.prim == Prim::load ? bound.dtype_of(inst.access) : inst.dtype;
  };
  const Inst& product = bound.inst(contract);
  const DType left = in_memory(product.args[0]);
  const bool is_narrow =
      product.dtype == DType::f32 && (left == DType::f16 || left == DType::bf16) && left == in_memory(product.args[1]);
  return is_narrow ? left : product.dtype;
}

SINTER_DECL std::optional<cuda::LibraryProduct::Epilogue> library_epilogue(const BoundKernel& bound,
                                                                           const ProductAxes& axes) {
  if (bound.kernel.stores.size() != 1) return {};
  const DType stored = bound.dtype_of(bound.kernel.stores[0].access);
  if (stored != bound.inst(axes.contract).dtype && stored != narrow_operands(bound, axes.contract)) return {};
  return EpilogueReader(bound, axes).read(bound.kernel.stores[0].value);
}

SINTER_DECL ProductAxes ProductWriter::axes() const {
  return {shape.contract, shape.row_axis, shape.column_axis, shape.batch.empty() ? -1 : shape.batch[0]};
}

/// The product alone, its result at the start of the workspace; nothing where the library cannot take it.
SINTER_DECL std::optional<cuda::LibraryProduct> ProductWriter::library_product() const {
  cuda::LibraryProduct product;
  product.dtype = bound.inst(shape.contract).dtype, product.precision = bound.kernel.precision,
  product.batches = bound.points(shape.batch);
  product.rows = bound.extent(shape.row_axis), product.columns = bound.extent(shape.column_axis),
  product.depth = bound.extent(shape.depth_axis);
  if (!w.device.uses_library || !is_floating(product.dtype) || product.depth == 0 || shape.batch.size() > 1) return {};
  const DType narrow = narrow_operands(bound, shape.contract);
  if (narrow != product.dtype) product.narrow = {narrow, product.dtype};
  else if (!is_plain(bound, shape.left) || !is_plain(bound, shape.right)) return {};
  const auto fill = [&](const GemmOperand& operand, cuda::LibraryProduct::Operand& to, int extent_axis) {
    const std::uint16_t access = bound.inst(operand.value).access;
    to.operand = bound.kernel.accesses[access].operand;
    to.byte_offset = bound.geometry.accesses[access].offset * size_of(narrow);
    to.stride = bound.stride(access, operand.axis);
    to.depth_stride = bound.stride(access, shape.depth_axis);
    to.batch_stride = shape.batch.empty() ? 0 : bound.stride(access, shape.batch[0]);
    return (to.depth_stride == 1 && to.stride >= product.depth) ||
           (to.stride == 1 && to.depth_stride >= bound.extent(extent_axis));
  };
  if (!fill(shape.left, product.left, shape.row_axis) || !fill(shape.right, product.right, shape.column_axis))
    return {};
  product.result.stride = product.columns;
  product.result.batch_stride = product.rows * product.columns;
  product.alignment = w.is_aligned() ? 16 : as_index(size_of(narrow));
  return product;
}

/// Straight into the operand where the library can compute all there is.
SINTER_DECL bool ProductWriter::library_does_all(cuda::LibraryProduct& product) const {
  const auto epilogue = library_epilogue(bound, axes());
  const auto stored = epilogue ? library_matrix(bound, bound.kernel.stores[0].access, axes()) : std::nullopt;
  if (!stored) return false;
  product.epilogue = *epilogue;
  product.result = *stored;
  if (product.narrow) product.narrow->result = bound.dtype_of(bound.kernel.stores[0].access);
  return true;
}

SINTER_DECL void ProductWriter::run_library(bool with_epilogue) {
  cuda::LibraryProduct product = *library_product();
  if (with_epilogue && library_does_all(product)) return w.set_call(cuda::make_library_product(product));
  const std::int64_t bytes =
      quotient_up(product.batches * product.rows * product.columns * size_of(product.dtype), 256) * 256;
  product.scratch_place = as_index(bytes);
  w.add_workspace(bytes);
  w.set_call(cuda::make_library_product(product));
  shape.call.order = CallOrder::own;
  build_nest({.piece = product.depth});
  w.set_vector(shape.column_axis, product.columns % 4 == 0 ? 4 : 1);
  write_finish();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
