// An index out of range that a kernel meets is an error with the user's line, the index and the extent, on each back
// end.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <limits>
#include <vector>

using namespace sinter;

namespace {
std::string at(int line) { return "[take_error_test.cpp:" + std::to_string(line) + "]"; }
}  // namespace

TEST_CASE("take: an index out of range names the line, the index and the extent") {
  const Tensor table = reshape(arange(24).to(DType::f32), {6, 4}), good = tensor({5, 0, 3});
  for (const char* backend : {"", "eager", "aot_eager"}) {
    const int rows = __LINE__ + 1;
    auto lookup = jit::compile([](Tensor t, Tensor i) { return take(t, i, 0) * 2; }, {.backend = backend});
    const int columns = __LINE__ + 1;
    auto across = jit::compile([](Tensor t, Tensor i) { return exp(take(t, i, 1)) + 1; }, {.backend = backend});
    CHECK(floats(lookup(table, good))[4] == 0);
    for (std::int64_t bad : {6, -1, 1 << 30}) {
      const std::string text = message_of<IndexError>([&] { eval(lookup(table, tensor<std::int64_t>({2, bad, 1}))); });
      CHECK(has(text, "IndexError: take: index " + std::to_string(bad) + " is out of range for an axis of extent 6 " +
                          at(rows)));
      CHECK(has(text, "indices go from 0 to 5"));
    }
    CHECK(has(message_of<IndexError>([&] { eval(across(table, tensor<std::int64_t>({0, 1, 2, 3, 4}))); }),
              "index 4 is out of range for an axis of extent 4 " + at(columns)));
    CHECK(floats(lookup(table, good))[8] == 24);  // it can be called again
  }
}

TEST_CASE("take: lazily, in several lines of one kernel, beside a product, and in a region of symbolic size") {
  const Tensor table = ones({6, 4});
  const int lazy = __LINE__ + 1;
  const Tensor pending = take(table, tensor({7}), 0);
  CHECK(has(message_of<IndexError>([&] { eval(pending); }),
            "index 7 is out of range for an axis of extent 6 " + at(lazy)));
  const int again = __LINE__ + 1;  // an equal graph, whose plan is shared
  const Tensor later = take(table, tensor({7}), 0);
  CHECK(has(message_of<IndexError>([&] { eval(later); }), at(again)));
  const int first = __LINE__ + 2;
  auto two = jit::compile([](Tensor t, Tensor i, Tensor j) {
    Tensor a = take(t, i, 0);
    return a + take(t, j, 0);
  });
  const std::string text = message_of<IndexError>([&] { two(table, tensor({1, 2}), tensor({1, 9})); });
  CHECK(has(text, "index 9 is out of range for an axis of extent 6"));
  CHECK(has(text, "take_error_test.cpp:" + std::to_string(first)));
  CHECK(has(text, "take_error_test.cpp:" + std::to_string(first + 1)));
  const int product = __LINE__ + 1;
  auto bias = jit::compile([](Tensor x, Tensor w, Tensor t, Tensor i) { return matmul(x, w) + take(t, i, 0); },
                           {.dynamic = jit::Dynamic::always});
  const Tensor x = ones({3, 5}), w = ones({5, 4});
  CHECK(floats(bias(x, w, table, tensor({0, 5, 2})))[0] == 6);
  CHECK(has(message_of<IndexError>([&] { bias(x, w, table, tensor({0, 8, 2})); }),
            "index 8 is out of range for an axis of extent 6 " + at(product)));
  auto embedded = jit::compile([](Tensor t, Tensor i) { return embedding(i, t); });
  const int line = __LINE__ - 1;
  CHECK(has(message_of<IndexError>([&] { embedded(table, tensor({6})); }), at(line)));
}

namespace {
/// x(row, at) of a table whose elements are 100 * row + column, computed one by one.
template <class T>
void check_whole_vectors() {
  const Tensor table = cast(unsqueeze(arange(5) * 100, 1) + arange(40), dtype_of<T>());
  const Tensor turned = cast(arange(5) * 100 + unsqueeze(arange(40), 1), dtype_of<T>());
  eval(table);
  eval(turned);
  auto backward = jit::compile([](Tensor t, Tensor i) { return flip(take_along_axis(t, i, 1), 1) + 1; });
  for (const std::int64_t count : {1, 7, 8, 9, 16, 17, 64, 67}) {
    const Tensor index = (arange(count) * 7) % 40;
    for (const bool is_turned : {false, true}) {
      auto pick = jit::compile([=](Tensor t, Tensor i) { return take(is_turned ? t.t() : t, i, 1) + 1; });
      const Tensor found = pick(is_turned ? turned : table, index);
      const Tensor along = backward(table, expand(unsqueeze(index, 0), {5, count}));
      INFO(count << (is_turned ? " turned" : ""));
      bool agrees = true;
      for (std::int64_t row = 0; row < 5; ++row)
        for (std::int64_t k = 0; k < count; ++k) {
          const auto at = static_cast<std::size_t>(row * count + k),
                     mirrored = static_cast<std::size_t>((row + 1) * count - 1 - k);
          const auto expected = static_cast<T>(100 * row + k * 7 % 40 + 1);
          agrees = agrees && found.data<T>()[at] == expected && along.data<T>()[mirrored] == expected;
        }
      CHECK(agrees);
    }
  }
}
}  // namespace

