// Life of values: blocks come from a thread-local pool.
#pragma once

#include <sinter/base/block_pool.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/impl.hpp>

#include <memory>
#include <new>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Ref<TensorImpl> TensorImpl::make(const Type& type) {
  return Ref<TensorImpl>::adopt(new (BlockPool<sizeof(TensorImpl)>::allocate()) TensorImpl(type));
}

SINTER_DECL Ref<TensorImpl> TensorImpl::make_ready(const Type& type, Ref<Storage> storage, std::int64_t offset,
                                                   const Strides* strides) {
  void* const block = BlockPool<sizeof(TensorImpl)>::allocate();
  return Ref<TensorImpl>::adopt(
      strides != nullptr ? new (block) TensorImpl(type, std::move(storage), offset, *strides)
                         : new (block) TensorImpl(type, std::move(storage), offset, dense_strides(type.shape)));
}

SINTER_DECL void TensorImpl::destroy(TensorImpl* impl) noexcept {
  Extras* extras = impl->extras_.load(std::memory_order_relaxed);
  const auto has = [](const void* part) { return reinterpret_cast<std::uintptr_t>(part); };
  if ((has(impl->pending_node) | has(impl->tape_leaf) | has(extras)) !=
      0) {  // one branch: a computed value has none of them
    if (impl->pending_node != nullptr) release_pending_node(impl->pending_node);
    if (impl->tape_leaf != nullptr) release_tape_leaf(impl->tape_leaf);
    if (extras != nullptr) release_extras(extras);
  }
  impl->~TensorImpl();
  BlockPool<sizeof(TensorImpl)>::release(impl);
}

SINTER_DECL TensorImpl::Extras& TensorImpl::extras() const {
  Extras* known = extras_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto made = std::make_unique<Extras>();
  if (extras_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel, std::memory_order_acquire))
    return *made.release();
  return *known;
}
SINTER_DECL void TensorImpl::release_extras(Extras* extras) noexcept {
  if (TensorImpl* dense = extras->dense.load(std::memory_order_relaxed)) dense->release();
  delete extras->marks;
  delete extras;
}
SINTER_DECL void TensorImpl::set_marks(const AxisMarks& marks) {
  delete std::exchange(extras().marks, new AxisMarks(marks));
}
SINTER_DECL TensorImpl* TensorImpl::keep_dense_copy(Ref<TensorImpl> copy) const {
  TensorImpl* kept = nullptr;
  if (extras().dense.compare_exchange_strong(kept, copy.get(), std::memory_order_acq_rel, std::memory_order_acquire))
    return copy.detach();
  return kept;
}

SINTER_DECL bool TensorImpl::is_dense() const {
  std::int64_t step = 1;
  for (int i = type.shape.rank() - 1; i >= 0; --i) {
    std::int64_t extent = type.shape[i].value();
    if (extent == 0) return true;
    if (extent != 1 && strides[as_index(i)] != step) return false;
    step *= extent;
  }
  return true;
}

SINTER_NAMESPACE_END
