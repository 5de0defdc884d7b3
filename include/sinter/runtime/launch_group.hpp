// Launches of the CPU that need nothing of each other, run as one: their tasks are cut into pieces of about equal cost,
// which the threads share in one parallel loop. Knows launches; no plans, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

class CpuGroup final : public LaunchGroup {
 public:
  /// The launches outlive the group.
  explicit CpuGroup(std::vector<Launch*> launches);
  /// Whether one parallel loop for all beats one for each: there is enough work for threads, and two share it.
  bool pays() const;
  void run(std::span<void* const* const> operands) override;
  /// As run(). Shows each piece in the timeline under the name of its launch, and adds the nanoseconds that each launch
  /// took to `spent`, those of all threads together.
  void run_watched(std::span<void* const* const> operands, std::span<const std::string_view> names,
                   std::span<std::int64_t> spent);
  /// After run() has thrown a GatherError: the launch that it is of.
  std::size_t failed() const { return current_; }

 private:
  struct Piece {
    std::uint32_t launch = 0;
    std::int64_t begin = 0, end = 0;  // tasks
  };
  /// begin_tasks() of all, then pieces by `run_piece` on several threads, then end_tasks() of all.
  template <class RunWhole, class RunPiece>
  void run_with(std::span<void* const* const> operands, const RunWhole& run_whole, const RunPiece& run_piece);
  void cut(const std::vector<LaunchWork>& work);

  std::vector<Launch*> launches_;
  std::vector<std::uint32_t> whole_, divided_;  // numbers of launches
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> bundles_;  // number of the first piece of each, and of the end
  double nanoseconds_ = 0;              // of all pieces
  std::size_t current_ = 0;
};

SINTER_NAMESPACE_END
