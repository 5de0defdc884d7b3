// Checkpoints in the folder of a run: training goes on from the newest, old ones go, other files stay.
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/sinter.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace sinter;

TEST_CASE("training goes on from a checkpoint with the same bits", "[io]") {
  const Folder folder;
  struct Training {
    Variable weight{zeros({4, 4})}, momentum{zeros({4, 4})};
  };
  const auto run = [](Training& state, int steps) {
    for (int i = 0; i < steps; ++i) {
      const Tensor noise = randn({4, 4});
      state.momentum = 0.9f * state.momentum + noise;
      state.weight -= 0.1f * state.momentum;
    }
  };
  manual_seed(3);
  Training straight;
  run(straight, 10);
  manual_seed(3);
  Training first;
  run(first, 4);
  io::save_checkpoint(folder / "run", 4, first, {.notes = {{"position", "128"}}});
  manual_seed(99);
  Training second;
  const auto found = io::load_checkpoint(folder / "run", second);
  REQUIRE(found);
  CHECK(found->step == 4);
  CHECK(found->notes.at("position") == "128");
  run(second, 6);
  CHECK(to_vector<float>(second.weight.value()) == to_vector<float>(straight.weight.value()));
  CHECK(to_vector<float>(second.momentum.value()) == to_vector<float>(straight.momentum.value()));
}

TEST_CASE("the newest checkpoints stay", "[io]") {
  const Folder folder;
  std::vector<Tensor> state{ones({2})};
  CHECK_FALSE(io::load_checkpoint(folder / "none", state));
  for (const int step : {5, 10, 100, 20}) io::save_checkpoint(folder.path, step, state, {.keep = 3});
  CHECK(io::list_checkpoints(folder.path) == std::vector<std::int64_t>{10, 20, 100});
  CHECK(io::load_checkpoint(folder.path, state)->step == 100);
  CHECK(io::load_checkpoint(folder.path, state, 20)->step == 20);
  CHECK_THROWS_AS(io::load_checkpoint(folder.path, state, 5), IoError);
  CHECK_THROWS_WITH(io::load_checkpoint(folder.path, state, 5), Catch::Contains("cannot be opened"));
  CHECK_THROWS_AS(io::save_checkpoint(folder.path, -1, state), UserError);
  std::vector<Tensor> other{ones({3})};
  CHECK_THROWS_AS(io::load_checkpoint(folder.path, other), UserError);
}

TEST_CASE("what is not of a run's checkpoints stays, what was just written, too", "[io]") {
  const Folder folder;
  const std::vector<Tensor> state{ones({2})};
  for (const int step : {10, 20, 100}) io::save_checkpoint(folder.path, step, state, {.keep = 3});
  const auto touch = [&](const char* name) { std::ofstream(folder / name) << "x"; };
  for (const char* name : {"checkpoint_0000000001.safetensors.12345-0", "checkpoint_0000000001.safetensors.7-123",
                           "checkpoint_0000000001.safetensors.backup", "checkpoint_500.safetensors"})
    touch(name);
  CHECK(std::filesystem::exists(io::save_checkpoint(folder.path, 5, state, {.keep = 3})));
  CHECK(io::list_checkpoints(folder.path) == std::vector<std::int64_t>{5, 10, 20, 100});
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint_0000000001.safetensors.12345-0"));
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint_0000000001.safetensors.7-123"));
  CHECK(std::filesystem::exists(folder / "checkpoint_0000000001.safetensors.backup"));
  CHECK_THROWS_AS(io::list_checkpoints(folder / "checkpoint_500.safetensors"), IoError);
}
