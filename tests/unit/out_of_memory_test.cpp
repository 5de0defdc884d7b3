// OutOfMemory loses nothing: Variables, arguments, lent memory and pending statements are as they were, and the same
// call succeeds once there is room.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {
constexpr std::int64_t n = 1 << 20;  // elements: four MiB, more than the room that is left

Tensor filled(double value) {
  Tensor x = full({n}, value);
  eval(x);
  return x;
}

/// Leaves room for `bytes` more.
struct Limit {
  explicit Limit(std::int64_t bytes) {
    release_cached_memory();
    const MemoryStats now = memory_stats();
    set_memory_limit(now.in_use + now.cached + bytes);
  }
  ~Limit() { set_memory_limit(0); }
};

/// `work` throws OutOfMemory under a limit, and gives the same as ever afterwards.
template <class F>
void fails_and_recovers(F&& work, std::int64_t room = 1 << 20) {
  {
    Limit limit(room);
    CHECK_THROWS_AS(work(), OutOfMemory);
    CHECK_THROWS_AS(work(), OutOfMemory);
  }
  work();
}
}  // namespace

TEST_CASE("out of memory: pending statements evaluate later") {
  Tensor x = filled(2);
  Tensor y = x * 3 + 1, z = sum(y * y), w = y - 1;
  fails_and_recovers([&] { eval({y, z, w}); });
  CHECK(item<float>(y(n - 1)) == 7);
  CHECK(item<float>(w(5)) == 6);
  CHECK(item<float>(x(3)) == 2);
}

TEST_CASE("out of memory: a compiled call, its arguments and lent memory") {
  auto f = jit::compile([](Tensor x) { return std::pair{x * 2, sum(x)}; });
  Tensor x = filled(1), result;
  fails_and_recovers([&] { result = f(x).first; });
  CHECK(item<float>(result(7)) == 2);
  Tensor given = filled(5);
  auto g = jit::compile([](Tensor a, Tensor b) { return std::pair{a + b, a - b}; });
  g(x, x);
  {
    Limit limit(1 << 20);
    CHECK_THROWS_AS(g(std::move(given), x), OutOfMemory);
  }
  REQUIRE(given.size(0) == Dim(n));
  CHECK(item<float>(given(9)) == 5);
  CHECK(item<float>(g(std::move(given), x).first(9)) == 6);
  std::vector<float> place(static_cast<std::size_t>(n), -1);
  auto h = jit::compile([](Tensor a) { return matmul(reshape(a, {1024, 1024}), reshape(a + 1, {1024, 1024})); });
  {
    Limit limit(1 << 18);
    CHECK_THROWS_AS(h.into(borrow_mut(place.data(), {1024, 1024}))(x), OutOfMemory);
  }
  CHECK(place[77] == -1);
  h.into(borrow_mut(place.data(), {1024, 1024}))(x);
  CHECK(place[77] == 2048);
}

TEST_CASE("out of memory: Variables keep their values") {
  Variable v(full({n}, 1)), w(full({n}, 2));
  eval(v);
  eval(w);
  auto step = jit::compile([](const Variable& a, const Variable& b, Tensor g) {
    const Tensor old = a;
    a += g;
    b += old * g;
    return sum(a * b);
  });
  Tensor g = filled(1);
  const Tensor held = v, also_held = w;  // no update in place: each needs fresh memory
  {
    Limit limit(5 << 20);
    CHECK_THROWS_AS(step(v, w, g), OutOfMemory);
  }
  CHECK(item<float>(v(3)) == 1);
  CHECK(item<float>(w(3)) == 2);
  step(v, w, g);
  CHECK(item<float>(v(3)) == 2);
  CHECK(item<float>(w(3)) == 3);
}

TEST_CASE("out of memory: in a tree of reads, in a loop, under a gradient") {
  Tensor x = filled(1), y;
  auto tree = jit::compile([](Tensor a) {
    if (item(sum(a)) > 0) return a * 2;
    return a * 3;
  });
  fails_and_recovers([&] { y = tree(x); });
  CHECK(item<float>(y(1)) == 2);
  auto loop = jit::compile([](Tensor a) { return jit::fori_loop(0, 3, [](Scalar, Tensor t) { return t + 1; }, a); });
  fails_and_recovers([&] { y = loop(x); });
  CHECK(item<float>(y(1)) == 4);
  auto gradient = jit::compile(jit::grad([](Tensor a) { return sum(tanh(a) * a); }));
  fails_and_recovers([&] { y = gradient(zeros({n})); });
  CHECK(item<float>(y(1)) == 0);
}

TEST_CASE("out of memory: the error says what was wanted, where, and what holds most") {
  std::vector<Tensor> held;
  for (int i = 1; i <= 6; ++i) {
    held.push_back(full({i * 100000}, i));  // the smallest of six is not among the five
    eval(held.back());
  }
  const std::string made = "out_of_memory_test.cpp:" + std::to_string(__LINE__ - 3);
  auto f = jit::compile([](Tensor x) { return exp(x) * 2; });
  const std::string wanted = "out_of_memory_test.cpp:" + std::to_string(__LINE__ - 1);
  Tensor x = filled(1);
  f(x);
  for (const bool is_lazy : {false, true}) {
    Limit limit(1 << 20);
    try {
      if (is_lazy) eval(exp(x) + 1);
      else f(x);
      FAIL("there was room");
    } catch (const OutOfMemory& error) {
      const std::string text = error.what();
      INFO(text);
      CHECK(text.find("could not allocate") != std::string::npos);
      CHECK(text.find(is_lazy ? "out_of_memory_test.cpp:" + std::to_string(__LINE__ - 7) : wanted) !=
            std::string::npos);
      CHECK(text.find("the limit of ") != std::string::npos);
      CHECK(text.find("bytes of full at " + made) != std::string::npos);
      std::size_t listed = 0;
      for (std::size_t at = text.find(" bytes of "); at != std::string::npos; at = text.find(" bytes of ", at + 1))
        ++listed;
      CHECK(listed >= 5);
      CHECK(listed <= 6);  // "the limit of N bytes" is another matter
    }
  }
  CHECK(item<float>(f(x)(3)) == Approx(2 * 2.718281828f));
}
