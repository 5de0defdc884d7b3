// Attention on CUDA, without a GPU: the kernels' texts, run on the processor, against attention in double; and that
// NVRTC compiles them.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>
#ifdef SINTER_CUDA
#include "../emulated_cuda.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/library/attention_gradient_kernels.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using cuda::AttentionArguments;
using cuda::AttentionGradientPlan;
using cuda::AttentionMask;
using cuda::AttentionPlan;
using cuda::AttentionProblem;

namespace {
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Numbers as the dtype has them, and their bytes.
struct Numbers {
  std::vector<double> values;
  std::vector<char> bytes;
};
void store(std::vector<char>& bytes, std::size_t i, DType dtype, double value) {
  if (dtype == DType::f32) {
    const auto x = static_cast<float>(value);
    std::memcpy(bytes.data() + i * 4, &x, 4);
  } else if (dtype == DType::f16) {
    const auto x = static_cast<float16>(static_cast<float>(value));
    std::memcpy(bytes.data() + i * 2, &x, 2);
  } else {
    const auto x = static_cast<bfloat16>(static_cast<float>(value));
    std::memcpy(bytes.data() + i * 2, &x, 2);
  }
}
double load(const char* bytes, std::size_t i, DType dtype) {
  if (dtype == DType::f32) {
    float x = 0;
    std::memcpy(&x, bytes + i * 4, 4);
    return static_cast<double>(x);
  }
  if (dtype == DType::f16) {
    float16 x;
    std::memcpy(&x, bytes + i * 2, 2);
    return static_cast<double>(static_cast<float>(x));
  }
  bfloat16 x;
  std::memcpy(&x, bytes + i * 2, 2);
  return static_cast<double>(static_cast<float>(x));
}
Numbers drawn(std::int64_t count, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers numbers;
  numbers.bytes.resize(as_index(count * size_of(dtype)) + 64);
  for (std::int64_t i = 0; i < count; ++i) {
    store(numbers.bytes, as_index(i), dtype, normal(random));
    numbers.values.push_back(load(numbers.bytes.data(), as_index(i), dtype));
  }
  return numbers;
}
/// Inside at a multiple of 16 bytes.
char* aligned(std::vector<char>& bytes) {
  return bytes.data() + (16 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 16) % 16;
}
char* placed(Numbers& numbers, DType dtype) {
  numbers.bytes.resize(numbers.bytes.size() + 16);
  char* const at = aligned(numbers.bytes);
  std::vector<char> copy(numbers.values.size() * as_index(size_of(dtype)));
  for (std::size_t i = 0; i < numbers.values.size(); ++i) store(copy, i, dtype, numbers.values[i]);
  std::memcpy(at, copy.data(), copy.size());
  return at;
}

/// What query i of a batch sees of a mask: rows of `keys` numbers, of one batch for all. Empty: everything.
struct MaskNumbers {
  std::vector<double> added;
  std::vector<char> bytes;
};

void run_text(const cuda::LibrarySource& source, std::size_t entry, const AttentionArguments& arguments,
              std::int64_t blocks, int threads, std::size_t shared_bytes) {
  void* const library = sinter_test::emulated_library("#define WARPS_LAG 1\n" + source.text, source.entries);
  using Function = void (*)(const void*);
  const auto launch = reinterpret_cast<void (*)(Function, const void*, const unsigned*, unsigned, unsigned)>(
      dlsym(library, "emulated_launch"));
  const unsigned grid[3] = {static_cast<unsigned>(blocks), 1, 1};
  launch(reinterpret_cast<Function>(dlsym(library, ("call_" + source.entries[entry]).c_str())), &arguments, grid,
         static_cast<unsigned>(threads), static_cast<unsigned>(shared_bytes));
}

/// What the exponentials of a query's scores are taken above, and their sum.
struct Level {
  double base = -infinite, sum = 0;
};
/// Weights of a query as they are defined, in double.
std::vector<double> weights_of(const AttentionProblem& p, const Numbers& q, const Numbers& k, const MaskNumbers& mask,
                               std::int64_t batch, std::int64_t i, Level* level = nullptr) {
  std::vector<double> weights(as_index(p.keys), 0.0);
  double greatest = -infinite, sum = 0;
  for (std::int64_t j = 0; j < p.keys; ++j) {
    double dot = 0;
    for (int c = 0; c < p.features; ++c)
      dot += q.values[as_index((batch * p.queries + i) * p.features + c)] *
             k.values[as_index((batch / p.sharers * p.keys + j) * p.features + c)];
    dot *= p.scale;
    if (!mask.added.empty()) dot += mask.added[as_index(i * p.keys + j)];
    if (p.is_causal && j > i + p.ahead) dot = -infinite;
    weights[as_index(j)] = dot;
    greatest = std::max(greatest, dot);
  }
  for (double& w : weights) sum += w = greatest == -infinite ? 0 : std::exp(w - greatest);
  for (double& w : weights) w = sum == 0 ? 0 : w / sum;
  if (level != nullptr) *level = {greatest, sum};
  return weights;
}

double lowest_of(DType dtype) {
  return dtype == DType::f16    ? -65504
         : dtype == DType::bf16 ? -0x1.FEp127
                                : double{std::numeric_limits<float>::lowest()};
}
MaskNumbers mask_for(AttentionProblem& p, unsigned seed) {
  MaskNumbers mask;
  if (p.mask == AttentionMask::none) return mask;
  p.gives_zeros = true;
  const std::int64_t count = p.queries * p.keys;
  Numbers numbers = drawn(count, p.dtype, seed);
  mask.bytes.resize(as_index(count) * 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_first_row = i < p.keys;  // sees nothing
    double& x = numbers.values[as_index(i)];
    const bool is_lowest = i / p.keys == 1 || (i / p.keys == 2 && i % 3 == 0);  // finite: a row of such is seen
    if (p.mask == AttentionMask::seen) {
      mask.bytes[as_index(i)] = !is_first_row && x > 0;
      x = mask.bytes[as_index(i)] != 0 ? 0 : -infinite;
    } else {
      if (is_first_row) x = -infinite;
      else if (is_lowest) x = lowest_of(p.dtype);
      store(mask.bytes, as_index(i), p.dtype, x);
    }
  }
  mask.added = numbers.values;
  return mask;
}

double tolerance_of(const AttentionProblem& p) {
  if (p.dtype == DType::f16) return 4e-3;
  if (p.dtype == DType::bf16) return 3e-2;
  return p.allows_tf32 ? 4e-3 : 2e-6;
}

/// Has a kernel left this level?
bool is_level(const AttentionProblem& p, const float* got, const Level& level) {
  if (level.sum == 0) return got[0] == std::numeric_limits<float>::infinity();
  const auto is_near = [](double x, double y) { return std::abs(x - y) < 1e-2 * std::max(1.0, std::abs(y)); };
  if (p.mask == AttentionMask::added)
    return is_near(static_cast<double>(got[0]), level.base) &&
           is_near(static_cast<double>(got[1]), std::log2(level.sum));
  return is_near(static_cast<double>(got[0]), level.base / std::log(2.0) + std::log2(level.sum));
}
void leave_level(const AttentionProblem& p, float* to, const Level& level) {
  const bool is_apart = p.mask == AttentionMask::added, sees_nothing = level.sum == 0;
  const double rest = sees_nothing ? 0 : std::log2(level.sum);
  to[0] = static_cast<float>(sees_nothing ? infinite : is_apart ? level.base : level.base / std::log(2.0) + rest);
  if (is_apart) to[1] = static_cast<float>(rest);
}

enum class Memory { apart, shared };  // of keys and values
void check_forward(AttentionProblem p, int capability = 80, Memory values = Memory::apart) {
  INFO(name(p.dtype) << (p.allows_tf32 ? " tf32 " : " ") << p.batches << " x " << p.queries << " x " << p.keys << ", "
                     << p.features << " and " << p.value_features << " features, mask " << static_cast<int>(p.mask)
                     << (p.is_causal ? ", causal, ahead " : ", ahead ") << p.ahead << ", scale " << p.scale);
  Numbers q = drawn(p.batches * p.queries * p.features, p.dtype, 1),
          k = drawn(p.batches / p.sharers * p.keys * p.features, p.dtype, 2),
          v = drawn(p.batches / p.sharers * p.keys * p.value_features, p.dtype, 3);
  if (values == Memory::shared) v = k;
  const MaskNumbers mask = mask_for(p, 4);
  if (p.is_causal && p.ahead < 0) p.gives_zeros = true;
  const AttentionPlan plan(p, capability, 1, 227 * 1024);
  REQUIRE(plan.is_open());
  std::vector<char> out(as_index(p.batches * p.queries * p.value_features * size_of(p.dtype)) + 32, 0x5A);
  std::vector<float> parts(plan.parts_bytes() / sizeof(float) + 1);
  AttentionArguments a = plan.arguments();
  a.q = placed(q, p.dtype);
  a.k = placed(k, p.dtype);
  a.v = values == Memory::shared ? a.k : placed(v, p.dtype);
  a.mask = mask.bytes.data();
  a.mask_row = p.keys;
  a.mask_key = 1;
  a.out = aligned(out);
  a.parts = parts.data();
  std::vector<float> levels(as_index(p.batches * p.queries * p.levels()), std::numeric_limits<float>::quiet_NaN());
  a.levels = levels.data();
  const cuda::LibrarySource source = plan.source();
  run_text(source, 0, a, plan.blocks(), plan.threads(), plan.shared_bytes());
  if (plan.pieces() > 1) run_text(source, 1, a, p.batches * p.queries, 128, 0);
  double worst = 0;
  bool are_levels_right = true;
  for (std::int64_t batch = 0; batch < p.batches; ++batch)
    for (std::int64_t i = 0; i < p.queries; ++i) {
      Level level;
      const std::vector<double> w = weights_of(p, q, k, mask, batch, i, &level);
      if (p.keeps_levels) are_levels_right &= is_level(p, levels.data() + (batch * p.queries + i) * p.levels(), level);
      for (std::int64_t f = 0; f < p.value_features; ++f) {
        double expected = 0;
        for (std::int64_t j = 0; j < p.keys; ++j)
          expected += w[as_index(j)] * v.values[as_index((batch / p.sharers * p.keys + j) * p.value_features + f)];
        const double got = load(aligned(out), as_index((batch * p.queries + i) * p.value_features + f), p.dtype);
        worst = std::isfinite(got) ? std::max(worst, std::abs(got - expected)) : infinite;
      }
    }
  CHECK(worst < tolerance_of(p));
  CHECK(are_levels_right);
}

/// Sums over all of a batch's queries and keys, in double: of gradients by q, k and v.
struct Gradients {
  std::vector<double> q, k, v;
};
Gradients gradients_of(const AttentionProblem& p, const Numbers& q, const Numbers& k, const Numbers& v,
                       const Numbers& dout, const MaskNumbers& mask) {
  const auto sharers = as_index(p.sharers);  // each of which has gradients of its own
  Gradients g{std::vector<double>(q.values.size(), 0.0), std::vector<double>(k.values.size() * sharers, 0.0),
              std::vector<double>(v.values.size() * sharers, 0.0)};
  for (std::int64_t batch = 0; batch < p.batches; ++batch)
    for (std::int64_t i = 0; i < p.queries; ++i) {
      const std::vector<double> w = weights_of(p, q, k, mask, batch, i);
      const auto query = as_index((batch * p.queries + i) * p.features),
                 row = as_index((batch * p.queries + i) * p.value_features);
      std::vector<double> dw(w.size());
      double delta = 0;
      for (std::size_t j = 0; j < w.size(); ++j) {
        const std::size_t value = (as_index(batch * p.keys) + j) * as_index(p.value_features),
                          shared = (as_index(batch / p.sharers * p.keys) + j) * as_index(p.value_features);
        for (std::size_t f = 0; f < as_index(p.value_features); ++f) {
          dw[j] += dout.values[row + f] * v.values[shared + f];
          g.v[value + f] += w[j] * dout.values[row + f];
        }
        delta += w[j] * dw[j];
      }
      for (std::size_t j = 0; j < w.size(); ++j) {
        const std::size_t key = (as_index(batch * p.keys) + j) * as_index(p.features),
                          shared = (as_index(batch / p.sharers * p.keys) + j) * as_index(p.features);
        const double ds = w[j] * (dw[j] - delta) * p.scale;
        for (std::size_t c = 0; c < as_index(p.features); ++c) {
          g.q[query + c] += ds * k.values[shared + c];
          g.k[key + c] += ds * q.values[query + c];
        }
      }
    }
  return g;
}

double worst_of(const char* bytes, DType dtype, const std::vector<double>& expected) {
  double worst = 0, greatest = 1;
  for (const double x : expected) greatest = std::max(greatest, std::abs(x));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = load(bytes, i, dtype);
    worst = std::isfinite(got) ? std::max(worst, std::abs(got - expected[i])) : infinite;
  }
  return worst / greatest;
}

