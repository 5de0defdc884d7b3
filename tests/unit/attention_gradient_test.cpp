// Gradients of attention as the x86 back end computes them whole, against their definition in double.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace sinter;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

/// Operands without batch axes, in double, and the gradients of sum(out * dout).
struct PlainGradients {
  std::int64_t queries, keys, features, value_features;
  double scale;
  std::vector<double> q, k, v, dout, mask = {};  // mask: added to the scores, [l, s]
  std::int64_t last_seen_by_first = std::numeric_limits<std::int64_t>::max() / 2;
  std::vector<double> dq = {}, dk = {}, dv = {};

  void run() {
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for (std::int64_t i = 0; i < queries; ++i) add_query(i);
  }

 private:
  void add_query(std::int64_t i) {
    std::vector<double> weight(static_cast<std::size_t>(keys)), dweight(weight.size());
    double greatest = -infinite, sum = 0, mean = 0;
    for (std::int64_t j = 0; j < keys; ++j) greatest = std::max(greatest, at(weight, j) = score(i, j));
    if (greatest == -infinite) return;
    for (double& w : weight) sum += w = std::exp(w - greatest);
    for (std::int64_t j = 0; j < keys; ++j) {
      at(weight, j) /= sum;
      for (std::int64_t c = 0; c < value_features; ++c)
        at(dweight, j) += at(dout, i * value_features + c) * at(v, j * value_features + c);
      mean += at(weight, j) * at(dweight, j);
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      const double dscore = at(weight, j) * (at(dweight, j) - mean) * scale;
      for (std::int64_t c = 0; c < features; ++c) {
        at(dq, i * features + c) += dscore * at(k, j * features + c);
        at(dk, j * features + c) += dscore * at(q, i * features + c);
      }
      for (std::int64_t c = 0; c < value_features; ++c)
        at(dv, j * value_features + c) += at(weight, j) * at(dout, i * value_features + c);
    }
  }
  double score(std::int64_t i, std::int64_t j) const {
    if (j > last_seen_by_first + i) return -infinite;
    double dot = 0;
    for (std::int64_t c = 0; c < features; ++c) dot += at(q, i * features + c) * at(k, j * features + c);
    return dot * scale + (mask.empty() ? 0 : at(mask, i * keys + j));
  }
};

struct Extents {
  std::int64_t batches, l, s, e, f;
};
/// q, k, v and dout of these extents, the same at each call.
std::vector<Tensor> operands(const Extents& x, DType dtype) {
  manual_seed(11);
  const TensorOptions options{.dtype = dtype};
  std::vector<Tensor> made{randn({x.batches, x.l, x.e}, options), randn({x.batches, x.s, x.e}, options),
                           randn({x.batches, x.s, x.f}, options), randn({x.batches, x.l, x.f}, options)};
  for (const Tensor& each : made) eval(each);
  return made;
}
/// By the operation itself, whatever the extents.
std::vector<Tensor> gradients(const std::vector<Tensor>& in, const AttentionOptions& options) {
  const Tensor out = scaled_dot_product_attention(in[0], in[1], in[2], options);
  std::vector<In> given{in[0], in[1], in[2], out, in[3]};
  if (options.mask) given.push_back(*options.mask);
  const std::string attributes = "packing=batch, scale=" + std::to_string(options.scale.value_or(0)) +
                                 (options.causal.alignment() == Causal::to_end ? ", causal=to_end" : "");
  const Tensor packed = call("scaled_dot_product_attention_gradient", std::span<const In>(given), attributes)[0];
  std::vector<Tensor> found;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t size = in[i].shape()[1].value() * in[i].shape()[2].value();
    found.push_back(reshape(packed(all, slice(start, start + size)), in[i].shape()));
    start += size;
  }
  return found;
}
/// What the operation itself gives, packed.
std::vector<double> packed(const std::vector<Tensor>& in, const std::string& attributes) {
  const Tensor out = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  return doubles(call("scaled_dot_product_attention_gradient", {in[0], in[1], in[2], out, in[3]}, attributes)[0]);
}

