// scaled_dot_product_attention: queries that see nothing, and causal attention of unequal lengths.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
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

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

/// Attention as it is defined, in double, of operands without batch axes: [l, e], [s, e], [s, f].
struct PlainAttention {
  std::int64_t queries, keys, features, value_features;
  std::vector<double> q, k, v, mask = {};  // mask: added to the scores, [l, s]
  double scale;
  std::int64_t last_seen_by_first = std::numeric_limits<std::int64_t>::max() / 2;

  std::vector<double> run() const {
    std::vector<double> out(static_cast<std::size_t>(queries * value_features)), weight(static_cast<std::size_t>(keys));
    for (std::int64_t i = 0; i < queries; ++i) {
      double greatest = -infinite, sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) greatest = std::max(greatest, score(i, j));
      for (std::int64_t j = 0; j < keys; ++j)
        sum += at(weight, j) = greatest == -infinite ? 0 : std::exp(score(i, j) - greatest);
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t c = 0; c < value_features && sum != 0; ++c)
          at(out, i * value_features + c) += at(weight, j) / sum * at(v, j * value_features + c);
    }
    return out;
  }

 private:
  double score(std::int64_t i, std::int64_t j) const {
    if (j > last_seen_by_first + i) return -infinite;
    double dot = 0;
    for (std::int64_t c = 0; c < features; ++c) dot += at(q, i * features + c) * at(k, j * features + c);
    return dot * scale + (mask.empty() ? 0 : at(mask, i * keys + j));
  }
};

/// q, k and v of these extents, the same at each call.
std::vector<Tensor> operands(std::int64_t batches, std::int64_t l, std::int64_t s, std::int64_t e, std::int64_t f,
                             DType dtype) {
  manual_seed(7);
  const TensorOptions options{.dtype = dtype};
  // Queries and keys lie across: what is computed whole wants them in order.
  std::vector<Tensor> all_of_them{transpose(randn({batches, e, l}, options), 1, 2),
                                  transpose(randn({batches, e, s}, options), 1, 2), randn({batches, s, f}, options)};
  for (const Tensor& each : all_of_them) eval(each);
  return all_of_them;
}

}  // namespace

TEST_CASE("attention: steps, segments, blocks of queries and their ends, against its definition in double") {
  struct Case {
    std::int64_t l, s, e, f;
  };
  // Blocks have 24 queries, steps 256 keys, segments 1024; register tiles 6 rows and 16 to 64 columns.
  const Case cases[] = {{1, 1, 3, 5},      {2, 300, 8, 64},   {5, 257, 20, 33},   {7, 64, 64, 64},  {25, 1025, 5, 7},
                        {49, 256, 16, 16}, {1, 2600, 64, 70}, {30, 3100, 4, 130}, {100, 90, 300, 9}};
  int number = 0;
  for (const Case& c : cases)
    for (const DType dtype : {DType::f32, DType::f64})
      for (int kind = 0; kind < 4; ++kind) {
        const std::vector<Tensor> in = operands(2, c.l, c.s, c.e, c.f, dtype);
        AttentionOptions options;
        options.scale = (++number % 2 == 0 ? 0.6 : -0.4) / std::sqrt(static_cast<double>(c.e));
        if (kind == 1) options.causal = Causal::to_end;
        if (kind == 2) options.mask = randn({c.l, c.s}, {.dtype = dtype});
        if (kind == 3) options.mask = randn({2, 1, c.s}) > 0.5f;
        if (options.mask) eval(*options.mask);
        const auto f =
            jit::compile([&](Tensor q, Tensor k, Tensor v) { return scaled_dot_product_attention(q, k, v, options); });
        const Tensor out = f(in[0], in[1], in[2]);
        const auto plane = [](const Tensor& x, int batch) { return doubles(x(batch)); };
        for (int batch = 0; batch < 2; ++batch) {
          PlainAttention plain{
              c.l, c.s, c.e, c.f, plane(in[0], batch), plane(in[1], batch), plane(in[2], batch), {}, *options.scale};
          if (kind == 1) plain.last_seen_by_first = c.s - c.l;
          if (kind == 2) plain.mask = doubles(*options.mask);
          if (kind == 3) plain.mask = doubles(expand(where((*options.mask)(batch), 0.0, -infinite), Shape{c.l, c.s}));
          INFO(c.l << " queries, " << c.s << " keys, " << c.e << " and " << c.f << " features, kind " << kind);
          CHECK(near(doubles(out(batch)), plain.run(), dtype == DType::f64 ? 1e-13 : 4e-6));
        }
      }
}

TEST_CASE("attention: threads, batches and other queries change no bit") {
  const std::vector<Tensor> in = operands(1, 50, 3000, 16, 24, DType::f32);
  const auto run = [&](Tensor q, int threads) {
    const int before = thread_count();
    set_thread_count(threads);
    const auto f = jit::compile([](Tensor a, Tensor b, Tensor c) { return scaled_dot_product_attention(a, b, c); });
    const Tensor out = f(q, in[1], in[2]);
    eval(out);
    set_thread_count(before);
    return out;
  };
  // One task on one thread; on seven its three blocks and three segments are tasks of their own.
  const Tensor alone = run(in[0], 1), divided = run(in[0], 7);
  CHECK(floats(alone) == floats(divided));
  // Two queries go another way than fifty, a few thousand keys at a time.
  CHECK(floats(run(in[0](all, slice(48, 50)), 1)) == floats(alone(all, slice(48, 50))));
  CHECK(floats(run(in[0](all, slice(48, 50)), 7)) == floats(alone(all, slice(48, 50))));
}

