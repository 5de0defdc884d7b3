// Kernels by hand: what fusion would make of the same formulas, but for the places that they have.
#pragma once

#include <sinter/backend/x86/attention/kernels.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/runtime/program_code.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_attention_detail {

/// How an access moves from row to row and along a row.
enum class Walk : std::uint8_t { rows_and_columns, rows, columns, none };

/// A kernel under construction: two axes, rows and columns, or rows alone.
class LoopBuilder {
 public:
  LoopBuilder(KernelKind kind, DType dtype, int axes) : dtype_(dtype) {
    kernel_.kind = kind;
    for (int axis = 0; axis < axes; ++axis)
      kernel_.axes.push_back(kind == KernelKind::row && axis == 1 ? AxisRole::reduced : AxisRole::parallel);
  }
  ScalarBuilder body;

  /// An operand of its own, read.
  ScalarValue read(Walk walk, DType dtype) { return body.load(access(operand(dtype, false), walk), dtype); }
  ScalarValue read(Walk walk) { return read(walk, dtype_); }
  /// One that is written later at the same place.
  ScalarValue read_and_written(Walk walk, std::uint16_t& operand_number) {
    operand_number = operand(dtype_, true);
    return body.load(access(operand_number, walk), dtype_);
  }
  void write(std::uint16_t operand_number, Walk walk, ScalarValue value) {
    kernel_.stores.push_back({.access = access(operand_number, walk), .value = value.id});
  }
  void write(Walk walk, ScalarValue value) { write(operand(dtype_, true), walk, value); }
  ScalarValue number(double value) { return body.imm(value, dtype_); }
  DType dtype() const { return dtype_; }

  Kernel take() {
    kernel_.body = body.take();
    verify(kernel_);
    return std::move(kernel_);
  }

 private:
  std::uint16_t operand(DType dtype, bool is_written) {
    kernel_.operands.push_back({dtype, is_written});
    return static_cast<std::uint16_t>(kernel_.operands.size() - 1);
  }
  std::uint16_t access(std::uint16_t operand_number, Walk walk) {
    Access access{.operand = operand_number};
    const bool has_columns = kernel_.rank() == 2, by_row = walk == Walk::rows_and_columns || walk == Walk::rows,
               by_column = walk == Walk::rows_and_columns || walk == Walk::columns;
    access.stride[0] = !by_row ? StrideClass::zero : has_columns ? StrideClass::any : StrideClass::unit;
    if (has_columns) access.stride[1] = by_column ? StrideClass::unit : StrideClass::zero;
    kernel_.accesses.push_back(access);
    return static_cast<std::uint16_t>(kernel_.accesses.size() - 1);
  }
  Kernel kernel_;
  DType dtype_;
};

/// exp(x - greatest), 0 where nothing is seen: then the greatest is -inf, and so is x.
inline ScalarValue finite(ScalarBuilder& body, ScalarValue greatest) {
  const ScalarValue nothing = body.imm(-std::numeric_limits<double>::infinity(), greatest);
  return body.select(body.eq(greatest, nothing), body.imm(0, greatest), greatest);
}

/// Reads the scale, and the mask if there is one.
inline ScalarValue scaled_and_masked(LoopBuilder& kernel, ScalarValue score, MaskKind mask) {
  ScalarBuilder& body = kernel.body;
  const ScalarValue scaled = body.mul(score, kernel.read(Walk::none));
  const Walk walk = mask == MaskKind::added || mask == MaskKind::seen ? Walk::rows_and_columns : Walk::rows;
  if (mask == MaskKind::added || mask == MaskKind::added_to_row) return body.add(scaled, kernel.read(walk));
  if (mask == MaskKind::seen || mask == MaskKind::row_is_seen)
    return body.select(kernel.read(walk, DType::bool_), scaled,
                       kernel.number(-std::numeric_limits<double>::infinity()));
  return scaled;
}

inline Kernel softmax_kernel(DType dtype, MaskKind mask) {
  LoopBuilder kernel(KernelKind::row, dtype, 2);
  ScalarBuilder& body = kernel.body;
  std::uint16_t scores = 0, greatest = 0, sum = 0;
  const ScalarValue score = kernel.read_and_written(Walk::rows_and_columns, scores),
                    old_greatest = kernel.read_and_written(Walk::rows, greatest),
                    old_sum = kernel.read_and_written(Walk::rows, sum);
  const ScalarValue seen = scaled_and_masked(kernel, score, mask);
  const ScalarValue new_greatest = body.max(old_greatest, body.reduce(Prim::reduce_max, seen)),
                    reference = finite(body, new_greatest), weight = body.exp(body.sub(seen, reference)),
                    shrink = body.exp(body.sub(old_greatest, reference));
  kernel.write(scores, Walk::rows_and_columns, weight);
  kernel.write(greatest, Walk::rows, new_greatest);
  kernel.write(sum, Walk::rows, body.fma(old_sum, shrink, body.reduce(Prim::reduce_add, weight)));
  kernel.write(Walk::rows, shrink);
  return kernel.take();
}

