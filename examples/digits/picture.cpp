#include "picture.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace {

std::ofstream open(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error("cannot write " + path);
  return file;
}

std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

constexpr const char* colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};

}  // namespace

void write_curves(const std::string& path, const std::string& title, const std::vector<Curve>& curves) {
  constexpr double width = 640, height = 400, left = 60, right = 20, top = 40, bottom = 50;
  double highest = 0;
  std::size_t longest = 2;
  for (const Curve& curve : curves) {
    longest = std::max(longest, curve.values.size());
    for (double v : curve.values) highest = std::max(highest, v);
  }
  auto x_of = [&](double epoch) { return left + epoch / static_cast<double>(longest - 1) * (width - left - right); };
  auto y_of = [&](double v) { return height - bottom - v / highest * (height - top - bottom); };
  std::ofstream svg = open(path);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='640' height='400' font-family='sans-serif' font-size='12'>\n"
      << "<rect width='640' height='400' fill='white'/>\n<text x='320' y='22' font-size='16' text-anchor='middle'>"
      << title << "</text>\n";
  for (int tick = 0; tick <= 5; ++tick) {
    double v = highest * tick / 5, y = y_of(v);
    svg << "<line x1='" << left << "' x2='" << width - right << "' y1='" << y << "' y2='" << y << "' stroke='#ddd'/>\n"
        << "<text x='" << left - 6 << "' y='" << y + 4 << "' text-anchor='end'>" << number("%.2f", v) << "</text>\n";
    double epoch = static_cast<double>(longest - 1) * tick / 5;
    svg << "<text x='" << x_of(epoch) << "' y='" << height - bottom + 18 << "' text-anchor='middle'>"
        << number("%.0f", epoch + 1) << "</text>\n";
  }
  svg << "<text x='320' y='390' text-anchor='middle'>epoch</text>\n";
  for (std::size_t i = 0; i < curves.size(); ++i) {
    svg << "<polyline fill='none' stroke-width='2' stroke='" << colours[i % 4] << "' points='";
    for (std::size_t e = 0; e < curves[i].values.size(); ++e)
      svg << x_of(static_cast<double>(e)) << "," << y_of(curves[i].values[e]) << " ";
    double y = top + 18 * static_cast<double>(i);
    svg << "'/>\n<line x1='500' x2='525' y1='" << y << "' y2='" << y << "' stroke-width='2' stroke='" << colours[i % 4]
        << "'/>\n"
        << "<text x='532' y='" << y + 4 << "'>" << curves[i].name << "</text>\n";
  }
  svg << "</svg>\n";
}

void write_misread(const std::string& path, const std::vector<Misread>& digits) {
  constexpr int columns = 6, cell = 90, pixel = 8;
  int rows = std::max(1, (static_cast<int>(digits.size()) + columns - 1) / columns);
  std::ofstream svg = open(path);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << columns * cell << "' height='" << rows * (cell + 14)
      << "' font-family='sans-serif' font-size='11'>\n<rect width='100%' height='100%' fill='white'/>\n";
  if (digits.empty()) svg << "<text x='20' y='50'>none misread</text>\n";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    int x = static_cast<int>(i) % columns * cell + 12, y = static_cast<int>(i) / columns * (cell + 14) + 20;
    svg << "<text x='" << x << "' y='" << y - 6 << "'>" << digits[i].label << " read as " << digits[i].guess
        << "</text>\n";
    for (int p = 0; p < 64; ++p) {
      int grey = 255 - static_cast<int>(digits[i].pixels[p] * 255);
      svg << "<rect x='" << x + p % 8 * pixel << "' y='" << y + p / 8 * pixel << "' width='8' height='8' fill='rgb("
          << grey << "," << grey << "," << grey << ")'/>\n";
    }
  }
  svg << "</svg>\n";
}
