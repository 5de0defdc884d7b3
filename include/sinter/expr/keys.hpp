// Random numbers by explicit keys, and distributions beyond those of distributions.hpp. What a key gives depends on the
// key alone: no generator moves, and what else a program draws does not matter. Knows nothing of how numbers are made.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/distributions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace random {

/// 64 bits that stand for a sequence of random numbers. An aggregate: it may be an argument and a result of compiled
/// functions, a carry of loops, and mapped. Use each key once, to draw or to make others of it.
struct Key {
  Tensor data;  // i64, of rank 0; of further axes: one for each example of jit::vmap
};

/// The key of a seed.
Key key(std::int64_t seed);
/// `count` new keys, whose numbers have nothing to do with each other's.
std::vector<Key> split(const Key& key, std::int64_t count = 2, Location where = std::source_location::current());
/// The same with a number that is known at build time: auto [a, b] = random::split<2>(key);
template <std::size_t Count>
std::array<Key, Count> split(const Key& key, Location where = std::source_location::current()) {
  const std::vector<Key> made = split(key, static_cast<std::int64_t>(Count), where);
  std::array<Key, Count> out;
  for (std::size_t i = 0; i < Count; ++i) out[i] = made[i];
  return out;
}
/// The same as one Key of shape (count), for jit::vmap.
Key split_many(const Key& key, Dim count, Location where = std::source_location::current());
/// The key that belongs to this key and a whole number: that of an iteration, a layer, a row.
Key fold_in(const Key& key, const In& number);

/// What `draw()` gives when all that it draws comes from the key: random::with_key(key, [] { return rand({3}); }).
template <std::invocable F>
auto with_key(const Key& key, const F& draw) {
  const expr_detail::LentKey source(key.data);
  return draw();
}

// ---- those of functions.hpp and distributions.hpp, by key

Tensor rand(const Key& key, const Shape& shape, TensorOptions options = {},
            Location where = std::source_location::current());
Tensor randn(const Key& key, const Shape& shape, TensorOptions options = {},
             Location where = std::source_location::current());
Tensor uniform(const Key& key, double low, double high, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
Tensor normal(const Key& key, double mean, double stddev, const Shape& shape, TensorOptions options = {},
              Location where = std::source_location::current());
Tensor log_normal(const Key& key, double mean, double stddev, const Shape& shape, TensorOptions options = {},
                  Location where = std::source_location::current());
Tensor exponential(const Key& key, double rate, const Shape& shape, TensorOptions options = {},
                   Location where = std::source_location::current());
Tensor cauchy(const Key& key, double median, double scale, const Shape& shape, TensorOptions options = {},
              Location where = std::source_location::current());
Tensor laplace(const Key& key, double mean, double scale, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
Tensor geometric(const Key& key, double p, const Shape& shape, TensorOptions options = {},
                 Location where = std::source_location::current());
Tensor bernoulli(const Key& key, const In& p);
Tensor poisson(const Key& key, const In& rate);
Tensor standard_gamma(const Key& key, const In& alpha);
Tensor randint(const Key& key, std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
Tensor randperm(const Key& key, Dim count, TensorOptions options = {},
                Location where = std::source_location::current());
Tensor multinomial(const Key& key, const In& weights, Dim count, Replacement replacement = Replacement::no);

// ---- further distributions, by key and from this thread's generator

/// Standard normal numbers between `low` and `high`, by the inverse distribution function in f64.
Tensor truncated_normal(double low, double high, const Shape& shape, TensorOptions options = {},
                        Location where = std::source_location::current());
Tensor truncated_normal(const Key& key, double low, double high, const Shape& shape, TensorOptions options = {},
                        Location where = std::source_location::current());
/// Student's t with these degrees of freedom; of their shape and floating dtype.
Tensor student_t(const In& freedom);
Tensor student_t(const Key& key, const In& freedom);
/// In [0, 1], with the density x^(a - 1) (1 - x)^(b - 1); a and b broadcast. Rounding gives the ends, too.
Tensor beta(const In& a, const In& b);
Tensor beta(const Key& key, const In& a, const In& b);
/// Numbers along the last axis that are not negative and whose sum is 1.
Tensor dirichlet(const In& alpha);
Tensor dirichlet(const Key& key, const In& alpha);
/// How many of n trials succeed, each with the probability p; n and p broadcast, of p's floating dtype. The host draws
/// them. NaN for parameters out of range.
Tensor binomial(const In& n, const In& p);
Tensor binomial(const Key& key, const In& n, const In& p);
/// Vectors with this mean (k) and symmetric positive definite covariance (k, k), of shape (shape..., k).
Tensor multivariate_normal(const In& mean, const In& covariance, const Shape& shape = {});
Tensor multivariate_normal(const Key& key, const In& mean, const In& covariance, const Shape& shape = {});
/// x with its slices along `axis` in random order.
Tensor permutation(const In& x, int axis = 0);
Tensor permutation(const Key& key, const In& x, int axis = 0);

struct ChoiceOptions {
  Replacement replacement = Replacement::yes;
  Optional<Tensor> weights{};  // of the slices, as multinomial takes them; not given: equal ones
  int axis = 0;
};
/// `count` slices of x along an axis, drawn at random.
Tensor choice(const In& x, Dim count, ChoiceOptions options = {});
Tensor choice(const Key& key, const In& x, Dim count, ChoiceOptions options = {});

}  // namespace random
SINTER_NAMESPACE_END
