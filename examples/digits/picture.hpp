// Pictures of a training run as SVG files.
#pragma once

#include <string>
#include <vector>

struct Curve {
  std::string name;
  std::vector<double> values;  // one per epoch
};
struct Misread {
  const float* pixels;  // 64, in [0, 1]
  int label, guess;
};

/// Line chart with axes and a legend.
void write_curves(const std::string& path, const std::string& title, const std::vector<Curve>& curves);
/// Grid of digits, each with label and guess.
void write_misread(const std::string& path, const std::vector<Misread>& digits);
