// From operations that order to launches. What must fail is left to the host, which says why.
#pragma once

#include <sinter/backend/cuda/library/order.hpp>

#include <sinter/backend/cuda/library/library_launch.hpp>
#include <sinter/backend/cuda/library/order_kernels.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/ops/order.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

class OrderLaunch final : public LibraryLaunch {
 public:
  OrderLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step, const OrderPlan& plan, ops::OrderedPart part)
      : LibraryLaunch(gpu, op, step),
        plan_(plan),
        part_(part),
        kernels_(module_of(gpu, plan.way() == OrderPlan::Way::digits ? digit_sort_kernels(op.types[0].dtype)
                                                                     : row_sort_kernel(plan.row_sort()))) {}

 private:
  void enqueue(void* const* operands) override {
    void* const values = part_ == ops::OrderedPart::indices ? nullptr : operands[1];
    void* const indices =
        part_ == ops::OrderedPart::values ? nullptr : operands[part_ == ops::OrderedPart::both ? 2 : 1];
    const std::size_t bytes = plan_.workspace_bytes();
    plan_.for_each_launch(operands[0], values, static_cast<std::int64_t*>(indices),
                          bytes == 0 ? nullptr : workspace(bytes),
                          [&](std::size_t entry, std::int64_t blocks, int threads, const OrderArguments& arguments) {
                            launch(*kernels_, entry, blocks, threads, arguments);
                          });
  }

  OrderPlan plan_;
  ops::OrderedPart part_;
  std::shared_ptr<const Module> kernels_;
};

class SearchsortedLaunch final : public LibraryLaunch {
 public:
  SearchsortedLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : LibraryLaunch(gpu, op, step), kernels_(module_of(gpu, digit_sort_kernels(op.types[0].dtype))) {
    const Shape &sorted = op.types[0].shape, &numbers = op.types[1].shape;
    arguments_.length = sorted[-1].value();
    arguments_.rows = numbers.numel().value();
    arguments_.count = sorted.rank() == 1 ? 0 : numbers[-1].value();
    arguments_.is_or_equal = op.attrs[ops::Searchsorted::right] ? 1 : 0;
  }

 private:
  void enqueue(void* const* operands) override {
    OrderArguments arguments = arguments_;
    arguments.in = operands[0];
    arguments.from = operands[1];
    arguments.indices = static_cast<std::int64_t*>(operands[2]);
    launch_each(*kernels_, static_cast<std::size_t>(DigitKernel::searchsorted), arguments.rows, arguments);
  }

  OrderArguments arguments_;
  std::shared_ptr<const Module> kernels_;
};

inline OrderProblem order_problem(const BoundOp& op) {
  const Shape& shape = op.types[0].shape;
  const auto given = static_cast<int>(op.attrs.axes[0]);
  const int axis = given < 0 ? given + shape.rank() : given;
  OrderProblem problem;
  problem.dtype = op.types[0].dtype;
  for (int i = 0; i < axis; ++i) problem.rows *= shape[i].value();
  problem.length = shape[axis].value();
  for (int i = axis + 1; i < shape.rank(); ++i) problem.stride *= shape[i].value();
  problem.rows *= problem.stride;
  return problem;
}
inline OrderedPick pick_of(ops::OrderStatisticKind kind) {
  using Kind = ops::OrderStatisticKind;
  switch (kind) {
    case Kind::rank: return OrderedPick::rank;
    case Kind::median: return OrderedPick::median;
    case Kind::nanmedian: return OrderedPick::nanmedian;
    case Kind::mode: return OrderedPick::mode;
  }
  __builtin_unreachable();
}

SINTER_DECL std::unique_ptr<Launch> bind_order(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  if (op.is<ops::Searchsorted>()) {
    if (!has_order_kernels(op.types[0].dtype)) return nullptr;
    return std::make_unique<SearchsortedLaunch>(gpu, op, step);
  }
  const bool is_sort = op.is<ops::Sort>(), is_topk = op.is<ops::Topk>();
  if (!is_sort && !is_topk && !op.is<ops::OrderStatistic>()) return nullptr;
  OrderProblem problem = order_problem(op);
  ops::OrderedPart part = ops::OrderedPart::both;
  if (is_sort) {
    problem.count = problem.length;
    problem.is_descending = op.attrs[ops::Sort::descending];
    part = op.attrs[ops::Sort::part];
  } else if (is_topk) {
    problem.count = op.attrs[ops::Topk::count].value();
    problem.is_descending = !op.attrs[ops::Topk::smallest];
    if (op.attrs[ops::Topk::in_place]) problem.pick = OrderedPick::first_by_position;
    part = op.attrs[ops::Topk::part];
  } else {
    const ops::OrderStatisticKind kind = op.attrs[ops::OrderStatistic::kind];
    problem.pick = pick_of(kind);
    if (problem.pick == OrderedPick::rank) problem.rank = op.attrs[ops::OrderStatistic::rank].value();
    part = op.attrs[ops::OrderStatistic::part];
  }
  if (problem.count > problem.length || problem.rank >= problem.length) return nullptr;
  const OrderPlan plan(problem);
  if (plan.way() == OrderPlan::Way::none) return nullptr;
  return std::make_unique<OrderLaunch>(gpu, op, step, plan, part);
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
