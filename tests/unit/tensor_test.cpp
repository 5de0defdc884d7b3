// Shapes, types, dtypes, storage and views: what a tensor is before anything is computed.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <cstdint>
#include <limits>
#include <sstream>
#include <thread>

using namespace sinter;

namespace {

/// Takes the memory limit away, whatever happens.
struct LimitGuard {
  ~LimitGuard() { set_memory_limit(0); }
};

}  // namespace

TEST_CASE("shape: extents, negative axes, text") {
  Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(shape.text() == "(2, 3, 4)");
  CHECK(Shape{}.text() == "()");
  CHECK(Shape{7}.text() == "(7,)");
  CHECK(shape.numel() == 24);
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{3, 0, 5}.numel() == 0);
  CHECK(shape == Shape{2, 3, 4});
  CHECK_FALSE(shape == Shape{2, 3});
  CHECK_FALSE(shape == Shape{2, 3, 5});
  CHECK(Shape(std::vector<std::int64_t>{5, 6}) == Shape{5, 6});
  std::ostringstream out;
  out << shape;
  CHECK(out.str() == "(2, 3, 4)");
  std::int64_t product = 1;
  for (Dim dim : shape) product *= dim.value();
  CHECK(product == 24);
}

TEST_CASE("shape: insert, erase, set") {
  Shape shape{2, 3};
  shape.insert(0, 7);
  CHECK(shape == Shape{7, 2, 3});
  shape.insert(3, 9);
  CHECK(shape == Shape{7, 2, 3, 9});
  shape.erase(1);
  CHECK(shape == Shape{7, 3, 9});
  shape.set(1, 4);
  CHECK(shape == Shape{7, 4, 9});
}

