// Random numbers of each distribution with 32 sets of parameters against SciPy's distribution functions; the same ones
// lazily, compiled, on the reference back end, by one thread and by several, mapped and sharded; derivatives by
// parameters (random_cases.py wrote what is expected).
#include "random_cases.hpp"
#include "../checks.hpp"
#include "../partition_checks.hpp"
#include "catch.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/dist.hpp>
#include <sinter/ops/philox.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

struct Row {
  std::string name;
  std::vector<double> parameters;
  std::vector<std::pair<double, double>> places;
};
const std::vector<Row>& rows() {
  static const std::vector<Row> all_of_them = [] {
    std::vector<Row> out;
    std::istringstream text(random_cases);
    for (std::string line; std::getline(text, line);) {
      if (line.empty()) continue;
      const std::size_t half = line.find(" ; ");
      std::istringstream head(line.substr(0, half)), tail(line.substr(half + 3));
      Row row;
      head >> row.name;
      for (double x; head >> x;) row.parameters.push_back(x);
      for (double x, part; tail >> x >> part;) row.places.emplace_back(x, part);
      out.push_back(row);
    }
    return out;
  }();
  return all_of_them;
}

/// What a row draws: `count` numbers; its parameters are Tensors, so that one compiled function serves all of them.
struct Draw {
  std::vector<Tensor> p;  // of the dtype of the numbers
  TensorOptions options;
  Shape shape;
  Tensor wide(std::size_t i) const { return expand(p[i], shape); }
};
using Function = Tensor (*)(const random::Key& key, const Draw& d);

Tensor joined_parameters(const Draw& d) { return stack(d.p, 0); }
Tensor difference_of_vector(const random::Key& key, const Draw& d) {
  const Tensor mixed = d.p[4] * sqrt(d.p[2] * d.p[3]);
  const Tensor covariance = reshape(stack({d.p[2], mixed, mixed, d.p[3]}, 0), {2, 2});
  const Tensor drawn = random::multivariate_normal(key, stack({d.p[0], d.p[1]}, 0), covariance, d.shape);
  return drawn(all, 0) - drawn(all, 1);
}
/// Where the numbers of a permutation stand: a place of each is even. The parameter is a count.
template <class Permute>
Tensor places_of(const random::Key& key, const Draw& d, Permute permute) {
  const auto count = static_cast<std::int64_t>(item<double>(d.p[0].to(DType::f64)));
  const std::int64_t times = static_cast<std::int64_t>(d.shape[0]) / 16;
  const random::Key keys = random::split_many(key, times);
  return jit::vmap([&](random::Key k) { return permute(k, count)(0); })(keys);
}

