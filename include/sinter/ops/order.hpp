// Order along one axis: sorting, the first elements of the order, single ones of it (median, mode, ...), and where
// numbers stand in sorted ones. NaN is greater than every number, and equals keep their order. The host runs them;
// their derivatives are gathers and scatters. Must not know how a row is ordered: order_rows.hpp does.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// Which results of an op that gives values and their positions there are: what nobody reads is dropped.
enum class OrderedPart : std::uint8_t { both, values, indices };

/// sort(x): the elements along attrs.axes[0] in ascending order, and their positions (i64).
struct Sort {
  static constexpr OpInfo info{.name = "sort", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<bool> descending{"descending", 0};
  static constexpr OpAttr<OrderedPart> part{"part", 1, "both values indices"};
  static constexpr auto attributes = attribute_list(attr::axes, descending, part);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static void prepare_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& a, BatchedList& results);
  static void prune(const PruneArgs& args);
};

/// topk(x): the `count` largest (`smallest`: least) elements along attrs.axes[0] and their positions (i64), in that
/// order, or as they stand in x (`in_place`).
struct Topk {
  static constexpr OpInfo info{.name = "topk", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<Dim> count{"count", 0};
  static constexpr OpAttr<bool> smallest{"smallest", 0}, in_place{"in_place", 2};
  static constexpr OpAttr<OrderedPart> part{"part", 1, "both values indices"};
  static constexpr auto attributes = attribute_list(attr::axes, count, smallest, in_place, part);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static void prepare_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& a, BatchedList& results);
  static void prune(const PruneArgs& args);
};

/// What order_statistic gives: the element number `rank` of the order (from 0); the lower median, NaN if there is one;
/// that of the numbers; the most frequent element, the least of those, at its last position.
enum class OrderStatisticKind : std::uint8_t { rank, median, nanmedian, mode };

/// order_statistic(x): one element along attrs.axes[0], and its position (i64).
struct OrderStatistic {
  static constexpr OpInfo info{.name = "order_statistic", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<OrderStatisticKind> kind{"kind", 0, "rank median nanmedian mode"};
  static constexpr OpAttr<OrderedPart> part{"part", 1, "both values indices"};
  static constexpr OpAttr<Dim> rank{"rank", 0};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim, kind, rank, part);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static void prepare_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& a, BatchedList& results);
  static void prune(const PruneArgs& args);
};

/// searchsorted(sorted, x): how many elements of the last axis of `sorted`, which ascends, come before those of x
/// (`right`: or are equal), i64. `sorted` is one row, or has a row for each row of x.
struct Searchsorted {
  static constexpr OpInfo info{.name = "searchsorted", .arity = 2, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<bool> right{"right", 0};
  static constexpr auto attributes = attribute_list(right);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
