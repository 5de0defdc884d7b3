// Operands of products that are computed in the product's kernel, on a GPU: one kernel each, and the values of the CPU.
#include "catch.hpp"
#include "checks.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace sinter;
using sinter_test::largest_difference;
using sinter_test::noise;

namespace {
// x is (rows, depth), w (depth, columns), s and b (depth), y of x's shape.
using Operands = const Tensor&;
struct Row {
  const char* name;
  Tensor (*function)(Operands x, Operands w, Operands s, Operands b, Operands y);
};
const Row rows[] = {
    {"relu, scale, shift",
     [](Operands x, Operands w, Operands s, Operands b, Operands) { return matmul(Tensor(relu(x) * s + b), w); }},
    {"mask", [](Operands x, Operands w, Operands, Operands, Operands y) { return matmul(where(y > 0, x, 0.0f), w); }},
    {"cast", [](Operands x, Operands w, Operands, Operands,
                Operands y) { return matmul(Tensor(x + cast(cast(y * 9, DType::i32), DType::f32)), w); }},
    {"both operands",
     [](Operands x, Operands w, Operands s, Operands, Operands) {
       return matmul(Tensor(x * 0.5f - 1), Tensor(w * reshape(s, {s.size(0), Dim(1)})));
     }},
    {"transposed gradient", [](Operands x, Operands, Operands, Operands,
                               Operands y) { return matmul(transpose(x, 0, 1), Tensor(y * cast(x > 0, DType::f32))); }},
    {"f64", [](Operands x, Operands w, Operands, Operands,
               Operands) { return matmul(cast(x, DType::f64), Tensor(cast(w, DType::f64) + 1)); }},
    {"before and after",
     [](Operands x, Operands, Operands, Operands, Operands y) {
       const Tensor h = relu(x);
       return Tensor(matmul(h, transpose(y, 0, 1)) * amax(h));
     }},
};
}  // namespace

TEST_CASE("operands are computed on the way into a product, and agree with the CPU") {
  if (!cuda::is_available()) return;
  // Whole tiles, odd extents, a deep one that is cut, a large tile, hardly any rows.
  const std::int64_t shapes[][3] = {{128, 256, 128}, {65, 131, 67}, {64, 5000, 96}, {1500, 96, 1100}, {3, 257, 40}};
  for (const auto& [m, k, n] : shapes) {
    const Tensor x = noise({m, k}, 1), w = noise({k, n}, 2), s = noise({k}, 3), b = noise({k}, 4), y = noise({m, k}, 5);
    const Device gpu = Device::cuda(0);
    for (const Row& row : rows) {
      INFO(row.name << ", " << m << " x " << k << " x " << n);
      const auto run = [&](Tensor x, Tensor w, Tensor s, Tensor b, Tensor y) { return row.function(x, w, s, b, y); };
      const Tensor wanted = jit::compile(run, {.backend = "reference"})(x, w, s, b, y);
      const auto f = jit::compile(run);
      const Tensor found = f(x.to(gpu), w.to(gpu), s.to(gpu), b.to(gpu), y.to(gpu));
      const double close = 1e-4 * std::sqrt(static_cast<double>(k)) + 1e-5 * static_cast<double>(k);
      CHECK(largest_difference(found, wanted) < close);
      // The rule weighs re-reading: a small product has its operands computed in its kernel.
      if (std::string(row.name) != "before and after" && std::string(row.name) != "transposed gradient" &&
          2.0 * static_cast<double>(m * k * n) < 2e8) {
        const std::string text = f.explain(x.to(gpu), w.to(gpu), s.to(gpu), b.to(gpu), y.to(gpu)).text();
        INFO(text);
        CHECK(occurrences(text, "kernel contraction") == 1);
        CHECK(occurrences(text, "kernel pointwise") == 0);
      }
    }
  }
}

TEST_CASE("an operand computed from a view without alignment") {
  if (!cuda::is_available()) return;
  const Tensor x = noise({129, 256}, 1), w = noise({257, 130}, 2);
  const auto f = [](Tensor x, Tensor w) { return matmul(Tensor(relu(x) + 1), w); };
  const Tensor flat = noise({129 * 256 + 1}, 3),
               wanted_x = reshape(flat(slice(1, 129 * 256 + 1)), {Dim(129), Dim(256)});
  const Tensor on_gpu = flat.to(Device::cuda(0)), view = reshape(on_gpu(slice(1, 129 * 256 + 1)), {Dim(129), Dim(256)});
  const Tensor cpu = jit::compile(f, {.backend = "reference"})(wanted_x, w(slice(1, 257), all));
  CHECK(largest_difference(jit::compile(f)(view, w.to(Device::cuda(0))(slice(1, 257), all)), cpu) < 1e-3);
}
