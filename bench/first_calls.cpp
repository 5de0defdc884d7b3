// First calls of programs on a GPU, each in a process of its own: with nothing on disk, and with the machine code and
// the choices that an earlier process left.
//
//   bench_first_calls [PROCESSES]      a table of medians, in milliseconds
//   bench_first_calls --one NAME       one in this process: milliseconds of its inputs, of it, and of a later call
//                                      (SINTER_TRACE=FILE shows its parts)
#include <sinter/sinter.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#ifdef SINTER_CUDA
using namespace sinter;

namespace {

double milliseconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  cuda::synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// What a process spends until it has a context and its inputs, in a first call, and in one when all is there.
struct Times {
  double inputs = 0, first = 0, later = 0;
};

const Device gpu = Device::cuda(0);

Tensor noise(const Shape& shape, DType dtype, double deviation = 1) {
  const Tensor x = Tensor(randn(shape, {.device = gpu}) * deviation).to(dtype);
  eval(x);
  return x;
}

template <class F, class... Args>
Times times_of(double inputs, F& function, const Args&... arguments) {
  std::vector<Tensor> kept;
  Times times{inputs, milliseconds_of([&] { kept.push_back(function(arguments...)); }), 0};
  std::vector<double> later;
  for (int i = 0; i < 5; ++i) later.push_back(milliseconds_of([&] { kept = {function(arguments...)}; }));
  std::nth_element(later.begin(), later.begin() + 2, later.end());
  times.later = later[2];
  return times;
}

// ---- GPT-2 124M -----------------------------------------------------------------------------------------------------

struct Block {
  Tensor norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias;
  SINTER_FIELDS(norm_1, shift_1, qkv, qkv_bias, out, out_bias, norm_2, shift_2, up, up_bias, down, down_bias)
};
struct Gpt {
  Tensor tokens, positions;
  std::vector<Block> blocks;
  Tensor norm, shift;
  SINTER_FIELDS(tokens, positions, blocks, norm, shift)
};
constexpr std::int64_t features = 768, heads = 12, layers = 12, context = 1024, vocabulary = 50257, sequences = 4;

Gpt make_gpt(DType dtype) {
  constexpr std::int64_t d = features;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) { return noise({rows, columns}, dtype, 0.02); };
  const auto vector = [&](std::int64_t length) { return noise({length}, dtype); };
  Gpt model{matrix(vocabulary, d), matrix(context, d), {}, vector(d), vector(d)};
  for (std::int64_t i = 0; i < layers; ++i)
    model.blocks.push_back({vector(d), vector(d), matrix(d, 3 * d), vector(3 * d), matrix(d, d), vector(d), vector(d),
                            vector(d), matrix(d, 4 * d), vector(4 * d), matrix(4 * d, d), vector(d)});
  return model;
}

Tensor logits_of(const Tensor& tokens, const Gpt& model) {
  constexpr std::int64_t d = features, rows = sequences * context;
  const auto normalised = [&](const Tensor& x, const Tensor& gain, const Tensor& shift) {
    return layer_norm(x, {d}, gain, shift);
  };
  const auto of_heads = [&](const Tensor& y) {
    return transpose(reshape(y, {sequences, context, heads, d / heads}), 1, 2);
  };
  Tensor x = reshape(embedding(tokens, model.tokens) + model.positions, {rows, d});
  for (const Block& block : model.blocks) {
    auto [q, k, v] = split<3>(matmul(normalised(x, block.norm_1, block.shift_1), block.qkv) + block.qkv_bias, 1);
    const Tensor attended = scaled_dot_product_attention(of_heads(q), of_heads(k), of_heads(v), {.causal = true});
    x = x + matmul(reshape(transpose(attended, 1, 2), {rows, d}), block.out) + block.out_bias;
    const Tensor hidden = gelu(matmul(normalised(x, block.norm_2, block.shift_2), block.up) + block.up_bias);
    x = x + matmul(hidden, block.down) + block.down_bias;
  }
  return matmul(normalised(x, model.norm, model.shift), transpose(model.tokens, 0, 1));
}

Times gpt(DType dtype, MatmulPrecision precision) {
  Gpt model;
  Tensor tokens;
  const double inputs = milliseconds_of([&] {
    model = make_gpt(dtype);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < sequences * context; ++i) numbers.push_back(i * 7919 % vocabulary);
    tokens = copy_of(numbers, {sequences, context}).to(gpu);
  });
  auto forward = jit::compile(logits_of, {.matmul_precision = precision});
  return times_of(inputs, forward, tokens, model);
}

