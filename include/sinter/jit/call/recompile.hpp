// What made a function compile again: the guards that failed, counted, and the remedy for each kind. Also what a
// function has seen without compiling, so that its first compilation knows what changes. Must not know entries or
// plans.
#pragma once

#include <sinter/jit/call/guards.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What the caller can do so that this guard does not fail again.
std::string remedy(GuardKind broken);
/// "guard 'extent' failed: extent of axis 0 of argument 0: expected 4, got 5".
std::string failure_text(const Guard& broken);

/// Of one function, under its lock.
class MissHistory {
 public:
  void add(const Guard& broken);
  /// True once: the limit is to be reported.
  bool report_once() { return !std::exchange(is_reported_, true); }
  /// Which guard failed most, and the remedy.
  std::string text(std::int64_t limit) const;
  /// Each failure once, with how often it came.
  const std::vector<RecompileReason>& reasons() const { return reasons_; }

  /// The arguments of a call that ran uncompiled (Stance::eager_then_compile).
  void remember(std::span<const ArgLeaf> args);
  bool has_seen() const { return has_seen_; }
  /// Sets the bits of specs_of() for what differs from the remembered call.
  void mark_changed(std::span<const ArgLeaf> args, std::span<std::uint32_t> symbolic) const;

 private:
  static constexpr std::size_t max_kept = 256;
  std::vector<Guard> broken_;
  std::vector<RecompileReason> reasons_;
  std::vector<LeafSpec> seen_;
  bool has_seen_ = false, is_reported_ = false;
};

}  // namespace jit
SINTER_NAMESPACE_END