void check_gradients(AttentionProblem p, int capability = 80) {
  INFO("gradients, " << name(p.dtype) << (p.allows_tf32 ? " tf32 " : " ") << p.batches << " x " << p.queries << " x "
                     << p.keys << ", " << p.features << " and " << p.value_features << " features, mask "
                     << static_cast<int>(p.mask) << (p.is_causal ? ", causal, ahead " : ", ahead ") << p.ahead);
  Numbers q = drawn(p.batches * p.queries * p.features, p.dtype, 1),
          k = drawn(p.batches / p.sharers * p.keys * p.features, p.dtype, 2),
          v = drawn(p.batches / p.sharers * p.keys * p.value_features, p.dtype, 3),
          dout = drawn(p.batches * p.queries * p.value_features, p.dtype, 5), out = dout;
  const MaskNumbers mask = mask_for(p, 4);
  if (p.is_causal && p.ahead < 0) p.gives_zeros = true;
  std::vector<float> levels(as_index(p.batches * p.queries * p.levels()));
  for (std::int64_t batch = 0; batch < p.batches; ++batch)
    for (std::int64_t i = 0; i < p.queries; ++i) {
      Level level;
      const std::vector<double> w = weights_of(p, q, k, mask, batch, i, &level);
      leave_level(p, levels.data() + (batch * p.queries + i) * p.levels(), level);
      for (std::int64_t f = 0; f < p.value_features; ++f) {
        double& x = out.values[as_index((batch * p.queries + i) * p.value_features + f)] = 0;
        for (std::int64_t j = 0; j < p.keys; ++j)
          x += w[as_index(j)] * v.values[as_index((batch / p.sharers * p.keys + j) * p.value_features + f)];
      }
    }
  const AttentionGradientPlan plan(p, capability, 227 * 1024);
  REQUIRE(plan.is_open());
  const auto sharers = as_index(p.sharers);
  std::vector<char> dq(q.bytes.size() + 32, 0x5A), dk(k.bytes.size() * sharers + 32, 0x5A),
      dv(v.bytes.size() * sharers + 32, 0x5A);
  std::vector<float> stats(plan.stats_bytes() / sizeof(float));
  char *const q_at = placed(q, p.dtype), *const k_at = placed(k, p.dtype), *const v_at = placed(v, p.dtype),
              *const dout_at = placed(dout, p.dtype), *const out_at = placed(out, p.dtype);
  for (const AttentionGradientPlan::Tile& tile : plan.tiles()) {
    AttentionArguments a = plan.arguments(tile);
    a.q = q_at;
    a.k = k_at;
    a.v = v_at;
    a.mask = mask.bytes.data();
    a.mask_row = p.keys;
    a.mask_key = 1;
    a.dout = dout_at;
    a.result = out_at;
    a.dq = aligned(dq);
    a.dk = aligned(dk);
    a.dv = aligned(dv);
    a.stats = stats.data();
    a.levels = levels.data();
    run_text(plan.source(tile), 0, a, plan.blocks(tile), tile.threads(), plan.shared_bytes(tile));
  }
  const Gradients expected = gradients_of(p, q, k, v, dout, mask);
  CHECK(worst_of(aligned(dq), p.dtype, expected.q) < tolerance_of(p));
  CHECK(worst_of(aligned(dk), p.dtype, expected.k) < tolerance_of(p));
  CHECK(worst_of(aligned(dv), p.dtype, expected.v) < tolerance_of(p));
}