inline Kernel scale_kernel(DType dtype) {
  LoopBuilder kernel(KernelKind::pointwise, dtype, 2);
  std::uint16_t values = 0;
  const ScalarValue value = kernel.read_and_written(Walk::rows_and_columns, values);
  kernel.write(values, Walk::rows_and_columns, kernel.body.mul(value, kernel.read(Walk::rows)));
  return kernel.take();
}

inline Kernel join_kernel(DType dtype) {
  LoopBuilder kernel(KernelKind::pointwise, dtype, 1);
  ScalarBuilder& body = kernel.body;
  std::uint16_t greatest = 0, sum = 0;
  const ScalarValue old_greatest = kernel.read_and_written(Walk::rows, greatest),
                    old_sum = kernel.read_and_written(Walk::rows, sum), later_greatest = kernel.read(Walk::rows),
                    later_sum = kernel.read(Walk::rows), new_greatest = body.max(old_greatest, later_greatest),
                    reference = finite(body, new_greatest), factor = body.exp(body.sub(old_greatest, reference)),
                    later_factor = body.exp(body.sub(later_greatest, reference));
  kernel.write(greatest, Walk::rows, new_greatest);
  kernel.write(sum, Walk::rows, body.fma(old_sum, factor, body.mul(later_sum, later_factor)));
  kernel.write(Walk::rows, factor);
  kernel.write(Walk::rows, later_factor);
  return kernel.take();
}

inline Kernel add_kernel(DType dtype) {
  LoopBuilder kernel(KernelKind::pointwise, dtype, 2);
  ScalarBuilder& body = kernel.body;
  std::uint16_t values = 0;
  const ScalarValue value = kernel.read_and_written(Walk::rows_and_columns, values), factor = kernel.read(Walk::rows),
                    later = kernel.read(Walk::rows_and_columns), later_factor = kernel.read(Walk::rows);
  kernel.write(values, Walk::rows_and_columns, body.fma(value, factor, body.mul(later, later_factor)));
  return kernel.take();
}

inline Kernel divide_kernel(DType dtype, bool gives_zeros) {
  LoopBuilder kernel(KernelKind::pointwise, dtype, 2);
  ScalarBuilder& body = kernel.body;
  const ScalarValue value = kernel.read(Walk::rows_and_columns), sum = kernel.read(Walk::rows);
  ScalarValue out = body.div(value, sum);
  if (gives_zeros) out = body.select(body.eq(sum, kernel.number(0)), kernel.number(0), out);
  kernel.write(Walk::rows_and_columns, out);
  return kernel.take();
}

inline Kernel weights_kernel(DType dtype, MaskKind mask) {
  LoopBuilder kernel(KernelKind::row, dtype, 2);
  ScalarBuilder& body = kernel.body;
  std::uint16_t scores = 0;
  const ScalarValue score = kernel.read_and_written(Walk::rows_and_columns, scores),
                    seen = scaled_and_masked(kernel, score, mask),
                    reference = finite(body, body.reduce(Prim::reduce_max, seen)),
                    weight = body.exp(body.sub(seen, reference)), sum = body.reduce(Prim::reduce_add, weight);
  kernel.write(scores, Walk::rows_and_columns, weight);
  kernel.write(Walk::rows,
               body.select(body.eq(sum, kernel.number(0)), kernel.number(0), body.div(kernel.number(1), sum)));
  return kernel.take();
}

inline Kernel dot_kernel(DType dtype) {
  LoopBuilder kernel(KernelKind::row, dtype, 2);
  const ScalarValue a = kernel.read(Walk::rows_and_columns), b = kernel.read(Walk::rows_and_columns);
  kernel.write(Walk::rows, kernel.body.reduce(Prim::reduce_add, kernel.body.mul(a, b)));
  return kernel.take();
}

inline Kernel score_gradient_kernel(DType dtype) {
  LoopBuilder kernel(KernelKind::pointwise, dtype, 2);
  ScalarBuilder& body = kernel.body;
  std::uint16_t gradient = 0;
  const ScalarValue undivided = kernel.read(Walk::rows_and_columns),
                    dweight = kernel.read_and_written(Walk::rows_and_columns, gradient),
                    inverse = kernel.read(Walk::rows), dot = kernel.read(Walk::rows), scale = kernel.read(Walk::none),
                    weight = body.mul(undivided, inverse);
  kernel.write(Walk::rows_and_columns, weight);
  kernel.write(gradient, Walk::rows_and_columns, body.mul(body.mul(weight, body.sub(dweight, dot)), scale));
  return kernel.take();
}

/// The kernels and their code, made when first asked for.
struct KnownLoop {
  Kernel kernel;
  Isa isa;
  std::shared_ptr<const LoopCode> code;
};
inline std::shared_ptr<const LoopCode> code_of(const Kernel& kernel, Isa isa) {
  struct Known {
    ForkSafeMutex mutex;
    std::vector<KnownLoop> loops;
  };
  static Known& known = *new Known;
  const std::lock_guard lock(known.mutex);
  const bool is_recording = runtime_detail::CodeRecording::is_on();  // then it is made, and noted, again
  if (!is_recording)
    for (const KnownLoop& loop : known.loops)
      if (loop.isa == isa && loop.kernel == kernel) return loop.code;
  std::string why;
  std::shared_ptr<const LoopCode> code = compile_loop(kernel, Schedule{}, isa, &why);
  ensure(code != nullptr, why.c_str());
  if (!is_recording) known.loops.push_back({kernel, isa, code});
  return code;
}

