// Random numbers: Philox against known answers, the same numbers on every back end and thread count, moments, and how
// the counter moves in compiled and lazy code.
#include "op_table.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/ops/philox.hpp>

#include <numbers>

using namespace sinter_test;

namespace {

/// Element `i` of draw `counter`, written out: word k of a draw lies k * 2^60 counters further.
double uniform_oracle(DType dtype, std::int64_t key, std::int64_t counter, std::int64_t i, int word) {
  auto bits = [&](int k) {
    return static_cast<std::uint32_t>(philox_bits(key, counter + (std::int64_t{1} << 60) * k, i));
  };
  if (dtype == DType::f32) return static_cast<double>(bits(word) >> 8) * 0x1p-24;
  return (static_cast<double>(bits(word)) * 0x1p21 + static_cast<double>(bits(word + 1) >> 11)) * 0x1p-53;
}
double normal_oracle(DType dtype, std::int64_t key, std::int64_t counter, std::int64_t i) {
  const double u = 1 - uniform_oracle(dtype, key, counter, i, 0), v = uniform_oracle(dtype, key, counter, i, 2);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

constexpr std::int64_t key = 0x123456789;
const Extents extents{7, 31};
using Draw = std::function<Tensor()>;
Tensor draw_in(const Mode& mode, const Draw& draw) {
  manual_seed(key);
  return run_in(mode, [&](const Inputs&) { return draw(); }, {});
}

}  // namespace

TEST_CASE("random: Philox4x32-10 gives the known answers of its authors") {  // Random123, kat_vectors
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random: rand and randn follow from Philox on every back end") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Array uniform{dtype, extents, {}, {}}, normal = uniform, second = uniform;
    for (std::int64_t i = 0; i < oracle::count(extents); ++i) {
      uniform.data.push_back(uniform_oracle(dtype, key, 0, i, 0));
      second.data.push_back(uniform_oracle(dtype, key, 1, i, 0));
      normal.data.push_back(normal_oracle(dtype, key, 0, i));
      // Near its zeros the cosine's argument, rounded, decides: the error is one of the radius times 2 pi.
      normal.scale.push_back(40);
    }
    const TensorOptions options{.dtype = dtype};
    for (const Mode& mode : modes()) {
      INFO(std::string(name(dtype)) << ", " << mode.name);
      CHECK(difference(draw_in(mode, [&] { return rand(Shape(extents), options); }), uniform, oracle::exact) == "");
      CHECK(difference(draw_in(mode, [&] { return randn(Shape(extents), options); }), normal, {1, 1, 0}) == "");
      CHECK(difference(draw_in(mode, [&] { return rand({3}, options), rand(Shape(extents), options); }), second,
                       oracle::exact) == "");
    }
  }
}

TEST_CASE("random: numbers of the 2^32nd element and beyond a draw's counter") {
  // The reference for bits of any element and counter, through a graph of the library.
  for (std::int64_t counter : {std::int64_t{0}, std::int64_t{5}, (std::int64_t{1} << 32) + 7}) {
    manual_seed(key);
    Generator::current().counter.set(full({}, counter, {.dtype = DType::i64}));
    const Tensor x = rand({4});
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(x.data<float>()[i] ==
            static_cast<float>(uniform_oracle(DType::f32, key, counter, static_cast<std::int64_t>(i), 0)));
    CHECK(item<std::int64_t>(Generator::current().counter) == counter + 1);
  }
}

TEST_CASE("random: the same bits for one thread and for two") {
  struct Restore {
    int threads = thread_count();
    ~Restore() { set_thread_count(threads); }
  } restore;
  for (const Mode& mode : modes()) {
    if (mode.backend != nullptr && std::string(mode.backend) == "reference") continue;  // slow at this size
    INFO(mode.name);
    auto draw = [&](int threads) {
      set_thread_count(threads);
      return to_vector<float>(draw_in(mode, [] { return randn({300, 1001}); }));
    };
    CHECK(draw(1) == draw(2));
  }
}

TEST_CASE("random: a compiled function draws anew at each call, and goes on where lazy code left off") {
  for (const Mode& mode : modes()) {
    if (mode.backend == nullptr) continue;
    INFO(mode.name);
    const auto f = jit::compile([](Tensor x) { return x + rand({5}); }, mode.options());
    manual_seed(3);
    const Tensor zero = zeros({5});
    const std::vector<float> first = to_vector<float>(f(zero)), second = to_vector<float>(rand({5})),
                             third = to_vector<float>(f(zero));
    CHECK(first != second);
    CHECK(second != third);
    manual_seed(3);
    const std::vector<float> a = to_vector<float>(rand({5})), b = to_vector<float>(rand({5})),
                             c = to_vector<float>(rand({5}));
    CHECK(first == a);
    CHECK(second == b);
    CHECK(third == c);
    CHECK(f.stats().compiles == 1);
    manual_seed(4);
    CHECK(to_vector<float>(f(zero)) != first);
  }
}

TEST_CASE("random: one draw used twice is drawn once") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor zero = draw_in(mode, [] {
      Tensor x = rand({1000});
      return x - (x * 2) / 2;
    });
    CHECK(item<float>(amax(abs(zero))) == 0);
  }
}

TEST_CASE("random: moments") {
  manual_seed(11);
  constexpr std::int64_t count = 200000;
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor u = rand({count}, {.dtype = dtype}).to(DType::f64),
                 z = randn({count}, {.dtype = dtype}).to(DType::f64);
    // Five standard deviations of each estimate.
    const double root = 5 / std::sqrt(static_cast<double>(count));
    CHECK(item<double>(mean(u)) == Approx(0.5).margin(root * 0.289));
    CHECK(item<double>(var(u)) == Approx(1.0 / 12).margin(root * 0.0745));
    CHECK(item<double>(amin(u)) >= 0);
    CHECK(item<double>(amax(u)) < 1);
    CHECK(item<double>(mean(z)) == Approx(0).margin(root));
    CHECK(item<double>(var(z)) == Approx(1).margin(root * std::sqrt(2.0)));
    CHECK(item<double>(mean(pow(z, 3))) == Approx(0).margin(root * std::sqrt(15.0)));
    CHECK(item<double>(mean(square(square(z)))) == Approx(3).margin(root * std::sqrt(96.0)));
    // Neighbours and draws do not correlate.
    CHECK(item<double>(mean(z(slice(1)) * z(slice(0, -1)))) == Approx(0).margin(root));
    CHECK(item<double>(mean(z * randn({count}, {.dtype = dtype}))) == Approx(0).margin(root));
  }
}

TEST_CASE("random: shapes from nothing to many axes, and dynamic ones") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    CHECK(draw_in(mode, [] { return rand({0, 3}); }).shape() == Shape{0, 3});
    CHECK(item<float>(draw_in(mode, [] { return rand({}); })) ==
          static_cast<float>(uniform_oracle(DType::f32, key, 0, 0, 0)));
    if (mode.backend == nullptr) continue;
    const auto f = jit::compile([](Tensor x) { return x + rand(x.shape()); }, mode.options());
    for (std::int64_t size : {4, 9, 33, 130}) {
      manual_seed(key);
      const std::vector<float> got = to_vector<float>(f(zeros({size, 3})));
      for (std::size_t i = 0; i < got.size(); ++i)
        REQUIRE(got[i] == static_cast<float>(uniform_oracle(DType::f32, key, 0, static_cast<std::int64_t>(i), 0)));
    }
    CHECK(f.stats().compiles <= 2);
  }
}
