// TapeSession: one backward() outside of traces, while its graph is differentiated. A derivative rule that has code of
// its own (a compiled call) computes with it at once, on values of the tape and gradients so far, and adds what it gave
// to the graph as known values. Knows no rule.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/tensor/impl.hpp>

#include <map>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

/// The values of a graph that are there already.
using KnownValues = std::map<Value, Ref<TensorImpl>>;

/// A ready number, or null where it is not on the host, or no f32 or f64.
Ref<TensorImpl> ready_number(const Type& type, double value);

class TapeSession {
 public:
  TapeSession(GraphBuilder& builder, KnownValues& known) noexcept;
  ~TapeSession();
  TapeSession(const TapeSession&) = delete;
  TapeSession& operator=(const TapeSession&) = delete;

  /// The one of this thread that differentiates into `builder`, or null.
  static TapeSession* of(const GraphBuilder& builder) noexcept;
  /// Values of the graph, ready.
  std::vector<Ref<TensorImpl>> values(std::span<const Value> wanted);
  /// A new value of the graph that is known.
  Value add(Ref<TensorImpl> value, Location where);

 private:
  GraphBuilder& builder_;
  KnownValues& known_;
  TapeSession* outer_;
};

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
