// Attention on a GPU and its gradients against f64 on the CPU over shapes, masks, dtypes and precisions; that no scores
// pass through memory; and what must change no bit.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available(); }

enum class MaskUse { none, seen, added, lowest, keys_alone, seen_by_batch, added_by_batch };
struct Case {
  Shape q, k, v;
  Causal causal = false;
  MaskUse mask = MaskUse::none;
  Heads heads = Heads::equal;
  double scale = 0;  // 0: as usual
};

/// Numbers as the dtype has them, on the CPU in f64.
Tensor drawn(const Shape& shape, DType dtype, int seed) {
  manual_seed(static_cast<std::uint64_t>(seed));
  return cast(cast(randn(shape, {.device = Device::cpu()}), dtype), DType::f64);
}
std::vector<double> numbers(const Tensor& x) { return to_vector<double>(cast(x.to(Device::cpu()), DType::f64)); }
double worst(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = numbers(got), b = numbers(expected);
  REQUIRE(a.size() == b.size());
  double off = 0, greatest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off = std::isfinite(a[i]) ? std::max(off, std::abs(a[i] - b[i])) : INFINITY;
    greatest = std::max(greatest, std::abs(b[i]));
  }
  return off / greatest;
}

AttentionOptions options_of(const Case& c, Device device, DType dtype) {
  AttentionOptions options{.causal = c.causal, .heads = c.heads};
  if (c.scale != 0) options.scale = c.scale;
  const Dim l = c.q[-2], s = c.k[-2];
  if (c.mask == MaskUse::none) return options;
  const bool is_by_batch = c.mask == MaskUse::seen_by_batch || c.mask == MaskUse::added_by_batch;  // one for all keys
  const Shape shape = c.mask == MaskUse::keys_alone ? Shape{s} : is_by_batch ? Shape{c.q[0], 1, l, 1} : Shape{l, s};
  Tensor x = drawn(shape, DType::bf16, 9);  // the same in all dtypes
  if (c.mask == MaskUse::lowest) {          // the second query sees such alone, others some
    const Tensor row = reshape(arange(l, {.device = Device::cpu()}), Shape{l, 1});
    x = where((x > 0.5) | (row == 1), -0x1.FEp127, x);
  }
  if (c.mask == MaskUse::added || c.mask == MaskUse::lowest || c.mask == MaskUse::added_by_batch) {
    options.mask = cast(x, dtype).to(device);
  } else {
    Tensor seen = x > -0.5;  // the first query sees nothing
    if (c.mask == MaskUse::seen) seen = seen & (reshape(arange(l, {.device = Device::cpu()}), Shape{l, 1}) > 0);
    options.mask = seen.to(device);
  }
  eval(*options.mask);
  return options;
}

/// The result and the gradients by q, k and v of its sum weighted with `w`.
std::vector<Tensor> all_of(const Case& c, Device device, DType dtype, MatmulPrecision precision) {
  const auto at = [&](const Tensor& x) {
    Tensor y = cast(x, dtype).to(device);
    eval(y);
    return y;
  };
  const AttentionOptions options = options_of(c, device, dtype);
  Shape result = c.q;
  result.set(result.rank() - 1, c.v[-1]);
  const DType narrow = dtype == DType::f64 ? DType::f32 : dtype;
  const Tensor q = at(drawn(c.q, narrow, 1)), k = at(drawn(c.k, narrow, 2)), v = at(drawn(c.v, narrow, 3)),
               w = at(drawn(result, narrow, 4));
  auto f = jit::compile(
      [&](Tensor a, Tensor b, Tensor d, Tensor weight) {
        auto [value, gradients] = jit::value_and_grad<0, 1, 2>([&](Tensor x, Tensor y, Tensor z) {
          const Tensor out = scaled_dot_product_attention(x, y, z, options);
          return std::pair(Tensor(sum(cast(out, DType::f32) * cast(weight, DType::f32))), out);
        })(a, b, d);
        auto [dq, dk, dv] = gradients;
        return std::tuple(value.second, dq, dk, dv);
      },
      {.matmul_precision = precision});
  auto [out, dq, dk, dv] = f(q, k, v, w);
  return {out, dq, dk, dv};
}

double tolerance(DType dtype, MatmulPrecision precision) {
  if (dtype == DType::f16) return 4e-3;
  if (dtype == DType::bf16) return 3e-2;
  return precision == MatmulPrecision::tf32 ? 4e-3 : 5e-6;
}

