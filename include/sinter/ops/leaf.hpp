// Values that come from outside (input, constant) or from nothing (full, empty, iota).
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// An argument of the graph, with its position (input_position) and its name. Its type is given, not inferred.
struct Input {
  static constexpr OpInfo info{.name = "input", .arity = 0, .kind = OpKind::leaf};
  static constexpr auto attributes = attribute_list(input_name);
  static Type infer(const InferArgs& args) { throw InternalError("the type of an input is given", args.where); }
};

/// attrs.constant.
struct Constant {
  static constexpr OpInfo info{.name = "constant", .arity = 0, .kind = OpKind::leaf};
  static constexpr auto attributes = attribute_list(attr::data);
  static Type infer(const InferArgs& args) {
    ensure(static_cast<bool>(args.attrs.constant), "a constant needs data");
    return args.attrs.constant->type;
  }
};

/// Every element is attrs.value (floating) or attrs.integer (integers and bool). A scalar literal is one of shape ().
struct Full {
  static constexpr OpInfo info{.name = "full", .arity = 0, .kind = OpKind::structured, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::shape, attr::value, attr::integer, attr::dtype, attr::device);
  static Type infer(const InferArgs& args) { return ops_detail::with_shape(args, args.attrs.shape, args.attrs.dtype); }
};

/// Uninitialised; only ever the base of update_slices that together overwrite all of it.
struct Empty {
  static constexpr OpInfo info{.name = "empty", .arity = 0, .kind = OpKind::structured, .moves_elements = true};
  static constexpr auto attributes = attribute_list(attr::shape, attr::dtype, attr::device);
  static Type infer(const InferArgs& args) { return ops_detail::with_shape(args, args.attrs.shape, args.attrs.dtype); }
};

/// Each element is its index along attrs.axes[0].
struct Iota {
  static constexpr OpInfo info{.name = "iota", .arity = 0, .kind = OpKind::structured};
  static constexpr auto attributes = attribute_list(attr::axes, attr::shape, attr::dtype, attr::device);
  static Type infer(const InferArgs& args);
};

}  // namespace ops
SINTER_NAMESPACE_END