struct Computed {
  DType dtype;
  bool allows_tf32;
};
constexpr Computed arithmetics[] = {{DType::f16, false}, {DType::bf16, false}, {DType::f32, true}, {DType::f32, false}};

AttentionProblem problem(Computed arithmetic, std::int64_t batches, std::int64_t queries, std::int64_t keys,
                         int features, int value_features) {
  AttentionProblem p;
  p.dtype = arithmetic.dtype;
  p.allows_tf32 = arithmetic.allows_tf32;
  p.batches = batches;
  p.queries = queries;
  p.keys = keys;
  p.features = features;
  p.value_features = value_features;
  p.scale = 1 / std::sqrt(static_cast<double>(features));
  return p;
}
}  // namespace

TEST_CASE("attention on CUDA against its definition in double") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  for (const Computed& arithmetic : arithmetics) {
    AttentionProblem causal = problem(arithmetic, 2, 66, 66, 16, 40);
    causal.is_causal = true;
    check_forward(causal);
  }
  for (const Computed& arithmetic : {arithmetics[1], arithmetics[3]}) {
    AttentionProblem late = problem(arithmetic, 1, 66, 50, 13, 5);  // the first queries see nothing
    late.is_causal = true;
    late.ahead = -20;
    late.mask = AttentionMask::seen;
    check_forward(late);
    AttentionProblem biased = problem(arithmetic, 1, 20, 70, 72, 24);
    biased.mask = AttentionMask::added;
    check_forward(biased);
    AttentionProblem turned = problem(arithmetic, 1, 3, 300, 64, 64);  // few queries: pieces
    turned.scale = -0.05;
    check_forward(turned);
  }
  AttentionProblem wide = problem(arithmetics[3], 2, 270, 70, 100, 128);  // f32: blocks of 256 queries
  wide.is_causal = true;
  check_forward(wide);
  AttentionProblem grouped = problem(arithmetics[1], 1, 66, 70, 64, 128);  // products of four warps
  grouped.is_causal = true;
  check_forward(grouped, 90);
  check_forward(problem(arithmetics[0], 1, 65, 130, 128, 64), 90);
  AttentionProblem masked = problem(arithmetics[0], 1, 300, 150, 64, 64);
  masked.mask = AttentionMask::seen;
  check_forward(masked, 90);
  AttentionProblem biased = problem(arithmetics[1], 1, 70, 200, 128, 128);
  biased.mask = AttentionMask::added;
  check_forward(biased, 90);
  AttentionProblem late = problem(arithmetics[0], 2, 150, 50, 64, 64);  // the first tile of queries sees nothing
  late.is_causal = true;
  late.ahead = -130;
  check_forward(late, 90);
}

