// What the drivers of loops (nest/driver.ipp) and products (contraction/contraction.ipp) decide when they are bound, as
// numbers. Products are always done by tiles here: no way of summing changes a bit. A scatter computes all its indices
// and values by loops of their own, and then walks over them.
#pragma once

#include <sinter/backend/x86/exported/exported.hpp>

#include <sinter/backend/x86/contraction/contraction.ipp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/contraction/plan.ipp>
#include <sinter/backend/x86/exported/runtime_source.hpp>
#include <sinter/backend/x86/nest/loop.ipp>
#include <sinter/backend/x86/scatter/parts.hpp>
#include <sinter/kernel/loop_nest/binding.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_export_detail {

inline constexpr std::size_t totals_bytes = max_tile_bytes;
inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The code of a loop for these columns, and the scratch that it needs.
struct LoopBytes {
  std::vector<std::byte> bytes;
  std::int64_t scratch_stride = 0;
  std::size_t scratch_bytes = 0;
};
inline Optional<LoopBytes> loop_bytes(const Kernel& kernel, const BoundGeometry& geometry, std::int64_t columns,
                                      Isa isa, std::string& why) {
  const std::optional<PreparedNest> nest =
      prepare_nest(kernel, {}, isa, x86_contraction_detail::index_width(kernel, geometry), why);
  if (!nest) return {};
  LoopBytes loop;
  const bool is_short = nest->nest.has(VariantKind::short_rows) && columns >= 1 && columns <= nest->nest.lanes;
  const std::size_t begin =
      x86_detail::generate_part(*nest, is_short ? LoopPart::short_rows : LoopPart::whole, loop.bytes, nullptr);
  ensure(begin == 0, "export: a function that does not begin its code");
  loop.scratch_stride = (columns * 8 + 127) / 64 * 64;
  loop.scratch_bytes = as_index(nest->tiles * loop.scratch_stride);
  return loop;
}

inline void add_pointer(std::vector<std::int64_t>& to, std::int64_t operand, std::int64_t offset,
                        const LoopArgs::Pointer& p) {
  to.insert(to.end(), {operand, offset, p.outer_stride, p.reduced_stride, p.far_stride, p.column_stride,
                       p.gather_stride, p.gather_extent});
}
inline void add_view(std::vector<std::int64_t>& to, std::int64_t operand, const MatrixView& view) {
  to.insert(to.end(), {operand, view.offset, view.row_stride, view.column_stride});
  to.insert(to.end(), view.batch_stride.begin(), view.batch_stride.end());
}

/// Products with vectors have methods of their own, which become tiles; and each panel is packed when its time comes.
inline void make_tiles(ContractionPlan& p, Isa isa) {
  using namespace x86_contraction_detail;
  if (p.method != ProductMethod::tiles) {
    p.method = ProductMethod::tiles;
    choose_packing(p, false, isa);
    choose_tile(p, 0, 0, isa, 1, false);
  }
  p.k_run = std::max<std::int64_t>(1, std::min(p.k, product_sum_group));
  choose_blocks(p, isa, 1);
}

inline MicroShape micro_shape(const ContractionPlan& p, Isa isa, bool is_taller, bool is_last) {
  const int lane_count = lanes(isa, p.dtype);
  const std::int64_t columns = is_last || p.panels == 1 ? p.tail_columns : p.width;
  return {.dtype = p.dtype,
          .isa = isa,
          .rows = static_cast<std::uint8_t>(p.tile_rows + (is_taller && p.taller_tiles != 0)),
          .vectors = static_cast<std::uint8_t>((columns + lane_count - 1) / lane_count),
          .is_masked = columns % lane_count != 0,
          .walk = p.walk,
          .sum = p.k > product_sum_block ? MicroSum::blocks : MicroSum::one_block,
          .prefetches_a = p.prefetches_a,
          .prefetches_b = p.prefetches_b};
}

/// A pointwise kernel that stores value `id` of the scatter for every point, row-major, as elements of `dtype`.
inline Kernel points_kernel(const Kernel& scatter, InstId id, DType dtype, BoundGeometry& geometry) {
  Kernel kernel = x86_detail::tile_kernel(scatter, id);
  const std::size_t access = kernel.accesses.size() - 1;
  kernel.operands.back().dtype = dtype;
  geometry.accesses.resize(access + 1);
  std::int64_t stride = 1;
  for (int axis = scatter.rank(); axis-- > 0; stride *= geometry.extent[as_index(axis)]) {
    if (axis + 1 < scatter.rank()) kernel.accesses[access].stride[as_index(axis)] = StrideClass::any;
    geometry.accesses[access].stride[as_index(axis)] = stride;
  }
  return kernel;
}

