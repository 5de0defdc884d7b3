// Timing that survives a noisy machine: ours and the peer alternate in short slices of the same run, and medians are
// compared. Every comparison checks the results first.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace bench {

inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Seconds of one call, measured over enough calls to last about `slice` seconds.
template <class F>
double time_slice(F&& call, std::size_t calls) {
  double start = now();
  for (std::size_t i = 0; i < calls; ++i) call();
  return (now() - start) / static_cast<double>(calls);
}
template <class F>
std::size_t calls_for(F&& call, double slice = 2e-3) {
  call();
  double one = std::max(time_slice(call, 1), 1e-9);
  return std::max<std::size_t>(1, static_cast<std::size_t>(slice / one));
}

struct Pair {
  double ours, peer;   // seconds per call
};
/// Medians of alternating slices.
template <class Ours, class Peer>
Pair compare(Ours&& ours, Peer&& peer, int slices = 41) {
  std::size_t ours_calls = calls_for(ours), peer_calls = calls_for(peer);
  std::vector<double> a, b;
  for (int i = 0; i < slices; ++i) {
    a.push_back(time_slice(ours, ours_calls));
    b.push_back(time_slice(peer, peer_calls));
  }
  return {median(a), median(b)};
}
template <class F>
double measure(F&& call, int slices = 41) {
  std::size_t calls = calls_for(call);
  std::vector<double> times;
  for (int i = 0; i < slices; ++i) times.push_back(time_slice(call, calls));
  return median(times);
}

/// Ends the program unless the results agree: what is wrong is not timed.
inline void require_close(std::span<const float> ours, std::span<const float> peer, double tolerance, const std::string& name) {
  bool agree = ours.size() == peer.size();
  for (std::size_t i = 0; agree && i < ours.size(); ++i)
    agree = std::abs(ours[i] - peer[i]) <= tolerance * (1 + std::abs(static_cast<double>(peer[i])));
  if (agree) return;
  std::fprintf(stderr, "%s: the results differ from the peer's\n", name.c_str());
  std::exit(1);
}

/// Keeps the optimiser from dropping a result.
template <class T>
void keep(const T& value) { asm volatile("" : : "g"(&value) : "memory"); }

}  // namespace bench