TEST_CASE("attention in full f32 on CUDA by products of parts of bf16, against its definition in double") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  AttentionProblem causal = problem(arithmetics[3], 2, 150, 170, 64, 128);
  causal.is_causal = true;
  causal.ahead = 20;
  check_forward(causal, 90);
  check_forward(problem(arithmetics[3], 1, 65, 300, 64, 64), 90);
  AttentionProblem seen = problem(arithmetics[3], 1, 130, 150, 128, 64);
  seen.mask = AttentionMask::seen;
  check_forward(seen, 90);
  AttentionProblem biased = problem(arithmetics[3], 1, 70, 200, 128, 128);
  biased.mask = AttentionMask::added;
  biased.keeps_levels = true;
  check_forward(biased, 90);
  AttentionProblem late = problem(arithmetics[3], 2, 150, 50, 64, 64);  // the first tile of queries sees nothing
  late.is_causal = late.keeps_levels = true;
  late.ahead = -130;
  check_forward(late, 90);
}

/// With queries of several heads for the same keys, and levels.
AttentionProblem shared_problem(Computed arithmetic, std::int64_t queries, std::int64_t keys, int features,
                                int value_features, AttentionMask mask = AttentionMask::none) {
  AttentionProblem p = problem(arithmetic, 4, queries, keys, features, value_features);
  p.sharers = 2;
  p.keeps_levels = true;
  p.mask = mask;
  return p;
}

