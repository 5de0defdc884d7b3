// The transformer on request, for transformer/compare.py, which lets it and its peers take turns.
//
//   bench_transformer_turns cpu THREADS     the small one
//   bench_transformer_turns gpu f32|tf32    GPT-2
//
// A line `forward N` or `step N` on standard input runs one call and then N; the answer is milliseconds a call.
// `loss 1` answers with the loss that the next training step begins with.
#include "transformer/model.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>

using namespace bench::transformer;

namespace {

double milliseconds_of(const std::function<void()>& call, int calls, const Device& device) {
  const auto wait = [&] {
#ifdef SINTER_CUDA
    if (device != Device::cpu()) cuda::synchronize();
#endif
  };
  call();
  wait();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  wait();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / calls;
}

int answer_requests(const Extents& extents, const Device& device, const jit::Options& options) {
  const Gpt model = make_gpt(extents, device);
  const AdamW optimiser(model);
  const auto [read, wanted] = make_text(extents, device);
  auto step = training_step(extents, model, optimiser, options);
  auto forward = jit::compile([&](Tensor tokens) { return logits_of(extents, model, tokens); }, options);
  float number = 0;
  std::string what;
  int calls = 0;
  while (std::cin >> what >> calls) {
    if (what == "loss") {
      std::cout << to_vector<float>(step(read, wanted, ++number))[0] << std::endl;
    } else if (what == "step") {
      std::cout << milliseconds_of([&] { eval(step(read, wanted, ++number)); }, calls, device) << std::endl;
    } else {
      const jit::NoGradGuard guard;
      std::cout << milliseconds_of([&] { eval(forward(read)); }, calls, device) << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view device = argc == 3 ? argv[1] : "", argument = argc == 3 ? argv[2] : "";
  if (device == "cpu") {
    set_thread_count(std::atoi(argv[2]));
    return answer_requests(small, Device::cpu(), {});
  }
  if (device == "gpu" && (argument == "f32" || argument == "tf32")) {
    const MatmulPrecision precision = argument == "tf32" ? MatmulPrecision::tf32 : MatmulPrecision::f32;
    return answer_requests(gpt2, Device::cuda(0), {.matmul_precision = precision});
  }
  std::fputs("usage: bench_transformer_turns cpu THREADS | gpu f32|tf32\n", stderr);
  return 2;
}