TEST_CASE("attention: what is not a number, and what is hidden from all queries of a block") {
  const auto f = jit::compile(
      [](Tensor q, Tensor k, Tensor v) { return scaled_dot_product_attention(q, k, v, {.causal = true}); });
  Tensor q = zeros({300, 4}), k = zeros({300, 4}), v = zeros({300, 2}) + 1;
  q.at(7, 1) = std::numeric_limits<float>::quiet_NaN();
  v.at(299, 0) = infinite;
  const std::vector<double> out = doubles(f(q, k, v));
  for (std::size_t i = 0; i < 300; ++i) {
    CHECK(std::isnan(out[2 * i + 1]) == (i == 7));
    if (i < 200 && i != 7) CHECK(out[2 * i] == 1);
  }
  CHECK(out[2 * 299] == infinite);
  // A scale that rounds to zero hides what comes later all the same.
  const auto tiny = jit::compile([](Tensor a, Tensor b, Tensor c) {
    return scaled_dot_product_attention(a, b, c, {.causal = true, .scale = 1e-60});
  });
  CHECK(floats(tiny(ones({2, 4}), ones({2, 4}), tensor<float>({{1, 2}, {3, 4}}))) == std::vector<float>{1, 2, 2, 3});
}

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

TEST_CASE("attention: written out it is the operation, where that means the same") {
  const std::vector<Tensor> in = operands(2, 30, 40, 8, 5, DType::f32);
  const Tensor bias = randn({30, 40}), seen = randn({2, 1, 40}) > 0;
  eval({bias, seen});
  using Scores = std::function<Tensor(const Tensor&)>;
  struct Form {
    const char* name;
    Scores scores;
    bool is_found;
  };
  const Form forms[] = {
      {"plain", [](const Tensor& s) { return s; }, true},
      {"scaled", [](const Tensor& s) { return Tensor(s * 0.3); }, true},
      {"divided, then a bias", [&](const Tensor& s) { return Tensor(s / std::sqrt(8.0) + bias); }, true},
      {"a bias in front", [&](const Tensor& s) { return Tensor(bias + 0.2 * s); }, true},
      {"seen", [&](const Tensor& s) { return where(seen, s * 0.3, -infinite); }, true},
      {"hidden, then scaled", [&](const Tensor& s) { return Tensor(where(!seen, -infinite, s) * 0.3); }, true},
      {"a bias that is scaled", [&](const Tensor& s) { return Tensor((s + bias) * 0.3); }, false},
      {"hidden, then turned", [&](const Tensor& s) { return Tensor(where(seen, s, -infinite) * -0.3); }, false},
      {"hidden by a number", [&](const Tensor& s) { return where(seen, s, -5.0); }, false},
      {"two biases", [&](const Tensor& s) { return Tensor(s + bias + bias); }, false},
      {"scaled out of its range and back", [](const Tensor& s) { return Tensor(s * 1e20 * 1e20 * 1e-20 * 1e-20); },
       false},
      {"scaled to nothing", [](const Tensor& s) { return Tensor(s * 1e-30 * 1e-30); }, false},
      {"divided by next to nothing", [](const Tensor& s) { return Tensor(s / 1e-40); }, false},
      {"scaled by an operand", [&](const Tensor& s) { return Tensor(s * bias); }, false},
  };
#ifdef SINTER_NO_X86
  constexpr bool takes_it_whole = false;  // no back end does
#else
  constexpr bool takes_it_whole = true;
#endif
  for (const Form& form : forms) {
    const auto body = [&](Tensor q, Tensor k, Tensor v) {
      return matmul(softmax(form.scores(matmul(q, transpose(k, -2, -1))), -1), v);
    };
    auto f = jit::compile(body), plain = jit::compile(body, {.backend = "aot_eager"});
    INFO(form.name);
    CHECK(
        allclose(f(in[0], in[1], in[2]), plain(in[0], in[1], in[2]), {.rtol = 1e-5, .atol = 1e-5, .equal_nan = true}));
    CHECK(has(f.explain(in[0], in[1], in[2]).text(), "scaled_dot_product_attention") ==
          (form.is_found && takes_it_whole));
  }
  const auto tiny = [](Tensor q, Tensor k, Tensor v) {
    return matmul(softmax(matmul(q, transpose(k, -2, -1)) * 1e-200 * 1e-200, -1), v);
  };
  const std::vector<Tensor> wide = operands(2, 30, 40, 8, 5, DType::f64);
  CHECK(allclose(jit::compile(tiny)(wide[0], wide[1], wide[2]),
                 jit::compile(tiny, {.backend = "aot_eager"})(wide[0], wide[1], wide[2]), {.rtol = 1e-12}));
  // Weights that are a result, or scores, are there; a row that sees nothing is NaN, as it is written.
  auto both = jit::compile([](Tensor q, Tensor k, Tensor v) {
    Tensor weights = softmax(matmul(q, transpose(k, -2, -1)), -1);
    return std::pair(Tensor(matmul(weights, v)), weights);
  });
  CHECK(!has(both.explain(in[0], in[1], in[2]).text(), "scaled_dot_product_attention"));
  auto nothing = jit::compile([](Tensor q, Tensor k, Tensor v, Tensor mask) {
    return matmul(softmax(where(mask, matmul(q, transpose(k, -2, -1)), -infinite), -1), v);
  });
  const std::vector<double> empty = doubles(nothing(in[0], in[1], in[2], zeros({1, 1, 40}) > 0));
  CHECK(std::all_of(empty.begin(), empty.end(), [](double x) { return std::isnan(x); }));
}

