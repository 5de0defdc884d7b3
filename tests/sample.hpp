// Which rows of long tables a run takes. By itself all of them; where time is short, SINTER_SAMPLE=3 takes every third,
// and SINTER_SAMPLE_SEED says which. CI makes the seed of the commit, so that all rows are met in time.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace sinter_test {

inline bool is_in_sample(std::size_t row) {
  const char *step = std::getenv("SINTER_SAMPLE"), *seed = std::getenv("SINTER_SAMPLE_SEED");
  const std::size_t one_in = step != nullptr ? std::strtoul(step, nullptr, 10) : 1;
  return one_in < 2 || (row + (seed != nullptr ? std::strtoul(seed, nullptr, 10) : 0)) % one_in == 0;
}

}  // namespace sinter_test
