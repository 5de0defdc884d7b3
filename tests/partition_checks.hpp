// What the tests of partitioned functions share: numbers, parts of Tensors, and what the ranks of a mesh throw.
#pragma once

#include <sinter/dist.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace partition_checks {
using namespace sinter;
using List = std::vector<Tensor>;

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("rank " + std::to_string(dist::rank()) + ": " + what);
}
/// What the ranks of a mesh throw, or "".
inline std::string problem_on(const dist::Mesh& mesh, const std::function<void(dist::World)>& fn) {
  try {
    dist::run({.engine = dist::EngineKind::threads, .timeout = std::chrono::seconds(5), .mesh = mesh}, fn);
  } catch (const std::exception& error) { return error.what(); }
  return "";
}
/// Numbers without a pattern, in (-1, 1) and away from 0.
inline Tensor numbers(const Shape& shape, double seed) {
  const Tensor wave = sin(arange(shape.numel(), {.dtype = DType::f64}) * 1.7 + seed);
  return cast(reshape(wave + 0.01, shape), DType::f32);
}
inline bool is_near(const Tensor& a, const Tensor& b, double rtol = 1e-4) {
  if (a.dtype() == DType::bool_ || a.dtype() == DType::i64) return static_cast<bool>(array_equal(a, b));
  return static_cast<bool>(allclose(a, b, {.rtol = rtol, .atol = 0.1 * rtol, .equal_nan = true}));
}

inline Tensor part_of(Tensor x, const dist::Layout& layout) {
  for (const dist::Placement& placement : layout.placements) x = dist::shard(x, placement);
  return x;
}
inline Tensor whole_of(Tensor x, const dist::Layout& layout) {
  for (auto placement = layout.placements.rbegin(); placement != layout.placements.rend(); ++placement)
    x = dist::replicate(x, *placement);
  return x;
}
inline std::string text_of(const dist::Layout& layout) {
  std::string text = "{";
  for (const dist::Placement& p : layout.placements) text += std::to_string(p.axis) + ":" + p.over.names[0] + " ";
  return text + "}";
}

inline std::vector<std::string> kinds_of(const dist::PartitionReport& report) {
  std::vector<std::string> kinds;
  for (const auto& collective : report.collectives)
    kinds.push_back(collective.text.substr(0, collective.text.find(" of ")) +
                    collective.text.substr(collective.text.rfind(" over ")));
  return kinds;
}
using Kinds = std::vector<std::string>;
}  // namespace partition_checks
