// Programs as users write them, each checked against plain C++: the surface must allow them and they must be right.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <Eigen/Dense>

#include <cmath>
#include <cstring>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

using namespace sinter;

namespace {

std::vector<double> numbers(const Tensor& t) { return to_vector<double>(t); }

void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": got " << got[i] << ", want " << want[i]);
    if (std::isnan(want[i])) CHECK(std::isnan(got[i]));
    else CHECK(std::abs(got[i] - want[i]) <= tolerance * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("program: hello") {
  Tensor x = randn({128, 784}), w = randn({784, 10});
  auto f = jit::compile([](Tensor a, Tensor b, Scalar s) { return relu(matmul(a, b)) * s; });
  Tensor z = f(x, w, 0.5f);
  std::vector<float> xs = to_vector<float>(x), ws = to_vector<float>(w);
  std::vector<double> want;
  for (std::size_t i = 0; i < 128; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 784; ++k) sum += static_cast<double>(xs[i * 784 + k]) * ws[k * 10 + j];
      want.push_back(std::max(sum, 0.0) * 0.5);
    }
  check_close(numbers(z), want, 2e-5);
  check_close(numbers(f(x, w, 0.25f) * 2), want, 2e-5);
  CHECK(f.stats().compiles == 1);  // another number is no other function
  std::ostringstream out;
  out << z << relu(matmul(x, w)) << f.explain(x, w, 0.5f);
  CHECK(out.str().find("matmul") != std::string::npos);
  CHECK(out.str().find("kernel contraction") != std::string::npos);
}

namespace {
using Vec6 = Eigen::Matrix<double, 6, 1>;
using Mat6 = Eigen::Matrix<double, 6, 6>;

class Controller {
 public:
  explicit Controller(Mat6 gain) : gain_(std::move(gain)) {}
  void step(const Vec6& error, const Vec6& rate, Vec6& torque) { law_.into(torque)(error, rate, gain_, 10.0, 0.1); }

 private:
  Mat6 gain_;
  jit::Function<Tensor(Tensor, Tensor, Tensor, Scalar, Scalar)> law_ =
      jit::compile([](Tensor e, Tensor de, Tensor K, Scalar kp, Scalar kd) { return matmul(K, kp * e + kd * de); });
};
}  // namespace

TEST_CASE("program: control with Eigen objects") {
  Mat6 K = Mat6::Random();
  Vec6 q = Vec6::Random(), qd = Vec6::Random(), tau = Vec6::Zero();
  double kp = 10;
  auto law =
      jit::compile([](Tensor e, Tensor de, Tensor gain, Scalar p, Scalar d) { return matmul(gain, p * e + d * de); });
  law.warm_up(q, qd, K, kp, 0.1);
  for (int i = 0; i < 10; ++i) law.into(tau)(q, qd, K, kp, 0.1);
  CHECK((tau - K * (kp * q + 0.1 * qd)).norm() < 1e-12);
  CHECK(law.stats().compiles == 1);
  Vec6 other = Vec6::Zero();
  law.into(borrow_mut(other.data(), {6}))(borrow(q), borrow(qd), K, kp, 0.1);
  CHECK(std::memcmp(tau.data(), other.data(), sizeof(double) * 6) == 0);
  Tensor keep = copy_of(K);
  CHECK((to_eigen<Mat6>(keep) - K).norm() == 0);
  Controller controller(K);
  Vec6 torque;
  controller.step(q, qd, torque);
  CHECK((torque - tau).norm() < 1e-12);
}

namespace {
template <class T>
auto cdf(const T& x) {
  return 0.5 * (1 + erf(x * M_SQRT1_2));
}
}  // namespace

