// LiveValues: the first call along a path runs piece by piece while it is traced. When the function reads a value, what
// that value needs, and what the user's handles still hold, is computed from this call's arguments; every recorded
// statement runs once. Knows records and lazy plans; nothing of guards and trees.
#pragma once

#include <sinter/graph/record.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class LiveValues {
 public:
  LiveValues(std::uint64_t trace, MatmulPrecision precision, Fallback fallback) : trace_(trace), precision_(precision), fallback_(fallback) {}

  /// In this call the traced `value` is `concrete`, which may be pending outside any trace.
  void set(const Ref<TensorImpl>& value, Ref<TensorImpl> concrete);
  bool knows(const TensorImpl& value) const { return known_.contains(&value); }
  /// Computes those of `wanted` that are not known yet, after running the effects up to the one with this token (or null).
  /// `symbols`: the value of each symbol in this call.
  void compute(std::span<const Ref<TensorImpl>> wanted, const Ref<TensorImpl>& last_effect, std::span<const std::int64_t> symbols);
  /// The effects up to the one with this token have run.
  void set_done(const Ref<TensorImpl>& token);
  /// The value in this call, computed before or ready by itself.
  Ref<TensorImpl> at(const Ref<TensorImpl>& value) const;

 private:
  struct Known {
    Ref<TensorImpl> traced, concrete;
  };
  void forget_unused();

  std::uint64_t trace_;
  MatmulPrecision precision_;
  Fallback fallback_;
  std::unordered_map<const TensorImpl*, Known> known_;
  struct Used {
    Ref<TensorImpl> value;        // so that nothing else takes its address
    std::uint32_t references = 0;
  };
  std::unordered_map<const TensorImpl*, Used> used_;   // by statements that have run
};

}  // namespace jit
SINTER_NAMESPACE_END
