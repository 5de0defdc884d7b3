// Layers by the longest way from an input, an order inside each that keeps neighbours near, and places that pull boxes
// towards what they are joined with.
#pragma once

#include <sinter/jit/observe/picture.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else if (c == '\n' || static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out;
}

/// Layers from left to right, each a column.
class PictureLayout {
 public:
  static constexpr double height = 36, layer_gap = 34, gap = 12;
  explicit PictureLayout(const std::vector<PictureBox>& boxes)
      : boxes_(boxes), layer_(boxes.size(), 0), users_(boxes.size()), y(boxes.size(), 0), width(boxes.size(), 0) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const std::size_t letters = std::max(boxes[i].title.size(), boxes[i].detail.size() * 5 / 6);
      width[i] = 7.2 * static_cast<double>(std::min<std::size_t>(letters, 44)) + 18;
      for (const std::size_t input : boxes[i].inputs) {
        layer_[i] = std::max(layer_[i], layer_[input] + 1);
        users_[input].push_back(i);
      }
    }
    // What nothing stands before goes right beside its first user.
    for (std::size_t i = boxes.size(); i-- > 0;) {
      if (!boxes[i].inputs.empty() || users_[i].empty()) continue;
      std::size_t first = layer_[users_[i].front()];
      for (const std::size_t user : users_[i]) first = std::min(first, layer_[user]);
      layer_[i] = first - 1;
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (columns_.size() <= layer_[i]) columns_.resize(layer_[i] + 1);
      columns_[layer_[i]].push_back(i);
    }
    for (auto& column : columns_) pack(column);
    for (int round = 0; round < 6; ++round) {
      for (auto& column : columns_) order(column, round % 2 == 0);
      for (auto& column : columns_) pull(column);
    }
    place_columns();
  }
  double x(std::size_t box) const { return left_[layer_[box]]; }
  double right() const { return left_.back(); }
  double bottom() const {
    double most = 40;
    for (const double at : y) most = std::max(most, at + height);
    return most + 10;
  }

 private:
  double wanted(std::size_t box) const {
    double sum = 0;
    for (const std::size_t input : boxes_[box].inputs) sum += y[input];
    for (const std::size_t user : users_[box]) sum += y[user];
    const auto count = static_cast<double>(boxes_[box].inputs.size() + users_[box].size());
    return count > 0 ? sum / count : y[box];
  }
  void pack(const std::vector<std::size_t>& column) {
    double at = -(height + gap) * static_cast<double>(column.size()) / 2;
    for (const std::size_t box : column) {
      y[box] = at;
      at += height + gap;
    }
  }
  void order(std::vector<std::size_t>& column, bool packs) {
    std::vector<std::pair<double, std::size_t>> keys;
    for (const std::size_t box : column) keys.emplace_back(wanted(box), box);
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 0; i < column.size(); ++i) column[i] = keys[i].second;
    if (packs) pack(column);
  }
  /// Each box as near to where it is wanted as its neighbours let it.
  void pull(const std::vector<std::size_t>& column) {
    double least = -1e9, most = 1e9;
    for (const std::size_t box : column) {
      y[box] = std::max(least, wanted(box));
      least = y[box] + height + gap;
    }
    for (std::size_t i = column.size(); i-- > 0;) {
      const std::size_t box = column[i];
      y[box] = std::min(std::max(y[box], wanted(box)), most - height);
      most = y[box] - gap;
    }
  }
  void place_columns() {
    const double least = y.empty() ? 0 : *std::min_element(y.begin(), y.end());
    for (double& at : y) at += 10 - least;
    double at = 10;
    for (const auto& column : columns_) {
      left_.push_back(at);
      double widest = 0;
      for (const std::size_t box : column) widest = std::max(widest, width[box]);
      at += widest + layer_gap;
    }
    left_.push_back(at - layer_gap + 10);
  }

  const std::vector<PictureBox>& boxes_;
  std::vector<std::size_t> layer_;
  std::vector<std::vector<std::size_t>> users_, columns_;
  std::vector<double> left_;  // of each column, and the end of the last

 public:
  std::vector<double> y, width;  // by box
};

inline std::string clipped(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

SINTER_DECL std::string draw_boxes(const std::vector<PictureBox>& boxes, const std::string& id) {
  const PictureLayout layout(boxes);
  char text[512];
  std::snprintf(text, sizeof text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"%s\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
                "height=\"%.0f\">",
                id.c_str(), layout.right(), layout.bottom(), layout.right(), layout.bottom());
  std::string out = text;
  out += "<style>" + std::string(picture_style) + "</style><g>";
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (const std::size_t input : boxes[i].inputs) {
      const double half = PictureLayout::height / 2;
      const double x0 = layout.x(input) + layout.width[input], y0 = layout.y[input] + half;
      const double x1 = layout.x(i), y1 = layout.y[i] + half, bend = (x1 - x0) / 2;
      std::snprintf(text, sizeof text, "<path class=\"edge\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>", x0, y0,
                    x0 + bend, y0, x1 - bend, y1, x1, y1);
      out += text;
    }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const PictureBox& box = boxes[i];
    const int hue = box.group * 67 % 360;
    std::snprintf(text, sizeof text,
                  "<g class=\"box%s\" style=\"--h:%d\" data-group=\"%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                  "height=\"%.0f\" rx=\"%d\"/>",
                  box.group >= 0 ? " k" : "", hue, box.group, layout.x(i), layout.y[i], layout.width[i],
                  PictureLayout::height, box.is_round ? 16 : 4);
    out += text;
    const double middle = layout.x(i) + layout.width[i] / 2;
    std::snprintf(text, sizeof text, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", middle, layout.y[i] + 15);
    out += text + escape_xml(clipped(box.title, 44)) + "</text>";
    std::snprintf(text, sizeof text, "<text class=\"d\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", middle,
                  layout.y[i] + 29);
    out += text + escape_xml(clipped(box.detail, 52)) + "</text>";
    out += "<title>" + escape_xml(box.tip) + "</title></g>";
  }
  return out + "</g></svg>";
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
