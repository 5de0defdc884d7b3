// Normalised exponentials along one axis, in the form that never overflows: the largest element is subtracted first.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// e^x / sum(e^x) along attrs.axes[0]. A row of -inf alone gives NaN, or zeros: attention to nothing.
struct Softmax {
  static constexpr OpInfo info{.name = "softmax", .arity = 1, .kind = OpKind::composite};
  enum class EmptyRows : std::uint8_t { nan, zeros };
  static constexpr OpAttr<EmptyRows> empty_rows{"empty_rows", 0, "nan zeros"};
  static constexpr auto attributes = attribute_list(attr::axes, empty_rows);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a) {
    const Val weighted = a.dout * a.out;
    return {weighted - a.out * sum(weighted, a.attrs.axes, kept)};
  }
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// x - log(sum(e^x)) along attrs.axes[0].
struct LogSoftmax {
  static constexpr OpInfo info{.name = "log_softmax", .arity = 1, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a) { return {a.dout - exp(a.out) * sum(a.dout, a.attrs.axes, kept)}; }
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

/// log(sum(e^x)) along attrs.axes[0], which is dropped unless attrs.keepdim. A row of -inf gives -inf, as one
/// without elements does.
struct Logsumexp {
  static constexpr OpInfo info{.name = "logsumexp", .arity = 1, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::axes, attr::keepdim);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a) {
    const Shape shape = a.in[0].shape();
    return {unreduce(a.dout, a.attrs.axes, shape) * exp(a.in[0] - unreduce(a.out, a.attrs.axes, shape))};
  }
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_along_axes(a); }
};

}  // namespace ops
SINTER_NAMESPACE_END