TEST_CASE("program: Black-Scholes with Greeks by grad") {
  CHECK(std::abs(cdf(0.3) - 0.6179114) < 1e-6);
  auto price = [](Tensor s, Tensor k, Tensor t, Tensor v, Scalar r) {
    auto sq = v * sqrt(t);
    auto d1 = (log(s / k) + (r + 0.5 * v * v) * t) / sq;
    auto d2 = d1 - sq;
    return s * cdf(d1) - k * exp(-r * t) * cdf(d2);
  };
  auto greeks = jit::compile([=](Tensor s, Tensor k, Tensor t, Tensor v, Scalar r) {
    auto total = [&](Tensor spot, Tensor vol, Scalar rate) { return sum(price(spot, k, t, vol, rate)); };
    auto [p, g] = jit::value_and_grad<0, 1, 2>(total)(s, v, r);
    auto [delta, vega, rho] = g;
    Tensor gamma = jit::grad(
        [&](Tensor spot) { return sum(jit::grad([&](Tensor inner) { return total(inner, v, r); })(spot)); })(s);
    return std::tuple{price(s, k, t, v, r), delta, gamma, vega, rho};
  });
  constexpr std::size_t n = 1000;
  std::vector<double> spot(n);
  for (std::size_t i = 0; i < n; ++i) spot[i] = 60 + 0.08 * static_cast<double>(i);
  Tensor s = copy_of(spot, {Dim(n)});
  TensorOptions f64{.dtype = DType::f64};
  auto [p, delta, gamma, vega, rho] = greeks(s, full({1}, 100, f64), ones({1}, f64), full({1}, 0.2, f64), 0.02);
  std::vector<double> want_price, want_delta, want_gamma;
  double want_vega = 0, want_rho = 0;
  auto normal = [](double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); };
  auto density = [](double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); };
  for (double x : spot) {
    double d1 = (std::log(x / 100) + 0.02 + 0.02) / 0.2, d2 = d1 - 0.2;
    want_price.push_back(x * normal(d1) - 100 * std::exp(-0.02) * normal(d2));
    want_delta.push_back(normal(d1));
    want_gamma.push_back(density(d1) / (x * 0.2));
    want_vega += x * density(d1);
    want_rho += 100 * std::exp(-0.02) * normal(d2);
  }
  check_close(numbers(p), want_price, 1e-11);
  check_close(numbers(delta), want_delta, 1e-11);
  check_close(numbers(gamma), want_gamma, 1e-10);
  check_close(numbers(vega), {want_vega}, 1e-11);
  CHECK(std::abs(rho.number() - want_rho) < 1e-8 * want_rho);
}

namespace {
struct SmallMlp {
  Variable w1{randn({20, 16})}, b1{zeros({16})}, w2{randn({16, 5})};
  Tensor operator()(Tensor x) const {
    auto h = matmul(x, w1) + b1;
    return matmul(relu(h), w2);
  }
};

/// The same step in plain doubles.
struct PlainMlp {
  std::vector<double> w1, b1, w2;
  double step(const std::vector<double>& x, const std::vector<int>& y, std::size_t n, double lr) {
    std::vector<double> h(n * 16), z(n * 5), dh(n * 16);
    double loss = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < 16; ++j) {
        h[i * 16 + j] = b1[j];
        for (std::size_t k = 0; k < 20; ++k) h[i * 16 + j] += x[i * 20 + k] * w1[k * 16 + j];
      }
      double largest = -1e300, total = 0;
      for (std::size_t c = 0; c < 5; ++c) {
        for (std::size_t j = 0; j < 16; ++j) z[i * 5 + c] += std::max(h[i * 16 + j], 0.0) * w2[j * 5 + c];
        largest = std::max(largest, z[i * 5 + c]);
      }
      for (std::size_t c = 0; c < 5; ++c) total += std::exp(z[i * 5 + c] - largest);
      loss += std::log(total) + largest - z[i * 5 + static_cast<std::size_t>(y[i])];
      for (std::size_t c = 0; c < 5; ++c)
        z[i * 5 + c] =
            (std::exp(z[i * 5 + c] - largest) / total - (static_cast<int>(c) == y[i])) / static_cast<double>(n);
      for (std::size_t j = 0; j < 16; ++j)
        for (std::size_t c = 0; c < 5; ++c) dh[i * 16 + j] += h[i * 16 + j] > 0 ? z[i * 5 + c] * w2[j * 5 + c] : 0;
    }
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < 16; ++j) {
        for (std::size_t c = 0; c < 5; ++c) w2[j * 5 + c] -= lr * std::max(h[i * 16 + j], 0.0) * z[i * 5 + c];
        b1[j] -= lr * dh[i * 16 + j];
        for (std::size_t k = 0; k < 20; ++k) w1[k * 16 + j] -= lr * x[i * 20 + k] * dh[i * 16 + j];
      }
    return loss / static_cast<double>(n);
  }
};
}  // namespace

