// Taking arguments of such a call apart, and reading what the function gave.
#pragma once

#include <sinter/jit/call/disabled_call.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL void throw_disabled(std::string_view what, Location where, std::string_view fix) {
  throw TraceError("disable", what, where, fix);
}

SINTER_DECL EagerResults call_eagerly(Trace& trace, const std::shared_ptr<const EagerCall>& call,
                                      std::span<const Ref<TensorImpl>> operands) {
  if (WholeGraph::is_required())
    throw_disabled(
        "a function that is not to be traced is called in code that belongs into the graph whole (allow_in_graph)",
        call->where, "call it outside, and pass its result in");
  for (const auto& operand : operands)
    if (Trace::find(operand->trace) == nullptr)
      throw_disabled("a traced tensor is used outside the trace it belongs to", call->where,
                     "return it from the compiled function instead of storing it in a captured variable");
  return trace.call_eagerly(call, operands);
}

/// Ready, row-major, and nothing that a tape follows.
inline Ref<TensorImpl> eager_result(const Ref<TensorImpl>& value, Location where) {
  Ref<TensorImpl> result = dense_value(In(Tensor(value), where), "disable");
  if (result->tape.load(std::memory_order_relaxed) == TapeState::none) return result;
  return TensorImpl::make_ready(result->type, result->storage, result->offset, &result->strides);
}

/// The same type and elements, as far as they can be compared here.
inline bool has_same_elements(const Ref<TensorImpl>& a, const Ref<TensorImpl>& b) {
  if (a == b) return true;
  if (!identical(a->type, b->type)) return false;
  if (!a->is_dense() || !b->is_dense() || a->type.device != Device::cpu()) return true;
  return std::memcmp(a->data(), b->data(), as_index(a->type.shape.numel().value() * size_of(a->type.dtype))) == 0;
}

inline std::int64_t bits_of(const Leaf& number) {
  return number.kind == DTypeClass::floating ? bits_of(number.number) : number.integer;
}

SINTER_DECL void add_fixed(DisabledArguments& out, std::int64_t value) { out.fixed.push_back(value); }

SINTER_DECL void take_operands(tree::Part argument, DisabledArguments& out) {
  struct Take final : tree::Editor {
    explicit Take(DisabledArguments& place) : out(place) {}
    DisabledArguments& out;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      const bool is_traced = x.impl()->trace != 0 && !x.is_ready();
      out.is_operand.push_back(is_traced);
      (is_traced ? out.operands : out.constants).push_back(x.impl());
      if (is_traced) x = Tensor();
    }
    void tensor(const Tensor& x) override { out.constants.push_back(x.impl()); }  // keys of maps
    void scalar(Scalar& x) override {
      out.is_operand.push_back(!x.is_number());
      if (x.is_number()) return fixed(bits_of(x.leaf()));
      out.operands.push_back(x.leaf().value);
      x = Scalar();
    }
    void scalar(const Scalar& x) override { fixed(bits_of(x.leaf())); }
    void variable(const Variable& x) override {
      fixed(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(x.slot().get())));
    }
    void fixed(std::int64_t value) override { out.fixed.push_back(value); }
  } take(out);
  argument.edit(take);
}

SINTER_DECL void put_operands(tree::Part argument, const std::uint8_t*& is_operand, const Ref<TensorImpl>*& values) {
  struct Put final : tree::Editor {
    Put(const std::uint8_t*& flags, const Ref<TensorImpl>*& first) : is_operand(flags), next(first) {}
    const std::uint8_t*& is_operand;
    const Ref<TensorImpl>*& next;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      if (*is_operand++ != 0) x = Tensor(*next++);
    }
    void scalar(Scalar& x) override {
      if (*is_operand++ != 0) x = item(In(Tensor(*next++), Location()));
    }
    void variable(const Variable&) override {}
  } put(is_operand, values);
  argument.edit(put);
}

SINTER_DECL void read_result(tree::View result, EagerResults& out, Location where) {
  struct Read final : tree::Reader {
    Read(EagerResults& place, Location at) : out(place), where(at) {}
    EagerResults& out;
    Location where;
    void tensor(const Tensor& x) override { add(x.impl()); }
    void scalar(const Scalar& x) override { add(In(x).tensor()); }
    void add(const Ref<TensorImpl>& value) {
      const TapeState tape = value->tape.load(std::memory_order_relaxed);
      out.is_on_tape |= tape == TapeState::node || tape == TapeState::leaf;
      out.values.push_back(eager_result(value, where));
    }
    void variable(const Variable&) override {}
    void fixed(std::int64_t value) override { out.fixed.push_back(value); }
  } read(out, where);
  result.read(read);
}

SINTER_DECL void fill_eager_result(tree::Part result, const Ref<TensorImpl>* values) {
  struct Fill final : tree::Editor {
    explicit Fill(const Ref<TensorImpl>* first) : next(first) {}
    const Ref<TensorImpl>* next;
    void tensor(Tensor& x) override { x = Tensor(*next++); }
    void tensor(const Tensor&) override { ++next; }
    void scalar(Scalar& x) override {
      if ((*next)->is_ready()) x = item(In(Tensor(*next), Location()));
      else x = Scalar(*next);
      ++next;
    }
    void scalar(const Scalar&) override { ++next; }
    void variable(const Variable&) override {}
  } fill(values);
  result.edit(fill);
}

SINTER_DECL bool same_arguments(const DisabledArguments& a, const DisabledArguments& b) {
  return a.is_operand == b.is_operand && a.fixed == b.fixed &&
         std::equal(a.constants.begin(), a.constants.end(), b.constants.begin(), b.constants.end(), has_same_elements);
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