TEST_CASE("shape: bad axes, ranks and sizes are named") {
  Shape shape{2, 3};
  CHECK(has(message_of<IndexError>([&] { shape[2]; }), "axis 2 is out of range for (2, 3)"));
  CHECK_THROWS_AS(shape[-3], IndexError);
  CHECK(has(message_of<ShapeError>([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }), "rank 9 is above the limit of 8"));
  Shape full{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_THROWS_AS(full.push_back(1), ShapeError);
  CHECK_THROWS_AS(full.insert(0, 1), ShapeError);
  CHECK(full.numel() == 40320);
  CHECK(has(message_of<ShapeError>([] { Shape{2, -3}.numel(); }), "extent -3 in (2, -3) is negative"));
  std::int64_t big = std::int64_t{1} << 40;
  CHECK(has(message_of<ShapeError>([&] { Shape{big, big}.numel(); }), "overflows"));
  CHECK(Shape({big, 0, big}).numel() == 0);  // no element, no overflow
}

TEST_CASE("shape: broadcasting") {
  CHECK(broadcast(Shape{3, 1}, Shape{1, 4}, "add") == Shape{3, 4});
  CHECK(broadcast(Shape{4}, Shape{2, 3, 4}, "add") == Shape{2, 3, 4});
  CHECK(broadcast(Shape{}, Shape{2, 3}, "add") == Shape{2, 3});
  CHECK(broadcast(Shape{0}, Shape{1}, "add") == Shape{0});
  CHECK(broadcast(Shape{2, 0}, Shape{1, 1}, "add") == Shape{2, 0});
  std::string text = message_of<ShapeError>([] { broadcast(Shape{2, 3}, Shape{2, 4}, "mul"); });
  CHECK(has(text, "mul: shapes (2, 3) and (2, 4) do not broadcast"));
  CHECK(has(text, "axis 1: 3 must equal 4"));
  CHECK_THROWS_AS(broadcast(Shape{0}, Shape{3}, "add"), ShapeError);
}

TEST_CASE("type: text and identity") {
  Type type{DType::f32, Device::cpu(), {32, 4}};
  CHECK(type.text() == "f32[32, 4]");
  CHECK(Type{}.text() == "f32[]");
  CHECK(identical(type, Type{DType::f32, Device::cpu(), {32, 4}}));
  CHECK_FALSE(identical(type, Type{DType::f64, Device::cpu(), {32, 4}}));
  CHECK_FALSE(identical(type, Type{DType::f32, Device::cuda(), {32, 4}}));
  CHECK_FALSE(identical(type, Type{DType::f32, Device::cpu(), {32}}));
  CHECK(has(Type{DType::i64, Device::cuda(1), {2}}.text(), "cuda:1"));
  Strides strides = dense_strides(Shape{2, 3, 4});
  CHECK(strides[0] == 12);
  CHECK(strides[1] == 4);
  CHECK(strides[2] == 1);
}

TEST_CASE("dtype: the promotion table") {
  using enum DType;
  struct Row {
    DType a, b, result;
  };
  constexpr Row rows[] = {
      {bool_, bool_, bool_}, {bool_, i32, i32}, {bool_, i64, i64}, {bool_, f32, f32}, {bool_, f64, f64},
      {i32, i32, i32},       {i32, i64, i64},   {i32, f32, f32},   {i32, f64, f64},   {i64, i64, i64},
      {i64, f32, f32},       {i64, f64, f64},   {f32, f32, f32},   {f32, f64, f64},   {f64, f64, f64},
  };
  for (const Row& r : rows) {
    INFO(name(r.a) << " with " << name(r.b));
    CHECK(promote(r.a, r.b) == r.result);
    CHECK(promote(r.b, r.a) == r.result);
  }
  struct Weak {
    DType tensor;
    DTypeClass number;
    DType result;
  };
  constexpr Weak weak[] = {
      {bool_, DTypeClass::boolean, bool_}, {bool_, DTypeClass::integer, i64}, {bool_, DTypeClass::floating, f32},
      {i32, DTypeClass::boolean, i32},     {i32, DTypeClass::integer, i32},   {i32, DTypeClass::floating, f32},
      {i64, DTypeClass::integer, i64},     {i64, DTypeClass::floating, f32},  {f32, DTypeClass::boolean, f32},
      {f32, DTypeClass::integer, f32},     {f32, DTypeClass::floating, f32},  {f64, DTypeClass::integer, f64},
      {f64, DTypeClass::floating, f64},
  };
  for (const Weak& r : weak) {
    INFO(name(r.tensor) << " with a number of class " << static_cast<int>(r.number));
    CHECK(promote_weak(r.tensor, r.number) == r.result);
  }
  CHECK(size_of(bool_) == 1);
  CHECK(size_of(f64) == 8);
  CHECK(is_floating(f32));
  CHECK_FALSE(is_floating(bool_));
  CHECK(is_integer(i32));
  CHECK_FALSE(is_integer(bool_));
  CHECK(dtype_of<long long>() == i64);
}

TEST_CASE("storage: alignment and reuse") {
  for (std::size_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 100000, 5000000}) {
    Ref<Storage> storage = Storage::allocate(bytes);
    INFO(bytes << " bytes");
    CHECK(reinterpret_cast<std::uintptr_t>(storage->data()) % 64 == 0);
    CHECK(storage->bytes() == bytes);
    CHECK(storage->is_ours());
    std::memset(storage->data(), 0xAB, bytes);
  }
  void* first;
  {
    Ref<Storage> storage = Storage::allocate(14000);
    first = storage->data();
  }
  MemoryStats before = memory_stats();
  Ref<Storage> again = Storage::allocate(13000);  // same size class
  CHECK(again->data() == first);
  CHECK(memory_stats().system_calls == before.system_calls);
  CHECK(memory_stats().allocations == before.allocations + 1);
}

TEST_CASE("storage: sizes are rounded up by a quarter at most") {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 28); bytes = bytes * 9 / 8 + 1) {
    std::int64_t before = memory_stats().in_use;
    Ref<Storage> storage = Storage::allocate(bytes);
    auto taken = static_cast<std::size_t>(memory_stats().in_use - before);
    INFO(bytes << " bytes took " << taken);
    REQUIRE(taken >= bytes);
    REQUIRE(taken <= bytes + bytes / 4 + 64);
    static_cast<char*>(storage->data())[bytes - 1] = 1;
  }
  release_cached_memory();
}

