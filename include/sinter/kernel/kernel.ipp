// Hash, text form, axis analysis and verification of kernels.
#pragma once

#include <sinter/kernel/kernel.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstdio>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Hash128 Kernel::hash() const {
  Hasher h;
  h.add(static_cast<std::uint64_t>(kind)).add(axes.size());
  for (AxisRole role : axes) h.add(static_cast<std::uint64_t>(role));
  h.add(operands.size());
  for (const Operand& o : operands) h.add(static_cast<std::uint64_t>(o.dtype) * 2 + o.written);
  h.add(accesses.size());
  for (const Access& a : accesses) {
    std::uint64_t word = a.operand;
    for (StrideClass s : a.stride) word = word * 4 + static_cast<std::uint64_t>(s);
    h.add(word);
  }
  h.add(body.size());
  for (const Inst& i : body) {
    std::uint64_t word = static_cast<std::uint64_t>(i.prim) << 56 | static_cast<std::uint64_t>(i.dtype) << 48;
    h.add(word | std::uint64_t{i.args[0]} << 32 | std::uint64_t{i.args[1]} << 16 | i.args[2]);
    h.add(std::uint64_t{i.access}).add(i.bits);
  }
  h.add(stores.size());
  for (const Store& s : stores) {
    h.add(std::uint64_t{s.access} << 16 | s.value);
    if (s.index != no_inst) h.add(std::uint64_t{s.index} << 8 | static_cast<std::uint64_t>(s.combine));
  }
  for (const ScalarFold& fold : folds) add_to_hash(h, fold);
  for (const Order& o : orders) {
    h.add(std::uint64_t{o.block} << 32 | std::uint64_t{o.lane_bytes} << 16 | o.lanes);
    h.add(std::uint64_t{o.group} << 8 | static_cast<std::uint64_t>(o.above));
  }
  if (precision != MatmulPrecision::f32) h.add(static_cast<std::uint64_t>(precision));
  return h.finish();
}

SINTER_DECL Order standard_order(KernelKind kind, bool is_vector_axis) {
  if (kind == KernelKind::contraction) return {.block = product_sum_block, .group = product_sum_group};
  if (is_vector_axis) return {.block = row_sum_block, .lane_bytes = 256, .above = BlockOrder::pairwise};
  return {.block = column_sum_block, .lanes = 2};
}

SINTER_DECL Order Kernel::order(int axis) const {
  if (orders.empty()) return standard_order(kind, axis == rank() - 1);
  return orders[as_index(std::count(axes.begin(), axes.begin() + axis, AxisRole::reduced))];
}

SINTER_DECL bool Kernel::has_scan() const {
  return std::any_of(body.begin(), body.end(), [](const Inst& inst) { return is_scan(inst.prim); });
}

SINTER_DECL std::string Order::text() const {
  std::string text = lane_bytes != 0 ? "lanes of " + std::to_string(lane_bytes) + " bytes, "
                     : lanes > 1     ? std::to_string(lanes) + " lanes, "
                                     : "";
  text += "blocks of " + std::to_string(block);
  if (group != 0) text += ", groups of " + std::to_string(group);
  return text + (above == BlockOrder::pairwise ? ", pairwise" : ", compensated");
}

SINTER_DECL bool is_product_of_f32(const Kernel& kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(),
                     [](const Inst& inst) { return inst.prim == Prim::contract && inst.dtype == DType::f32; });
}

SINTER_DECL bool checks_indices(const Kernel& kernel) {
  return kernel.kind == KernelKind::scatter || std::any_of(kernel.body.begin(), kernel.body.end(),
                                                           [](const Inst& inst) { return inst.prim == Prim::gather; });
}

SINTER_DECL std::vector<bool> instructions_under(const std::vector<Inst>& body, InstId value) {
  std::vector<bool> under(as_index(value) + 1);
  under[value] = true;
  for (std::size_t i = under.size(); i-- > 0;)
    for (int k = 0; under[i] && k < arity(body[i].prim); ++k) under[body[i].args[as_index(k)]] = true;
  return under;
}

