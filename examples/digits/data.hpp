// The UCI handwritten digits (see examples/data/README.md): reading, splitting, batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Digits {
  std::vector<float> pixels;         // n x 64, in [0, 1]
  std::vector<std::int64_t> labels;  // n
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

/// Reads the CSV (64 pixels of 0 to 16 and the label per line). Throws std::runtime_error naming file and line.
Digits read_digits(const std::string& path);
/// Shuffles with a fixed seed and cuts off the last `test_count` as test set.
void split(const Digits& all, std::int64_t test_count, Digits& train, Digits& test);
/// Rows `order[first, first + size)` of `from`.
Digits batch(const Digits& from, const std::vector<std::int64_t>& order, std::int64_t first, std::int64_t size);
