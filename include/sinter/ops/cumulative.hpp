// Scans by one scalar primitive: cumsum, cumprod, cummax, cummin. Each element becomes what those up to it along
// attrs.axes[0] give (before it, where exclusive; from the other end, where reversed). The shape is kept. Users' scan
// with a body of its own is in control.hpp.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {
inline constexpr OpAttr<bool> is_exclusive{"exclusive", 0}, is_reversed{"reversed", 1};
}  // namespace ops_detail

namespace ops {

/// The dtype is kept; bool is refused, as by all of these: cast it first.
struct Cumsum {
  static constexpr OpInfo info{
      .name = "cumsum", .arity = 1, .kind = OpKind::structured, .reduction = static_cast<std::uint8_t>(Prim::scan_add)};
  static constexpr auto attributes = attribute_list(attr::axes, ops_detail::is_exclusive, ops_detail::is_reversed);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The gradient is that of products of the other elements, also where some of them are zero. Not so its own derivative:
/// second derivatives hold only where no element is zero.
struct Cumprod {
  static constexpr OpInfo info{.name = "cumprod",
                               .arity = 1,
                               .kind = OpKind::structured,
                               .reduction = static_cast<std::uint8_t>(Prim::scan_mul)};
  static constexpr auto attributes = attribute_list(attr::axes, ops_detail::is_exclusive, ops_detail::is_reversed);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// NaN wins. The last of equal elements gets the gradient. Exclusive: the lowest number stands before the first.
struct Cummax {
  static constexpr OpInfo info{
      .name = "cummax", .arity = 1, .kind = OpKind::structured, .reduction = static_cast<std::uint8_t>(Prim::scan_max)};
  static constexpr auto attributes = attribute_list(attr::axes, ops_detail::is_exclusive, ops_detail::is_reversed);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// As Cummax.
struct Cummin {
  static constexpr OpInfo info{
      .name = "cummin", .arity = 1, .kind = OpKind::structured, .reduction = static_cast<std::uint8_t>(Prim::scan_min)};
  static constexpr auto attributes = attribute_list(attr::axes, ops_detail::is_exclusive, ops_detail::is_reversed);
  static Type infer(const InferArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
