// Tensors to and from other libraries in one process, without copies, by DLPack's structs (github.com/dmlc/dlpack): the
// unversioned one of 0.8 and the versioned one of 1.x. The structs here have its stable layout and names of their own;
// pointers to those of dlpack.h are taken and given, too.
#pragma once

#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace dlpack {

/// DLPack's own names of kinds and codes are behind the numbers that Sinter knows.
enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum class TypeCode : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  brain_floating = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12
};

struct [[gnu::may_alias]] DeviceId {
  DeviceType type;
  std::int32_t index;
};
struct [[gnu::may_alias]] DataType {
  TypeCode code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct [[gnu::may_alias]] TensorView {
  void* data;
  DeviceId device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};
/// DLManagedTensor.
struct [[gnu::may_alias]] ManagedTensor {
  TensorView dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};
struct [[gnu::may_alias]] Version {
  std::uint32_t major, minor;
};
inline constexpr std::uint64_t read_only = 1, is_copied = 2;  // flags
/// DLManagedTensorVersioned.
struct [[gnu::may_alias]] ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  TensorView dl_tensor;
};

/// What to_dlpack gives away: the memory of the Tensor, which the receiver must not write; or a copy, which it may.
enum class Memory : std::uint8_t { shared, copied };

/// A struct of either layout, as in dlpack.h.
template <class M>
concept Managed = requires(M& m) {
  m.dl_tensor.byte_offset;
  m.manager_ctx;
  m.deleter(&m);
};

}  // namespace dlpack

namespace dlpack_detail {
template <class M>
inline constexpr bool is_versioned = requires(M& m) { m.version; };
template <class M>
using OwnManaged = std::conditional_t<is_versioned<M>, dlpack::ManagedTensorVersioned, dlpack::ManagedTensor>;
dlpack::ManagedTensor* to_unversioned(const Tensor& x, dlpack::Memory memory, Location where);
dlpack::ManagedTensorVersioned* to_versioned(const Tensor& x, dlpack::Memory memory, Location where);
Tensor from_managed(dlpack::ManagedTensor* managed, Location where);
Tensor from_managed(dlpack::ManagedTensorVersioned* managed, Location where);
}  // namespace dlpack_detail

/// The value of `x`, evaluated, for another library: `to_dlpack(x)`, `to_dlpack<DLManagedTensor>(x)`. It has the
/// strides of x and lies where x lies; a device is waited for. Whoever gets it calls its deleter once, on any thread;
/// until then the memory lives. A shared one is marked as read-only where the struct can say so. Every dtype.
template <dlpack::Managed M = dlpack::ManagedTensorVersioned>
M* to_dlpack(const Tensor& x, dlpack::Memory memory = dlpack::Memory::shared,
             Location where = std::source_location::current()) {
  static_assert(sizeof(M) == sizeof(dlpack_detail::OwnManaged<M>), "sinter: no struct of DLPack");
  if constexpr (dlpack_detail::is_versioned<M>)
    return reinterpret_cast<M*>(dlpack_detail::to_versioned(x, memory, where));
  else return reinterpret_cast<M*>(dlpack_detail::to_unversioned(x, memory, where));
}

/// A Tensor over the memory of another library. No copy. Its deleter is called when the last value that uses the memory
/// dies; if this throws, `managed` is as it was, and the caller's. The data must not change while they are used.
/// Throws UserError (null, another version, a device of another kind, misaligned data), DTypeError (lanes, and dtypes
/// that Sinter does not have), ShapeError (too many axes, negative extents), DeviceError (a GPU that is not there).
template <dlpack::Managed M>
Tensor from_dlpack(M* managed, Location where = std::source_location::current()) {
  static_assert(sizeof(M) == sizeof(dlpack_detail::OwnManaged<M>), "sinter: no struct of DLPack");
  return dlpack_detail::from_managed(reinterpret_cast<dlpack_detail::OwnManaged<M>*>(managed), where);
}

SINTER_NAMESPACE_END