TEST_CASE("attention by hand in bf16 has the same bits beside attention that is computed whole") {
  const std::vector<Tensor> in = operands(2, 30, 40, 8, 5, DType::f32);
  const auto written = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return matmul(softmax(matmul(q, transpose(k, -2, -1)) * 0.3, -1), v);
  };
  const auto narrow = [](const Tensor& x) { return cast(x, DType::bf16); };
  auto alone = jit::compile([&](Tensor q, Tensor k, Tensor v) { return written(narrow(q), narrow(k), narrow(v)); });
  auto beside = jit::compile([&](Tensor q, Tensor k, Tensor v) {
    return std::pair(Tensor(written(narrow(q), narrow(k), narrow(v))), Tensor(written(q, k, v)));
  });
  CHECK(doubles(beside(in[0], in[1], in[2]).first) == doubles(alone(in[0], in[1], in[2])));
}

TEST_CASE("a batch of attention's gradients is one such operation") {
  const std::vector<Tensor> in = operands(2, 9, 12, 5, 7, DType::f64);
  const Tensor dout = randn({2, 9, 7}, {.dtype = DType::f64}), bias = randn({2, 9, 12}, {.dtype = DType::f64}),
               out = scaled_dot_product_attention(in[0], in[1], in[2], {.mask = bias});
  const auto gradients = [](Tensor q, Tensor k, Tensor v, Tensor o, Tensor d, Tensor mask) {
    return call("scaled_dot_product_attention_gradient", {q, k, v, o, d, mask})[0];
  };
  const Tensor both = jit::vmap(gradients)(in[0], in[1], in[2], out, dout, bias);
  REQUIRE(both.shape() == Shape{2, 9 * 5 + 12 * 5 + 12 * 7});
  for (int i = 0; i < 2; ++i)
    CHECK(near(doubles(both(i)), doubles(gradients(in[0](i), in[1](i), in[2](i), out(i), dout(i), bias(i))), 1e-13));
}

TEST_CASE("the gradient of attention as an operation is that of the decomposition") {
  const std::vector<Tensor> in = operands(2, 9, 12, 5, 7, DType::f64);
  const Tensor dout = randn({2, 9, 7}, {.dtype = DType::f64}), bias = randn({9, 12}, {.dtype = DType::f64}),
               seen = bias > 0.3;
  for (int kind = 0; kind < 4; ++kind) {
    AttentionOptions options{.causal = kind == 1 || kind == 3 ? Causal(Causal::to_end) : Causal(false)};
    if (kind == 2) options.mask = bias;
    if (kind == 3) options.mask = seen;
    const std::string attributes = options.causal.alignment() == Causal::to_end ? "causal=to_end" : "";
    const auto weigh = [&](Tensor q, Tensor k, Tensor v) {
      return Tensor(sum(scaled_dot_product_attention(q, k, v, options) * dout));
    };
    auto [dq, dk, dv] = jit::grad<0, 1, 2>(weigh)(in[0], in[1], in[2]);
    const Tensor out = scaled_dot_product_attention(in[0], in[1], in[2], options);
    std::vector<Tensor> given{in[0], in[1], in[2], out, dout};
    if (options.mask) given.push_back(*options.mask);
    const std::vector<In> operands_given(given.begin(), given.end());
    const Tensor packed =
        call("scaled_dot_product_attention_gradient", std::span<const In>(operands_given), attributes)[0];
    REQUIRE(packed.shape() == Shape{2 * 9 * 5 + 2 * 12 * 5 + 2 * 12 * 7});
    std::vector<double> expected;
    for (const Tensor& gradient : {dq, dk, dv})
      for (const double x : doubles(gradient)) expected.push_back(x);
    INFO("kind " << kind);
    CHECK(near(doubles(packed), expected, 1e-13));
  }
  std::string text;
  try {
    call("scaled_dot_product_attention_gradient", {in[0], in[1], in[2], dout, in[0]});
  } catch (const ShapeError& error) { text = error.what(); }
  CHECK(text.find("dout is (2, 9, 5)") != std::string::npos);
  CHECK(text.find("attention of these operands is (2, 9, 7)") != std::string::npos);
}
