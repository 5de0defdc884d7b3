// Each struct is taken apart by a structured binding: one that gains a field does not compile here until the field is
// part of the key.
#pragma once

#include <sinter/kernel/kernel_key.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL KeyWriter& KeyWriter::add(const Inst& inst) {
  const auto& [prim, dtype, args, access, bits] = inst;
  add(prim).add(dtype);
  for (const InstId arg : args) add(arg);
  return add(access).add(bits);
}

SINTER_DECL KeyWriter& KeyWriter::add(const ScalarFold& fold) {
  const auto& [arguments, states, step, merge, finish] = fold;
  add_list(arguments, [&](DType dtype) { add(dtype); });
  add_list(states, [&](const FoldState& state) {
    const auto& [dtype, bits] = state;
    add(dtype).add(bits);
  });
  for (const ScalarProgram* program : {&step, &merge, &finish}) {
    const auto& [body, results] = *program;
    add_list(body, [&](const Inst& inst) { add(inst); });
    add_list(results, [&](InstId result) { add(result); });
  }
  return *this;
}

SINTER_DECL KeyWriter& KeyWriter::add(const Kernel& kernel) {
  const auto& [kind, axes, operands, accesses, body, stores, folds, orders, precision] = kernel;
  add(kind).add(precision);
  add_list(axes, [&](AxisRole role) { add(role); });
  add_list(operands, [&](const Operand& operand) {
    const auto& [dtype, written] = operand;
    add(dtype).add(written);
  });
  add_list(accesses, [&](const Access& access) {
    const auto& [operand, stride] = access;
    add(operand);
    for (const StrideClass s : stride) add(s);
  });
  add_list(body, [&](const Inst& inst) { add(inst); });
  add_list(stores, [&](const Store& store) {
    const auto& [access, value, index, combine] = store;
    add(access).add(value).add(index).add(combine);
  });
  add_list(folds, [&](const ScalarFold& fold) { add(fold); });
  return add_list(orders, [&](const Order& order) {
    const auto& [block, lane_bytes, lanes, above, group] = order;
    add(block).add(lane_bytes).add(lanes).add(above).add(group);
  });
}

SINTER_DECL KeyWriter& KeyWriter::add(const Schedule& schedule) {
  return add_list(schedule.steps(), [&](const ScheduleStep& step) {
    const auto& [action, number, axis] = step;
    add(action).add(number).add(axis);
  });
}

SINTER_NAMESPACE_END