TEST_CASE("storage: large blocks begin where large pages do") {
  constexpr std::size_t page = std::size_t{2} << 20;
  for (const std::size_t bytes : {page * 7 / 8, page, page + 1, 3 * page}) {
    const auto storage = Storage::allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(storage->data()) % page == 0);
    std::memset(storage->data(), 1, bytes);
  }
}

TEST_CASE("storage: statistics follow what lives") {
  MemoryStats start = memory_stats();
  {
    Ref<Storage> storage = Storage::allocate(1 << 20);
    CHECK(memory_stats().in_use == start.in_use + (1 << 20));
    CHECK(memory_stats().peak >= start.in_use + (1 << 20));
  }
  CHECK(memory_stats().in_use == start.in_use);
  CHECK(memory_stats().cached >= 1 << 20);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
  reset_peak_memory();
  CHECK(memory_stats().peak == memory_stats().in_use);
}

TEST_CASE("storage: the limit throws, and all is well afterwards") {
  LimitGuard guard;
  release_cached_memory();
  MemoryStats start = memory_stats();
  set_memory_limit(start.in_use + (8 << 20));
  std::string text = message_of<OutOfMemory>([] { Storage::allocate(16 << 20); });
  CHECK(has(text, "sinter::OutOfMemory: cpu: could not allocate 16777216 bytes"));
  CHECK(has(text, "the limit of"));
  CHECK(memory_stats().in_use == start.in_use);
  {
    Ref<Storage> fits = Storage::allocate(4 << 20);
    CHECK_THROWS_AS(Storage::allocate(5 << 20), OutOfMemory);
  }
  // What is cached is freed for a block of another size.
  Ref<Storage> other = Storage::allocate(6 << 20);
  CHECK(memory_stats().in_use >= start.in_use + (6 << 20));
  CHECK_THROWS_AS(Storage::allocate(std::size_t{1} << 50), OutOfMemory);
}

TEST_CASE("storage: an allocation that fails inside an evaluation leaves tensors usable") {
  LimitGuard guard;
  Tensor x = ones({1 << 20});
  eval(x);
  Tensor y = exp(x) + 1;
  release_cached_memory();
  set_memory_limit(memory_stats().in_use + 1024);
  CHECK_THROWS_AS(eval(y), OutOfMemory);
  CHECK_FALSE(y.is_ready());
  set_memory_limit(0);
  CHECK(item<float>(y(0)) == Approx(std::exp(1.0) + 1));
  auto f = jit::compile([](Tensor a) { return exp(a) * 3; });
  set_memory_limit(memory_stats().in_use + 1024);
  CHECK_THROWS_AS(f(x), OutOfMemory);
  set_memory_limit(0);
  CHECK(item<float>(f(x)(5)) == Approx(3 * std::exp(1.0)));
}

TEST_CASE("storage: blocks freed by another thread") {
  MemoryStats start = memory_stats();
  for (int round = 0; round < 20; ++round) {
    std::vector<Ref<Storage>> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(Storage::allocate(static_cast<std::size_t>(100 + i * 500)));
    std::thread([moved = std::move(blocks)]() mutable { moved.clear(); }).join();
  }
  CHECK(memory_stats().in_use == start.in_use);
  // Values and pending nodes too.
  std::vector<Tensor> values;
  for (int i = 0; i < 2000; ++i) values.push_back(ones({4}) + i);
  std::thread([moved = std::move(values)]() mutable {
    eval(moved[7]);
    CHECK(item<float>(moved[7](0)) == 8);
    moved.clear();
  }).join();
  CHECK(memory_stats().in_use <= start.in_use + 4096);
}