TEST_CASE("attention on CUDA of few queries to many keys") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  check_forward(shared_problem(arithmetics[0], 1, 1100, 64, 64));  // pieces
  check_forward(shared_problem(arithmetics[1], 5, 70, 32, 128));   // two tiles of eight queries
  check_forward(shared_problem(arithmetics[0], 1, 1100, 64, 64), 80, Memory::shared);
  check_forward(shared_problem(arithmetics[1], 3, 90, 128, 128), 80, Memory::shared);
  check_forward(shared_problem(arithmetics[0], 3, 90, 96, 64, AttentionMask::seen));
  check_forward(shared_problem(arithmetics[1], 3, 600, 64, 64, AttentionMask::added));
  AttentionProblem late = shared_problem(arithmetics[0], 6, 4, 64, 64);  // the first queries see nothing
  late.is_causal = true;
  late.ahead = -2;
  check_forward(late);
}

TEST_CASE("attention on CUDA with shared keys leaves the levels of its queries, and its gradients read them") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  check_forward(shared_problem(arithmetics[1], 66, 70, 16, 40));
  check_forward(shared_problem(arithmetics[3], 20, 70, 24, 24, AttentionMask::added));
  check_forward(shared_problem(arithmetics[0], 70, 200, 64, 64, AttentionMask::seen), 90);
  check_forward(shared_problem(arithmetics[1], 70, 200, 128, 128, AttentionMask::added), 90);
  check_gradients(shared_problem(arithmetics[0], 20, 80, 16, 40));
  check_gradients(shared_problem(arithmetics[1], 20, 34, 72, 24, AttentionMask::added));
  check_gradients(shared_problem(arithmetics[0], 70, 136, 64, 64, AttentionMask::seen), 90);
  check_gradients(shared_problem(arithmetics[1], 70, 130, 64, 128, AttentionMask::added), 90);
  AttentionProblem late = shared_problem(arithmetics[1], 70, 50, 64, 64);  // the first tile of queries sees nothing
  late.is_causal = true;
  late.ahead = -66;
  check_forward(late, 90);
  check_gradients(late, 90);
}

