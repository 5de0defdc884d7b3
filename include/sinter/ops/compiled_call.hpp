// What stands on the tape for a call of compiled code that has run: its results, and how they are differentiated. The
// code itself is known to the payload alone.
#pragma once

#include <sinter/ops/op.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The derivative of one call of compiled code.
class CallRule : public Payload {
 public:
  std::string text() const override { return "compiled_call"; }
  bool is_a(TypeKey type) const override { return type == type_key<CallRule>(); }
  /// Gradients of the operands: of inputs that the results depend on, none of saved values.
  virtual ValList vjp(const VjpArgs& args) const = 0;
  struct Gradient {
    std::size_t operand;
    Ref<TensorImpl> value;
  };
  /// The same, computed now: from the operands and the gradients of the results, null where there is none.
  virtual std::vector<Gradient> run(std::span<const Ref<TensorImpl>> operands, std::span<const Ref<TensorImpl>> douts,
                                    Location where) const = 0;
  /// The results from the inputs alone, for derivatives that are differentiated again.
  virtual std::shared_ptr<const Graph> forward() const = 0;
};

namespace ops {

/// compiled_call(x..., saved...): results of compiled code that was called on x, of which there are `inputs`. It kept
/// `saved` for the derivative. Stands on tapes alone and is never run; the types of the results are attrs.types.
struct CompiledCall {
  static constexpr OpInfo info{.name = "compiled_call", .arity = -1, .kind = OpKind::structured, .takes_complex = true};
  static constexpr OpAttr<std::int64_t> inputs{"inputs", 0};
  static constexpr auto attributes = attribute_list(inputs);
  static void infer(const InferArgs& args, TypeList& out);
  static ValList vjp(const VjpArgs& args);
};

}  // namespace ops
SINTER_NAMESPACE_END