namespace kernel_detail {
/// Operands that are computed: which axes they may vary over.
inline void verify_operands(const Kernel& kernel, const Inst& contract) {
  const std::vector<std::uint32_t> masks = varying_axes(kernel);
  const std::uint32_t m = 1u << (kernel.rank() - 3), n = 1u << (kernel.rank() - 2);
  const auto is_computed = [&](InstId id) { return !is_plain_load(kernel, kernel.body[id]); };
  const InstId a = contract.args[0], b = contract.args[1];
  for (InstId operand : {a, b}) {
    ensure(kernel.body[operand].dtype == contract.dtype, "kernel: an operand of another dtype");
    if (!is_computed(operand)) continue;
    const std::vector<bool> under = instructions_under(kernel.body, operand);
    for (std::size_t i = 0; i < under.size(); ++i)
      ensure(!under[i] || kernel.body[i].prim != Prim::gather, "kernel: an operand with a gather");
    ensure((masks[operand] & (m | n)) != (m | n), "kernel: a computed operand varies over both m and n");
  }
  if (is_computed(a) || is_computed(b))
    ensure((masks[a] & masks[b] & (m | n)) == 0, "kernel: a computed operand varies over the other operand's axis");
}
}  // namespace kernel_detail

namespace kernel_detail {
inline void verify_order(const Order& order) {
  const auto is_power_of_two = [](std::uint32_t x) { return x != 0 && (x & (x - 1)) == 0; };
  ensure(is_power_of_two(order.lane_bytes != 0 ? order.lane_bytes / 8u : order.lanes),
         "kernel: the lanes of an order are a power of two");
  ensure(order.block != 0 && order.block % (order.lane_bytes != 0 ? order.lane_bytes : order.lanes) == 0,
         "kernel: the blocks of an order are made of whole rounds of its lanes");
  ensure(order.group % order.block == 0, "kernel: the groups of an order are made of whole blocks");
}
}  // namespace kernel_detail

namespace kernel_detail {
inline void verify_scans(const Kernel& kernel, std::size_t reduced_axes) {
  ensure(reduced_axes == 1 && kernel.orders.empty(), "kernel: a scan without one axis of its own order");
  for (const Inst& inst : kernel.body) {
    ensure(!is_reduction(inst.prim), "kernel: a reduction beside a scan");
    if (!is_scan(inst.prim)) continue;
    ensure(inst.bits <= 1 && inst.dtype != DType::bool_, "kernel: no such scan");
    ensure(kernel.body[inst.args[0]].dtype == inst.dtype, "kernel: a scan of another dtype");
  }
}

inline void verify_fold(const Kernel& kernel, const Inst& inst) {
  ensure(inst.access < kernel.folds.size(), "kernel: fold out of range");
  const ScalarFold& fold = kernel.folds[inst.access];
  ensure(inst.bits < fold.finish.results.size() && fold.result(inst.bits) == inst.dtype,
         "kernel: a result that its fold does not have");
  for (std::size_t k = 0; k < max_fold_arguments; ++k) {
    const bool is_there = k < fold.arguments.size();
    ensure(is_there || inst.args[k] == inst.args[0], "kernel: an argument that its fold does not have");
    ensure(!is_there || kernel.body[inst.args[k]].dtype == fold.arguments[k], "kernel: a fold of another dtype");
  }
}
inline void verify_scatter(const Kernel& kernel) {
  ensure(kernel.stores.size() == 1 && kernel.stores[0].index < kernel.body.size(),
         "kernel: a scatter has one store, with an index");
  const DType index = kernel.body[kernel.stores[0].index].dtype;
  ensure(index == DType::i32 || index == DType::i64, "kernel: an index that is no integer");
  const std::uint16_t written = kernel.accesses[kernel.stores[0].access].operand;
  for (const Inst& inst : kernel.body) {
    ensure(inst.prim != Prim::gather, "kernel: a scatter with a gather");
    ensure(inst.prim != Prim::load || kernel.accesses[inst.access].operand != written,
           "kernel: a scatter reads what it writes");
  }
}
}  // namespace kernel_detail