TEST_CASE("program: an MLP whose step is one compiled function") {
  SmallMlp net;
  PlainMlp plain{numbers(net.w1), numbers(net.b1), numbers(net.w2)};
  auto step = jit::compile(
      [](const SmallMlp& n, Tensor x, Tensor y, Scalar lr) {
        auto [loss, g] = jit::value_and_grad([&](const SmallMlp& m) { return cross_entropy(m(x), y); })(n);
        n.w1 -= lr * g[n.w1];
        n.b1 -= lr * g[n.b1];
        n.w2 = n.w2 - lr * g[n.w2];
        return loss;
      },
      {.mode = jit::Mode::reduce_overhead});
  Tensor x = randn({32, 20});
  std::vector<std::int64_t> labels(32);
  std::vector<int> plain_labels(32);
  for (std::size_t i = 0; i < 32; ++i) labels[i] = plain_labels[i] = static_cast<int>(i * 7 % 5);
  Tensor y = copy_of(labels);
  std::vector<double> xs = numbers(x);
  for (int i = 0; i < 20; ++i) {
    double lr = 0.1 / (1 + i);
    Tensor loss = step(net, x, y, lr);
    double want = plain.step(xs, plain_labels, 32, lr);
    INFO("step " << i);
    REQUIRE(std::abs(item<double>(loss) - want) < 1e-4 * (1 + want));
  }
  CHECK(step.stats().compiles == 1);
  check_close(numbers(net.w1), plain.w1, 1e-4);
  check_close(numbers(net.b1), plain.b1, 1e-4);
  check_close(numbers(net.w2), plain.w2, 1e-4);

  std::vector<double> before = numbers(net.w1);
  auto by_value = jit::compile([w = net.w1](Tensor g, Scalar lr) {
    w -= lr * g;
    w.set(w * 0.99f);
    return sum(g);
  });
  CHECK(item<float>(by_value(ones({20, 16}), 0.1)) == 320.f);
  for (double& v : before) v = (v - 0.1) * 0.99;
  check_close(numbers(net.w1), before, 1e-6);
}

namespace {
enum class Act { relu, tanh };
struct Layer {
  Tensor w, b;
};
struct Params {
  std::vector<Layer> layers;
  Tensor scale;
  Scalar eps = 1e-5f;
  int heads = 8;
  Act act = Act::relu;
};
Tensor forward(const Params& p, Tensor x) {
  Tensor h = x * p.scale;
  for (const auto& l : p.layers)
    h = p.act == Act::relu ? Tensor(relu(matmul(h, l.w) + l.b)) : Tensor(tanh(matmul(h, l.w) + l.b));
  return h / (h.sum() + p.eps);
}
}  // namespace

