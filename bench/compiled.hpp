// Rows of compiled functions: their arguments, and the comparison with a peer.
#pragma once

#include "comparison.hpp"
#include "tuned.hpp"

#include <sinter/sinter.hpp>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Before a loop of a peer's whose rounds do not touch what others write.
#ifdef __clang__
#define BENCH_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define BENCH_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace bench {

/// Normal numbers, made once for each shape and `which`, so that arguments of a row are distinct and rows share them.
inline const sinter::Tensor& noise(std::initializer_list<std::int64_t> extents, int which = 0) {
  static std::map<std::pair<std::string, int>, sinter::Tensor> made;
  const auto [entry, is_new] = made.try_emplace({shape_text(extents), which});
  if (!is_new) return entry->second;
  sinter::manual_seed(which);
  entry->second = sinter::randn(sinter::Shape(std::vector<std::int64_t>(extents)));
  sinter::eval(entry->second);
  return entry->second;
}

/// A peer in this process: its name, how close its results are to ours (see `difference`), and where it writes them.
struct Peer {
  const char* name;
  double tolerance;
  std::span<const float> result;
};

/// A tuned function beside the default one; the results must have the same bits.
template <class F, class... A>
void compare_tuned(benchmark::State& state, F f, const A&... args) {
  run_tuned_row(state, row_name(), [&] {
    auto standard = sinter::jit::compile(f);
    auto tuned = sinter::jit::compile(f, tuned_options());
    TunedRow row;
    row.standard = [=]() mutable { benchmark::DoNotOptimize(standard(args...)); };
    row.tuned = [=]() mutable { benchmark::DoNotOptimize(tuned(args...)); };
    row.have_same_results = [=]() mutable {
      const sinter::Tensor expected = standard(args...), result = tuned(args...);
      return difference(result.template data<float>(), expected.template data<float>(), 0).empty();
    };
    row.seconds_of = [](const std::function<void()>& call, std::int64_t calls) { return seconds_of(call, calls); };
    return row;
  });
}

/// Compiles `f` with nothing cached, compares one call with one of the peer, and lets them alternate. The counter
/// compile_ms is the compilation from trace to code.
template <class F, class Call, class... A>
void compare(benchmark::State& state, const Peer& peer, F f, Call&& peer_call, const A&... args) {
  if (is_for_tuned_rows()) return compare_tuned(state, f, args...);
  sinter::jit::reset();
  auto compiled = sinter::jit::compile(f);
  sinter::Tensor result = compiled(args...);
  const double compile_ms = compiled.stats().compile_ms;
  peer_call();
  if (!agree(state, result.template data<float>(), peer.result, peer.tolerance)) return;
  result = sinter::Tensor();  // its memory is for the calls that are timed
  alternate(state, peer.name, [&] { benchmark::DoNotOptimize(compiled(args...)); }, peer_call);
  state.counters["compile_ms"] = compile_ms;
}

}  // namespace bench
