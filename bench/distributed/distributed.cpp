// Data parallel training of a GPT-2 on one and on several GPUs of this machine, and all_reduce against plain calls of
// NCCL in the same process. run.sh calls it beside PyTorch and makes one table of both; on a machine without GPUs the
// ranks are threads, for which `check` and `train --tiny` are small enough.
//
//   bench_distributed check [RANKS]                  losses on 1 and on 2 ranks, which must be equal to rounding
//   bench_distributed losses                         the same training on the ranks that a launcher started, or threads
//   bench_distributed train [OPTION...]              tokens per second, one line for each number of ranks
//     --ranks 1,2  --precision tf32  --batch 8  --steps 20  --tiny  --graphs  --trace FILE (a timeline of three more
//     steps); --graphs: steps as CUDA graphs, with the collectives inside
//   bench_distributed all_reduce [RANKS]             256 MB
#include "../transformer/model.hpp"

#include <sinter/dist.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

bool has_gpus() {
#ifdef SINTER_CUDA
  return cuda::device_count() > 0;
#else
  return false;
#endif
}
dist::RunOptions options_for(int ranks) {
  return {.ranks = ranks,
          .engine = has_gpus() ? dist::EngineKind::nccl : dist::EngineKind::threads,
          .timeout = std::chrono::seconds(120)};
}
void wait_for_device() {
#ifdef SINTER_CUDA
  if (has_gpus()) cuda::synchronize(dist::device());
#endif
}
double seconds_of(const std::function<void()>& call) {
  wait_for_device();
  const auto start = std::chrono::steady_clock::now();
  call();
  wait_for_device();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// ---- the model ------------------------------------------------------------------------------------------------------

struct Size {
  int layers = 12, heads = 12, features = 768, vocabulary = 50257, context = 1024;
};
constexpr Size tiny{2, 2, 32, 64, 16};

using bench::transformer::Block, bench::transformer::Gpt;

/// As Radford et al. 2019: normal weights of deviation 0.02, those into the residual stream scaled by its length.
Gpt make_gpt(const Size& size) {
  manual_seed(1);
  const TensorOptions on{.dtype = DType::f32, .device = dist::device()};
  const auto normal = [&](int rows, int columns, double deviation = 0.02) {
    return Variable(randn({rows, columns}, on) * deviation);
  };
  const auto vector = [&](int length, double value) { return Variable(full({length}, value, on)); };
  const int d = size.features;
  const double residual = 0.02 / std::sqrt(2.0 * size.layers);
  Gpt model{normal(size.vocabulary, d), normal(size.context, d, 0.01), {}, vector(d, 1), vector(d, 0)};
  for (int i = 0; i < size.layers; ++i)
    model.blocks.push_back({vector(d, 1), vector(d, 0), normal(d, 3 * d), vector(3 * d, 0), normal(d, d, residual),
                            vector(d, 0), vector(d, 1), vector(d, 0), normal(d, 4 * d), vector(4 * d, 0),
                            normal(4 * d, d, residual), vector(d, 0)});
  jit::requires_grad(model);
  return model;
}

/// The mean cross entropy of `targets` after `tokens`, both [batch, context].
Tensor loss_of(const Gpt& model, const Size& size, const Tensor& tokens, const Tensor& targets) {
  const Dim batch = tokens.size(0);
  const int d = size.features, context = size.context;
  const auto normalised = [&](const Tensor& x, const Variable& weight, const Variable& bias) {
    return layer_norm(x, {d}, weight, bias);
  };
  const auto of_heads = [&](const Tensor& y) {
    return transpose(reshape(y, {batch, context, size.heads, d / size.heads}), 1, 2);
  };
  Tensor x = reshape(embedding(tokens, model.tokens) + model.positions, {batch * context, d});
  for (const Block& block : model.blocks) {
    auto [q, k, v] = split<3>(matmul(normalised(x, block.norm_1, block.shift_1), block.qkv) + block.qkv_bias, 1);
    const Tensor attended = scaled_dot_product_attention(of_heads(q), of_heads(k), of_heads(v), {.causal = true});
    x = x + matmul(reshape(transpose(attended, 1, 2), {batch * context, d}), block.out) + block.out_bias;
    const Tensor hidden = gelu(matmul(normalised(x, block.norm_2, block.shift_2), block.up) + block.up_bias);
    x = x + matmul(hidden, block.down) + block.down_bias;
  }
  const Tensor logits = matmul(normalised(x, model.norm, model.shift), transpose(model.tokens, 0, 1));
  return cross_entropy(logits, reshape(targets, {batch * context}));
}

/// AdamW (Loshchilov and Hutter 2019). The parameters whose gradients come first are the last ones: they go first.
class AdamW {
 public:
  explicit AdamW(std::vector<jit::Parameter> parameters) : parameters_(std::move(parameters)) {
    for (const jit::Parameter& parameter : parameters_) {
      means_.emplace_back(zeros_like(parameter.variable.value()));
      squares_.emplace_back(zeros_like(parameter.variable.value()));
    }
  }
  void step(const Scalar& number) const {
    const jit::NoGradGuard guard;
    const Scalar first = 1 - exp(number * std::log(0.9)), second = 1 - exp(number * std::log(0.95));
    for (std::size_t i = parameters_.size(); i-- > 0;) {
      const Variable& w = parameters_[i].variable;
      const Tensor g = w.grad();
      means_[i] = 0.9f * means_[i] + 0.1f * g;
      squares_[i] = 0.95f * squares_[i] + 0.05f * square(g);
      w = w * (1 - rate * 0.1f) - rate * (means_[i] / first) / (sqrt(squares_[i] / second) + 1e-8f);
    }
  }

 private:
  static constexpr float rate = 3e-4f;
  std::vector<jit::Parameter> parameters_;
  std::vector<Variable> means_, squares_;
};

/// Numbers without a pattern, the same on every rank: [rows, context + 1].
Tensor make_text(int rows, const Size& size) {
  std::vector<std::int64_t> tokens;
  std::uint32_t state = 12345;
  for (int i = 0; i < rows * (size.context + 1); ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<std::int64_t>((state >> 8) % static_cast<std::uint32_t>(size.vocabulary)));
  }
  return copy_of(tokens, {rows, size.context + 1}).to(dist::device());
}

