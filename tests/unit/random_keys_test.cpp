// Explicit keys: what depends on what, split and fold_in, mapped keys, loops and compiled code; distributions against
// their moments.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/ops/philox.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <set>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
std::int64_t bits_of(const random::Key& key) { return item<std::int64_t>(key.data); }
/// {mean, standard deviation} of all elements.
std::pair<double, double> moments(const Tensor& x) {
  const Tensor wide = cast(x, DType::f64);
  return {item<double>(mean(wide)), item<double>(stddev(wide))};
}
void check_moments(const Tensor& x, double mean_wanted, double deviation) {
  const auto [centre, spread] = moments(x);
  const double count = static_cast<double>(static_cast<std::int64_t>(x.numel()));
  CHECK(std::abs(centre - mean_wanted) < 5 * deviation / std::sqrt(count));
  CHECK(spread == Approx(deviation).epsilon(0.1));
}
}  // namespace

TEST_CASE("random keys: numbers depend on the key alone, and move no generator") {
  const random::Key key = random::key(7);
  manual_seed(7);
  const Tensor want = rand({20}), after = rand({3});
  manual_seed(7);
  CHECK(doubles(random::rand(key, {20})) == doubles(want));  // the first draw of a generator with this seed
  CHECK(doubles(random::rand(key, {20})) == doubles(want));
  rand({20});
  CHECK(doubles(rand({3})) == doubles(after));
  CHECK(doubles(random::rand(random::key(8), {20})) != doubles(want));
  auto [a, b] = random::with_key(key, [] { return std::pair{rand({20}), rand({20})}; });
  CHECK(doubles(a) == doubles(want));
  CHECK(doubles(b) != doubles(want));
  auto compiled = jit::compile([](random::Key k) { return random::normal(k, 1, 2, {5}); }, {.fullgraph = true});
  for (std::int64_t seed : {1, 2, 3})
    CHECK(doubles(compiled(random::key(seed))) == doubles(random::normal(random::key(seed), 1, 2, {5})));
  CHECK(compiled.stats().compiles == 1);
}

TEST_CASE("random keys: split and fold_in give Philox's words beyond the counters of draws") {
  const random::Key key = random::key(0x123456789);
  auto word = [](std::int64_t counter, std::int64_t element) { return philox_bits(0x123456789, counter, element); };
  auto pair_of = [&](std::int64_t counter, std::int64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(word(counter, 2 * i)) |
                                     static_cast<std::uint64_t>(word(counter, 2 * i + 1)) << 32);
  };
  const std::int64_t quarter = std::int64_t{1} << 62, eighth = std::int64_t{1} << 61;
  const std::vector<random::Key> four = random::split(key, 4);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(bits_of(four[static_cast<std::size_t>(i)]) == pair_of(quarter, i));
  auto [a, b] = random::split<2>(key);
  CHECK(bits_of(a) == bits_of(four[0]));
  CHECK(bits_of(b) == bits_of(four[1]));
  CHECK(bits_of(random::fold_in(key, 5)) == pair_of(quarter + eighth + 5, 0));
  CHECK(bits_of(random::fold_in(key, Scalar(5))) == bits_of(random::fold_in(key, arange(6)(5))));
  std::set<std::int64_t> seen;
  for (const random::Key& k : random::split(key, 200)) seen.insert(bits_of(k));
  for (int i = 0; i < 200; ++i) seen.insert(bits_of(random::fold_in(key, i)));
  CHECK(seen.size() == 400);
}

TEST_CASE("random keys: mapped keys draw what each draws alone, of every kind") {
  const random::Key keys = random::split_many(random::key(3), 4);
  auto check = [&](const auto& draw) {
    const std::vector<double> mapped = doubles(jit::vmap(draw)(keys));
    const std::vector<double> compiled = doubles(jit::compile([&](random::Key k) { return jit::vmap(draw)(k); })(keys));
    std::vector<double> alone;
    for (std::int64_t i = 0; i < 4; ++i)
      for (double x : doubles(draw(random::Key{keys.data(i)}))) alone.push_back(x);
    CHECK(near(mapped, alone, 1e-6));
    CHECK(near(compiled, alone, 1e-6));
  };
  check([](random::Key k) { return random::rand(k, {3, 2}); });
  check([](random::Key k) { return random::rand(k, {5}, f64); });
  check([](random::Key k) { return random::randn(k, {5}, f64); });
  check([](random::Key k) { return random::randn(random::split(k, 3)[2], {2}); });
  check([](random::Key k) { return random::rand(random::fold_in(k, 9), {}); });
  check([](random::Key k) { return random::randint(k, -3, 100, {4}); });
  check([](random::Key k) { return random::permutation(k, arange(6)); });
  check([](random::Key k) { return random::beta(k, full({3}, 2.), full({3}, 0.5)); });
  const random::Key rows = random::Key{reshape(random::split_many(random::key(3), 4).data, {2, 2})};
  auto twice = jit::vmap(jit::vmap([](random::Key k) { return random::rand(k, {3}); }));
  CHECK(doubles(twice(rows)) == doubles(jit::vmap([](random::Key k) { return random::rand(k, {3}); })(keys)));
}