TEST_CASE("storage: many threads at once") {
  MemoryStats start = memory_stats();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 500; ++i) {
        Ref<Storage> a = Storage::allocate(static_cast<std::size_t>(64 + (i * 37 + t * 11) % 9000));
        std::memset(a->data(), t, a->bytes());
        Ref<Storage> b = Storage::allocate(a->bytes());
        std::memset(b->data(), 0xFF, b->bytes());
        auto* bytes = static_cast<unsigned char*>(a->data());
        for (std::size_t k = 0; k < a->bytes(); ++k) wrong += bytes[k] != t;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(memory_stats().in_use == start.in_use);
}

TEST_CASE("storage: devices that are not there") {
  if (cuda::is_available()) SINTER_SKIP("there is a GPU");
  CHECK_THROWS_AS(Storage::allocate(64, Device::cuda()), DeviceError);
  CHECK_THROWS_AS(zeros({2}, {.device = Device::cuda()}), DeviceError);
  CHECK_THROWS_AS(ones({2}).to(Device::cuda(1)), DeviceError);
  CHECK(ones({2}).to(Device::cpu()).device() == Device::cpu());
}

TEST_CASE("views share memory where strides allow") {
  Tensor x = reshape(arange(24), {2, 3, 4});
  eval(x);
  auto shares = [&](const Tensor& view) {
    eval(view);
    return view.impl()->storage == x.impl()->storage;
  };
  CHECK(shares(reshape(x, {6, 4})));
  CHECK(shares(transpose(x, 0, 2)));
  CHECK(shares(permute(x, {2, 0, 1})));
  CHECK(shares(x(1)));
  CHECK(shares(x(all, slice(1, 3))));
  CHECK(shares(x(all, all, slice(0, 4, 2))));
  CHECK(shares(expand(unsqueeze(x, 0), {5, 2, 3, 4})));
  CHECK(shares(squeeze(unsqueeze(x, 1), 1)));
  CHECK(shares(flatten(x)));
  Tensor t = transpose(x, 0, 1);
  eval(t);
  CHECK_FALSE(t.impl()->is_dense());
  CHECK(to_vector<int>(t(0, all, 0)) == std::vector<int>{0, 12});
  CHECK(to_vector<int>(reshape(transpose(x, 0, 2), {24}))[1] == 12);  // needs a copy
  CHECK(to_vector<int>(x(1, slice(0, 3, 2), -1)) == std::vector<int>{15, 23});
}

