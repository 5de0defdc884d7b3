// LiveValues: the first call along a path runs piece by piece while it is traced. When the function reads a value, what
// that value needs, and what the user's handles still hold, is computed from this call's arguments; every recorded
// statement runs once. Knows pending nodes and lazy plans; nothing of guards and trees.
#pragma once

#include <sinter/expr/capture.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class LiveValues {
 public:
  LiveValues(std::uint64_t trace, MatmulPrecision precision, Fallback fallback)
      : trace_(trace), precision_(precision), fallback_(fallback) {}
  /// What effects gave stays to the end: a derivative may need it, and nothing gives it a second time.
  void keep_effects() { keeps_effects_ = true; }

  /// In this call the traced `value` is `concrete`, which may be pending outside any trace.
  void set(const Ref<TensorImpl>& value, Ref<TensorImpl> concrete);
  /// The pending node that gives `value` has run in this call: its result number `result` is `concrete`.
  void set_result(const Ref<TensorImpl>& value, std::size_t result, Ref<TensorImpl> concrete);
  bool knows(const TensorImpl& value) const { return find(value) != nullptr; }
  /// Computes those of `wanted` that are not known yet, after running the effects up to the one with this token (or
  /// null). `symbols`: the value of each symbol in this call.
  void compute(std::span<const Ref<TensorImpl>> wanted, const Ref<TensorImpl>& last_effect,
               std::span<const std::int64_t> symbols);
  /// The effects up to the one with this token have run.
  void set_done(const Ref<TensorImpl>& token);
  /// The value in this call, computed before or ready by itself.
  Ref<TensorImpl> at(const Ref<TensorImpl>& value) const;

 private:
  struct Known {
    Ref<TensorImpl> traced, concrete;
  };
  struct Used {
    Ref<TensorImpl> value;  // so that nothing else takes its address, and its pending node stays
    std::uint32_t references = 0;
  };
  /// Result number `result` of a pending node, which a captured graph has as `value`.
  struct PendingResult {
    const PendingNode* pending_node;
    std::size_t result;
    Value value;
  };
  const Ref<TensorImpl>* find(const TensorImpl& value) const;
  Used& hold(const Ref<TensorImpl>& value);
  std::vector<PendingResult> note_run(const Capture& captured);
  void keep(const PendingNode* pending_node, std::size_t result, Ref<TensorImpl> concrete);
  void forget_unused();

  std::uint64_t trace_;
  MatmulPrecision precision_;
  Fallback fallback_;
  bool keeps_effects_ = false;
  std::unordered_map<const TensorImpl*, Known> known_;
  std::unordered_map<const TensorImpl*, Used> used_;           // by statements that have run, as operands and results
  std::unordered_map<const PendingNode*, std::uint32_t> ran_;  // and how many of its results are in `used_`
  std::unordered_map<const PendingNode*, std::vector<Ref<TensorImpl>>> others_;  // results that nobody asked for yet
};

}  // namespace jit
SINTER_NAMESPACE_END