TEST_CASE("take: whole vectors of positions, of each element type, over rows that lie apart") {
  check_whole_vectors<float>();
  check_whole_vectors<double>();
  check_whole_vectors<std::int32_t>();
  check_whole_vectors<std::int64_t>();
  check_whole_vectors<std::uint64_t>();
}

TEST_CASE("take: many gathers in one kernel") {
  const Tensor index = (arange(512) * 7919) % 1000, table = sin(arange(1000).to(DType::f32));
  const auto mixed = [](const Tensor& t, const Tensor& i) {
    std::vector<Tensor> held, masks;
    for (int k = 0; k < 8; ++k) {
      held.push_back(take(t, (i + k * 37) % 1000, 0));
      masks.push_back(held.back() > 0.01f * static_cast<float>(k));
    }
    Tensor total = held.back() * 0.25f;
    for (std::size_t k = 8; k-- > 0;) total = where(masks[k], total * 0.5f + held[k], total - held[7 - k]);
    return total;
  };
  auto compiled = jit::compile([=](Tensor t, Tensor i) { return mixed(t, i); });
  auto reference = jit::compile([=](Tensor t, Tensor i) { return mixed(t, i); }, {.backend = "eager"});
  CHECK(near(doubles(compiled(table, index)), doubles(reference(table, index)), 1e-6));
  CHECK(has(compiled.explain(table, index).text(), "plan: 1 kernels"));
}

TEST_CASE("take: no index into an axis of extent 0 is good, on each back end") {
  for (const char* backend : {"", "eager", "reference"}) {
    INFO(backend);
    const int line = __LINE__ + 1;
    auto rows = jit::compile([](Tensor t, Tensor i) { return sum(take(t, i, 1) * 2, 1); }, {.backend = backend});
    auto sums = jit::compile([](Tensor t, Tensor i) { return take(t, i % 100, 0) + 1; }, {.backend = backend});
    auto bias = jit::compile([](Tensor t, Tensor i) { return matmul(ones({8, 5}), ones({5, 4})) + take(t, i, 0); },
                             {.backend = backend});
    const std::string text = message_of<IndexError>([&] { eval(rows(zeros({4, 0}), arange(8))); });
    CHECK(has(text, "IndexError: take: index 0 is out of range for an axis of extent 0 " + at(line)));
    CHECK(has(message_of<IndexError>([&] { eval(sums(zeros({0, 3000}), arange(1) + 107)); }),
              "index 7 is out of range for an axis of extent 0 " + at(line + 1)));
    CHECK(has(message_of<IndexError>([&] { eval(bias(zeros({0, 4}), arange(8) + 3)); }),
              "is out of range for an axis of extent 0 " + at(line + 2)));
    CHECK(floats(rows(zeros({4, 0}), zeros({0}, {.dtype = DType::i64}))) == std::vector<float>(4));
  }
}

TEST_CASE("take: a bad position is found in each place of a vector") {
  const Tensor line = arange(100).to(DType::f32), table = ones({3, 100});
  auto from_line = jit::compile([](Tensor t, Tensor i) { return take(t, i, 0) * 2; });
  auto from_rows = jit::compile([](Tensor t, Tensor i) { return take(t, i, 1) * 2; });
  std::vector<std::int64_t> positions(21, 99);
  CHECK(floats(from_line(line, copy_of(positions)))[20] == 198);
  for (std::size_t place = 0; place < positions.size(); ++place)
    for (const std::int64_t bad : {std::int64_t{100}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()}) {
      std::vector<std::int64_t> changed = positions;
      changed[place] = bad;
      const std::string text = "index " + std::to_string(bad) + " is out of range for an axis of extent 100";
      CHECK(has(message_of<IndexError>([&] { eval(from_line(line, copy_of(changed))); }), text));
      CHECK(has(message_of<IndexError>([&] { eval(from_rows(table, copy_of(changed))); }), text));
    }
}

namespace {
template <class T>
void check_bad_positions(std::initializer_list<T> bad_ones) {
  const Tensor line = arange(100).to(DType::f32);
  for (const char* backend : {"", "eager", "reference"}) {
    auto from_line = jit::compile([](Tensor t, Tensor i) { return take(t, i, 0) * 2; }, {.backend = backend});
    std::vector<T> positions(21, T{99});
    CHECK(floats(from_line(line, copy_of(positions)))[20] == 198);
    for (const std::size_t place : {0, 3, 7, 8, 15, 16, 20})
      for (const T bad : bad_ones) {
        std::vector<T> changed = positions;
        changed[place] = bad;
        INFO(backend << " " << place);
        CHECK(has(message_of<IndexError>([&] { eval(from_line(line, copy_of(changed))); }),
                  "index " + std::to_string(bad) + " is out of range for an axis of extent 100"));
      }
  }
}
}  // namespace

TEST_CASE("take: a bad position of each dtype is named as it is") {
  check_bad_positions<std::int32_t>({100, -1, std::numeric_limits<std::int32_t>::min()});
  check_bad_positions<std::uint32_t>({100, std::numeric_limits<std::uint32_t>::max()});
  check_bad_positions<std::uint64_t>({100, std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()});
}