const std::map<std::string, Function>& functions() {
  using K = random::Key;
  static const std::map<std::string, Function> all_of_them{
      {"rand", [](const K& k, const Draw& d) -> Tensor { return random::rand(k, d.shape, d.options); }},
      {"randn", [](const K& k, const Draw& d) -> Tensor { return random::randn(k, d.shape, d.options); }},
      {"uniform", [](const K& k, const Draw& d) -> Tensor { return random::uniform(k, d.wide(0), d.p[1]); }},
      {"normal", [](const K& k, const Draw& d) -> Tensor { return random::normal(k, d.wide(0), d.p[1]); }},
      {"log_normal", [](const K& k, const Draw& d) -> Tensor { return random::log_normal(k, d.p[0], d.wide(1)); }},
      {"exponential", [](const K& k, const Draw& d) -> Tensor { return random::exponential(k, d.wide(0)); }},
      {"laplace", [](const K& k, const Draw& d) -> Tensor { return random::laplace(k, d.wide(0), d.p[1]); }},
      {"cauchy", [](const K& k, const Draw& d) -> Tensor { return random::cauchy(k, d.p[0], d.wide(1)); }},
      {"geometric", [](const K& k, const Draw& d) -> Tensor { return random::geometric(k, d.wide(0)); }},
      {"bernoulli", [](const K& k, const Draw& d) -> Tensor { return random::bernoulli(k, d.wide(0)); }},
      {"poisson", [](const K& k, const Draw& d) -> Tensor { return random::poisson(k, d.wide(0)); }},
      {"binomial", [](const K& k, const Draw& d) -> Tensor { return random::binomial(k, d.p[0], d.wide(1)); }},
      {"gamma", [](const K& k, const Draw& d) -> Tensor { return random::gamma(k, d.wide(0), d.p[1]); }},
      {"standard_gamma", [](const K& k, const Draw& d) -> Tensor { return random::standard_gamma(k, d.wide(0)); }},
      {"beta", [](const K& k, const Draw& d) -> Tensor { return random::beta(k, d.wide(0), d.p[1]); }},
      {"dirichlet",
       [](const K& k, const Draw& d) -> Tensor {
         return random::dirichlet(k, expand(joined_parameters(d), {d.shape[0], 3}))(all, 0);
       }},
      {"student_t", [](const K& k, const Draw& d) -> Tensor { return random::student_t(k, d.wide(0)); }},
      {"multivariate_normal", difference_of_vector},
      {"categorical",
       [](const K& k, const Draw& d) -> Tensor { return random::categorical(k, log(joined_parameters(d)), d.shape); }},
      {"multinomial",
       [](const K& k, const Draw& d) -> Tensor {
         return random::multinomial(k, joined_parameters(d), d.shape[0], Replacement::yes);
       }},
      {"choice",
       [](const K& k, const Draw& d) -> Tensor {
         const Tensor w = joined_parameters(d);
         return random::choice(k, arange(w.size(0)), d.shape[0], {.weights = w});
       }},
      {"bits",
       [](const K& k, const Draw& d) -> Tensor {
         return random::bits(k, d.shape, {.dtype = d.options.dtype == DType::f32 ? DType::u32 : DType::i64}) & 255;
       }},
  };
  return all_of_them;
}
/// Those whose parameters are numbers of C++.
Tensor drawn(const Row& row, const random::Key& key, const Draw& d) {
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(row.parameters[i]); };
  if (row.name == "truncated_normal")
    return random::truncated_normal(key, row.parameters[0], row.parameters[1], d.shape, d.options);
  if (row.name == "randint") return random::randint(key, whole(0), whole(0) + whole(1), d.shape);
  if (row.name == "randperm")
    return places_of(key, d, [](const random::Key& k, std::int64_t n) { return random::randperm(k, n); });
  if (row.name == "permutation")
    return places_of(key, d, [](const random::Key& k, std::int64_t n) { return random::permutation(k, arange(n)); });
  return functions().at(row.name)(key, d);
}
Draw draw_of(const Row& row, DType dtype, std::int64_t count) {
  Draw d{.p = {}, .options = {.dtype = dtype}, .shape = {count}};
  for (const double x : row.parameters) d.p.push_back(full({}, x, {.dtype = dtype}));
  return d;
}

/// Pearson's sum over the cells between the places as a normal number (Wilson and Hilferty 1931): above 5 once in three
/// million times, and seeds are fixed.
double excess(const std::vector<double>& numbers, const Row& row) {
  std::vector<double> counts(row.places.size() + 1);
  for (const double x : numbers) {
    const auto at = std::lower_bound(row.places.begin(), row.places.end(), x,
                                     [](const auto& place, double value) { return place.first < value; });
    ++counts[static_cast<std::size_t>(at - row.places.begin())];
  }
  const double n = static_cast<double>(numbers.size());
  double sum = 0, before = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double after = i < row.places.size() ? row.places[i].second : 1, expected = n * (after - before);
    before = after;
    sum += (counts[i] - expected) * (counts[i] - expected) / std::max(expected, 1e-9);
  }
  if (row.places.empty()) return sum == 0 ? 0 : 1e9;
  const double width = 2.0 / (9 * static_cast<double>(row.places.size()));
  return (std::cbrt(sum / static_cast<double>(row.places.size())) - (1 - width)) / std::sqrt(width);
}
/// Whether numbers are the same but for the rounding of what follows a draw: location + scale * x is one operation in
/// compiled code, two where it runs operation by operation.
bool are_the_same(const std::vector<double>& a, const std::vector<double>& b, const Row& row, DType dtype) {
  double size = 0;
  for (const double x : row.parameters) size = std::max(size, std::abs(x));
  const double unit = dtype == DType::f32 ? 4e-6 : 1e-13;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= unit * (std::abs(a[i]) + size))) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("random numbers: 32 sets of parameters of each distribution, as SciPy has them", "[random]") {
  std::map<std::string, int> tried;
  for (const Row& row : rows()) {
    const DType dtype = tried[row.name]++ % 2 == 0 ? DType::f32 : DType::f64;
    INFO(row.name << " " << tried[row.name] << ", " << name(dtype));
    const Tensor numbers = drawn(row, random::key(1000 + tried[row.name]), draw_of(row, dtype, 16384));
    const std::vector<double> values = doubles(numbers.to(DType::f64));
    CHECK(std::none_of(values.begin(), values.end(), [](double x) { return std::isnan(x); }));
    CHECK(excess(values, row) < 5);
  }
  CHECK(tried.size() >= 26);
  for (const auto& [name, count] : tried) CHECK(count >= 30);
  // A near miss: numbers of other parameters are seen.
  const Row& first = *std::find_if(rows().begin(), rows().end(), [](const Row& r) { return r.name == "gamma"; });
  Row other = first;
  other.parameters[0] *= 1.2;
  CHECK(excess(doubles(drawn(other, random::key(1), draw_of(other, DType::f64, 16384))), first) > 5);
}

