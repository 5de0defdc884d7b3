// Two rows side by side: what a row waits for between its passes, the sum of its lanes, a root, a quotient, and lines
// of memory, passes while the other one is computed. Each row's operations are those that it has alone, in their order.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// AVX2 has no registers for the lanes of two rows. Accesses of each element alone, and conditions, are left to the
/// code for one row.
SINTER_DECL bool takes_pairs(const Kernel& kernel, Isa isa) {
  if (isa != Isa::avx512 || kernel.kind != KernelKind::row || !kernel.folds.empty()) return false;
  const int vector_axis = kernel.rank() - 1;
  for (int axis = 0; axis < vector_axis; ++axis)
    if (kernel.is_reduced(axis)) return false;
  int reductions = 0;
  for (const Inst& inst : kernel.body) {
    if (inst.prim == Prim::gather || inst.prim == Prim::guarded_load || is_scan(inst.prim)) return false;
    reductions += is_reduction(inst.prim);
  }
  constexpr int most_reductions = 4;
  return reductions > 0 && reductions <= most_reductions &&
         std::none_of(kernel.accesses.begin(), kernel.accesses.end(),
                      [&](const Access& access) { return access.stride[as_index(vector_axis)] >= StrideClass::any; });
}

template <class Item>
void LoopGenerator::for_each_row(Item&& item) {
  for (int row = 0; row < 2; ++row) {
    body_.select_row(row);
    item(row);
  }
  body_.select_row(0);
}

/// Pairs of rows, and a last one alone.
SINTER_DECL void LoopGenerator::pairs_function(std::size_t outer) {
  const int top = s_.new_label(), rest = s_.new_label(), done = s_.new_label();
  s_.begin_loop();
  s_.bind(top);
  s_.emit(Op::lea, {reg(Gpr::rax), mem(8)}, CodeStream::at(loop_reg::outer, 2));
  s_.binary(Op::cmp, Gpr::rax, CodeStream::slot(end_slot_));
  s_.jump(Op::jg, rest);
  pair_step(outer);
  s_.binary_imm(Op::add, loop_reg::outer, 2);
  s_.jump(Op::jmp, top);
  s_.end_loop();
  s_.bind(rest);
  s_.binary(Op::cmp, loop_reg::outer, CodeStream::slot(end_slot_));
  s_.jump(Op::jge, done);
  row_step(outer);
  s_.bind(done);
}

SINTER_DECL void LoopGenerator::pair_step(std::size_t outer) {
  body_.reset_pointers();
  nest_.for_each_child(outer, [&](std::size_t child) {
    if (node(child).kind == NestNodeKind::store)
      return for_each_row([&](int) { body_.store_outer(kernel_.stores[node(child).first], Lane0{}); });
    if (!is_pass(child)) return for_each_row([&](int) { render_outside(child, {}); });
    const std::uint16_t outside = enter_pass(outer);
    pair_pass(child);
    s_.use_region(outside);
  });
}

SINTER_DECL void LoopGenerator::pair_pass(std::size_t pass) {
  const Reductions reductions = reductions_of(pass);
  std::vector<Running> results;
  for (int row = 0; row < 2; ++row)
    for (std::size_t i = 0; i < reductions.size(); ++i) add_values(results, reductions, i, row);
  make_accumulators(results);
  for_each_row([&](int) { prepare_divisions(pass); });
  rows_ = 2;
  row_columns(pass, results);
  rows_ = 1;
  const std::size_t each = results.size() / 2;
  for_each_row([&](int row) { publish(reductions, std::span(results).subspan(as_index(row) * each, each)); });
}

}  // namespace x86
SINTER_NAMESPACE_END
