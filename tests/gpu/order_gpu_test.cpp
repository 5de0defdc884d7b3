// Orderings on a GPU: bit for bit what the CPU gives, over dtypes, lengths, ties, zeros and NaN.
#include "catch.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {
bool is_missing() { return !cuda::is_available(); }
const Device gpu = Device::cuda(0);

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape().text() != b.shape().text()) return false;
  const Tensor here = a.to(Device::cpu()), there = b.to(Device::cpu());
  return visit_dtype(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto x = here.data<T>(), y = there.data<T>();
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
  });
}
enum class Content { numbers, ties, specials };
constexpr Content contents[] = {Content::numbers, Content::ties, Content::specials};

Tensor drawn(const std::vector<std::int64_t>& shape, DType dtype, Content content) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0, -0.0f, nan, -nan, infinity, -infinity};
  std::vector<float> values(as_index(count));
  auto state = static_cast<std::uint32_t>(count) * 7919 + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    const unsigned kind = state >> 20;
    value = content == Content::numbers ? static_cast<float>(state >> 8) / (1 << 17) - (is_floating(dtype) ? 64 : 0)
                                        : static_cast<float>(kind % 9) - (is_floating(dtype) ? 4 : 0);
    if (content == Content::specials && is_floating(dtype) && kind % 3 == 0) value = special[kind % 18 / 3];
  }
  return cast(copy_of(values, Shape(std::vector<Dim>(shape.begin(), shape.end()))).to(Device::cpu()), dtype);
}

using Ordering = std::function<Ordered(const Tensor&)>;
/// Both results, and each alone.
void check(const char* what, const Tensor& x, const Ordering& f) {
  INFO(what << " of " << name(x.dtype()) << " " << x.shape().text());
  const Tensor there = x.to(gpu);
  const Ordered expected = f(x), got = f(there);
  eval({got.values, got.indices});
  CHECK(got.values.device() == gpu);
  CHECK(same_bits(got.values, expected.values));
  CHECK(same_bits(got.indices, expected.indices));
  CHECK(same_bits(f(there).values, expected.values));
  CHECK(same_bits(f(there).indices, expected.indices));
}
void check_all(const Tensor& x, int axis) {
  const std::int64_t length = x.shape()[axis].value();
  for (const bool is_up : {false, true}) {
    check("sort", x, [&](const Tensor& t) { return sort(t, axis, {.descending = !is_up}); });
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{10}, length / 3}) {
      if (count > length) continue;
      check("topk", x, [&](const Tensor& t) { return topk(t, count, axis, {.largest = is_up}); });
      check("topk in place", x,
            [&](const Tensor& t) { return topk(t, count, axis, {.largest = is_up, .sorted = false}); });
    }
  }
  if (length == 0) return;
  check("kthvalue", x, [&](const Tensor& t) { return kthvalue(t, length / 2 + 1, axis); });
  check("median", x, [&](const Tensor& t) { return median(t, axis); });
  check("nanmedian", x, [&](const Tensor& t) { return nanmedian(t, axis); });
  check("mode", x, [&](const Tensor& t) { return mode(t, axis); });
}
constexpr DType dtypes[] = {DType::bool_, DType::u8,  DType::i8,  DType::u16, DType::i16,  DType::u32,
                            DType::i32,   DType::i64, DType::u64, DType::f16, DType::bf16, DType::f64};
}  // namespace

TEST_CASE("rows of f32 of any length are ordered as on the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const Content content : contents)
    for (const std::int64_t length : {0, 1, 2, 31, 32, 33, 1000, 4096, 4097, 100000})
      check_all(drawn({3, length}, DType::f32, content), 1);
}

TEST_CASE("rows of every dtype are ordered as on the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : dtypes)
    for (const Content content : contents)
      for (const std::int64_t length : {33, 2049, 5000}) check_all(drawn({2, length}, dtype, content), 1);
}

TEST_CASE("columns, many rows, parts of tensors and one long row are ordered as on the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  check_all(drawn({300, 5, 7}, DType::f32, Content::specials), 0);
  check_all(drawn({3, 300, 7}, DType::f16, Content::ties), 1);
  check_all(drawn({5000, 3}, DType::i64, Content::ties), 0);
  check_all(drawn({100000, 9}, DType::f32, Content::specials), 1);
  check_all(drawn({1 << 21}, DType::f32, Content::numbers), 0);
  const Tensor x = drawn({40, 90}, DType::f32, Content::numbers);
  check("sort of a part", x, [](const Tensor& t) { return sort(Tensor(t(slice(3, 20), slice(5, 71))), 1); });
  check("sort of columns", x, [](const Tensor& t) { return sort(Tensor(transpose(t, 0, 1)), 1); });
}

TEST_CASE("orderings on a GPU under compile, vmap and gradients, and searchsorted") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = drawn({20, 50}, DType::f32, Content::numbers);
  const auto f = [](Tensor t) { return Tensor(sort(t * 2, 1).values + topk(t, 50, 1).values); };
  auto compiled = jit::compile(f);
  CHECK(same_bits(compiled(x.to(gpu)), f(x)));
  const auto of_rows = jit::vmap([](Tensor t) { return Tensor(sort(t, 0).values); });
  CHECK(same_bits(of_rows(x.to(gpu)), of_rows(x)));
  const auto gradient = jit::grad([](Tensor t) {
    return Tensor(sum(sort(t, 1).values * arange(50, {.dtype = DType::f32, .device = t.device()})));
  });
  CHECK(same_bits(gradient(x.to(gpu)), gradient(x)));
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32, DType::u8}) {
    const Tensor sorted = sort(drawn({20, 301}, dtype, Content::specials), 1).values,
                 numbers = drawn({20, 77}, dtype, Content::specials);
    for (const bool right : {false, true}) {
      CHECK(same_bits(searchsorted(sorted.to(gpu), numbers.to(gpu), {.right = right}),
                      searchsorted(sorted, numbers, {.right = right})));
      const Tensor one = sorted(0);
      CHECK(same_bits(searchsorted(one.to(gpu), numbers.to(gpu), {.right = right}),
                      searchsorted(one, numbers, {.right = right})));
    }
  }
}