TEST_CASE("random numbers: the same ones compiled, on the reference, by any threads, mapped and sharded", "[random]") {
  struct Restore {
    int threads = thread_count();
    ~Restore() { set_thread_count(threads); }
  } restore;
  for (const auto& [name, function] : functions()) {
    const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; }) + 17;
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(name << ", " << sinter::name(dtype));
      const Draw d = draw_of(*row, dtype, 3000);
      const random::Key key = random::key(77);
      set_thread_count(2);
      const std::vector<double> want = doubles(function(key, d).to(DType::f64));
      const auto body = [&, draw = function](random::Key k, const std::vector<Tensor>& p) {
        return draw(k, {.p = p, .options = d.options, .shape = d.shape}).to(DType::f64);
      };
      const auto compiled = jit::compile(body);
      const std::vector<double> by_code = doubles(compiled(key, d.p));
      CHECK(are_the_same(by_code, want, *row, dtype));
      CHECK(are_the_same(doubles(jit::compile(body, {.backend = "reference"})(key, d.p)), want, *row, dtype));
      set_thread_count(1);
      CHECK(doubles(function(key, d).to(DType::f64)) == want);
      CHECK(doubles(compiled(key, d.p)) == by_code);
      const random::Key keys = random::split_many(key, 3);
      const Tensor mapped = jit::vmap([&](random::Key k) { return body(k, d.p); })(keys);
      for (std::int64_t i = 0; i < 3; ++i)
        CHECK(are_the_same(doubles(mapped(i)), doubles(body(random::Key{keys.data(i)}, d.p)), *row, dtype));
    }
  }
}

TEST_CASE("random numbers: ranks draw their parts of what one draws", "[random]") {
  const dist::Mesh two({{"data", 2}});
  for (const auto& [name, function] : functions()) {
    const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; }) + 9;
    INFO(name);
    const Draw d = draw_of(*row, DType::f32, 512);
    const auto body = [&, draw = function](random::Key k, std::vector<Tensor> p) {
      return draw(k, {.p = p, .options = d.options, .shape = d.shape}).to(DType::f64);
    };
    const random::Key key = random::key(5);
    const std::vector<double> want = doubles(body(key, d.p));  // partitioned functions run operation by operation
    CHECK(partition_checks::problem_on(two, [&](dist::World) {
            const auto divided = dist::partition(body, two, {.outputs = {{{0, "data"}}}});
            const Tensor part = divided(random::Key{key.data}, d.p);
            partition_checks::expect(part.shape() == Shape{256}, "a part of " + part.shape().text());
            partition_checks::expect(doubles(dist::replicate(part, {0, "data"})) == want, "other numbers");
          }) == "");
  }
}