SINTER_DECL void verify(const Kernel& kernel) {
  ensure(kernel.rank() >= 1 && kernel.rank() <= max_axes, "kernel: rank out of range");
  for (const ScalarFold& fold : kernel.folds) verify(fold);
  int contracts = 0, reductions = 0;
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Inst& inst = kernel.body[i];
    for (int k = 0; k < arity(inst.prim); ++k)
      ensure(inst.args[as_index(k)] < i, "kernel: argument used before it is made");
    if (reads_memory(inst.prim)) {
      ensure(inst.access < kernel.accesses.size(), "kernel: access out of range");
      ensure(computed_in(kernel.operands[kernel.accesses[inst.access].operand].dtype) == inst.dtype,
             "kernel: load of another dtype");
    }
    if (inst.prim == Prim::guarded_load) {
      ensure(kernel.kind != KernelKind::contraction && kernel.kind != KernelKind::scatter,
             "kernel: a guarded load in a contraction or a scatter");
      ensure(kernel.body[inst.args[0]].dtype == DType::bool_ && kernel.body[inst.args[1]].dtype == inst.dtype,
             "kernel: a guarded load with a condition or fill of another dtype");
    }
    if (inst.prim == Prim::fold) kernel_detail::verify_fold(kernel, inst);
    ensure(inst.prim != Prim::argument, "kernel: an argument outside a fold's programs");
    contracts += inst.prim == Prim::contract;
    reductions += is_reduction(inst.prim);
  }
  for (const Access& access : kernel.accesses)
    ensure(access.operand < kernel.operands.size(), "kernel: operand out of range");
  for (const Store& store : kernel.stores) {
    ensure(store.access < kernel.accesses.size() && store.value < kernel.body.size(), "kernel: bad store");
    const Operand& operand = kernel.operands[kernel.accesses[store.access].operand];
    ensure(operand.written && computed_in(operand.dtype) == kernel.body[store.value].dtype,
           "kernel: store of another dtype");
    ensure(store.index == no_inst || kernel.kind == KernelKind::scatter, "kernel: an index outside a scatter");
  }
  ensure(kernel.precision == MatmulPrecision::f32 || is_product_of_f32(kernel),
         "kernel: a precision without a product of f32");
  const auto reduced = as_index(std::count(kernel.axes.begin(), kernel.axes.end(), AxisRole::reduced));
  const bool has_reduced = reduced != 0;
  ensure(kernel.orders.empty() || kernel.orders.size() == reduced, "kernel: not one order for each reduced axis");
  for (const Order& order : kernel.orders) kernel_detail::verify_order(order);
  if (kernel.has_scan()) kernel_detail::verify_scans(kernel, reduced);
  switch (kernel.kind) {
    case KernelKind::pointwise: ensure(!has_reduced && reductions == 0, "kernel: pointwise with a reduction"); break;
    case KernelKind::scatter:
      ensure(!has_reduced && reductions == 0, "kernel: a scatter with a reduction");
      kernel_detail::verify_scatter(kernel);
      break;
    case KernelKind::row:
      ensure(kernel.is_reduced(kernel.rank() - 1) && contracts == 0, "kernel: row without a reduced vector axis");
      break;
    case KernelKind::column:
      ensure(has_reduced && !kernel.is_reduced(kernel.rank() - 1) && contracts == 0, "kernel: not a column kernel");
      break;
    case KernelKind::contraction:
      ensure(contracts == 1 && reductions == 1 && kernel.rank() >= 3 && kernel.is_reduced(kernel.rank() - 1),
             "kernel: not a contraction");
      break;
  }
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::contract) kernel_detail::verify_operands(kernel, inst);
}