enum Kind { none, causal, added, seen };
AttentionOptions options_of(Kind kind, const Extents& x, DType dtype) {
  AttentionOptions options{.scale = (x.l % 2 == 0 ? 0.5 : -0.25) * (x.e < 30 ? 1 : 0.125)};  // exact in six digits
  if (kind == causal) options.causal = Causal::to_end;
  if (kind == added) options.mask = randn({x.l, x.s}, {.dtype = dtype});
  if (kind == seen) options.mask = randn({x.batches, x.l, x.s}) > 0.5f;  // a query of one key may see none
  if (options.mask) eval(*options.mask);
  return options;
}
void check_kind(Kind kind, const Extents& x, DType dtype) {
  const std::vector<Tensor> in = operands(x, dtype);
  const AttentionOptions options = options_of(kind, x, dtype);
  const std::vector<Tensor> found = gradients(in, options);
  const double tolerance = dtype == DType::f64 ? 1e-12 : 2e-5;
  for (int batch = 0; batch < x.batches; ++batch) {
    const auto plane = [&](int i) { return doubles(in[static_cast<std::size_t>(i)](batch)); };
    PlainGradients plain{x.l, x.s, x.e, x.f, *options.scale, plane(0), plane(1), plane(2), plane(3)};
    if (kind == causal) plain.last_seen_by_first = x.s - x.l;
    if (kind == added) plain.mask = doubles(*options.mask);
    if (kind == seen) plain.mask = doubles(where((*options.mask)(batch), 0.0, -infinite));
    plain.run();
    INFO(x.l << " queries, " << x.s << " keys, " << x.e << " and " << x.f << " features, kind " << kind << ", batch "
             << batch);
    CHECK(near(doubles(found[0](batch)), plain.dq, tolerance));
    CHECK(near(doubles(found[1](batch)), plain.dk, tolerance));
    CHECK(near(doubles(found[2](batch)), plain.dv, tolerance));
  }
}

}  // namespace

TEST_CASE("gradients of attention: blocks, steps, chunks and their ends, against their definition in double") {
  // Blocks have 24 to 96 queries, chunks 512, steps 192 keys; register tiles 6 rows and 8 to 64 columns.
  const Extents cases[] = {{2, 1, 1, 3, 5},      {2, 2, 300, 8, 64}, {1, 97, 193, 20, 33}, {2, 7, 64, 64, 64},
                           {1, 601, 70, 5, 7},   {1, 70, 601, 4, 3}, {2, 100, 90, 300, 9}, {1, 30, 2700, 4, 17},
                           {1, 1100, 130, 4, 4}, {1, 13, 5, 2, 270}};
  for (const Extents& x : cases)
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Kind kind : {none, causal, added, seen}) check_kind(kind, x, dtype);
}

TEST_CASE("gradients of attention: threads, packing and the batch change no bit") {
  const Extents x{2, 1200, 300, 16, 24};
  const std::vector<Tensor> in = operands(x, DType::f32);
  const auto run = [&](const std::vector<Tensor>& operands, int threads) {
    const int before = thread_count();
    set_thread_count(threads);
    const std::vector<Tensor> found = gradients(operands, {.causal = Causal::to_end});
    for (const Tensor& each : found) eval(each);
    set_thread_count(before);
    return found;
  };
  // One thread takes the chunks of a batch one after the other; of seven each takes a chunk.
  const std::vector<Tensor> alone = run(in, 1), divided = run(in, 7);
  std::vector<Tensor> second;
  for (const Tensor& each : in) second.push_back(each(slice(1, 2)));
  const std::vector<Tensor> of_second = run(second, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(floats(alone[i]) == floats(divided[i]));
    CHECK(floats(alone[i](slice(1, 2))) == floats(of_second[i]));
  }
  const std::vector<Tensor> square = operands({3, 40, 40, 8, 6}, DType::f32);
  const std::vector<double> by_batch = packed(square, "causal=equal_lengths, packing=batch"),
                            whole = packed(square, "causal=equal_lengths");
  REQUIRE(by_batch.size() == whole.size());
  const std::vector<double> first_dk(whole.begin() + 3 * 40 * 8, whole.begin() + 4 * 40 * 8);
  CHECK(std::equal(whole.begin(), whole.begin() + 40 * 8, by_batch.begin()));
  CHECK(std::equal(first_dk.begin(), first_dk.end(), by_batch.begin() + 40 * 8));
}