TEST_CASE("random numbers: derivatives of those that a location and a scale move", "[random]") {
  const random::Key key = random::key(3);
  const Tensor m = sin(arange(40, {.dtype = DType::f64})) * 3, s = exp(cos(arange(40, {.dtype = DType::f64})));
  using Two = Tensor (*)(const random::Key&, const In&, const In&);
  const std::vector<std::pair<std::string, Two>> moved{{"normal", random::normal},   {"laplace", random::laplace},
                                                       {"cauchy", random::cauchy},   {"log_normal", random::log_normal},
                                                       {"uniform", random::uniform}, {"gamma", random::gamma}};
  for (const auto& [name, draw] : moved)
    for (const bool is_compiled : {false, true}) {
      INFO(name << (is_compiled ? ", compiled" : ""));
      const bool is_gamma = name == "gamma";
      const Tensor first = is_gamma ? s : m, second = name == "uniform" ? m + s : s;
      const auto loss = [&, call = draw](Tensor a, Tensor b) { return sum(call(key, a, b)); };
      const auto slopes = jit::grad<0, 1>(loss);
      const auto [by_first, by_second] = is_compiled ? jit::compile(slopes)(first, second) : slopes(first, second);
      const Tensor x = draw(key, first, second);
      if (is_gamma) {
        CHECK(near(doubles(by_second), doubles(-x / s), 1e-12));
      } else if (name == "uniform") {
        const Tensor part = (x - m) / s;
        CHECK(near(doubles(by_first), doubles(1 - part), 1e-12));
        CHECK(near(doubles(by_second), doubles(part), 1e-12));
      } else {
        const Tensor factor = name == "log_normal" ? x : ones_like(x), moved_by = name == "log_normal" ? log(x) : x;
        CHECK(near(doubles(by_first), doubles(factor), 1e-12));
        CHECK(near(doubles(by_second), doubles(factor * (moved_by - m) / s), 1e-9));
      }
    }
  const Tensor x = random::exponential(key, s);
  const auto slope = jit::grad([&](Tensor rate) { return sum(random::exponential(key, rate)); });
  CHECK(near(doubles(slope(s)), doubles(-x / s), 1e-12));
  CHECK(near(doubles(jit::compile(slope)(s)), doubles(-x / s), 1e-12));
}

TEST_CASE("random numbers: derivatives of gamma quantiles, as mpmath has them", "[random]") {
  std::istringstream text(gamma_slopes);
  std::vector<double> a, log_x, want;
  for (double x, y, z; text >> x >> y >> z;) {
    a.push_back(x);
    log_x.push_back(y);
    want.push_back(z);
  }
  CHECK(want.size() >= 80);
  const std::vector<double> got = doubles(call("gamma_slope", {copy_of(a), copy_of(log_x)})[0]);
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("a " << a[i] << ", log x " << log_x[i]);
    CHECK(got[i] == Approx(want[i]).epsilon(1e-13));
  }
}

namespace {
/// The mean of derivatives, one for each number, against the derivative of the mean.
void check_mean_slope(const Tensor& slopes, double want) {
  const std::vector<double> each = doubles(slopes);
  double sum = 0, squares = 0;
  for (const double x : each) {
    sum += x;
    squares += x * x;
  }
  const double n = static_cast<double>(each.size()), average = sum / n;
  CHECK(std::abs(average - want) < 5 * std::sqrt((squares / n - average * average) / n) + 1e-9);
}
}  // namespace