struct Training {
  Size size{};
  int batch = 8;  // of a rank
  int steps = 20;
  MatmulPrecision precision = MatmulPrecision::tf32;
  std::string trace{};
  bool has_graphs = false;
};
struct Trained {
  std::vector<double> losses;   // of all ranks together, one for each step
  std::vector<double> seconds;  // of a step, one for each round
};

/// Trains on this rank's part of the text: its first rows are rank 0's. One rank alone trains as a program of one GPU
/// does, without anything that several need.
Trained train(const Training& training, dist::World world) {
  const Size& size = training.size;
  const Gpt model = make_gpt(size);
  const auto parallel = dist::data_parallel(model);
  const AdamW optimiser(parallel.parameters());
  const bool is_alone = world.size() == 1;
  const auto step = jit::compile(
      [&](Tensor tokens, Tensor targets, Scalar number) {
        jit::zero_grad(model);
        Tensor loss = loss_of(model, size, tokens, targets);
        if (is_alone) loss.backward();
        else loss = parallel.backward(loss);
        optimiser.step(number);
        return jit::detach(loss);
      },
      {.mode = training.has_graphs ? jit::Mode::reduce_overhead : jit::Mode::default_,
       .matmul_precision = training.precision});
  const Tensor text = dist::shard(make_text(training.batch * world.size(), size), {0});
  const Tensor tokens = text(all, slice(0, size.context)) + 0, targets = text(all, slice(1, size.context + 1)) + 0;
  Trained trained;
  int number = 0;
  const auto run = [&](int steps) {
    Tensor loss;
    for (int i = 0; i < steps; ++i) loss = step(tokens, targets, static_cast<float>(++number));
    return loss;
  };
  for (int i = 0; i < 4; ++i) trained.losses.push_back(static_cast<double>(item<float>(run(1))));
  for (int round = 0; round < 3 && training.steps > 0; ++round) {
    dist::barrier();
    Tensor loss;
    const double seconds = seconds_of([&] { loss = run(training.steps); }) / training.steps;
    const Tensor slowest =
        dist::all_reduce(full({}, seconds, {.dtype = DType::f64, .device = Device::cpu()}), dist::Reduce::maximum);
    trained.seconds.push_back(item<double>(slowest));
    trained.losses.push_back(static_cast<double>(item<float>(loss)));
  }
  if (!training.trace.empty()) {
    dist::barrier();
    if (world.rank() == 0) jit::start_trace(training.trace);
    dist::barrier();
    item<float>(run(3));
    dist::barrier();
    if (world.rank() == 0) jit::stop_trace();
    dist::barrier();
  }
  return trained;
}