TEST_CASE("gradients of attention: of 128 keys or more they are the operation") {
  const auto dk = jit::compile(
      [](Tensor q, Tensor k) {
        return jit::grad([&](Tensor y) { return Tensor(sum(square(scaled_dot_product_attention(q, y, y)))); })(k);
      },
      {.dynamic = jit::Dynamic::always});
  for (const std::int64_t keys : {127, 128}) {
    const std::vector<Tensor> in = operands({2, 9, keys, 4, 4}, DType::f64);
    const std::string text = dk.explain(in[0], in[1]).text();
    CHECK(has(text, "scaled_dot_product_attention_gradient") == (keys == 128));
    const auto loss = [&](Tensor y) { return item<double>(sum(square(scaled_dot_product_attention(in[0], y, y)))); };
    const Tensor direction = randn(in[1].shape(), {.dtype = DType::f64});
    const double by_differences = (loss(in[1] + 1e-6 * direction) - loss(in[1] - 1e-6 * direction)) / 2e-6;
    CHECK(near({item<double>(sum(dk(in[0], in[1]) * direction))}, {by_differences}, 1e-7));
  }
}

TEST_CASE("gradients of attention: extents of zero, of unknown size, mapped, of second order") {
  for (const Extents& x : {Extents{2, 0, 5, 4, 3}, Extents{2, 5, 0, 4, 3}, Extents{0, 5, 6, 4, 3}}) {
    const std::vector<Tensor> found = gradients(operands(x, DType::f32), {.scale = 0.5});
    REQUIRE(found[0].shape() == Shape{x.batches, x.l, x.e});
    for (const Tensor& each : found)
      for (const double value : doubles(each)) CHECK(value == 0);
  }
  const auto dq = [](Tensor q, Tensor k, Tensor v) {
    return jit::grad([&](Tensor a) {
      return Tensor(sum(square(scaled_dot_product_attention(a, k, v, {.causal = Causal::to_end}))));
    })(q);
  };
  const auto f = jit::compile(dq, {.dynamic = jit::Dynamic::always});
  for (const std::int64_t l : {5, 230, 140}) {
    const std::vector<Tensor> in = operands({2, l, l + 3, 4, 4}, DType::f64);
    const Tensor all_at_once = f(in[0], in[1], in[2]), mapped = jit::vmap(dq)(in[0], in[1], in[2]);
    CHECK(near(doubles(all_at_once), doubles(mapped), 1e-13));
    CHECK(near(doubles(all_at_once(1)), doubles(dq(in[0](1), in[1](1), in[2](1))), 1e-13));
  }
  // The derivative along a direction of dq, by differences of it.
  const std::vector<Tensor> in = operands({1, 9, 130, 4, 4}, DType::f64);
  const Tensor direction = randn({1, 9, 4}, {.dtype = DType::f64});
  const auto along = [&](Tensor q) { return Tensor(sum(dq(q, in[1], in[2]) * direction)); };
  const double step = 1e-6, by_differences = (item<double>(along(in[0] + step * direction)) -
                                              item<double>(along(in[0] - step * direction))) /
                                             (2 * step);
  CHECK(near({item<double>(sum(jit::grad(along)(in[0]) * direction))}, {by_differences}, 1e-7));
}

TEST_CASE("gradients of attention: queries that see nothing, and a mask whose gradient is asked for") {
  const Extents x{1, 8, 150, 4, 4};
  const std::vector<Tensor> in = operands(x, DType::f64);
  const Tensor is_seen = reshape(arange(8) < 4, {8, 1});  // the mask of a row is the same for all keys
  const std::vector<Tensor> found = gradients(in, {.mask = is_seen});
  const std::vector<double> dq = doubles(found[0]);
  for (std::size_t i = 0; i < dq.size(); ++i) CHECK((dq[i] == 0) == (i >= 16));
  const auto loss = [&](Tensor q, Tensor mask) {
    return Tensor(sum(scaled_dot_product_attention(q, in[1], in[2], {.mask = mask}) * in[3]));
  };
  const Tensor mask = randn({8, 150}, {.dtype = DType::f64});
  auto [with_mask, by_mask] = jit::grad<0, 1>(loss)(in[0], mask);
  const Tensor alone = jit::grad([&](Tensor q) { return loss(q, mask); })(in[0]);
  CHECK(near(doubles(with_mask), doubles(alone), 1e-13));
  CHECK(by_mask.shape() == mask.shape());
}
