// scaled_dot_product_attention: queries that see nothing, and causal attention of unequal lengths.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <limits>

using namespace sinter;

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

Tensor rows(std::int64_t count, double from) { return reshape(linspace(from, from + 1, 2 * count), {1, count, 2}); }
bool is_finite(const Tensor& x) {
  for (double v : doubles(x))
    if (!std::isfinite(v)) return false;
  return true;
}
/// Result, gradients by q, k and v, each weighted so that none vanishes.
std::vector<Tensor> all_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  auto [value, gradients] = jit::value_and_grad<0, 1, 2>([&](Tensor a, Tensor b, Tensor c) {
    const Tensor out = scaled_dot_product_attention(a, b, c, options);
    return std::pair(Tensor(sum(out * cast(reshape(arange(out.numel()), out.shape()) + 1, DType::f32))), out);
  })(q, k, v);
  auto [dq, dk, dv] = gradients;
  return {value.second, dq, dk, dv};
}

}  // namespace

TEST_CASE("attention: a query that sees nothing gets zeros, and so do gradients, whatever the mask is made of") {
  const Tensor q = rows(3, -1), k = rows(4, 0), v = rows(4, 1);
  const Tensor seen = tensor<bool>({{true, false, true, true}, {false, false, false, false}, {true, true, true, true}});
  const Tensor added = where(seen, 0, -infinite);
  const std::vector<Tensor> alone = all_of(q(all, slice(0, 1)), k, v, {.mask = Tensor(seen(slice(0, 1)))});
  for (const char* backend : {"", "eager"}) {
    auto f = jit::compile([](Tensor a, Tensor b, Tensor c, Tensor mask) { return all_of(a, b, c, {.mask = mask}); },
                          {.backend = backend});
    auto mapped = jit::compile(
        [](Tensor a, Tensor b, Tensor c, Tensor mask) {
          return jit::vmap([&](Tensor one) { return scaled_dot_product_attention(a, b, c, {.mask = one}); })(
              stack({mask, mask}, 0));
        },
        {.backend = backend});
    for (const Tensor& mask : {seen, added}) {
      const std::vector<Tensor> all_results = f(q, k, v, mask), lazily = all_of(q, k, v, {.mask = mask});
      for (std::size_t i = 0; i < 4; ++i) {
        CHECK(is_finite(all_results[i]));
        CHECK(near(doubles(all_results[i]), doubles(lazily[i]), 1e-5));
      }
      CHECK(doubles(all_results[0](0, 1)) == std::vector<double>{0, 0});
      CHECK(doubles(all_results[1](0, 1)) == std::vector<double>{0, 0});
      CHECK(near(doubles(all_results[0](0, 0)), doubles(alone[0]), 1e-6));
      CHECK(near(doubles(all_results[1](0, 0)), doubles(alone[1]), 1e-5));
      CHECK(is_finite(mapped(q, k, v, mask)));
    }
  }
  auto by_mask = [&](Tensor mask) {
    return sum(scaled_dot_product_attention(q, k, v, {.mask = mask}) * v(all, slice(0, 3)));
  };
  CHECK(is_finite(jit::grad(by_mask)(added)));
  CHECK(is_finite(jit::grad([&](Tensor a) {
    return sum(
        jit::grad([&](Tensor b) { return sum(square(scaled_dot_product_attention(b, k, v, {.mask = seen}))); })(a));
  })(q)));
  const Tensor nan_query = where(reshape(arange(6) == 0, {1, 3, 2}), std::nan(""), q);
  CHECK(std::isnan(doubles(scaled_dot_product_attention(nan_query, k, v, {.mask = seen}))[0]));  // NaN is passed on
}

TEST_CASE("attention: causal with unequal lengths asks how queries and keys are aligned") {
  const Tensor k = rows(4, 0), v = rows(4, 1), two = rows(2, -1), six = rows(6, -1);
  const std::string text = message_of<ShapeError>([&] { scaled_dot_product_attention(two, k, v, {.causal = true}); });
  const std::string line = std::to_string(__LINE__ - 1);
  CHECK(has(text,
            "scaled_dot_product_attention: causal attention of 2 queries to 4 keys: q is (1, 2, 2), k is (1, 4, 2) "
            "[attention_test.cpp:" +
                line + "]"));
  CHECK(has(text, "Causal::to_end"));
  CHECK(has(text, "Causal::from_start"));
  auto masked = [](Tensor q, Tensor keys, Tensor values, int first) {  // query i sees keys up to first + i
    const std::int64_t l = static_cast<std::int64_t>(q.size(1)), s = static_cast<std::int64_t>(keys.size(1));
    return all_of(q, keys, values, {.mask = Tensor(reshape(arange(l), {l, 1}) + first >= reshape(arange(s), {1, s}))});
  };
  struct Row {
    Causal causal;
    Tensor q;
    int first;
  };
  const Tensor four = rows(4, -1);
  for (const jit::Dynamic dynamic : {jit::Dynamic::automatic, jit::Dynamic::always})
    for (const Row& row : {Row{Causal::from_start, two, 0}, Row{Causal::to_end, two, 2}, Row{Causal::to_end, six, -2},
                           Row{Causal::from_start, six, 0}, Row{true, four, 0}, Row{Causal::to_end, four, 0},
                           Row{Causal::no, four, 4}}) {
      const std::vector<Tensor> wanted = masked(row.q, k, v, row.first);
      const std::vector<Tensor> is =
          jit::compile([&](Tensor a, Tensor b, Tensor c) { return all_of(a, b, c, {.causal = row.causal}); },
                       {.dynamic = dynamic})(row.q, k, v);
      for (std::size_t i = 0; i < 4; ++i) CHECK(near(doubles(is[i]), doubles(wanted[i]), 1e-5));
    }
  CHECK(doubles(scaled_dot_product_attention(six, k, v, {.causal = Causal::to_end})(0, 1)) ==
        std::vector<double>{0, 0});
  // With a cache: the last row of the whole is the last query alone.
  const Tensor whole = scaled_dot_product_attention(four, k, v, {.causal = true});
  CHECK(near(doubles(scaled_dot_product_attention(four(all, slice(3, 4)), k, v, {.causal = Causal::to_end})),
             doubles(whole(all, slice(3, 4))), 1e-6));
}
