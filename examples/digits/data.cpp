#include "data.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>

Digits read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path + ": name the data file as the first argument");
  Digits digits;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::stringstream fields(line);
    std::string field;
    std::vector<int> values;
    while (std::getline(fields, field, ',')) values.push_back(std::stoi(field));
    if (values.size() != 65)
      throw std::runtime_error(path + ":" + std::to_string(number) + ": 65 numbers expected, " +
                               std::to_string(values.size()) + " found");
    for (int i = 0; i < 64; ++i)
      digits.pixels.push_back(static_cast<float>(values[static_cast<std::size_t>(i)]) / 16.f);
    digits.labels.push_back(values[64]);
  }
  return digits;
}

Digits batch(const Digits& from, const std::vector<std::int64_t>& order, std::int64_t first, std::int64_t size) {
  Digits out;
  for (std::int64_t i = first; i < first + size; ++i) {
    std::int64_t row = order[static_cast<std::size_t>(i)];
    out.pixels.insert(out.pixels.end(), from.pixels.begin() + row * 64, from.pixels.begin() + (row + 1) * 64);
    out.labels.push_back(from.labels[static_cast<std::size_t>(row)]);
  }
  return out;
}

void split(const Digits& all, std::int64_t test_count, Digits& train, Digits& test) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(all.count()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  train = batch(all, order, 0, all.count() - test_count);
  test = batch(all, order, all.count() - test_count, test_count);
}
