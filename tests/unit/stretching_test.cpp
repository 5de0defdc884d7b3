// Extents that are computed and come out as 1: they stretch as those of arguments do, whatever sizes were there before.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace sinter;

namespace {

using Function = std::function<Tensor(Tensor, Tensor)>;
struct Row {
  const char* name;
  Function f;
  std::vector<int> rows_of_y;  // for each size of x
};
const std::vector<int> sizes_of_x{6, 4, 2, 3, 2, 5};

const std::vector<Row> rows{
    {"a difference", [](Tensor x, Tensor y) { return x(slice(1)) * x(slice({}, -1)) + y; }, {5, 3, 3, 2, 7, 4}},
    {"beside another computed one",
     [](Tensor x, Tensor y) { return x(slice(1)) * y(slice({}, -1)); },
     {6, 4, 9, 3, 2, 2}},
    {"where", [](Tensor x, Tensor y) { return where(y > 0.5, x(slice(1)), y); }, {5, 3, 3, 2, 7, 4}},
    {"expand", [](Tensor x, Tensor y) { return expand(x(slice(1)), {y.size(0)}) * y; }, {5, 3, 3, 2, 7, 4}},
    {"einsum", [](Tensor x, Tensor y) { return einsum("i,i->i", x(slice(1)), y); }, {5, 3, 3, 2, 7, 4}},
    {"at",
     [](Tensor x, Tensor y) {
       y.at(slice({}, {})) += x(slice(1));
       return y;
     },
     {5, 3, 3, 2, 7, 4}},
    {"a batch of products",
     [](Tensor x, Tensor y) {
       const Tensor left = reshape(x(slice(1)), {-1, 1, 1}), right = reshape(y, {-1, 1, 1});
       return reshape(matmul(left, right), {-1});
     },
     {5, 3, 3, 2, 7, 4}},
    {"counts",
     [](Tensor x, Tensor y) {
       const Tensor counts = x(slice(1)).to(DType::i64) * 0 + 2;
       return repeat_interleave(y, counts, 0, {.size = y.size(0) * 2});
     },
     {5, 3, 3, 2, 7, 4}},
    {"weights of channels",
     [](Tensor x, Tensor y) { return sum(prelu(expand(y, {2, y.size(0)}), x(slice(1))), 0); },
     {5, 3, 3, 2, 7, 4}},
    {"a window",
     [](Tensor x, Tensor y) { return reshape(max_pool1d(reshape(x, {1, 1, -1}), {.size = 2}), {-1}) - y; },
     {3, 2, 5, 1, 4, 2}},
};

Tensor numbers(int count, double step) { return arange(count).to(DType::f64) * step + 0.25; }

}  // namespace

TEST_CASE("computed extents that are 1 stretch", "[dynamic]") {
  for (const Row& row : rows) {
    const auto loss = [&](Tensor x, Tensor y) { return sum(square(row.f(x, y))); };
    for (const jit::Dynamic dynamic : {jit::Dynamic::automatic, jit::Dynamic::always}) {
      const auto compiled = jit::compile(row.f, {.dynamic = dynamic});
      const auto slopes = jit::compile(jit::grad<0, 1>(loss), {.dynamic = dynamic});
      const auto mapped = jit::compile(jit::vmap(row.f), {.dynamic = dynamic});
      for (std::size_t i = 0; i < sizes_of_x.size(); ++i) {
        CAPTURE(row.name, dynamic == jit::Dynamic::always, sizes_of_x[i], row.rows_of_y[i]);
        const Tensor x = numbers(sizes_of_x[i], 0.5), y = numbers(row.rows_of_y[i], -0.75);
        const Tensor expected = row.f(x, y), found = compiled(x, y);
        CHECK(found.shape() == expected.shape());
        CHECK(near(doubles(found), doubles(expected)));
        const auto [dx, dy] = jit::grad<0, 1>(loss)(x, y);
        const auto [sx, sy] = slopes(x, y);
        CHECK((sx.shape() == x.shape() && sy.shape() == y.shape()));
        CHECK(near(doubles(sx), doubles(dx)));
        CHECK(near(doubles(sy), doubles(dy)));
        const Tensor pair = mapped(stack({x, x + 1}), stack({y, y}));
        CHECK(near(doubles(pair(0)), doubles(expected)));
        CHECK(near(doubles(pair(1)), doubles(row.f(x + 1, y))));
      }
    }
  }
}

TEST_CASE("graphs of computed extents that are 1 pass the verifier, and sizes beside them still run", "[dynamic]") {
  const auto f = [](Tensor x, Tensor y) { return sum(x(slice(1)) + y, 0); };
  const auto compiled = jit::compile(f, {.dynamic = jit::Dynamic::always});
  CHECK(item<double>(compiled(numbers(2, 1), numbers(5, 1))) == item<double>(f(numbers(2, 1), numbers(5, 1))));
  CHECK(item<double>(compiled(numbers(4, 1), numbers(3, 1))) == item<double>(f(numbers(4, 1), numbers(3, 1))));
  const std::int64_t versions = compiled.stats().compiles;
  CHECK(item<double>(compiled(numbers(9, 1), numbers(8, 1))) == item<double>(f(numbers(9, 1), numbers(8, 1))));
  CHECK(item<double>(compiled(numbers(2, 1), numbers(6, 1))) == item<double>(f(numbers(2, 1), numbers(6, 1))));
  CHECK(compiled.stats().compiles == versions);
  CHECK(has(message_of<ShapeError>([&] { compiled(numbers(3, 1), numbers(5, 1)); }), "do not broadcast"));
}