TEST_CASE("views outlive what they view") {
  Tensor view;
  {
    Tensor x = copy_of(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
    view = x(all, 1);
    eval(view);
  }
  CHECK(to_vector<float>(view) == std::vector<float>{2, 5});
}

TEST_CASE("a handle shares, and never sees another's update") {
  Tensor a = copy_of(std::vector<float>{1, 2, 3});
  Tensor b = a;
  CHECK(is_same(a, b));
  b += 1;
  CHECK(to_vector<float>(a) == std::vector<float>{1, 2, 3});
  CHECK(to_vector<float>(b) == std::vector<float>{2, 3, 4});
  Tensor c = a;
  c.at(0) = 9;
  CHECK(to_vector<float>(a) == std::vector<float>{1, 2, 3});
  CHECK(to_vector<float>(c) == std::vector<float>{9, 2, 3});
  Tensor nothing;
  CHECK(nothing.rank() == 0);
  CHECK(item<float>(nothing) == 0);
  CHECK(nothing.dtype() == DType::f32);
}

TEST_CASE("factories") {
  CHECK(to_vector<float>(zeros({2, 2})) == std::vector<float>(4, 0));
  CHECK(to_vector<float>(ones({3})) == std::vector<float>(3, 1));
  CHECK(to_vector<int>(full({2}, 7, {.dtype = DType::i32})) == std::vector<int>{7, 7});
  CHECK(to_vector<double>(full({2}, 0.1, {.dtype = DType::f64})) == std::vector<double>{0.1, 0.1});
  CHECK(full({2}, 2.9, {.dtype = DType::i32}).dtype() == DType::i32);
  CHECK(to_vector<int>(full({2}, 2.9, {.dtype = DType::i32})) == std::vector<int>{2, 2});
  CHECK(to_vector<int>(arange(4)) == std::vector<int>{0, 1, 2, 3});
  CHECK(to_vector<int>(arange(2, 9, 3)) == std::vector<int>{2, 5, 8});
  CHECK(to_vector<int>(arange(5, 0, -2)) == std::vector<int>{5, 3, 1});
  CHECK(to_vector<int>(arange(0, 6, 3)) == std::vector<int>{0, 3});
  CHECK(arange(3, 3).numel() == 0);
  CHECK(arange(3, 1).numel() == 0);
  CHECK_THROWS_AS(arange(0, 3, 0), ShapeError);
  CHECK(to_vector<double>(linspace(0, 1, 5, {.dtype = DType::f64})) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(to_vector<double>(linspace(2, 3, 1, {.dtype = DType::f64})) == std::vector<double>{2});
  CHECK(to_vector<float>(eye(2)) == std::vector<float>{1, 0, 0, 1});
  Tensor like = ones_like(full({2, 3}, 4, {.dtype = DType::f64}));
  CHECK(like.dtype() == DType::f64);
  CHECK(like.shape() == Shape{2, 3});
  CHECK_THROWS_AS(zeros({-1}), ShapeError);
  CHECK_THROWS_AS(zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(eval(zeros({std::int64_t{1} << 50})), OutOfMemory);
}

TEST_CASE("random numbers: seeds, ranges, moments") {
  manual_seed(7);
  std::vector<float> a = to_vector<float>(rand({1000})), b = to_vector<float>(rand({1000}));
  manual_seed(7);
  CHECK(to_vector<float>(rand({1000})) == a);
  CHECK(to_vector<float>(rand({1000})) == b);
  CHECK(a != b);
  double sum = 0;
  for (float v : a) {
    REQUIRE(v >= 0);
    REQUIRE(v < 1);
    sum += v;
  }
  CHECK(std::abs(sum / 1000 - 0.5) < 0.05);
  std::vector<double> n = to_vector<double>(randn({10000}, {.dtype = DType::f64}));
  double mean = 0, square = 0;
  for (double v : n) {
    mean += v / 10000;
    square += v * v / 10000;
  }
  CHECK(std::abs(mean) < 0.05);
  CHECK(std::abs(square - 1) < 0.06);
  // Drawn once, whatever else is asked of it.
  Tensor r = rand({3});
  Tensor twice = r * 2;
  std::vector<float> doubled = to_vector<float>(twice), once = to_vector<float>(r);
  for (std::size_t i = 0; i < 3; ++i) CHECK(doubled[i] == once[i] * 2);
  CHECK_THROWS_AS(rand({2}, {.dtype = DType::i32}), DTypeError);
}

TEST_CASE("variables alias, tensors do not") {
  Variable w(copy_of(std::vector<float>{1, 2}), "w");
  Variable same = w;
  same.set(copy_of(std::vector<float>{3, 4}));
  CHECK(to_vector<float>(w.value()) == std::vector<float>{3, 4});
  w += 1;
  w -= 0.5f;
  w *= 2;
  w /= 4;
  CHECK(to_vector<float>(same.value()) == std::vector<float>{1.75f, 2.25f});
  Tensor snapshot = w;
  w = snapshot * 2;
  CHECK(to_vector<float>(snapshot) == std::vector<float>{1.75f, 2.25f});
  CHECK(to_vector<float>(w) == std::vector<float>{3.5f, 4.5f});
  CHECK(w.name() == "w");
  std::string text = message_of<ShapeError>([&] { w.set(ones({3})); });
  CHECK(has(text, "the new value has shape (3,), the variable (2,)"));
  CHECK(has(text, "[tensor_test.cpp:"));
  w.set(copy_of(std::vector<double>{1, 2}));  // the variable's dtype stays
  CHECK(w.dtype() == DType::f32);
}
