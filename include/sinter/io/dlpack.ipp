// The two layouts share their parts: what a Tensor says of itself, and what is asked of memory that comes in.
#pragma once

#include <sinter/io/dlpack.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dlpack_detail {

static_assert(sizeof(dlpack::TensorView) == 48 && offsetof(dlpack::TensorView, byte_offset) == 40);
static_assert(sizeof(dlpack::ManagedTensor) == 64 && sizeof(dlpack::ManagedTensorVersioned) == 80);
static_assert(offsetof(dlpack::ManagedTensorVersioned, dl_tensor) == 32);

static_assert(row(DType::bf16).dlpack == static_cast<int>(dlpack::TypeCode::brain_floating));
static_assert(row(DType::f8e5m2).dlpack == static_cast<int>(dlpack::TypeCode::float8_e5m2));

// Out -----------------------------------------------------------------------------------------------------------------

/// What lies behind a struct that was given away.
template <class M>
struct DlpackExport {
  M managed{};
  Ref<TensorImpl> value;
  std::array<std::int64_t, max_rank> shape{}, strides{};

  static void release(M* self) { delete static_cast<DlpackExport*>(self->manager_ctx); }
};

inline Ref<TensorImpl> value_for_dlpack(const Tensor& x, dlpack::Memory memory, Location where) {
  Ref<TensorImpl> value = x.impl();
  if (row(value->type.dtype).dlpack < 0)
    throw DTypeError("to_dlpack", "DLPack has no " + std::string(name(value->type.dtype)), where,
                     is_complex(value->type.dtype) ? "cast it with .to(DType::c64)" : "cast it with .to(DType::f32)");
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, "to_dlpack", where);
  const Device device = value->type.device;
  if (memory == dlpack::Memory::copied) {
    if (device != Device::cpu())
      throw UserError("to_dlpack", "a copy of memory of " + device.text(), where,
                      "copy it to the host first: x.to(Device::cpu())");
    return expr_detail::copy_strided(value->type, value->data(), value->strides).impl();
  }
  if (device != Device::cpu()) device_memory(device, "to_dlpack", where).synchronise(device);
  return value;
}

template <class M>
M* exported(const Tensor& x, dlpack::Memory memory, Location where) {
  auto out = std::make_unique<DlpackExport<M>>();
  out->value = value_for_dlpack(x, memory, where);
  const Type& type = out->value->type;
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    out->shape[as_index(axis)] = type.shape[axis].value();
    out->strides[as_index(axis)] = out->value->strides[as_index(axis)];
  }
  dlpack::TensorView& view = out->managed.dl_tensor;
  view.data = out->value->data();
  view.device = {type.device.kind == DeviceKind::cpu ? dlpack::DeviceType::cpu : dlpack::DeviceType::cuda,
                 type.device.index};
  view.ndim = type.shape.rank();
  const auto code = static_cast<dlpack::TypeCode>(row(type.dtype).dlpack);
  view.dtype = {code, static_cast<std::uint8_t>(8 * size_of(type.dtype)), 1};
  view.shape = out->shape.data();
  view.strides = out->strides.data();
  out->managed.manager_ctx = out.get();
  out->managed.deleter = DlpackExport<M>::release;
  return &out.release()->managed;
}

SINTER_DECL dlpack::ManagedTensor* to_unversioned(const Tensor& x, dlpack::Memory memory, Location where) {
  return exported<dlpack::ManagedTensor>(x, memory, where);
}
SINTER_DECL dlpack::ManagedTensorVersioned* to_versioned(const Tensor& x, dlpack::Memory memory, Location where) {
  auto* out = exported<dlpack::ManagedTensorVersioned>(x, memory, where);
  out->version = {1, 0};
  out->flags = memory == dlpack::Memory::copied ? dlpack::is_copied : dlpack::read_only;
  return out;
}

// In ------------------------------------------------------------------------------------------------------------------

inline DType dtype_of_dlpack(const dlpack::DataType& given, Location where) {
  const auto code = static_cast<int>(given.code);
  const std::string text = "elements of code " + std::to_string(code) + ", " + std::to_string(given.bits) +
                           " bits and " + std::to_string(given.lanes) + " lanes";
  if (given.lanes != 1)
    throw DTypeError("from_dlpack", text, where, "give lanes an axis of their own: Tensors have elements of 1 lane");
  for (const DTypeRow& known : dtype_rows)
    if (known.dlpack == code && 8 * known.size == given.bits) return known.dtype;
  throw DTypeError("from_dlpack", text + ", which Tensors do not have", where, "convert them in the other library");
}

inline Device device_of_dlpack(const dlpack::DeviceId& given, Location where) {
  using dlpack::DeviceType;
  if (given.type == DeviceType::cpu || given.type == DeviceType::cuda_host) return Device::cpu();
  const bool is_gpu = given.type == DeviceType::cuda || given.type == DeviceType::cuda_managed;
  if (!is_gpu || given.index < 0 || given.index > std::numeric_limits<std::uint8_t>::max())
    throw UserError("from_dlpack",
                    "memory of device type " + std::to_string(static_cast<int>(given.type)) + ", number " +
                        std::to_string(given.index),
                    where, "copy it to the CPU or to a GPU of CUDA in the other library");
  const Device device = Device::cuda(given.index);
  device_memory(device, "from_dlpack", where);  // throws if it is not there
  return device;
}