std::vector<Case> cases() {
  return {{{2, 3, 200, 64}, {2, 3, 333, 64}, {2, 3, 333, 64}},
          {{2, 2, 257, 64}, {2, 2, 257, 64}, {2, 2, 257, 64}, true},
          {{1, 3, 100, 128}, {1, 3, 164, 128}, {1, 3, 164, 128}, Causal::to_end},
          {{3, 90, 32}, {3, 70, 32}, {3, 70, 48}, Causal::to_end},  // the first queries see nothing
          {{2, 2, 75, 13}, {2, 2, 81, 13}, {2, 2, 81, 5}, Causal::from_start, MaskUse::seen},
          {{2, 2, 64, 80}, {2, 2, 128, 80}, {2, 2, 128, 80}, false, MaskUse::added},
          {{2, 65, 16}, {2, 300, 16}, {2, 300, 16}, false, MaskUse::keys_alone, Heads::equal, -0.3},
          {{2, 8, 100, 64}, {2, 2, 100, 64}, {2, 2, 100, 64}, true, MaskUse::none, Heads::grouped},
          {{2, 4, 1, 64}, {2, 4, 1500, 64}, {2, 4, 1500, 64}},  // a step of decoding
          {{1, 2, 9, 128}, {1, 2, 700, 128}, {1, 2, 700, 128}, Causal::to_end},
          {{2, 40, 192}, {2, 60, 192}, {2, 60, 256}},
          {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
          {{2, 50, 64}, {2, 300, 64}, {2, 300, 64}, Causal::from_start},  // keys that no query sees
          {{1, 3, 5}, {1, 7, 5}, {1, 7, 64}},                             // gradients begin anywhere in the result
          {{3, 7, 13}, {3, 9, 13}, {3, 9, 8}},
          {{2, 2, 70, 64}, {2, 2, 200, 64}, {2, 2, 200, 64}, false, MaskUse::lowest},
          {{3, 2, 40, 32}, {3, 2, 90, 32}, {3, 2, 90, 32}, false, MaskUse::seen_by_batch},
          {{3, 2, 40, 32}, {3, 2, 90, 32}, {3, 2, 90, 32}, false, MaskUse::added_by_batch},
          {{2, 100, 64}, {2, 400, 64}, {2, 400, 64}, Causal::to_end},                 // several tiles of keys
          {{2, 2, 200, 64}, {2, 2, 328, 64}, {2, 2, 328, 64}, false, MaskUse::seen},  // rows of a mask by 16 bytes
          {{2, 2, 200, 128}, {2, 2, 328, 128}, {2, 2, 328, 128}, false, MaskUse::added},
          {{2, 2, 200, 64}, {2, 2, 328, 64}, {2, 2, 328, 64}, false, MaskUse::lowest},
          {{2, 8, 1, 64}, {2, 2, 1500, 64}, {2, 2, 1500, 64}, false, MaskUse::none, Heads::grouped},
          {{2, 6, 5, 128}, {2, 2, 300, 128}, {2, 2, 300, 64}, Causal::to_end, MaskUse::none, Heads::grouped},
          {{2, 4, 150, 128}, {2, 2, 150, 128}, {2, 2, 150, 128}, true, MaskUse::added, Heads::grouped},
          {{2, 100, 64}, {2, 140, 64}, {2, 140, 64}, Causal::to_end},
          {{2, 3, 300, 128}, {2, 3, 420, 128}, {2, 3, 420, 128}, Causal::to_end},
          {{2, 3, 420, 128}, {2, 3, 300, 128}, {2, 3, 300, 128}, Causal::from_start},
          {{9, 16, 300, 72}, {9, 16, 280, 72}, {9, 16, 280, 100}, Causal::to_end}};  // f32: blocks of 256 queries
}
}  // namespace

TEST_CASE("attention and its gradients on a GPU against f64", "[gpu]") {
  if (is_missing()) return;
  int number = 0;
  for (const Case& c : cases()) {
    const std::vector<Tensor> wide = all_of(c, Device::cpu(), DType::f64, MatmulPrecision::f32);
    int turn = 0;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::tf32}) {
        if (dtype != DType::f32 && precision == MatmulPrecision::tf32) continue;
        if (dtype == DType::f16 && c.mask == MaskUse::lowest) continue;  // its lowest does not swallow scores
        if (number > 3 && number % 4 != turn++ % 4) continue;            // each takes compilation
        INFO("case " << number << ", " << name(dtype) << " " << name(precision));
        const std::vector<Tensor> got = all_of(c, gpu, dtype, precision);
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO((i == 0 ? "result" : "gradient ") << i);
          CHECK(worst(got[i], wide[i]) < 2 * tolerance(dtype, precision));
        }
      }
    ++number;
  }
}