TEST_CASE("random numbers: derivatives of gamma, beta, Dirichlet and Student's numbers", "[random]") {
  constexpr std::int64_t n = 8000;
  for (int round = 0; round < 30; ++round) {
    INFO("round " << round);
    const random::Key key = random::key(100 + round);
    const double a = 0.15 * std::exp(0.16 * round), b = 0.4 + 0.3 * (round % 7), whole = a + b;
    const auto all_of = [](double x) { return full({n}, x, {.dtype = DType::f64}); };
    const Tensor alpha = all_of(a), other = all_of(b), freedom = all_of(4.5 + a);
    // Number by number: the slope of the quantile.
    const auto slope = jit::grad([&](Tensor p) { return sum(random::standard_gamma(key, p)); });
    const Tensor x = random::standard_gamma(key, alpha), by_alpha = slope(alpha);
    CHECK(near(doubles(by_alpha), doubles(x * call("gamma_slope", {alpha, log(x)})[0]), 1e-12));
    CHECK(doubles(jit::compile(slope)(alpha)) == doubles(by_alpha));
    check_mean_slope(by_alpha, 1);
    const auto of_beta = jit::grad<0, 1>([&](Tensor p, Tensor q) { return sum(random::beta(key, p, q)); });
    const auto [by_a, by_b] = of_beta(alpha, other);
    check_mean_slope(by_a, b / (whole * whole));
    check_mean_slope(by_b, -a / (whole * whole));
    const auto of_shares = jit::grad([&](Tensor p) { return sum(random::dirichlet(key, p)(all, 0)); });
    const Tensor shares = of_shares(stack({alpha, other, other}, 1));
    check_mean_slope(shares(all, 0), 2 * b / ((whole + b) * (whole + b)));
    check_mean_slope(shares(all, 1), -a / ((whole + b) * (whole + b)));
    const auto of_squares = jit::grad([&](Tensor p) { return sum(square(random::student_t(key, p))); });
    check_mean_slope(of_squares(freedom), -2 / ((2.5 + a) * (2.5 + a)));
  }
  // Forwards, mapped, in f32, of numbers below all of f64; no second ones.
  const random::Key key = random::key(1);
  const Tensor p = copy_of(std::vector<double>{0.3, 2, 40});
  const auto draw = [&](Tensor a) { return random::standard_gamma(key, a); };
  const Tensor want = jit::grad([&](Tensor a) { return sum(draw(a)); })(p);
  CHECK(near(doubles(jit::jvp(draw, std::tuple{p}, std::tuple{ones_like(p)}).second), doubles(want), 1e-12));
  CHECK(jit::grad([&](Tensor a) { return sum(draw(a)); })(p.to(DType::f32)).dtype() == DType::f32);
  const Tensor tiny = full({200}, 1e-3, {.dtype = DType::f64});
  const Tensor slopes = jit::grad([&](Tensor a) { return sum(draw(a)); })(tiny);
  CHECK(item<bool>(all(isfinite(slopes))));
  CHECK(item<bool>(any(draw(tiny) == 0)));
  const Tensor ratios = jit::grad([&](Tensor a) { return sum(random::beta(key, a, a)); })(tiny);
  CHECK(item<bool>(all(isfinite(ratios))));
  CHECK_THROWS_AS(jit::grad([&](Tensor a) { return sum(jit::grad([&](Tensor q) { return sum(draw(q)); })(a)); })(p),
                  UserError);
}

TEST_CASE("random::categorical: classes without probability are never drawn, batches, shapes", "[random]") {
  const double none = -std::numeric_limits<double>::infinity();
  const Tensor logits = copy_of(std::vector<double>{0, none, 1, none, none, 2}, {2, 3});
  const Tensor drawn = random::categorical(random::key(4), logits, {1000});
  CHECK(drawn.shape() == Shape{1000, 2});
  CHECK(drawn.dtype() == DType::i64);
  CHECK(item<bool>(all(drawn(all, 0) != 1)));
  CHECK(item<bool>(all(drawn(all, 1) == 2)));
  CHECK(doubles(random::categorical(random::key(4), logits + 1000)) ==
        doubles(random::categorical(random::key(4), logits)));
  CHECK_THROWS_AS(random::categorical(ones({})), ShapeError);
}

TEST_CASE("random::bits: Philox's words, in every dtype of whole numbers", "[random]") {
  const random::Key key = random::key(0x123456789);
  const Tensor words = random::bits(key, {100});
  CHECK(words.dtype() == DType::u32);
  for (std::int64_t i = 0; i < 100; ++i)
    CHECK(item<std::uint32_t>(words(i)) == static_cast<std::uint32_t>(philox_bits(0x123456789, 0, i)));
  const Tensor pairs = random::bits(key, {50}, {.dtype = DType::u64});
  for (std::int64_t i = 0; i < 50; ++i)
    CHECK(item<std::uint64_t>(pairs(i)) == (static_cast<std::uint64_t>(item<std::uint32_t>(words(2 * i))) |
                                            static_cast<std::uint64_t>(item<std::uint32_t>(words(2 * i + 1))) << 32));
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32})
    CHECK(doubles(random::bits(key, {100}, {.dtype = dtype}).to(DType::f64)) ==
          doubles(cast(words, dtype).to(DType::f64)));
  CHECK(doubles(random::bits(key, {100}, {.dtype = DType::bool_}).to(DType::f64)) ==
        doubles((words & 1).to(DType::f64)));
  CHECK_THROWS_AS(random::bits(key, {3}, {.dtype = DType::f32}), DTypeError);
  manual_seed(3);
  const Tensor first = random::bits({4}), second = random::bits({4});
  CHECK_FALSE(item<bool>(all(first == second)));
}