TEST_CASE("gradients of attention on CUDA against their definition in double") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  AttentionProblem causal = problem(arithmetics[0], 1, 50, 80, 16, 40);
  causal.is_causal = true;
  causal.ahead = 30;
  check_gradients(causal);
  AttentionProblem late = problem(arithmetics[1], 1, 90, 70, 13, 5);  // the first queries see nothing
  late.is_causal = true;
  late.ahead = -20;
  late.mask = AttentionMask::seen;
  check_gradients(late);
  AttentionProblem biased = problem(arithmetics[1], 1, 20, 34, 72, 24);
  biased.mask = AttentionMask::added;
  check_gradients(biased);
  AttentionProblem unseen = problem(arithmetics[0], 1, 50, 300, 16, 40);  // tiles of keys that no query sees
  unseen.is_causal = true;
  check_gradients(unseen);
  AttentionProblem narrow = problem(arithmetics[2], 1, 50, 80, 13, 40);  // TF32
  narrow.is_causal = true;
  narrow.ahead = 30;
  check_gradients(narrow);
  AttentionProblem grouped = problem(arithmetics[1], 1, 100, 170, 64, 128);  // products of four warps
  grouped.is_causal = true;
  check_gradients(grouped, 90);
  AttentionProblem added = problem(arithmetics[1], 1, 70, 90, 64, 64);
  added.mask = AttentionMask::added;
  check_gradients(added, 90);
  AttentionProblem behind = problem(arithmetics[0], 1, 150, 100, 128, 64);  // the first tile of queries sees nothing
  behind.is_causal = true;
  behind.ahead = -130;
  check_gradients(behind, 90);
}

TEST_CASE("gradients of attention in full f32 on CUDA against their definition in double") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  AttentionProblem causal = problem(arithmetics[3], 2, 150, 170, 40, 64);  // tiles of 128 rows
  causal.is_causal = true;
  check_gradients(causal);
  AttentionProblem wide = problem(arithmetics[3], 1, 70, 90, 128, 72);  // of 64
  wide.is_causal = true;
  wide.ahead = 20;
  check_gradients(wide);
  AttentionProblem late = problem(arithmetics[3], 1, 90, 70, 13, 5);  // the first queries see nothing
  late.is_causal = true;
  late.ahead = -20;
  late.mask = AttentionMask::seen;
  check_gradients(late);
  check_gradients(shared_problem(arithmetics[3], 20, 34, 72, 24, AttentionMask::added));
  AttentionProblem unseen = shared_problem(arithmetics[3], 50, 300, 16, 40);  // tiles of keys that no query sees
  unseen.is_causal = true;
  check_gradients(unseen);
  AttentionProblem turned = problem(arithmetics[3], 1, 40, 50, 24, 24);
  turned.scale = -0.3;
  turned.mask = AttentionMask::added;
  check_gradients(turned);
}