TEST_CASE("random keys: a walk in a loop by fold_in, and by a key that is carried") {
  const random::Key key = random::key(11);
  auto walk = jit::compile([](random::Key k) {
    return jit::fori_loop(
        0, 10, [&](Scalar i, Tensor x) { return x + random::randn(random::fold_in(k, i), {2}); }, zeros({2}));
  });
  Tensor by_hand = zeros({2});
  for (int i = 0; i < 10; ++i) by_hand += random::randn(random::fold_in(key, i), {2});
  CHECK(near(doubles(walk(key)), doubles(by_hand), 1e-6));
  auto carried = jit::compile([](random::Key k) {
    return jit::fori_loop(
        0, 3,
        [](Scalar, std::tuple<random::Key, Tensor> at) {
          auto [next, use] = random::split<2>(std::get<0>(at));
          return std::tuple{next, Tensor(std::get<1>(at) + random::rand(use, {}))};
        },
        std::tuple{k, zeros({})});
  });
  const double want = [&] {
    random::Key at = key;
    double sum = 0;
    for (int i = 0; i < 3; ++i) {
      auto [next, use] = random::split<2>(at);
      sum += item<float>(random::rand(use, {}));
      at = next;
    }
    return sum;
  }();
  CHECK(item<float>(std::get<1>(carried(key))) == Approx(want));
}

TEST_CASE("random keys: distributions have their moments") {
  const std::vector<random::Key> k = random::split(random::key(5), 16);
  constexpr std::int64_t n = 20000;
  check_moments(random::uniform(k[0], 2, 4, {n}), 3, std::sqrt(1. / 3));
  check_moments(random::laplace(k[1], 1, 2, {n}), 1, 2 * std::sqrt(2.));
  check_moments(random::exponential(k[2], 4, {n}), 0.25, 0.25);
  CHECK(std::abs(item<float>(median(random::cauchy(k[3], 3, 1, {n}))) - 3) < 0.1);
  check_moments(random::poisson(k[4], full({n}, 3.)), 3, std::sqrt(3.));
  const Tensor cut = random::truncated_normal(k[5], -1, 2, {n}, f64);
  CHECK(item<bool>(all((cut >= -1) & (cut <= 2))));
  check_moments(cut, 0.2296373, 0.7214);  // scipy.stats.truncnorm(-1, 2)
  const Tensor tail = random::truncated_normal(k[6], 8, 9, {n}, f64);
  CHECK(item<bool>(all((tail >= 8) & (tail <= 9))));
  check_moments(tail, 8.1212, 0.1185);  // scipy.stats.truncnorm(8, 9)
  check_moments(random::student_t(k[7], full({n}, 10., f64)), 0, std::sqrt(10. / 8));
  check_moments(random::beta(k[8], full({n}, 2., f64), 5.0), 2. / 7, std::sqrt(10. / (49 * 8)));
  const Tensor small = random::beta(k[9], full({n}, 1e-3, f64), 1e-3);
  CHECK_FALSE(item<bool>(any(isnan(small))));
  CHECK(moments(small).first == Approx(0.5).margin(0.02));
  const Tensor shares = random::dirichlet(k[10], expand(copy_of(std::vector<double>{1, 2, 5}), {n, 3}));
  CHECK(near(doubles(sum(shares, -1)), std::vector<double>(n, 1), 1e-12));
  CHECK(near(doubles(mean(shares, 0)), {0.125, 0.25, 0.625}, 0.01));
  check_moments(random::binomial(k[11], full({n}, 20.), full({n}, 0.1)), 2, std::sqrt(1.8));
  check_moments(random::binomial(k[12], 100.0, full({n}, 0.7)), 70, std::sqrt(21.));
  CHECK(doubles(random::binomial(k[12], 5.0, copy_of(std::vector<double>{0, 1}))) == std::vector<double>{0, 5});
  CHECK(std::isnan(doubles(random::binomial(k[12], 5.0, full({1}, 1.5, f64)))[0]));
  const Tensor covariance = reshape(copy_of(std::vector<double>{2, 0.6, 0.6, 1}), {2, 2});
  const Tensor vectors = random::multivariate_normal(k[13], copy_of(std::vector<double>{1, -1}), covariance, {n});
  CHECK(near(doubles(mean(vectors, 0)), {1, -1}, 0.05));
  CHECK(near(doubles(cov(transpose(vectors, 0, 1))), doubles(covariance), 0.05));
}