TEST_CASE("program: parameters in a struct") {
  auto f = jit::compile(forward);
  Params p;
  Tensor empty = f(p, randn({4, 8}));  // no layers, and a default Tensor is the number 0
  check_close(numbers(empty), std::vector<double>(32, 0.0), 0);
  p.scale = full({}, 2);
  p.layers = {{rand({8, 6}), zeros({6})}, {rand({6, 3}), ones({3})}};
  Tensor x = rand({4, 8});
  Tensor y = f(p, x);
  CHECK(std::abs(item<double>(sum(y)) - 1) < 1e-4);
  check_close(numbers(y), numbers(forward(p, x)), 1e-5);
  CHECK(f.stats().compiles == 2);
  p.eps = 0.5;
  static_cast<void>(f(p, x));
  CHECK(f.stats().compiles == 2);  // a Scalar field is an input
  p.act = Act::tanh;
  check_close(numbers(f(p, x)), numbers(forward(p, x)), 1e-5);
  CHECK(f.stats().compiles == 3);  // an enum is part of the code
  auto [value, g] = jit::value_and_grad([](const Params& q, Tensor in) { return sum(square(forward(q, in))); })(p, x);
  CHECK(g.layers.size() == 2);
  CHECK(g.layers[0].w.shape() == Shape{8, 6});
  CHECK(g.heads == 8);
  // Against a finite difference in the scale.
  auto value_at = [&](double scale) {
    Params q = p;
    q.scale = full({}, scale);
    return item<double>(sum(square(forward(q, x))));
  };
  double difference = (value_at(2.01) - value_at(1.99)) / 0.02;
  CHECK(std::abs(item<double>(g.scale) - difference) < 1e-3);
  p.scale = p.scale - 0.1 * g.scale;
}

TEST_CASE("program: Newton's method, a loop that ends by what it computes") {
  auto body = [](auto x, auto a, auto tol) {
    Tensor err = abs(x * x - a);
    int it = 0;
    while (err.sum().item() > tol && it++ < 50) {
      x = x - (x * x - a) / (2 * x);
      err = abs(x * x - a);
    }
    if (item<float>(err.sum()) > 1) it = -1;  // an exact value; `item(...) > 1` would be an outcome
    return std::tuple{x, it};
  };
  auto root = jit::compile(body);
  auto plain = [](double a, double tol) {
    float x = 1, target = static_cast<float>(a);
    int it = 0;
    while (8.0 * std::abs(x * x - target) > tol && it++ < 50) x = x - (x * x - target) / (2 * x);
    return std::pair(static_cast<double>(x), it);
  };
  for (int round = 0; round < 3; ++round)
    for (double a : {2.0, 16.0, 20000.0, 1.0}) {
      auto [x, it] = root(ones({8}), ones({8}) * static_cast<float>(a), 1e-2f);
      auto [want, steps] = plain(a, 1e-2f);
      check_close(numbers(x), std::vector<double>(8, want), 1e-6);
      CHECK(it == steps);
    }
  CHECK(root.stats().compiles == 1);
  auto seen = root.stats();
  auto [x, it] = root(ones({8}), ones({8}) * 2, 1e-2f);
  CHECK(root.stats().retraces == seen.retraces);
  CHECK(root.stats().segments == seen.segments);
  // The loop in the graph, for comparison: one step of one plan.
  auto [y, k] = jit::while_loop([](Tensor, Scalar n) { return n < 50; },
                                [](Tensor v, Scalar n) { return std::tuple{v * 0.5f, n + 1}; }, x, 0);
  check_close(numbers(y), std::vector<double>(8, numbers(x)[0] * std::pow(0.5, 50)), 1e-6);
  CHECK(item<int>(Tensor(k)) == 50);
}

TEST_CASE("program: an operation of one's own, with a derivative, inside a compiled function") {
  auto running_max = jit::custom_op(
      {.name = "running_max",
       .shape = [](auto in) { return in[0]; },
       .cpu =
           [](auto in, auto out) {
             std::copy_n(in[0].data, in[0].numel, out.data);
             for (std::int64_t i = 1; i < out.numel; ++i) out.data[i] = std::max(out.data[i], out.data[i - 1]);
           },
       .vjp = [](auto in, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * in[0]}; }});
  auto f = jit::compile([running_max](Tensor x) { return maximum(running_max(x * 2), running_max(x)); });
  Tensor x = randn({100});
  std::vector<double> want;
  for (double v : numbers(x)) {
    const double highest = std::max(v, 2 * v);
    want.push_back(want.empty() ? highest : std::max(highest, want.back()));
  }
  check_close(numbers(f(x)), want, 1e-6);
  auto gradient = jit::compile(jit::grad([running_max](Tensor v) { return sum(running_max(v * 3)); }));
  std::vector<double> slope;
  for (double v : numbers(x)) slope.push_back(9 * v);
  check_close(numbers(gradient(x)), slope, 1e-6);
}

