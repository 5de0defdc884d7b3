// Loops whose bodies update a carry in place: the memory they take, and that whoever reads the old value does so first.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

using namespace sinter;

namespace {

using Floats = std::vector<float>;

Tensor counted(std::int64_t n) {
  Tensor x = arange(n, {.dtype = DType::f32});
  eval(x);
  return x;
}
/// What a call needs beyond what there was.
template <class F>
std::int64_t peak_of(const F& f) {
  reset_peak_memory();
  const std::int64_t before = memory_stats().in_use;
  f();
  return memory_stats().peak - before;
}

}  // namespace

TEST_CASE("loops in place: a slice that is written in each iteration takes no second buffer") {
  constexpr std::int64_t rows = 512, columns = 1024, bytes = rows * columns * 4;
  const Tensor u = zeros({rows, columns}), y = counted(columns);
  eval(u);
  auto fill = jit::compile([](Tensor t, Tensor row) {
    return jit::fori_loop(
        0, rows,
        [&](Scalar k, Tensor carry) {
          carry.at(k) = row + k;
          return carry;
        },
        t);
  });
  Tensor filled;
  CHECK(peak_of([&] { filled = fill(u, y); }) < bytes + bytes / 4);  // the result, and nothing else of its size
  CHECK(item<float>(filled(0, 5)) == 5);
  CHECK(item<float>(filled(rows - 1, 7)) == rows - 1 + 7);
  CHECK(item<float>(sum(abs(u))) == 0);  // the argument is not ours
  auto halve = jit::compile([](Tensor t) {
    return std::get<0>(jit::while_loop([](Tensor, Scalar k) { return k < 6; },
                                       [](Tensor carry, Scalar k) { return std::tuple{carry * 0.5f, k + 1}; }, t, 0));
  });
  const Tensor ones_there = ones({rows, columns});
  eval(ones_there);
  Tensor halved;
  CHECK(peak_of([&] { halved = halve(ones_there); }) < bytes + bytes / 4);
  CHECK(item<float>(halved(3, 4)) == 1 / 64.0f);
}

TEST_CASE("loops in place: old values are read before they are written over") {
  const Tensor x = counted(4), y = ones({4});
  eval(y);
  for (int length = 0; length < 6; ++length) {
    INFO(length << " iterations");
    Floats a = floats(x), b = floats(y), shifted = floats(x), seen;
    float total = 0;
    for (int i = 0; i < length; ++i) {
      for (std::size_t k = 0; k < 4; ++k) {
        seen.push_back(a[k]);
        const float next = a[k] + b[k];
        a[k] = b[k];
        b[k] = next;
      }
      shifted = {shifted[3], shifted[0] + 1, shifted[1] + 1, shifted[2] + 1};
      total = 0.5f * total + shifted[0];
    }
    const auto run = [length](Tensor p, Tensor q) {
      return jit::scan(
          [](std::tuple<Tensor, Tensor, Tensor, Tensor> c, std::tuple<>) {
            auto [first, second, s, t] = c;
            Tensor moved = roll(s, 1, 0) + copy_of(Floats{0, 1, 1, 1});
            Tensor kept = 0.5f * t + moved(0);
            return std::tuple{std::tuple{second, Tensor(first + second), moved, kept}, first};
          },
          std::tuple{p, q, p, zeros({})}, std::tuple{}, {.length = length});
    };
    const auto check = [&](const auto& got) {
      const auto& [carries, stacked] = got;
      CHECK(floats(std::get<0>(carries)) == a);
      CHECK(floats(std::get<1>(carries)) == b);
      CHECK(floats(std::get<2>(carries)) == shifted);
      CHECK(item<float>(std::get<3>(carries)) == total);
      CHECK(floats(stacked) == seen);
    };
    check(run(x, y));
    auto compiled = jit::compile(run);
    check(compiled(x, y));
    check(compiled(x, y));
    auto unfused = jit::compile(run, {.fuse = false});
    check(unfused(x, y));
    CHECK(floats(x) == Floats{0, 1, 2, 3});
  }
}

TEST_CASE("loops in place: products, transposed carries, and what was captured from the first carry") {
  const Tensor m = tensor({{1.f, 1.f}, {1.f, 0.f}});
  eval(m);
  auto power = jit::compile([](Tensor x) {
    return jit::fori_loop(0, 5, [&](Scalar, Tensor t) { return matmul(t, x); }, x);  // x is the first carry, too
  });
  CHECK(floats(power(m)) == Floats{13, 8, 8, 5});
  auto turned = jit::compile(
      [](Tensor x) { return jit::fori_loop(0, 3, [](Scalar k, Tensor t) { return transpose(t, 0, 1) * 2 + k; }, x); });
  const Tensor n = tensor({{1.f, 2.f}, {3.f, 4.f}});
  CHECK(floats(turned(n)) == Floats{12, 28, 20, 36});
  CHECK(floats(turned(n)) == Floats{12, 28, 20, 36});
  auto gradient = jit::compile(jit::grad([](Tensor x) {
    return sum(jit::fori_loop(
        0, 3,
        [](Scalar k, Tensor t) {
          t.at(k) = t(k) * t(k);
          return t;
        },
        x));
  }));
  CHECK(floats(gradient(counted(4))) == Floats{0, 2, 4, 1});
}