TEST_CASE("gradients of attention in full f32 on CUDA by products of parts of bf16") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  const auto levels_of = [](AttentionProblem p) {
    p.keeps_levels = true;
    CHECK(AttentionGradientPlan(p, 90, 227 * 1024).tiles().front().is_in_parts);
    return p;
  };
  AttentionProblem causal = problem(arithmetics[3], 2, 100, 170, 64, 128);
  causal.is_causal = true;
  causal.ahead = 30;
  check_gradients(levels_of(causal), 90);
  check_gradients(levels_of(problem(arithmetics[3], 1, 130, 97, 128, 64)), 90);
  check_gradients(shared_problem(arithmetics[3], 70, 136, 64, 64, AttentionMask::seen), 90);
  check_gradients(shared_problem(arithmetics[3], 70, 66, 128, 64, AttentionMask::added), 90);
  AttentionProblem late = problem(arithmetics[3], 1, 150, 100, 64, 64);  // the first tile of queries sees nothing
  late.is_causal = true;
  late.ahead = -130;
  check_gradients(levels_of(late), 90);
  AttentionProblem unseen = problem(arithmetics[3], 1, 70, 300, 64, 64);  // tiles of keys that no query sees
  unseen.is_causal = true;
  unseen.scale = -0.1;
  check_gradients(levels_of(unseen), 90);
  AttentionProblem alone = problem(arithmetics[3], 1, 70, 300, 64, 64);  // levels are computed: on the ordinary units
  CHECK(!AttentionGradientPlan(alone, 90, 227 * 1024).tiles().front().is_in_parts);
}

TEST_CASE("with little shared memory the batch changes no tile of keys, and rows of queries give way first") {
  constexpr std::size_t little = 99 * 1024;
  const auto keys_of = [](const AttentionProblem& p) {
    const AttentionPlan plan(p, 86, 84, little);
    CHECK(plan.is_open());
    const std::string text = plan.source().text;
    const std::size_t at = text.find("#define BN ");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  };
  for (const Computed& arithmetic : arithmetics)
    for (const int features : {16, 64, 100, 128, 256}) {
      INFO(name(arithmetic.dtype) << ", " << features << " features");
      CHECK(keys_of(problem(arithmetic, 1, 1024, 1024, features, features)) ==
            keys_of(problem(arithmetic, 64, 1024, 1024, features, features)));
    }
}

TEST_CASE("the kernels of attention compile for sm_80 and sm_90") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP("no NVRTC");
  const auto check_compiled = [](const cuda::LibrarySource& source, int capability) {
    const bool is_of_one = source.text.find("wgmma.") != std::string::npos;
    const std::string cubin = cuda::compile_to_cubin(source.text, source.entries.front(),
                                                     "sm_" + std::to_string(capability) + (is_of_one ? "a" : ""));
    for (const std::string& entry : source.entries) CHECK(cubin.find(entry) != std::string::npos);
  };
  const auto compiles = [&](const AttentionProblem& p, int capability) {
    check_compiled(AttentionPlan(p, capability, 132, 227 * 1024).source(), capability);
  };
  const AttentionProblem half = problem(arithmetics[0], 8, 1024, 1024, 64, 64);
  compiles(half, 90);
  for (const int capability : {80, 90}) {
    const AttentionGradientPlan gradient(half, capability, 227 * 1024);
    CHECK(gradient.tiles().size() == (capability == 90 ? 3 : 2));
    AttentionProblem with_levels = half;
    with_levels.keeps_levels = true;
    CHECK(AttentionGradientPlan(with_levels, capability, 227 * 1024).tiles().size() == 2);
    for (const AttentionGradientPlan::Tile& tile : gradient.tiles()) check_compiled(gradient.source(tile), capability);
  }
  for (const int features : {64, 128}) {
    AttentionProblem full = problem(arithmetics[3], 80, 1024, 1024, features, features);
    full.is_causal = full.keeps_levels = true;
    compiles(full, 80);
    const AttentionGradientPlan of_full(full, 80, 163 * 1024);
    CHECK(of_full.is_open());
    for (const AttentionGradientPlan::Tile& tile : of_full.tiles()) check_compiled(of_full.source(tile), 80);
    compiles(full, 90);
    const AttentionGradientPlan of_parts(full, 90, 227 * 1024);
    CHECK(of_parts.is_open());
    for (const AttentionGradientPlan::Tile& tile : of_parts.tiles()) check_compiled(of_parts.source(tile), 90);
  }
  compiles(problem(arithmetics[1], 8, 1, 1024, 128, 128), 80);
  compiles(problem(arithmetics[2], 8, 1024, 1024, 64, 64), 80);
  compiles(problem(arithmetics[3], 8, 1024, 1024, 64, 64), 90);
}
#endif