TEST_CASE("attention written by hand in bf16 on a GPU is attention, with no scores in memory", "[gpu]") {
  if (is_missing()) return;
  const Tensor q = cast(drawn({2, 4, 512, 64}, DType::bf16, 1), DType::bf16).to(gpu),
               k = cast(drawn({2, 4, 512, 64}, DType::bf16, 2), DType::bf16).to(gpu);
  const auto called = jit::compile([](Tensor a, Tensor b) { return scaled_dot_product_attention(a, b, b); });
  const auto written =
      jit::compile([](Tensor a, Tensor b) { return matmul(softmax(matmul(a, transpose(b, -2, -1)) * 0.125f, -1), b); });
  const Tensor x = called(q, k), y = written(q, k);
  CHECK(worst(x, y) == 0);
  CHECK(written.explain(q, k).text().find("scaled_dot_product_attention") != std::string::npos);
}

TEST_CASE("gradients of attention in f32 on a GPU have kernels for TF32, hidden keys, and 64 features by parts",
          "[gpu]") {
  if (is_missing()) return;
  const bool has_parts = cuda::device_info(gpu).capability == 90;
  for (const int features : {64, 48})
    for (const bool is_causal : {false, true})
      for (const MatmulPrecision precision : {MatmulPrecision::f32, MatmulPrecision::tf32x3, MatmulPrecision::tf32}) {
        INFO(features << " features, " << name(precision) << (is_causal ? ", causal" : ""));
        const Tensor q = cast(drawn({2, 200, features}, DType::f32, 1), DType::f32).to(gpu),
                     k = cast(drawn({2, 300, features}, DType::f32, 2), DType::f32).to(gpu);
        const Causal alignment = is_causal ? Causal::to_end : Causal::no;
        const auto f = jit::compile(
            [=](Tensor a, Tensor b) {
              return jit::grad([&](Tensor x) {
                return Tensor(sum(square(scaled_dot_product_attention(x, b, b, {.causal = alignment}))));
              })(a);
            },
            {.matmul_precision = precision});
        bool is_whole = false;
        for (const jit::KernelStage& step : f.lower(q, k).kernels())
          is_whole |= step.name.starts_with("scaled_dot_product_attention_gradient");
        CHECK(is_whole == (is_causal || precision == MatmulPrecision::tf32 || (has_parts && features == 64)));
      }
}

TEST_CASE("an infinity among the operands of attention in f32 on a GPU stays in the rows that see it", "[gpu]") {
  if (is_missing()) return;
  Tensor k = cast(drawn({1, 200, 64}, DType::f32, 2), DType::f32);
  k = where(reshape(arange(200, {.device = Device::cpu()}), Shape{1, 200, 1}) == 150, INFINITY, k);
  const Tensor q = cast(drawn({1, 200, 64}, DType::f32, 1), DType::f32).to(gpu), v = q, keys = k.to(gpu);
  const auto f = jit::compile(
      [](Tensor a, Tensor b, Tensor c) { return scaled_dot_product_attention(a, b, c, {.causal = Causal::to_end}); });
  const std::vector<double> x = numbers(f(q, keys, v));
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::isfinite(x[i]) == (i / 64 < 150));
}

TEST_CASE("attention on a GPU reads the keys of groups of heads in place, and leaves its gradients its levels",
          "[gpu]") {
  if (is_missing()) return;
  const Tensor q = cast(drawn({2, 8, 100, 64}, DType::f16, 1), DType::f16).to(gpu),
               k = cast(drawn({2, 2, 100, 64}, DType::f16, 2), DType::f16).to(gpu);
  const auto attend = [](Tensor a, Tensor b) {
    return Tensor(scaled_dot_product_attention(a, b, b, {.causal = true, .heads = Heads::grouped}));
  };
  const auto forward = jit::compile(attend);
  const auto names_of = [](const auto& kernels) {
    std::vector<std::string> names;
    for (const jit::KernelStage& step : kernels) names.emplace_back(step.name);
    return names;
  };
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::vector<std::string> alone = names_of(forward.lower(q, k).kernels());
  CHECK(alone.size() == 1);
  CHECK(has(alone, "scaled_dot_product_attention_with_levels"));
  const auto gradient = jit::compile([&](Tensor a, Tensor b) {
    return jit::grad([&](Tensor x) { return Tensor(sum(square(cast(attend(x, b), DType::f32)))); })(a);
  });
  const std::vector<std::string> both = names_of(gradient.lower(q, k).kernels());
  CHECK(has(both, "scaled_dot_product_attention_with_levels"));
  CHECK(has(both, "scaled_dot_product_attention_gradient_with_levels"));
}