Trained train_on(int ranks, const Training& training) {
  Trained result;
  dist::run(options_for(ranks), [&](dist::World world) {
    const Trained own = train(training, world);
    if (world.rank() == 0) result = own;
  });
  return result;
}

// ---- programs -------------------------------------------------------------------------------------------------------

/// The same batch on one rank and divided over several. Gradients are added in another order, and AdamW divides by
/// their size: losses are equal to a few roundings at first, and drift apart slowly.
Training small_training(int ranks) {
  if (8 % ranks != 0)
    throw std::runtime_error("the losses are of 8 sequences: 1, 2, 4 or 8 ranks, not " + std::to_string(ranks));
  Training training{.size = {3, 4, 64, 96, 32}, .batch = 8 / ranks, .steps = 0, .precision = MatmulPrecision::f32};
  return training;
}
int check(int ranks) {
  const std::vector<double> several = train_on(ranks, small_training(ranks)).losses;
  const std::vector<double> one = train_on(1, small_training(1)).losses;
  double difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference = std::max(difference, std::abs(one[i] / several[i] - 1));
  const bool learns = one.back() < one.front();
  std::printf("check: losses %.6f to %.6f, %d ranks against 1: relative difference %.1e %s\n", one.front(), one.back(),
              ranks, difference, difference < 2e-5 && learns ? "ok" : "WRONG");
  return difference < 2e-5 && learns ? 0 : 1;
}
/// One process of several, or threads: `run.sh` compares what they print.
int losses_program(int threads) {
  dist::RunOptions options = options_for(threads);
  if (dist::launched().size > 1) options.ranks = 0;
  if (!has_gpus() && dist::launched().size > 1) options.engine = dist::EngineKind::automatic;
  dist::run(options, [&](dist::World world) {
    const Trained trained = train(small_training(world.size()), world);
    if (world.rank() != 0) return;
    std::printf("losses on %d ranks:", world.size());
    for (const double loss : trained.losses) std::printf(" %.7f", loss);
    std::printf("\n");
  });
  return 0;
}

/// A whole number from 1 on, alone in its text; otherwise 0.
int positive(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? number : 0;
}
/// "1,2"; empty where a part is no number.
std::vector<int> positive_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream parts(text + ',');
  for (std::string part; std::getline(parts, part, ',');) {
    if (positive(part) == 0) return {};
    numbers.push_back(positive(part));
  }
  return numbers;
}

int train_program(const std::vector<std::string>& arguments) {
  Training training;
  std::vector<int> ranks{1, 2};
  std::string precision = "tf32";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--tiny") {
      training.size = tiny;
      continue;
    }
    if (name == "--graphs") {
      training.has_graphs = true;
      setenv("SINTER_DIST_GRAPHS", "1", 1);
      continue;
    }
    if (i + 1 == arguments.size()) {
      std::fprintf(stderr, "bench_distributed: no value for %s\n", name.c_str());
      return 2;
    }
    const std::string& value = arguments[++i];
    bool is_right = true;
    if (name == "--ranks") {
      ranks = positive_list(value);
      is_right = !ranks.empty();
    } else if (name == "--precision") {
      precision = value;
      training.precision = value == "f32" ? MatmulPrecision::f32 : MatmulPrecision::tf32;
      is_right = value == "f32" || value == "tf32";
    } else if (name == "--batch") {
      training.batch = positive(value);
      is_right = training.batch > 0;
    } else if (name == "--steps") {
      training.steps = positive(value);
      is_right = training.steps > 0;
    } else if (name == "--trace") {
      training.trace = value;
    } else {
      std::fprintf(stderr, "bench_distributed: unknown option %s\n", name.c_str());
      return 2;
    }
    if (!is_right) {
      std::fprintf(stderr, "bench_distributed: %s does not take %s\n", name.c_str(), value.c_str());
      return 2;
    }
  }
  double alone = 0;
  for (const int n : ranks) {
    Training own = training;
    if (n == 1) own.trace.clear();
    const auto start = std::chrono::steady_clock::now();
    const Trained trained = train_on(n, own);
    const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double seconds = median(trained.seconds), tokens = n * training.batch * training.size.context / seconds;
    if (n == 1) alone = tokens;
    std::printf("sinter %s%s %d: %.0f tokens/s, %.2f ms a step (%.2f to %.2f), efficiency %.4f, %.0f s in all, losses",
                precision.c_str(), training.has_graphs ? "_graphs" : "", n, tokens, seconds * 1e3,
                *std::min_element(trained.seconds.begin(), trained.seconds.end()) * 1e3,
                *std::max_element(trained.seconds.begin(), trained.seconds.end()) * 1e3,
                alone > 0 ? tokens / (n * alone) : 0.0, whole);
    for (const double loss : trained.losses) std::printf(" %.5f", loss);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

/// Plain calls of NCCL, without anything of ours in between.
struct PlainNccl {
  struct Id {
    std::array<char, 128> bytes;
  };
  int (*get_unique_id)(Id*) = nullptr;
  int (*comm_init_rank)(void**, int, Id, int) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*get_version)(int*) = nullptr;
  bool open() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(get_unique_id, "ncclGetUniqueId") && find(comm_init_rank, "ncclCommInitRank") &&
           find(all_reduce, "ncclAllReduce") && find(get_version, "ncclGetVersion");
  }
};

