// ValueTable: some values of one call, which allocates nothing for them once the thread's pool is warm. Knows nothing
// of calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/impl.hpp>

#include <array>
#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// Empty values in memory of the thread's pool.
Ref<TensorImpl>* make_values(std::size_t count);
void release_values(Ref<TensorImpl>* values, std::size_t count) noexcept;

/// Values, empty at first; the first N in place. Non-copyable.
template <std::size_t N>
class ValueTable {
 public:
  ValueTable() = default;
  explicit ValueTable(std::size_t count) { make(count); }
  ValueTable(const ValueTable&) = delete;
  ValueTable& operator=(const ValueTable&) = delete;
  ~ValueTable() {
    if (SINTER_UNLIKELY(many_ != nullptr)) release_values(many_, count_);
  }
  /// Room for `count`. To be called once.
  Ref<TensorImpl>* make(std::size_t count) {
    if (SINTER_UNLIKELY(count > N)) {
      many_ = make_values(count);
      count_ = count;
    }
    return data();
  }
  Ref<TensorImpl>* data() { return SINTER_LIKELY(many_ == nullptr) ? few_.data() : many_; }
  Ref<TensorImpl>& operator[](std::size_t i) { return data()[i]; }

 private:
  std::array<Ref<TensorImpl>, N> few_;
  Ref<TensorImpl>* many_ = nullptr;
  std::size_t count_ = 0;
};
/// Of the results of a call.
using ResultTable = ValueTable<8>;

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
