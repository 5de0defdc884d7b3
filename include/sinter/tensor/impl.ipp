// Life of values: blocks come from a thread-local pool.
#pragma once

#include <sinter/base/block_pool.hpp>
#include <sinter/tensor/impl.hpp>

#include <new>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Ref<TensorImpl> TensorImpl::make(const Type& type) {
  auto* impl = new (BlockPool<sizeof(TensorImpl)>::allocate()) TensorImpl;
  impl->type = type;
  return Ref<TensorImpl>::adopt(impl);
}

SINTER_DECL Ref<TensorImpl> TensorImpl::make_ready(const Type& type, Ref<Storage> storage, std::int64_t offset, const Strides* strides) {
  Ref<TensorImpl> impl = make(type);
  impl->storage = std::move(storage);
  impl->offset = offset;
  impl->strides = strides != nullptr ? *strides : dense_strides(type.shape);
  return impl;
}

SINTER_DECL void TensorImpl::destroy(TensorImpl* impl) noexcept {
  if (impl->record != nullptr) release_record(impl->record);
  if (impl->tape_leaf != nullptr) release_tape_leaf(impl->tape_leaf);
  impl->~TensorImpl();
  BlockPool<sizeof(TensorImpl)>::release(impl);
}

SINTER_DECL bool TensorImpl::is_dense() const {
  std::int64_t step = 1;
  for (int i = type.shape.rank() - 1; i >= 0; --i) {
    std::int64_t extent = type.shape[i].value();
    if (extent == 0) return true;
    if (extent != 1 && strides[static_cast<std::size_t>(i)] != step) return false;
    step *= extent;
  }
  return true;
}

SINTER_NAMESPACE_END