TEST_CASE("batches change no bit of gradients of attention on a GPU", "[gpu]") {
  if (is_missing()) return;
  struct Form {
    DType dtype;
    int features;
    bool is_causal;
  };
  for (const Form& form : {Form{DType::f16, 64, false}, Form{DType::f16, 128, false}, Form{DType::f16, 128, true},
                           Form{DType::f32, 64, true}, Form{DType::f32, 128, true}, Form{DType::f32, 64, false}}) {
    INFO(name(form.dtype) << ", " << form.features << " features" << (form.is_causal ? ", causal" : ""));
    const Shape queries{3, 200, form.features}, keys{3, 300, form.features};
    const Tensor q = cast(drawn(queries, form.dtype, 1), form.dtype).to(gpu),
                 k = cast(drawn(keys, form.dtype, 2), form.dtype).to(gpu);
    const Causal alignment = form.is_causal ? Causal::to_end : Causal::no;
    const auto f = jit::compile([=](Tensor a, Tensor b) {
      const auto loss = [&](Tensor x, Tensor y) {
        return Tensor(sum(square(cast(scaled_dot_product_attention(x, y, y, {.causal = alignment}), DType::f32))));
      };
      return jit::grad<0, 1>(loss)(a, b);
    });
    const auto [dq, dk] = f(q, k);
    for (int i = 0; i < 3; ++i) {
      const auto [own_dq, own_dk] = f(q(slice(i, i + 1)), k(slice(i, i + 1)));
      CHECK(worst(own_dq, dq(slice(i, i + 1))) == 0);
      CHECK(worst(own_dk, dk(slice(i, i + 1))) == 0);
    }
  }
}

TEST_CASE("batches, other queries and places in memory change no bit of attention on a GPU", "[gpu]") {
  if (is_missing()) return;
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor q = cast(drawn({3, 200, 64}, dtype, 1), dtype).to(gpu),
                 k = cast(drawn({3, 300, 64}, dtype, 2), dtype).to(gpu);
    const auto f = jit::compile([](Tensor a, Tensor b) { return scaled_dot_product_attention(a, b, b); });
    const Tensor all = f(q, k);
    CHECK(worst(f(q(slice(1, 2)), k(slice(1, 2))), all(slice(1, 2))) == 0);
    const Tensor few = f(q(slice(0, 3), slice(0, 3)), k);  // a step of decoding
    CHECK(worst(f(q(slice(1, 2), slice(0, 3)), k(slice(1, 2))), few(slice(1, 2))) == 0);
    CHECK(worst(f(q(slice(0, 3), slice(0, 1)), k), few(slice(0, 3), slice(0, 1))) == 0);
    CHECK(worst(f(q(slice(0, 3), slice(0, 70)), k), all(slice(0, 3), slice(0, 70))) == 0);
    const Tensor room = zeros({3 * 300 * 64 + 1}, {.dtype = dtype, .device = gpu});  // one element off
    Tensor off = room;
    off = concat({Tensor(room(slice(0, 1))), Tensor(reshape(k, {3 * 300 * 64}))}, 0);
    eval(off);
    CHECK(worst(f(q, reshape(off(slice(1, 3 * 300 * 64 + 1)), {3, 300, 64})), all) == 0);
  }
}

TEST_CASE("attention on a GPU of nothing, and to nothing", "[gpu]") {
  if (is_missing()) return;
  const auto f = jit::compile([](Tensor a, Tensor b) { return scaled_dot_product_attention(a, b, b); });
  const TensorOptions half{.dtype = DType::f16, .device = gpu};
  CHECK(numbers(f(ones({2, 5, 16}, half), ones({2, 0, 16}, half))) == std::vector<double>(160, 0.0));
  CHECK(f(ones({2, 0, 16}, half), ones({2, 7, 16}, half)).numel() == 0);
  CHECK(f(ones({0, 3, 16}, half), ones({0, 7, 16}, half)).numel() == 0);
}
