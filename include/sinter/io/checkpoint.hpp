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
std::string save_state(const std::string& folder, std::int64_t step, TensorMap state, const CheckpointOptions& options,
                       Location where);
std::pair<Checkpoint, TensorMap> read_state(const std::string& folder, std::int64_t step, Location where);
/// What a checkpoint says of the generator: taken out of its Tensors and checked; and put into this thread's.
TensorMap take_generator(TensorMap& tensors, const std::string& path, Location where);
void restore_generator(const TensorMap& state);
}  // namespace io_detail

/// Writes `folder`/checkpoint_0000000STEP.safetensors and gives its path: all Tensors and Variables of `state` (the
/// model and the optimiser, say, in one struct), this thread's generator of random numbers, the step and the notes. The
/// folder is made, and belongs to one run at a time. A run that is killed at any moment leaves whole checkpoints only.
/// In the background, what is written is the state at the call, whatever becomes of it meanwhile: values that are
/// replaced stay in memory until they are on the disk. One checkpoint at a time is: another call waits for it. What
/// fails there is thrown by the next call of save_checkpoint(), which then writes nothing, load_checkpoint() or
/// wait_for_checkpoints(). A program that ends by exit() or from main() writes them first.
template <class State>
std::string save_checkpoint(const std::string& folder, std::int64_t step, const State& state,
                            const CheckpointOptions& options = {}, Location where = std::source_location::current()) {
  return io_detail::save_state(folder, step, state_dict(state), options, where);
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
  wait_for_checkpoints(where);
  if (!step) {
    const std::vector<std::int64_t> steps = list_checkpoints(folder);
    if (steps.empty()) return {};
    step = steps.back();
  }
  auto [found, tensors] = io_detail::read_state(folder, *step, where);
  const TensorMap generator = io_detail::take_generator(tensors, found.path, where);
  load_state_dict(state, tensors, {}, where);
  io_detail::restore_generator(generator);
  return found;
}

}  // namespace io
SINTER_NAMESPACE_END
