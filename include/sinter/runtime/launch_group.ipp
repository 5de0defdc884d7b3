// Cutting and running.
#pragma once

#include <sinter/runtime/launch_group.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL CpuGroup::CpuGroup(std::vector<Launch*> launches) : launches_(std::move(launches)) {
  std::vector<LaunchWork> work;
  for (Launch* const launch : launches_) work.push_back(launch->work());
  for (std::uint32_t i = 0; i < launches_.size(); ++i) {
    (work[i].tasks > 0 ? divided_ : whole_).push_back(i);
    if (work[i].tasks > 0) nanoseconds_ += work[i].nanoseconds;
  }
  cut(work);
}

/// A launch that takes longer than a bundle is cut at its tasks; launches that take less share a bundle.
SINTER_DECL void CpuGroup::cut(const std::vector<LaunchWork>& work) {
  constexpr double least_nanoseconds = 4'000, most_bundles = 2048;
  const double wanted = std::max(least_nanoseconds, nanoseconds_ / most_bundles);
  double in_bundle = 0;
  const auto close = [&] {
    bundles_.push_back(static_cast<std::uint32_t>(pieces_.size()));
    in_bundle = 0;
  };
  bundles_.push_back(0);
  for (const std::uint32_t i : divided_) {
    const double each = work[i].nanoseconds / static_cast<double>(work[i].tasks);
    for (std::int64_t begin = 0; begin < work[i].tasks;) {
      const double room = each > 0 ? (wanted - in_bundle) / each : static_cast<double>(work[i].tasks);
      const auto fits = static_cast<std::int64_t>(std::min(room, static_cast<double>(work[i].tasks)));
      const std::int64_t end = std::min(work[i].tasks, begin + std::max<std::int64_t>(1, fits));
      pieces_.push_back({i, begin, end});
      in_bundle += each * static_cast<double>(end - begin);
      begin = end;
      if (in_bundle >= wanted || in_bundle + each > wanted) close();
    }
  }
  if (bundles_.back() != pieces_.size()) close();
}

SINTER_DECL bool CpuGroup::pays() const { return divided_.size() >= 2 && nanoseconds_ >= serial_nanoseconds; }

template <class RunWhole, class RunPiece>
void CpuGroup::run_with(std::span<void* const* const> operands, const RunWhole& run_whole, const RunPiece& run_piece) {
  for (const std::uint32_t i : whole_) {
    current_ = i;
    if (operands[i] != nullptr) run_whole(i);
  }
  for (const std::uint32_t i : divided_)
    if (operands[i] != nullptr) launches_[i]->begin_tasks(operands[i]);
  const auto bundles = static_cast<std::int64_t>(bundles_.size()) - 1;
  // Whoever throws, each launch ends what it has begun: the next run finds no error of this one.
  std::exception_ptr first;
  const auto keep_first = [&](std::size_t launch, const auto& work) {
    try {
      work();
    } catch (...) {
      if (first != nullptr) return;
      first = std::current_exception();
      current_ = launch;
    }
  };
  if (bundles > 0)
    keep_first(divided_.front(), [&] {
      parallel_for(bundles, nanoseconds_ / static_cast<double>(bundles), [&](std::int64_t begin, std::int64_t end) {
        for (std::uint32_t p = bundles_[as_index(begin)]; p < bundles_[as_index(end)]; ++p)
          if (operands[pieces_[p].launch] != nullptr) run_piece(pieces_[p]);
      });
    });
  for (const std::uint32_t i : divided_)
    if (operands[i] != nullptr) keep_first(i, [&] { launches_[i]->end_tasks(); });
  if (SINTER_UNLIKELY(first != nullptr)) std::rethrow_exception(std::move(first));
}

SINTER_DECL void CpuGroup::run(std::span<void* const* const> operands) {
  run_with(
      operands, [&](std::uint32_t i) { launches_[i]->run(operands[i]); },
      [&](const Piece& piece) { launches_[piece.launch]->run_tasks(piece.begin, piece.end); });
}

SINTER_DECL void CpuGroup::run_watched(std::span<void* const* const> operands, std::span<const std::string_view> names,
                                       std::span<std::int64_t> spent) {
  const auto timed = [&](std::uint32_t i, const JsonFields& fields, const auto& work) {
    const std::int64_t begin = timeline_now();
    work();
    const std::int64_t end = timeline_now();
    std::atomic_ref(spent[i]).fetch_add(end - begin, std::memory_order_relaxed);
    timeline::complete("chunk", names[i], begin, end, fields);
  };
  run_with(
      operands, [&](std::uint32_t i) { timed(i, JsonFields(), [&] { launches_[i]->run(operands[i]); }); },
      [&](const Piece& piece) {
        JsonFields fields;
        fields.add("begin", static_cast<long long>(piece.begin)).add("end", static_cast<long long>(piece.end));
        timed(piece.launch, fields, [&] { launches_[piece.launch]->run_tasks(piece.begin, piece.end); });
      });
}

SINTER_NAMESPACE_END
