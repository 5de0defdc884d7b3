// Layers by the longest way from an input, an order inside each layer that keeps neighbours near, and places that pull
// boxes towards what they are joined with.
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

class PictureLayout {
 public:
  static constexpr double height = 36, row_gap = 46, gap = 18;
  explicit PictureLayout(const std::vector<PictureBox>& boxes)
      : boxes_(boxes), layer_(boxes.size(), 0), users_(boxes.size()), x(boxes.size(), 0), width(boxes.size(), 0) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const std::size_t letters = std::max(boxes[i].title.size(), boxes[i].detail.size() * 5 / 6);
      width[i] = 7.2 * static_cast<double>(std::min<std::size_t>(letters, 44)) + 18;
      for (const std::size_t input : boxes[i].inputs) {
        layer_[i] = std::max(layer_[i], layer_[input] + 1);
        users_[input].push_back(i);
      }
    }
    // What nothing stands before goes right above its first user.
    for (std::size_t i = boxes.size(); i-- > 0;) {
      if (!boxes[i].inputs.empty() || users_[i].empty()) continue;
      std::size_t first = layer_[users_[i].front()];
      for (const std::size_t user : users_[i]) first = std::min(first, layer_[user]);
      layer_[i] = first - 1;
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (rows_.size() <= layer_[i]) rows_.resize(layer_[i] + 1);
      rows_[layer_[i]].push_back(i);
    }
    for (auto& row : rows_) pack(row);
    for (int round = 0; round < 6; ++round) {
      for (auto& row : rows_) order(row, round % 2 == 0);
      for (auto& row : rows_) pull(row);
    }
    shift();
  }
  double y(std::size_t box) const { return 10 + static_cast<double>(layer_[box]) * (height + row_gap); }
  double right() const {
    double most = 100;
    for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, x[i] + width[i]);
    return most + 10;
  }
  double bottom() const { return 20 + static_cast<double>(rows_.size()) * (height + row_gap) - row_gap; }

 private:
  double middle(std::size_t box) const { return x[box] + width[box] / 2; }
  double wanted(std::size_t box) const {
    double sum = 0;
    for (const std::size_t input : boxes_[box].inputs) sum += middle(input);
    for (const std::size_t user : users_[box]) sum += middle(user);
    const auto count = static_cast<double>(boxes_[box].inputs.size() + users_[box].size());
    return count > 0 ? sum / count : middle(box);
  }
  void pack(const std::vector<std::size_t>& row) {
    double at = 0;
    for (const std::size_t box : row) x[box] = at, at += width[box] + gap;
    for (const std::size_t box : row) x[box] -= at / 2;
  }
  void order(std::vector<std::size_t>& row, bool packs) {
    std::vector<std::pair<double, std::size_t>> keys;
    for (const std::size_t box : row) keys.emplace_back(wanted(box), box);
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = keys[i].second;
    if (packs) pack(row);
  }
  /// Each box as near to where it is wanted as its neighbours let it.
  void pull(const std::vector<std::size_t>& row) {
    double least = -1e9;
    for (const std::size_t box : row) {
      x[box] = std::max(least, wanted(box) - width[box] / 2);
      least = x[box] + width[box] + gap;
    }
    double most = 1e9;
    for (std::size_t i = row.size(); i-- > 0;) {
      const std::size_t box = row[i];
      x[box] = std::min(x[box], most - width[box]);
      if (i + 1 < row.size() && x[box] < wanted(box) - width[box] / 2)
        x[box] = std::min(most - width[box], wanted(box) - width[box] / 2);
      most = x[box] - gap;
    }
  }
  void shift() {
    const double least = x.empty() ? 0 : *std::min_element(x.begin(), x.end());
    for (double& at : x) at += 10 - least;
  }

  const std::vector<PictureBox>& boxes_;
  std::vector<std::size_t> layer_;
  std::vector<std::vector<std::size_t>> users_, rows_;

 public:
  std::vector<double> x, width;  // by box
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
      const double x0 = layout.x[input] + layout.width[input] / 2, y0 = layout.y(input) + PictureLayout::height;
      const double x1 = layout.x[i] + layout.width[i] / 2, y1 = layout.y(i), bend = (y1 - y0) / 2;
      std::snprintf(text, sizeof text, "<path class=\"edge\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>", x0, y0,
                    x0, y0 + bend, x1, y1 - bend, x1, y1);
      out += text;
    }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const PictureBox& box = boxes[i];
    const int hue = box.group * 67 % 360;
    std::snprintf(text, sizeof text,
                  "<g class=\"box%s\" style=\"--h:%d\" data-group=\"%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                  "height=\"%.0f\" rx=\"%d\"/>",
                  box.group >= 0 ? " k" : "", hue, box.group, layout.x[i], layout.y(i), layout.width[i],
                  PictureLayout::height, box.is_round ? 16 : 4);
    out += text;
    const double middle = layout.x[i] + layout.width[i] / 2;
    std::snprintf(text, sizeof text, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", middle, layout.y(i) + 15);
    out += text + escape_xml(clipped(box.title, 44)) + "</text>";
    std::snprintf(text, sizeof text, "<text class=\"d\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", middle,
                  layout.y(i) + 29);
    out += text + escape_xml(clipped(box.detail, 52)) + "</text>";
    out += "<title>" + escape_xml(box.tip) + "</title></g>";
  }
  return out + "</g></svg>";
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