// ---- products of a new shape, after one of another shape ------------------------------------------------------------

struct Extents {
  std::int64_t rows, depth, columns;
};

Times linear(const Extents& other, const Extents& shape, DType dtype, MatmulPrecision precision) {
  const auto layer = [](Tensor x, Tensor w, Tensor b) { return Tensor(gelu(matmul(x, w) + b)); };
  const auto tensors_of = [&](const Extents& e) {
    return std::array{noise({e.rows, e.depth}, dtype), noise({e.depth, e.columns}, dtype, 0.02),
                      noise({e.columns}, dtype)};
  };
  std::array<Tensor, 3> in;
  const double inputs = milliseconds_of([&] {
    const auto [x, w, b] = tensors_of(other);
    auto earlier = jit::compile(layer, {.matmul_precision = precision});
    eval(earlier(x, w, b));
    in = tensors_of(shape);
  });
  auto later = jit::compile(layer, {.matmul_precision = precision});
  return times_of(inputs, later, in[0], in[1], in[2]);
}

struct FirstCall {
  const char* name;
  Times (*times)();
};
constexpr Extents square{2048, 2048, 2048};
constexpr FirstCall first_calls[] = {
    {"GPT-2 forward, bf16", [] { return gpt(DType::bf16, MatmulPrecision::f32); }},
    {"GPT-2 forward, TF32", [] { return gpt(DType::f32, MatmulPrecision::tf32); }},
    {"GPT-2 forward, f32", [] { return gpt(DType::f32, MatmulPrecision::f32); }},
    {"linear+gelu of a new shape, bf16",
     [] { return linear(square, {3072, 1024, 4096}, DType::bf16, MatmulPrecision::f32); }},
    {"linear+gelu of a new shape, TF32",
     [] { return linear(square, {3072, 1024, 4096}, DType::f32, MatmulPrecision::tf32); }},
    {"linear+gelu of a new small shape, bf16",
     [] { return linear(square, {512, 512, 1024}, DType::bf16, MatmulPrecision::f32); }},
    {"linear+gelu of a new shape of the same class, bf16",
     [] { return linear(square, {1920, 2048, 2048}, DType::bf16, MatmulPrecision::f32); }},
};

// ---- processes ------------------------------------------------------------------------------------------------------

/// What another process of this program measures; it keeps code and choices in `cache`. Nothing: it failed.
std::vector<Times> times_of_process(const std::string& name, const std::string& cache) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "SINTER_CACHE_DIR='" + cache + "' '" + program + "' --one '" + name + "'";
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return {};
  Times times;
  const bool is_read = std::fscanf(output, "%lf %lf %lf", &times.inputs, &times.first, &times.later) == 3;
  return pclose(output) == 0 && is_read ? std::vector<Times>{times} : std::vector<Times>{};
}

void print_rows(const FirstCall& first, int processes) {
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / ("sinter_first_calls_" + std::to_string(getpid()));
  for (const bool is_cold : {true, false}) {
    std::vector<Times> all;
    for (int i = 0; i < processes; ++i) {
      if (is_cold) std::filesystem::remove_all(cache);
      for (const Times& times : times_of_process(first.name, cache.string())) all.push_back(times);
    }
    std::sort(all.begin(), all.end(), [](const Times& a, const Times& b) { return a.first < b.first; });
    if (all.empty()) {
      std::printf("%s: the process failed\n", first.name);
      continue;
    }
    const Times& middle = all[all.size() / 2];
    std::printf("%-52s %-9s %8.1f (%.1f to %.1f), inputs %.0f, later %.2f\n", first.name,
                is_cold ? "cold" : "from disk", middle.first, all.front().first, all.back().first, middle.inputs,
                middle.later);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(cache);
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::is_available()) {
    std::fprintf(stderr, "no GPU, so no rows: %s\n", cuda::why_unavailable().c_str());
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--one") {
    for (const FirstCall& first : first_calls) {
      if (std::string_view(first.name) != argv[2]) continue;
      const Times times = first.times();
      std::printf("%.3f %.3f %.3f\n", times.inputs, times.first, times.later);
      return 0;
    }
    std::fprintf(stderr, "no first call is named %s\n", argv[2]);
    return 2;
  }
  const int processes = argc > 1 ? std::atoi(argv[1]) : 5;
  for (const FirstCall& first : first_calls) print_rows(first, processes);
}
#else
#include <cstdio>
int main() { std::fprintf(stderr, "no rows: built without the CUDA back end\n"); }
#endif