namespace kernel_detail {
SINTER_DECL std::string access_text(const Kernel& kernel, std::uint16_t index) {
  const Access& access = kernel.accesses[index];
  std::string text = "p" + std::to_string(access.operand) + "[";
  for (int a = 0; a < kernel.rank(); ++a) {
    constexpr const char* names[] = {"0", "1", "n", "-"};
    text += names[as_index(access.stride[as_index(a)])];
  }
  return text + "]";
}

SINTER_DECL std::string inst_text(const Kernel& kernel, const Inst& inst) {
  std::string text = std::string(name(inst.dtype)) + " " + std::string(name(inst.prim));
  if (inst.prim == Prim::immediate) {
    char number[40];
    if (is_floating(inst.dtype)) std::snprintf(number, sizeof number, " %.9g", inst.number());
    else std::snprintf(number, sizeof number, " %lld", static_cast<long long>(inst.integer()));
    text += number;
  }
  if (inst.prim == Prim::index) text += " a" + std::to_string(inst.bits);
  if (reads_memory(inst.prim)) text += " " + access_text(kernel, inst.access);
  if (inst.prim == Prim::guarded_load)
    return text +
           (inst.usually() == Usually::unknown ? " if %"
            : inst.usually() == Usually::holds ? " usually if %"
                                               : " seldom if %") +
           std::to_string(inst.args[0]) + " else %" + std::to_string(inst.args[1]);
  if (is_scan(inst.prim) && inst.is_exclusive()) text += " exclusive";
  if (inst.prim == Prim::fold) text += " f" + std::to_string(inst.access) + "." + std::to_string(inst.bits);
  for (int k = 0; k < argument_count(kernel, inst); ++k)
    text += (k ? ", %" : " %") + std::to_string(inst.args[as_index(k)]);
  return text;
}

SINTER_DECL std::string store_text(const Kernel& kernel, const Store& store) {
  const std::string place = access_text(kernel, store.access), value = ", %" + std::to_string(store.value);
  if (store.index == no_inst) return "store " + place + value;
  return "update " + place + " at %" + std::to_string(store.index) + " by " + std::string(name(store.combine)) + value;
}
}  // namespace kernel_detail

SINTER_DECL std::string Kernel::text() const {
  std::string text = "kernel " + std::string(name(kind));
  if (precision != MatmulPrecision::f32) text += " in " + std::string(name(precision));
  text += " axes(";
  for (int a = 0; a < rank(); ++a)
    text += std::string(a ? ", " : "") + (is_reduced(a) ? "reduced a" : "a") + std::to_string(a) +
            (is_reduced(a) && !orders.empty() ? " (" + order(a).text() + ")" : "");
  text += ") operands(";
  for (std::size_t i = 0; i < operands.size(); ++i)
    text += std::string(i ? ", " : "") + (operands[i].written ? "out p" : "p") + std::to_string(i) + ": " +
            std::string(name(operands[i].dtype));
  text += ") {\n";
  for (std::size_t f = 0; f < folds.size(); ++f) text += "  fold f" + std::to_string(f) + " " + sinter::text(folds[f]);
  for (std::size_t i = 0; i < body.size(); ++i)
    text += "  %" + std::to_string(i) + " = " + kernel_detail::inst_text(*this, body[i]) + "\n";
  for (const Store& s : stores) text += "  " + kernel_detail::store_text(*this, s) + "\n";
  return text + "}\n";
}

SINTER_DECL BoundGeometry bind(const SymbolicGeometry& geometry, std::span<const std::int64_t> symbols) {
  BoundGeometry bound;
  for (std::size_t a = 0; a < max_axes; ++a) bound.extent[a] = geometry.extent[a].evaluate(symbols);
  bound.accesses.reserve(geometry.accesses.size());
  for (const auto& access : geometry.accesses) {
    auto& out = bound.accesses.emplace_back();
    for (std::size_t a = 0; a < max_axes; ++a) out.stride[a] = access.stride[a].evaluate(symbols);
    out.offset = access.offset.evaluate(symbols);
    out.gather_extent = access.gather_extent.evaluate(symbols);
    out.gather_stride = access.gather_stride.evaluate(symbols);
  }
  return bound;
}

SINTER_NAMESPACE_END
