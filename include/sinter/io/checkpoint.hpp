// Checkpoints of training: all that a run needs to go on with the same bits, in one file for each number, written
// atomically, the oldest removed.
#pragma once

#include <sinter/io/state.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io {

struct CheckpointOptions {
  int keep = 3;                                // how many of the highest steps stay; 0: all
  std::map<std::string, std::string> notes{};  // anything else: the position in the data, the learning rate
  bool background = false;                     // true: written by another thread, while the run goes on
};

/// A checkpoint that was found.
struct Checkpoint {
  std::int64_t step = 0;
  std::string path{};
  std::map<std::string, std::string> notes{};
};

namespace io_detail {
// Without the type of the state, so that users' files are spared maps of Tensors.
std::string save_state(const std::string& folder, std::int64_t step, tree::View state, const CheckpointOptions& options,
                       Location where);
std::optional<Checkpoint> load_state(const std::string& folder, tree::View shown, tree::Part state,
                                     const std::int64_t* step, Location where);
}  // namespace io_detail

/// Writes `folder`/checkpoint_0000000STEP.safetensors and gives its path: all Tensors and Variables of `state` (the
/// model and the optimiser, say, in one struct), this thread's generator of random numbers, the step and the notes. The
/// folder is made, and belongs to one run at a time. A run that is killed at any moment leaves whole checkpoints only.
/// In the background, what is written is the state at the call, whatever becomes of it meanwhile: values that are
/// replaced stay in memory until they are on the disk, memory of others (from_blob) is copied. One checkpoint at a time
/// is written, of whatever thread and folder: another call waits for it. What fails in the background is thrown by the
/// next call of save_checkpoint(), which then writes nothing, load_checkpoint() or wait_for_checkpoints(). A program
/// that ends by exit() or from main() writes them first, but is not told what failed: call wait_for_checkpoints().
template <class State>
std::string save_checkpoint(const std::string& folder, std::int64_t step, const State& state,
                            const CheckpointOptions& options = {}, Location where = std::source_location::current()) {
  return io_detail::save_state(folder, step, tree::view_of(state), options, where);
}

/// Returns when all that this process saves in the background is written. Throws what failed.
void wait_for_checkpoints(Location where = std::source_location::current());

/// The numbers of the checkpoints in a folder, ascending; none where there is no such folder.
std::vector<std::int64_t> list_checkpoints(const std::string& folder);

/// Puts the newest checkpoint of the folder (or that of `step`) back into `state` and this thread's generator. Nothing
/// where there is none; throws what load_state_dict() throws where it does not fit.
template <class State>
std::optional<Checkpoint> load_checkpoint(const std::string& folder, State& state,
                                          std::optional<std::int64_t> step = {},
                                          Location where = std::source_location::current()) {
  return io_detail::load_state(folder, tree::view_of(state), tree::part_of(state), step ? &*step : nullptr, where);
}

}  // namespace io
SINTER_NAMESPACE_END