TEST_CASE("program: training that reports, checks itself and stops without a trace of the failed step") {
  std::vector<std::string> lines;
  auto before = jit::set_print_sink([&lines](std::string_view line) { lines.emplace_back(line); });
  Variable w(full({2}, 1)), steps(Tensor(full({}, 0, {.dtype = DType::i64})));
  std::vector<double> losses;
  auto step = jit::compile([&](Tensor x, Scalar rate) {
    auto [loss, gradient] = jit::value_and_grad([&](Tensor weights) { return sum(square(weights * x)); })(Tensor(w));
    w -= rate * gradient;
    steps += 1;
    jit::check(loss < 1e6, "loss {} at step {}", loss, steps);
    jit::print("step {}: loss {}", steps, loss);
    jit::callback([&losses](double value) { losses.push_back(value); }, loss);
    return loss;
  });
  for (int i = 0; i < 3; ++i) step(full({2}, 1), 0.25);
  CHECK(lines == std::vector<std::string>{"step 1: loss 2.0", "step 2: loss 0.5", "step 3: loss 0.125"});
  CHECK(losses == std::vector<double>{2, 0.5, 0.125});
  CHECK_THROWS_AS(step(full({2}, 1e5), 0.25), CheckError);
  CHECK(numbers(w) == std::vector<double>{0.125, 0.125});
  CHECK(item<std::int64_t>(steps) == 3);
  step(full({2}, 1), 0.25);
  CHECK(lines.back() == "step 4: loss 0.03125");
  jit::set_print_sink(before);
}

// ---- a server: one function, many threads and batch sizes
// --------------------------------------------------------------

TEST_CASE("program: a server whose threads call one function with lent memory, any batch, and never recompile") {
  const Tensor w = randn({64, 10});
  eval(w);
  auto respond = jit::compile([w](Tensor x) { return softmax(matmul(x, w), 1) / x.size(0); },
                              {.mode = jit::Mode::reduce_overhead, .dynamic = jit::Dynamic::always, .fullgraph = true});
  std::vector<std::vector<float>> answers(8);
  std::vector<std::thread> pool;
  for (int t = 0; t < 8; ++t)
    pool.emplace_back([&, respond, t] {
      jit::StanceGuard stance{jit::Stance::fail_on_recompile};
      std::vector<float> request(64 * static_cast<std::size_t>(t + 1), 0.01f * static_cast<float>(t));
      for (int repeat = 0; repeat < 20; ++repeat) {
        const auto y = respond(borrow(request.data(), {t + 1, 64}));
        answers[static_cast<std::size_t>(t)].assign(y.data<float>().begin(), y.data<float>().end());
      }
      Tensor kept = adopt(std::move(request), {t + 1, 64});
    });
  for (auto& thread : pool) thread.join();
  CHECK(respond.stats().compiles == 2);  // one for a batch of one, one for all others
  const std::vector<float> weights = to_vector<float>(w);
  for (int t = 0; t < 8; ++t) {
    const auto& answer = answers[static_cast<std::size_t>(t)];
    REQUIRE(answer.size() == 10 * static_cast<std::size_t>(t + 1));
    std::vector<double> logits(10);
    double total = 0;
    for (std::size_t k = 0; k < 10; ++k) {
      for (std::size_t i = 0; i < 64; ++i) logits[k] += 0.01 * t * static_cast<double>(weights[i * 10 + k]);
      total += std::exp(logits[k]);
    }
    for (std::size_t i = 0; i < answer.size(); ++i)
      CHECK(answer[i] == Approx(std::exp(logits[i % 10]) / total / (t + 1)).epsilon(1e-4));
  }
}

// ---- a stencil: heat on a grid, in place
// ---------------------------------------------------------------------------------