TEST_CASE("random keys: permutation and choice") {
  const random::Key key = random::key(2);
  const Tensor x = reshape(arange(12), {6, 2});
  const Tensor mixed = random::permutation(key, x);
  CHECK(doubles(sort(mixed(all, 0)).values) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(doubles(mixed(all, 1)) == doubles(mixed(all, 0) + 1));
  const Tensor once = random::choice(key, arange(10), 10, {.replacement = Replacement::no});
  CHECK(doubles(sort(once).values) == doubles(arange(10)));
  const Tensor weights = copy_of(std::vector<double>{0, 0.2, 0.8});
  const Tensor drawn = random::choice(key, arange(3), 5000, {.weights = weights});
  CHECK(item<bool>(all(drawn > 0)));
  CHECK(item<double>(mean(cast(drawn, DType::f64))) == Approx(1.8).margin(0.03));
  CHECK(random::choice(key, x, 3, {.axis = 1}).shape() == Shape{6, 3});
  manual_seed(1);
  const Tensor by_generator = random::truncated_normal(0, 1, {4});
  CHECK(doubles(by_generator) != doubles(random::truncated_normal(0, 1, {4})));
}

TEST_CASE("random keys: errors name the user's line") {
  const random::Key key = random::key(2);
  CHECK(has(message_of([&] { random::rand(random::split_many(key, 3), {2}); }), "random_keys_test.cpp"));
  CHECK(has(message_of([&] { random::split(random::split_many(key, 3)); }), "map many by jit::vmap"));
  CHECK(has(message_of([&] { random::split(key, 0); }), "count is 0"));
  CHECK(has(message_of([&] { random::fold_in(key, 0.5); }), "one whole number"));
  CHECK(has(message_of([&] { random::truncated_normal(key, 1, 1, {2}); }), "low must be less"));
  CHECK(has(message_of([&] { random::choice(key, arange(3), 2, {.weights = ones({2})}); }), "one for each of the 3"));
  CHECK(has(message_of([&] { random::multivariate_normal(key, ones({2}), ones({3, 3})); }), "(k) and (k, k)"));
}

TEST_CASE("with_key reaches into compiled functions, and leaves nothing behind", "[random]") {
  auto noisy = jit::compile([](Tensor x) { return x + rand({3}); });
  const Tensor x = zeros({3});
  manual_seed(5);
  const std::vector<float> plain = to_vector<float>(noisy(x)), next = to_vector<float>(noisy(x));
  const random::Key first = random::key(1), second = random::key(2);
  manual_seed(5);
  for (const random::Key& key : {first, second, first}) {
    const Tensor drawn = random::with_key(key, [&] { return noisy(x); });
    CHECK(to_vector<float>(drawn) == to_vector<float>(random::with_key(key, [] { return rand({3}); })));
  }
  CHECK(to_vector<float>(noisy(x)) == plain);
  CHECK(to_vector<float>(noisy(x)) == next);
}

TEST_CASE("truncated_normal far out stays near its nearer bound", "[random]") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [low, high] : {std::pair(40., 41.), std::pair(40., infinity), std::pair(-infinity, -40.)}) {
    const Tensor drawn = abs(random::truncated_normal(random::key(3), low, high, {1000}, {.dtype = DType::f64}));
    CHECK(item<double>(amin(drawn)) >= 40);
    CHECK(item<double>(amax(drawn)) < 40.3);  // the excess is near an exponential number of mean 1 / 40
    CHECK(std::abs(item<double>(mean(drawn)) - 40.025) < 0.003);
  }
}

TEST_CASE("tensors from nothing: options that name a device alone leave the dtype to the function") {
  const Device here = Device::cpu();
  CHECK(arange(3, {.device = here}).dtype() == DType::i64);
  CHECK(arange(1, 7, 2, {.device = here}).dtype() == DType::i64);
  CHECK(randint(0, 9, {4}, {.device = here}).dtype() == DType::i64);
  CHECK(randperm(5, {.device = here}).dtype() == DType::i64);
  CHECK(random::randint(random::key(1), 0, 9, {4}, {.device = here}).dtype() == DType::i64);
  CHECK(full({2}, std::complex<double>(1, 2), {.device = here}).dtype() == DType::c128);
  for (const Tensor& t : {arange(0.0, 1.0, 0.5, {.device = here}), linspace(0, 1, 3, {.device = here}),
                          eye(2, {.device = here}), rand({2}, {.device = here}), zeros({2}, {.device = here})})
    CHECK(t.dtype() == DType::f32);
  CHECK(randint(0, 9, {4}, {.dtype = DType::i32}).dtype() == DType::i32);
}
