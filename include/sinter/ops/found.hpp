// What is found in a row, where how much that is depends on data: places of what is not zero, distinct elements.
// Results have a size of their own; what is left of it holds nothing. The host runs them. They have no derivatives:
// values are taken at the positions that they give.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// nonzero(x): the positions (i64) along the last axis of the elements that are not 0, the first `size` of them; -1
/// where there are no more.
struct Nonzero {
  static constexpr OpInfo info{.name = "nonzero", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<Dim> size{"size", 0};
  static constexpr auto attributes = attribute_list(size);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& a);
};

/// Which elements unique() counts as one and in which order it gives them: equal ones, ascending or as they come first;
/// equal neighbours.
enum class UniqueOrder : std::uint8_t { ascending, as_found, neighbours };

/// unique(x): of the distinct elements along the last axis where each is for the first time (the first `size` of them;
/// -1 where there are no more), for each element the number of the distinct one that it equals, and how often each is
/// there (0 where there are no more); all i64. No NaN equals another one.
struct Unique {
  static constexpr OpInfo info{.name = "unique", .arity = 1, .kind = OpKind::structured, .is_cheap = false};
  static constexpr OpAttr<Dim> size{"size", 0};
  static constexpr OpAttr<UniqueOrder> order{"order", 0, "ascending as_found neighbours"};
  static constexpr auto attributes = attribute_list(size, order);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static void batch(const BatchArgs& a, BatchedList& results);
};

}  // namespace ops
SINTER_NAMESPACE_END