/// Binds a kernel: the row stride of each access that moves by row, in elements, and the columns.
inline BoundLoop bind_loop(const Kernel& kernel, Isa isa, std::int64_t columns,
                           std::span<const std::int64_t> row_strides) {
  BoundLoop bound;
  bound.code = code_of(kernel, isa);
  bound.accesses = kernel.accesses.size();
  BoundGeometry geometry;
  geometry.extent[0] = 1;  // the caller says how many rows
  if (kernel.rank() == 2) geometry.extent[1] = columns;
  geometry.accesses.resize(bound.accesses);
  for (std::size_t i = 0; i < bound.accesses; ++i) {
    const Access& access = kernel.accesses[i];
    if (access.stride[0] != StrideClass::zero) geometry.accesses[i].stride[0] = row_strides[i];
    if (kernel.rank() == 2 && access.stride[1] != StrideClass::zero) geometry.accesses[i].stride[1] = 1;
  }
  fill_loop_args(bound.args, kernel, geometry, kernel.rank() == 2 ? 0 : -1);
  bound.args.scratch_stride = bound.code->scratch_stride(columns);
  return bound;
}

SINTER_DECL BoundLoop softmax_loop(DType dtype, Isa isa, MaskKind mask, std::int64_t score_stride,
                                   std::int64_t mask_stride) {
  const bool has_mask = mask != MaskKind::none;
  const Kernel kernel = softmax_kernel(dtype, mask);
  // Reads come first: scores, greatest, sum, scale, mask; then what is written.
  std::vector<std::int64_t> strides{score_stride, 1, 1, 0};
  if (has_mask) strides.push_back(mask_stride);
  for (const std::int64_t stride : {score_stride, std::int64_t{1}, std::int64_t{1}, std::int64_t{1}})
    strides.push_back(stride);
  return bind_loop(kernel, isa, attention_step, strides);
}
SINTER_DECL BoundLoop scale_loop(DType dtype, Isa isa, std::int64_t columns) {
  const std::int64_t strides[] = {columns, 1, columns};
  return bind_loop(scale_kernel(dtype), isa, columns, strides);
}
SINTER_DECL BoundLoop join_loop(DType dtype, Isa isa) {
  const std::int64_t strides[] = {1, 1, 1, 1, 1, 1, 1, 1};
  return bind_loop(join_kernel(dtype), isa, 1, strides);
}
SINTER_DECL BoundLoop add_loop(DType dtype, Isa isa, std::int64_t columns) {
  const std::int64_t strides[] = {columns, 1, columns, 1, columns};
  return bind_loop(add_kernel(dtype), isa, columns, strides);
}
SINTER_DECL BoundLoop divide_loop(DType dtype, Isa isa, std::int64_t columns, bool gives_zeros) {
  const std::int64_t strides[] = {columns, 1, columns};
  return bind_loop(divide_kernel(dtype, gives_zeros), isa, columns, strides);
}
SINTER_DECL BoundLoop weights_loop(DType dtype, Isa isa, MaskKind mask, std::int64_t columns, std::int64_t score_stride,
                                   std::int64_t mask_stride) {
  std::vector<std::int64_t> strides{score_stride, 0};
  if (mask != MaskKind::none) strides.push_back(mask_stride);
  strides.push_back(score_stride);
  strides.push_back(1);
  return bind_loop(weights_kernel(dtype, mask), isa, columns, strides);
}
SINTER_DECL BoundLoop dot_loop(DType dtype, Isa isa, std::int64_t columns) {
  const std::int64_t strides[] = {columns, columns, 1};
  return bind_loop(dot_kernel(dtype), isa, columns, strides);
}
SINTER_DECL BoundLoop score_gradient_loop(DType dtype, Isa isa, std::int64_t columns, std::int64_t score_stride,
                                          std::int64_t tile_stride) {
  const std::int64_t strides[] = {score_stride, tile_stride, 1, 1, 0, tile_stride, tile_stride};
  return bind_loop(score_gradient_kernel(dtype), isa, columns, strides);
}

SINTER_DECL void run_loop(const BoundLoop& loop, std::int64_t rows, std::initializer_list<void*> operands,
                          std::int64_t columns, std::byte* scratch, LoopArgs::Status& status) {
  LoopArgs args;
  std::memcpy(static_cast<void*>(&args), &loop.args,
              offsetof(LoopArgs, pointer) + loop.accesses * sizeof(LoopArgs::Pointer));
  std::size_t i = 0;
  for (void* const operand : operands) args.pointer[i++].base = static_cast<char*>(operand);
  if (columns != 0) args.columns = columns;
  args.scratch = scratch;
  args.status = &status;
  if (args.columns > 0) loop.code->function()(&args, 0, rows);
}

}  // namespace x86_attention_detail
}  // namespace x86
SINTER_NAMESPACE_END
