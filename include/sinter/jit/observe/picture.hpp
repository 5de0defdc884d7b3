// Pictures of graphs: boxes in layers with curves between them, as SVG. What the page and Explanation::svg() draw.
// Knows boxes, not graphs.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

struct PictureBox {
  std::string title, detail;        // two lines
  std::string tip;                  // shown where the pointer rests
  int group = -1;                   // has its own colour; -1: none
  bool is_round = false;            // inputs, constants and outputs
  std::vector<std::size_t> inputs;  // boxes before this one
};

/// The picture, `id` being that of its element; pages move what is in its first group.
std::string draw_boxes(const std::vector<PictureBox>& boxes, const std::string& id);

/// Text inside XML and HTML.
std::string escape_xml(const std::string& text);
/// The rules that the boxes are drawn by, for dark and light.
inline constexpr const char* picture_style =
    ".box rect{fill:#f4f4f4;stroke:#8a8a8a}.box text{font:12px system-ui,sans-serif;fill:#1b1b1b}"
    ".box .d{fill:#555;font-size:10px}.edge{fill:none;stroke:#9a9a9a;stroke-width:1.2}"
    ".k rect{fill:hsl(var(--h) 60% 88%);stroke:hsl(var(--h) 45% 45%)}.found rect{stroke:#d00;stroke-width:3}"
    "@media(prefers-color-scheme:dark){.box rect{fill:#2b2b2b;stroke:#777}.box text{fill:#eee}.box .d{fill:#aaa}"
    ".edge{stroke:#777}.k rect{fill:hsl(var(--h) 35% 24%);stroke:hsl(var(--h) 45% 55%)}.found rect{stroke:#f66}}";

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