/// Where the elements lie, from the first one's address on.
struct DlpackLayout {
  Type type;
  Strides strides{};
  std::int64_t before = 0, elements = 0;  // elements in front of the first one; of all memory that is used
};

inline DlpackLayout layout_of_dlpack(const dlpack::TensorView& view, Location where) {
  DlpackLayout out{{dtype_of_dlpack(view.dtype, where), device_of_dlpack(view.device, where), {}}};
  if (view.ndim < 0 || view.ndim > max_rank)
    throw ShapeError("from_dlpack", std::to_string(view.ndim) + " axes; Tensors have up to " + std::to_string(max_rank),
                     where, "reshape it in the other library");
  if (view.ndim > 0 && view.shape == nullptr) throw UserError("from_dlpack", "axes without extents", where);
  for (int axis = 0; axis < view.ndim; ++axis) {
    if (view.shape[axis] < 0)
      throw ShapeError("from_dlpack",
                       "axis " + std::to_string(axis) + " has " + std::to_string(view.shape[axis]) + " elements",
                       where);
    out.type.shape.push_back(view.shape[axis]);
  }
  const std::int64_t count = out.type.shape.numel(where).value();
  out.strides = dense_strides(out.type.shape);
  if (view.strides != nullptr)
    for (int axis = 0; axis < view.ndim; ++axis) out.strides[as_index(axis)] = view.strides[axis];
  if (count == 0) return out;
  std::int64_t behind = 0, way = 0, bytes = 0;
  bool overflows = false;
  for (int axis = 0; axis < view.ndim; ++axis) {
    overflows |= __builtin_mul_overflow(view.shape[axis] - 1, out.strides[as_index(axis)], &way);
    if (way < 0) overflows |= __builtin_sub_overflow(out.before, way, &out.before);
    else overflows |= __builtin_add_overflow(behind, way, &behind);
  }
  overflows |= __builtin_add_overflow(out.before, behind, &out.elements);
  overflows |= __builtin_add_overflow(out.elements, std::int64_t{1}, &out.elements);
  overflows |= __builtin_mul_overflow(out.elements, size_of(out.type.dtype), &bytes);
  if (overflows)
    throw ShapeError("from_dlpack", "shape " + out.type.shape.text() + " with its strides spans 2^63 bytes or more",
                     where, "give the strides in elements, not in bytes");
  return out;
}

/// Memory that is taken: nothing is, until all that may throw is done.
template <class M>
struct DlpackOwner {
  M* managed = nullptr;
  DlpackOwner() = default;
  DlpackOwner(const DlpackOwner&) = delete;
  DlpackOwner& operator=(const DlpackOwner&) = delete;
  ~DlpackOwner() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
};

template <class M>
Tensor imported(M* managed, Location where) {
  const dlpack::TensorView& view = managed->dl_tensor;
  DlpackLayout layout = layout_of_dlpack(view, where);
  const std::int64_t size = size_of(layout.type.dtype);
  char* const first = view.data == nullptr ? nullptr : static_cast<char*>(view.data) + view.byte_offset;
  if (layout.elements > 0 && view.data == nullptr) throw UserError("from_dlpack", "elements without memory", where);
  if (layout.elements > 0 &&
      reinterpret_cast<std::uintptr_t>(first) % as_index(size_of(real_part_of(layout.type.dtype))) != 0)
    throw UserError("from_dlpack",
                    "the first " + std::string(name(layout.type.dtype)) + " does not lie at a multiple of its size",
                    where, "copy it in the other library");
  const auto owner = std::make_shared<DlpackOwner<M>>();
  Ref<Storage> storage =
      Storage::wrap(first - layout.before * size, as_index(layout.elements * size), owner, layout.type.device);
  Tensor result(TensorImpl::make_ready(layout.type, std::move(storage), layout.before, &layout.strides));
  owner->managed = managed;
  return result;
}

inline void require_struct(const void* managed, Location where) {
  if (managed == nullptr)
    throw UserError("from_dlpack", "a null pointer", where, "a capsule of Python is used up by its first reader");
}
SINTER_DECL Tensor from_managed(dlpack::ManagedTensor* managed, Location where) {
  require_struct(managed, where);
  return imported(managed, where);
}
SINTER_DECL Tensor from_managed(dlpack::ManagedTensorVersioned* managed, Location where) {
  require_struct(managed, where);
  if (managed->version.major != 1)
    throw UserError("from_dlpack", "version " + std::to_string(managed->version.major) + " of DLPack", where,
                    "ask the other library for version 1");
  return imported(managed, where);
}

}  // namespace dlpack_detail
SINTER_NAMESPACE_END
