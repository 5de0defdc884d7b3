// DLPack: memory goes out and comes in without copies, is released once, and what cannot be taken stays the caller's.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/dlpack.hpp>

#include <complex>
#include <thread>

using namespace sinter;

namespace {

// The structs of dlpack.h, as another library has them.
extern "C" {
struct DLVersion {
  std::uint32_t major, minor;
};
struct DLOne {
  std::int32_t device_type, device_id;
};
struct DLKind {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLOne device;
  std::int32_t ndim;
  DLKind dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  DLVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
}

/// Memory of another library, with a count of how often it was released.
struct Other {
  std::vector<float> data{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::int64_t shape[9] = {3, 2, 1, 1, 1, 1, 1, 1, 1}, strides[9] = {4, 2, 1, 1, 1, 1, 1, 1, 1};
  int released = 0;
  DLManagedTensor managed{};

  Other() {
    managed.dl_tensor = {data.data(), {1, 0}, 2, {2, 32, 1}, shape, strides, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Other*>(self->manager_ctx)->released; };
  }
};

}  // namespace

TEST_CASE("dlpack: memory comes in without a copy, and is released once", "[dlpack]") {
  Other other;
  {
    Tensor kept;
    {
      const Tensor x = from_dlpack(&other.managed);
      CHECK(x.shape() == Shape{3, 2});
      CHECK(x.impl()->data() == other.data.data());
      CHECK(floats(x) == std::vector<float>{0, 2, 4, 6, 8, 10});
      kept = x(1, all);
      eval(kept);
      CHECK(floats(Tensor(x * 2)) == std::vector<float>{0, 4, 8, 12, 16, 20});
      CHECK(floats(jit::compile([](Tensor v) { return sum(v, 0); })(x)) == std::vector<float>{12, 18});
    }
    CHECK(floats(kept) == std::vector<float>{4, 6});
    CHECK(other.released == 0);
  }
  CHECK(other.released == 1);
}

TEST_CASE("dlpack: offsets, missing, negative and zero strides, nothing at all", "[dlpack]") {
  Other other;
  DLTensor& view = other.managed.dl_tensor;
  view.byte_offset = 4;
  view.strides = nullptr;
  CHECK(floats(from_dlpack(&other.managed)) == std::vector<float>{1, 2, 3, 4, 5, 6});
  view.strides = other.strides;
  other.strides[0] = -2;
  other.strides[1] = 1;
  view.byte_offset = 4 * sizeof(float);
  Tensor backward = from_dlpack(&other.managed);
  CHECK(floats(backward) == std::vector<float>{4, 5, 2, 3, 0, 1});
  CHECK(floats(Tensor(backward + 1)) == std::vector<float>{5, 6, 3, 4, 1, 2});
  CHECK(floats(jit::compile([](Tensor v) { return Tensor(v + 1); })(backward)) == std::vector<float>{5, 6, 3, 4, 1, 2});
  backward = Tensor();
  other.strides[0] = 0;
  CHECK(floats(from_dlpack(&other.managed)) == std::vector<float>{4, 5, 4, 5, 4, 5});
  other.shape[0] = 0;
  view.data = nullptr;
  view.byte_offset = 0;
  CHECK(from_dlpack(&other.managed).shape() == Shape{0, 2});
  view.data = reinterpret_cast<char*>(other.data.data()) + 1;  // of nothing the address is not looked at
  CHECK(from_dlpack(&other.managed).shape() == Shape{0, 2});
  view.data = nullptr;
  view.ndim = 0;
  view.data = other.data.data();
  CHECK(item<float>(from_dlpack(&other.managed)) == 0);
  CHECK(other.released == 6);
}

TEST_CASE("dlpack: every dtype goes out and comes back", "[dlpack]") {
  for (const DTypeRow& row : dtype_rows) {
    const auto dtype = static_cast<DType>(&row - dtype_rows.data());
    INFO(row.name);
    const Tensor x = Tensor(cast(tensor({{1.f, 0.f}, {3.f, 4.f}}), dtype));
    auto* out = to_dlpack<DLManagedTensor>(x);
    CHECK(out->dl_tensor.dtype.bits == 8 * row.size);
    CHECK(out->dl_tensor.dtype.lanes == 1);
    const Tensor back = from_dlpack(out);
    CHECK(back.dtype() == dtype);
    CHECK(back.impl()->data() == x.impl()->data());
    CHECK(to_vector<std::complex<double>>(cast(back, DType::c128)) ==
          to_vector<std::complex<double>>(cast(x, DType::c128)));
  }
}

TEST_CASE("dlpack: what is given away has the strides of the Tensor, and lives until it is released", "[dlpack]") {
  auto* out = [] {
    const Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
    return to_dlpack<DLManagedTensorVersioned>(transpose(x, 0, 1)(slice(1, 3), all));
  }();
  CHECK(out->version.major == 1);
  CHECK(out->flags == dlpack::read_only);
  const DLTensor& view = out->dl_tensor;
  CHECK(view.ndim == 2);
  CHECK(view.shape[0] == 2);
  CHECK(view.strides[0] == 1);
  CHECK(view.strides[1] == 3);
  const auto* data = reinterpret_cast<const float*>(static_cast<const char*>(view.data) + view.byte_offset);
  CHECK(data[0] == 2);
  CHECK(data[view.strides[1]] == 5);
  std::thread([out] { out->deleter(out); }).join();

  const Tensor y = tensor({1.f, 2.f});
  auto* copy = to_dlpack(y, dlpack::Memory::copied);
  CHECK(copy->flags == dlpack::is_copied);
  CHECK(copy->dl_tensor.data != y.impl()->data());
  static_cast<float*>(copy->dl_tensor.data)[0] = 7;
  CHECK(floats(y)[0] == 1);
  copy->deleter(copy);
  // Pending values are evaluated; versioned structs come back as well.
  CHECK(floats(from_dlpack(to_dlpack(Tensor(y + 1)))) == std::vector<float>{2, 3});
}

TEST_CASE("dlpack: what cannot be taken is refused, and stays the caller's", "[dlpack]") {
  Other other;
  DLTensor& view = other.managed.dl_tensor;
  const DLTensor good = view;
  const auto refused = [&]<class E>(E*) {
    const std::string text = message_of<E>([&] { static_cast<void>(from_dlpack(&other.managed)); });
    view = good;
    return text;
  };
  DTypeError* const dtype = nullptr;
  ShapeError* const shape = nullptr;
  UserError* const user = nullptr;
  view.dtype.lanes = 4;
  CHECK(has(refused(dtype), "from_dlpack: elements of code 2, 32 bits and 4 lanes"));
  view.dtype = {0, 4, 1};
  CHECK(has(refused(dtype), "elements of code 0, 4 bits and 1 lanes, which Tensors do not have"));
  view.dtype = {3, 64, 1};
  CHECK(has(refused(dtype), "which Tensors do not have"));
  view.ndim = 9;
  CHECK(has(refused(shape), "9 axes; Tensors have up to 8"));
  other.shape[1] = -2;
  CHECK(has(refused(shape), "axis 1 has -2 elements"));
  other.shape[1] = 2;
  other.strides[0] = std::int64_t{1} << 62;
  CHECK(has(refused(shape), "with its strides spans 2^63 bytes or more"));
  other.strides[0] = std::int64_t{1} << 61;
  CHECK(has(refused(shape), "with its strides spans 2^63 bytes or more"));
  other.strides[0] = 4;
  view.device = {10, 0};
  CHECK(has(refused(user), "memory of device type 10, number 0"));
  view.byte_offset = 2;
  CHECK(has(refused(user), "the first f32 does not lie at a multiple of its size"));
  view.data = nullptr;
  CHECK(has(refused(user), "elements without memory"));
  view.shape = nullptr;
  CHECK(has(refused(user), "axes without extents"));
  if (!cuda::is_available()) {
    view.device = {2, 0};
    DeviceError* const device = nullptr;
    CHECK(refused(device) != "");
  }
  CHECK(other.released == 0);
  const std::string here = "[dlpack_test.cpp:" + std::to_string(__LINE__ + 1) + "]";
  const std::string none = message_of<UserError>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); });
  CHECK(has(none, "from_dlpack: a null pointer"));
  CHECK(has(none, here));
  DLManagedTensorVersioned versioned{{2, 0}, nullptr, nullptr, 0, good};
  CHECK(has(message_of<UserError>([&] { from_dlpack(&versioned); }), "version 2 of DLPack"));
  versioned.version = {1, 3};
  CHECK(floats(from_dlpack(&versioned)) == std::vector<float>{0, 2, 4, 6, 8, 10});  // no deleter: nobody's
}