/// What the run-time calls the type of elements that are combined so.
inline ScatterElement scatter_element(DType dtype, Combine combine) {
  const bool is_moved = combine == Combine::none;  // any type of that size does
  if (!is_moved && dtype == DType::f32) return ScatterElement::f32;
  if (!is_moved && dtype == DType::f64) return ScatterElement::f64;
  if (!is_moved && dtype == DType::f16) return ScatterElement::f16;
  if (!is_moved && dtype == DType::bf16) return ScatterElement::bf16;
  const bool is_signed =
      !is_moved && (dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64);
  const auto first = static_cast<std::uint8_t>(is_signed ? ScatterElement::i8 : ScatterElement::u8);
  return static_cast<ScatterElement>(first + std::countr_zero(static_cast<std::uint64_t>(size_of(dtype))));
}
/// Sums and products of bool are `or` and `and`.
inline Combine scatter_combine(DType dtype, Combine combine) {
  if (dtype != DType::bool_) return combine;
  return combine == Combine::add ? Combine::max : combine == Combine::mul ? Combine::min : combine;
}

}  // namespace x86_export_detail

SINTER_DECL std::int64_t KernelExport::place(std::span<const std::byte> function) {
  const auto [known, is_new] = known_.try_emplace({function.begin(), function.end()}, 0);
  if (!is_new) return known->second;
  code_.resize(x86_export_detail::aligned(code_.size()), std::byte{0xCC});
  known->second = static_cast<std::int64_t>(code_.size());
  code_.insert(code_.end(), function.begin(), function.end());
  return known->second;
}

SINTER_DECL Optional<ExportedKernel> KernelExport::add(const Kernel& kernel, const BoundGeometry& geometry,
                                                       std::string& why) {
  if (kernel.kind == KernelKind::scatter) return add_scatter(kernel, geometry, why);
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::gather && geometry.accesses[inst.access].gather_extent <= 0) {
      why = "an index into an axis of extent 0";
      return {};
    }
  return kernel.kind == KernelKind::contraction ? add_product(kernel, geometry, why) : add_loop(kernel, geometry, why);
}

SINTER_DECL Optional<ExportedKernel> KernelExport::add_loop(const Kernel& kernel, const BoundGeometry& geometry,
                                                            std::string& why) {
  const NestBinding binding = NestBinder(kernel).bind(
      geometry, {.serial_nanoseconds = std::numeric_limits<double>::infinity()});  // one thread: nothing is cut
  ensure(binding.chunk == 0, "export: a row that is cut");
  LoopArgs args;
  fill_loop_args(args, kernel, geometry, binding.outer.axis);
  args.columns = binding.columns;
  const auto loop = x86_export_detail::loop_bytes(kernel, geometry, args.columns, isa_, why);
  if (!loop) return {};
  ExportedKernel made{KernelRunner::loop, {}, loop->scratch_bytes};
  const auto accesses = static_cast<std::int64_t>(kernel.accesses.size());
  made.numbers = {place(loop->bytes),
                  binding.outer.extent,
                  binding.rest_points,
                  args.columns,
                  args.reduced,
                  args.far,
                  loop->scratch_stride,
                  accesses,
                  static_cast<std::int64_t>(binding.rest.size())};
  made.numbers.insert(made.numbers.end(), std::begin(args.index_step), std::end(args.index_step));
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    x86_export_detail::add_pointer(made.numbers, kernel.accesses[i].operand, offset_bytes(kernel, geometry, i),
                                   args.pointer[i]);
  for (const NestBinding::Axis& axis : binding.rest) {
    made.numbers.insert(made.numbers.end(), {axis.axis, axis.extent});
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
      made.numbers.push_back(geometry.accesses[i].stride[as_index(axis.axis)] *
                             size_of(kernel.operands[kernel.accesses[i].operand].dtype));
  }
  return made;
}