TEST_CASE("program: a stencil that updates a part of a grid and gives its argument up") {
  constexpr int n = 24;
  auto step = jit::compile([](Tensor u, Scalar a) {
    auto lap = roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u;
    auto c = slice(1, -1);
    u.at(c, c) += a * lap(c, c);
    u.at(0, all) = 0.f;
    Tensor interior = u(c, c) * 0.5f;
    Tensor b = all(u > 0) & any(u > 1, 0, Keep::yes);
    return std::tuple{u, sum(interior), where(b, u, 0.f)};
  });
  std::vector<double> grid(n * n);
  std::vector<float> start(n * n);
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = static_cast<float>(grid[i] = 1 + static_cast<double>(i * 37 % 101) / 50);
  Tensor u = copy_of(start, {n, n}), total, masked;
  for (int round = 0; round < 50; ++round) {
    std::tie(u, total, masked) = step(std::move(u), 0.1f);
    std::vector<double> next = grid;
    const auto at = [&](int i, int j) { return grid[static_cast<std::size_t>(i * n + j)]; };
    for (int i = 1; i < n - 1; ++i)
      for (int j = 1; j < n - 1; ++j)
        next[static_cast<std::size_t>(i * n + j)] +=
            0.1 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4 * at(i, j));
    for (std::size_t j = 0; j < n; ++j) next[j] = 0;
    grid = next;
  }
  double expected = 0;
  for (int i = 1; i < n - 1; ++i)
    for (int j = 1; j < n - 1; ++j) expected += 0.5 * grid[static_cast<std::size_t>(i * n + j)];
  CHECK(item<float>(total) == Approx(expected).epsilon(1e-4));
  check_close(numbers(u), grid, 1e-4);
  for (double v : numbers(masked)) CHECK(v == 0);  // row 0 is 0, so not all are positive
  CHECK(step.stats().compiles == 1);
}

// ---- a transformer from one region
// --------------------------------------------------------------------------------------

namespace {
struct TransformerBlock {
  Tensor wqkv, wo, w1, w2, g1, b1, g2, b2;
};
}  // namespace

TEST_CASE("program: a transformer whose layers are calls of one region") {
  const std::int64_t width = 32;
  int heads = 4;  // no constant, so that the function captures it
  const auto layer = [heads](Tensor x, const TransformerBlock& p) {
    auto B = x.size(0), T = x.size(1), D = x.size(2);
    auto [q, k, v] = split<3>(matmul(layer_norm(x, {D}, p.g1, p.b1), p.wqkv), -1);
    auto split_heads = [&](const Tensor& t) { return transpose(reshape(t, {B, T, heads, D / heads}), 1, 2); };
    auto a = scaled_dot_product_attention(split_heads(q), split_heads(k), split_heads(v), {.causal = true});
    auto h = x + matmul(reshape(transpose(a, 1, 2), {B, T, D}), p.wo);
    return Tensor(h + matmul(gelu(matmul(layer_norm(h, {D}, p.g2, p.b2), p.w1)), p.w2));
  };
  std::vector<TransformerBlock> blocks;
  for (int i = 0; i < 12; ++i) {
    const auto weights = [](std::int64_t rows, std::int64_t columns) { return Tensor(randn({rows, columns}) * 0.1f); };
    blocks.push_back({weights(width, 3 * width), weights(width, width), weights(width, 4 * width),
                      weights(4 * width, width), ones({width}), zeros({width}), ones({width}), zeros({width})});
  }
  const auto block = jit::region(layer);
  auto model = jit::compile([block](Tensor x, const std::vector<TransformerBlock>& ps) {
    auto h = x;
    for (auto& p : ps) h = block(h, p);
    return h;
  });
  for (int tokens : {16, 24, 40}) {
    Tensor x = randn({2, tokens, width}), expected = x;
    for (const auto& p : blocks) expected = layer(expected, p);
    check_close(numbers(model(x, blocks)), numbers(expected), 2e-3);
  }
  CHECK(model.stats().compiles == 2);
  CHECK(model.stats().regions == 1);
  CHECK(model.stats().region_calls == 12);
}