/// Rounds of ours and of plain calls take turns.
int all_reduce_program(int ranks) {
  PlainNccl nccl;
  if (!has_gpus() || !nccl.open()) {
    std::printf("all_reduce: skipped, it needs GPUs and NCCL\n");
    return 0;
  }
  PlainNccl::Id id{};
  nccl.get_unique_id(&id);
  int version = 0;
  nccl.get_version(&version);
  bool is_right = true;
  dist::run(options_for(ranks), [&](dist::World world) {
    constexpr std::int64_t elements = 64 << 20;
    constexpr int calls = 20;
    const TensorOptions on{.dtype = DType::f32, .device = dist::device()};
    Tensor x = full({elements}, world.rank() + 1, on), plain_result = zeros({elements}, on);
    eval(x);
    eval(plain_result);
    void* const stream = cuda::Stream::current(dist::device()).native();
    wait_for_device();
    void* comm = nullptr;
    if (nccl.comm_init_rank(&comm, world.size(), id, world.rank()) != 0) throw std::runtime_error("ncclCommInitRank");
    const auto compiled = jit::compile([](Tensor v) { return dist::all_reduce(v); });
    Tensor result;
    const auto ours = [&] {
      for (int i = 0; i < calls; ++i) eval(result = compiled(x));
    };
    const auto plain = [&] {
      for (int i = 0; i < calls; ++i)
        nccl.all_reduce(x.impl()->data(), plain_result.impl()->data(), elements, 7, 0, comm, stream);
    };
    std::vector<double> our_seconds, plain_seconds;
    for (int round = 0; round < 9; ++round) {
      dist::barrier();
      our_seconds.push_back(seconds_of(ours) / calls);
      dist::barrier();
      plain_seconds.push_back(seconds_of(plain) / calls);
    }
    const float sum = static_cast<float>(ranks * (ranks + 1) / 2);
    const bool agrees = item<float>(amin(result)) == sum && item<float>(amax(result)) == sum &&
                        static_cast<bool>(array_equal(result, plain_result));
    if (world.rank() == 0) {
      is_right = agrees;
      const double own = median({our_seconds.begin() + 1, our_seconds.end()}),
                   bare = median({plain_seconds.begin() + 1, plain_seconds.end()});
      std::printf("all_reduce 256 MB on %d: %.3f ms, plain NCCL %d: %.3f ms, share of its rate %.4f, %.1f GB/s %s\n",
                  ranks, own * 1e3, version, bare * 1e3, bare / own, 4e-9 * elements / own, agrees ? "ok" : "WRONG");
    }
    dist::barrier();
  });
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string name = arguments.empty() ? "" : arguments[0];
  try {
    const int ranks = arguments.size() < 2 ? 2 : positive(arguments[1]);
    if (name != "train" && (ranks < 1 || ranks > 8)) {
      std::fprintf(stderr, "bench_distributed %s: from 1 to 8 ranks\n", name.c_str());
      return 2;
    }
    if (name == "check") return check(ranks);
    if (name == "losses") return losses_program(ranks);
    if (name == "train") return train_program({arguments.begin() + 1, arguments.end()});
    if (name == "all_reduce") return all_reduce_program(ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_distributed %s: %s\n", name.c_str(), error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: bench_distributed check [RANKS] | losses [RANKS] | train [OPTION...] | all_reduce [RANKS]\n");
  return 2;
}
