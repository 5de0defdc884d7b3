// Rows of compiled functions: their arguments, and the comparison with a peer.
#pragma once

#include "comparison.hpp"

#include <sinter/sinter.hpp>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Compiles `f` with nothing cached, compares one call with one of the peer, and lets them alternate. The counter
/// compile_ms is the compilation from trace to code.
template <class F, class Call, class... A>
void compare(benchmark::State& state, const Peer& peer, F f, Call&& peer_call, const A&... args) {
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
