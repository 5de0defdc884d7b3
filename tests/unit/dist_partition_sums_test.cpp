// Partitioned functions: what is added before it is rounded, sent or scaled; layouts on a mesh whose extents differ;
// gradients that are taken inside by loss.backward().
#include "catch.hpp"
#include "partition_checks.hpp"

#include <limits>
#include <random>
#include <string>

using namespace sinter;
using namespace partition_checks;

TEST_CASE("dist: partition, sums are added before they are rounded, or meet 0 and infinity") {
  const dist::Mesh two({{"data", 2}});
  const dist::Layout rows{{0, "data"}}, channels{{1, "data"}};
  const auto sum_as = [](DType to) { return [to](Tensor v) { return cast(sum(v, 0), to); }; };
  /// fn of a tensor that is `first` on rank 0 and `second` on rank 1.
  const auto check = [&](const char* what, const Shape& part, DType dtype, double first, double second,
                         const dist::Layout& layout, const std::function<Tensor(Tensor)>& fn, double want) {
    INFO(what);
    CHECK(problem_on(two, [&](dist::World world) {
            const auto divided = dist::partition(fn, two, {.inputs = {layout}});
            const Tensor got =
                divided(cast(full(part, world.rank() == 0 ? first : second, {.dtype = DType::f64}), dtype));
            expect(item<bool>(all(cast(got, DType::f64) == want)), "another sum");
          }) == "");
  };
  check("f64 to f32", {2, 3}, DType::f64, 1e8 + 0.25, -1e8, rows, sum_as(DType::f32), 0.5);
  check("i64 to f32", {1, 3}, DType::i64, 16777217, -16777216, rows, sum_as(DType::f32), 1);
  check("f16", {2, 3}, DType::f16, 60000, -60000, rows, sum_as(DType::f16), 0);
  check("bf16", {257, 1}, DType::bf16, 1, -255. / 256, rows, sum_as(DType::bf16), 1);
  check("of nothing", {0, 3}, DType::f32, 1, 1, rows, [](Tensor v) { return Tensor(sum(v, 0) + 1); }, 1);
  check(
      "conv2d", {1, 2, 3, 3}, DType::f16, 200, -200, channels,
      [](Tensor v) { return conv2d(v, full({1, 4, 1, 1}, 300, {.dtype = DType::f16})); }, 0);
  check(
      "weights of conv2d", {2, 1, 8, 8}, DType::f16, 600, -600, rows,
      [](Tensor v) {
        return jit::grad([&](Tensor w) { return sum(cast(conv2d(v, w), DType::f32)); })(
            ones({1, 1, 1, 1}, {.dtype = DType::f16}));
      },
      0);
  check(
      "rows added", {2, 3}, DType::f16, 60000, -60000, rows,
      [](Tensor v) {
        const auto loss = [&](Tensor table) {
          return sum(cast(take(table, zeros({4}, {.dtype = DType::i64}), 0) * v, DType::f32));
        };
        return jit::grad(loss)(ones({1, 3}, {.dtype = DType::f16}));
      },
      0);
  const double infinity = std::numeric_limits<double>::infinity();
  check(
      "divided by 0", {1, 3}, DType::f32, 0, 2, rows, [](Tensor v) { return Tensor(sum(v, 0) / zeros({3})); },
      infinity);
  check(
      "times infinity", {1, 3}, DType::f32, 0, 2, rows, [=](Tensor v) { return Tensor(infinity * sum(v, 0)); },
      infinity);

  // What rounds nothing is done to the parts: one collective.
  const Tensor x = numbers({4, 6}, 1);
  const auto mean_twice = dist::partition([](Tensor v) { return Tensor(2 * cast(mean(v, 0), DType::f64) - 1); }, two,
                                          {.inputs = {rows}, .outputs = {rows}});
  CHECK(kinds_of(mean_twice.explain(x)) == Kinds{"reduce_scatter(sum, axis 0) over 'data'"});
  // Statements of complex values count.
  const auto replicated =
      dist::partition([](Tensor z) { return sum(square(real(dist::replicate(z)))); }, two, {.inputs = {rows}});
  CHECK(kinds_of(replicated.explain(complex(x, x))) ==
        Kinds{"all_gather(axis 0) over 'data'", "all_reduce(sum) over 'data'"});
}

TEST_CASE("dist: partition, layouts that change on a mesh with an axis of 3") {
  const dist::Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}});
  const Tensor x = numbers({12, 12}, 1), product = matmul(x, transpose(x, 0, 1));
  eval(product);
  const unsigned seed = 5;
  INFO("seed " << seed);
  CHECK(problem_on(mesh, [&](dist::World) {
          std::mt19937 random(seed);
          const auto draw = [&] {
            dist::Layout layout;
            for (const char* name : {"a", "b", "c"})
              if (const int axis = static_cast<int>(random() % 3) - 1; axis >= 0)
                layout.placements.push_back({axis, name});
            return layout;
          };
          for (int i = 0; i < 30; ++i) {
            const dist::Layout in = draw(), first = draw(), second = draw(), out = draw();
            const auto multiply = [&](Tensor t) {
              return matmul(dist::lay_out(t, first), dist::lay_out(transpose(t, 0, 1), second));
            };
            const Tensor got = dist::partition(multiply, mesh, {.inputs = {in}, .outputs = {out}})(part_of(x, in));
            expect(is_near(got, part_of(product, out)), text_of(in) + " -> " + text_of(out) + ": another product");
          }
        }) == "");
}

TEST_CASE("dist: partition, loss.backward() inside") {
  const dist::Mesh two({{"data", 2}});
  const Tensor x = numbers({4, 6}, 1), start = numbers({6, 1}, 2);
  const Tensor want = jit::grad([&](Tensor w) { return mean(square(matmul(x, w))); })(start);
  eval(want);
  CHECK(problem_on(two, [&](dist::World) {
          Variable w(start);
          w.requires_grad();
          const auto step = dist::partition(
              [&](Tensor v) {
                const Tensor loss = mean(square(matmul(v, w.value())));
                loss.backward();
                return loss;
              },
              two, {.inputs = {{{0, "data"}}}});
          eval(step(dist::shard(x, {0, "data"})));
          expect(is_near(w.grad(), want), "another gradient");
        }) == "");
}
