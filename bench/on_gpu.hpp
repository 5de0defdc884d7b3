// Rows on a GPU: their arguments, the comparison with the CPU, and time by events on the device.
#pragma once

#include "compiled.hpp"

#include <functional>
#include <vector>

#ifdef SINTER_CUDA
namespace bench::on_gpu {

using namespace sinter;
using benchmark::State;

inline const Device gpu = Device::cuda(0);
using Extents = std::vector<std::int64_t>;

inline Tensor noise(const Extents& extents, DType dtype = DType::f32) {
  const Tensor x = randn(Shape(extents), {.device = gpu}).to(dtype);
  eval(x);
  return x;
}

/// Whether the GPU and the CPU agree; see bench::agree.
inline bool agree(State& state, const Tensor& on_gpu, const Tensor& on_cpu, double tolerance = 2e-4) {
  return bench::agree(state, to_vector<float>(on_gpu), to_vector<float>(on_cpu), tolerance);
}

// ---- time -----------------------------------------------------------------------------------------------------------

/// Seconds of so many calls, from events on the device around them.
inline double device_seconds(const std::function<void()>& call, int calls) {
  cuda::Event start, end;
  start.record();
  for (int i = 0; i < calls; ++i) call();
  end.record();
  return start.elapsed_ms(end) / 1e3;
}

inline void time_on_device(State& state, const std::function<void()>& call) {
  constexpr int calls = 8;
  for (int i = 0; i < 3; ++i) call();
  cuda::synchronize();
  while (state.KeepRunningBatch(calls)) state.SetIterationTime(device_seconds(call, calls));
}

// ---- tuned beside default (tools/bench --tuned) ---------------------------------------------------------------------

/// `make_call` compiles with the options that it is given, and gives what calls the result. Results have the same bits,
/// unless they are said to change from call to call.
enum class Results : std::uint8_t { are_compared, change };
template <class MakeCall>
void tuned_row(State& state, MakeCall make_call, const jit::Options& options = {},
               Results results = Results::are_compared) {
  run_tuned_row(state, row_name(), [&] {
    const std::function<Tensor()> standard = make_call(options), tuned = make_call(tuned_options(options));
    TunedRow row;
    row.device = "cuda";
    row.standard = [=] { benchmark::DoNotOptimize(standard()); };
    row.tuned = [=] { benchmark::DoNotOptimize(tuned()); };
    row.have_same_results = [=] {
      const Tensor expected = standard(), result = tuned();
      return results == Results::change || item<bool>(all(reshape(result, {-1}) == reshape(expected, {-1})));
    };
    row.seconds_of = [](const std::function<void()>& call, std::int64_t calls) {
      return device_seconds(call, static_cast<int>(calls));
    };
    return row;
  });
}

}  // namespace bench::on_gpu
#endif