SINTER_DECL Optional<ExportedKernel> KernelExport::add_product(const Kernel& kernel, const BoundGeometry& geometry,
                                                               std::string& why) {
  using namespace x86_export_detail;
  const std::optional<ContractionParts> parts = split_contraction(kernel, {}, isa_, &why);
  if (!parts) return {};
  ContractionPlan plan = plan_contraction(kernel, *parts, geometry, Packing::by_cost, isa_, 1);
  make_tiles(plan, isa_);
  ExportedKernel made{KernelRunner::product, {}, 0};
  std::vector<std::int64_t>& n = made.numbers;
  for (int i = 0; i < 4; ++i) n.push_back(place(micro_kernel_code(micro_shape(plan, isa_, i / 2 == 1, i % 2 == 1))));
  const std::size_t row_bytes = as_index(plan.width * plan.element);
  const std::int64_t block_tiles =
      plan.is_direct || plan.k > product_sum_group ? plan.tiles_per_block : plan.tiles_per_epilogue;
  const std::size_t sums = as_index(block_tiles * (plan.tile_rows + 1)) * row_bytes;
  const std::size_t sums_at = totals_bytes, panel_at = aligned(sums_at + 3 * sums),
                    loop_at = aligned(panel_at + (plan.packs_b ? as_index(plan.k) * row_bytes : 0));
  for (const std::int64_t number :
       {std::int64_t{plan.dtype == DType::f64}, plan.batches, plan.tiles, plan.tile_rows, plan.taller_tiles,
        block_tiles, plan.panels, plan.width, plan.tail_columns, plan.tail_columns % lanes(isa_, plan.dtype), plan.k,
        std::int64_t{plan.packs_b}, std::int64_t{plan.is_direct}, static_cast<std::int64_t>(sums_at),
        static_cast<std::int64_t>(panel_at), static_cast<std::int64_t>(loop_at)})
    n.push_back(number);
  for (std::size_t axis = 0; axis < max_axes; ++axis)
    n.push_back(axis < as_index(plan.batch_axes) ? plan.batch_extent[axis] : 1);
  std::int64_t a = kernel.accesses[parts->a].operand, b = kernel.accesses[parts->b].operand;
  if (plan.is_swapped) std::swap(a, b);
  add_view(n, a, plan.a);
  add_view(n, b, plan.b);
  add_view(n, plan.is_direct ? kernel.accesses[parts->store].operand : 0, plan.c);
  made.scratch_bytes = loop_at;
  if (plan.is_direct) return made;
  const auto bound = x86_contraction_detail::bind_epilogue(kernel, *parts, plan, geometry, nullptr);
  const auto loop = loop_bytes(parts->epilogue, geometry, plan.width, isa_, why);
  if (!loop) return {};
  made.scratch_bytes += loop->scratch_bytes;
  n.insert(n.end(), {place(loop->bytes), plan.batch_axes, loop->scratch_stride,
                     static_cast<std::int64_t>(bound.bases.size() + 1)});
  for (std::size_t i = 0; i <= bound.bases.size(); ++i) {
    const bool is_sum = i == bound.bases.size();
    add_pointer(n, is_sum ? -1 : bound.bases[i].operand, is_sum ? 0 : bound.bases[i].offset, bound.args.pointer[i]);
    for (std::size_t axis = 0; axis < max_axes; ++axis) n.push_back(is_sum ? 0 : bound.bases[i].batch_stride[axis]);
  }
  return made;
}

SINTER_DECL Optional<ExportedKernel> KernelExport::add_scatter(const Kernel& kernel, const BoundGeometry& geometry,
                                                               std::string& why) {
  using namespace x86_export_detail;
  const Store& store = kernel.stores[0];
  const std::uint16_t target = kernel.accesses[store.access].operand;
  const DType dtype = kernel.operands[target].dtype, index = kernel.body[store.index].dtype;
  if (is_f8(dtype) && store.combine != Combine::none) {
    why = "values of " + std::string(name(dtype)) + " are combined at positions given as data";
    return {};
  }
  // Halves are combined as floats, and rounded where they are stored.
  const DType computed = is_half(dtype) && store.combine != Combine::none ? DType::f32 : dtype;
  if (kernel.accesses.size() >= as_index(max_accesses) || kernel.operands.size() >= as_index(max_accesses)) {
    why = "it has too many operands";
    return {};
  }
  BoundGeometry of_index = geometry, of_value = geometry;
  const Kernel indices = points_kernel(kernel, store.index, index, of_index);
  const Kernel values = points_kernel(kernel, store.value, computed, of_value);
  const auto index_loop = add_loop(indices, of_index, why), value_loop = add_loop(values, of_value, why);
  if (!index_loop || !value_loop) return {};
  std::int64_t points = 1;
  for (int axis = 0; axis < kernel.rank(); ++axis) points *= geometry.extent[as_index(axis)];
  const std::size_t values_at = aligned(as_index(points * size_of(index))),
                    loop_at = values_at + aligned(as_index(points * size_of(computed)));
  const auto& numbers = geometry.accesses[store.access];
  const std::int64_t index_numbers = scatter_first + 2 * kernel.rank(),
                     value_numbers = index_numbers + static_cast<std::int64_t>(index_loop->numbers.size());
  ExportedKernel made{KernelRunner::scatter, {}, 0};
  made.scratch_bytes = loop_at + std::max(index_loop->scratch_bytes, value_loop->scratch_bytes);
  made.numbers = {points,
                  kernel.rank(),
                  static_cast<std::int64_t>(scatter_element(dtype, store.combine)),
                  static_cast<std::int64_t>(scatter_combine(dtype, store.combine)),
                  size_of(index),
                  numbers.gather_extent,
                  numbers.gather_stride * size_of(dtype),
                  target,
                  offset_bytes(kernel, geometry, store.access),
                  static_cast<std::int64_t>(kernel.operands.size()),
                  static_cast<std::int64_t>(values_at),
                  static_cast<std::int64_t>(loop_at),
                  index_numbers,
                  value_numbers};
  for (std::size_t axis = 0; axis < as_index(kernel.rank()); ++axis)
    made.numbers.insert(made.numbers.end(), {geometry.extent[axis], numbers.stride[axis] * size_of(dtype)});
  for (const auto* loop : {&*index_loop, &*value_loop})
    made.numbers.insert(made.numbers.end(), loop->numbers.begin(), loop->numbers.end());
  return made;
}

}  // namespace x86
SINTER_NAMESPACE_END
