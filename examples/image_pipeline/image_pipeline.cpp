// A chain of image processing in one compiled function: blur, edges, their histogram, a small picture of them. Stencils
// are written as sums of shifted views; nobody stores the padded pictures they read.
#include <sinter/sinter.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

constexpr int height = 64, width = 96, bins = 16;

/// A gradient with a disc, a bar and a ring: f32 [height, width].
Tensor make_picture() {
  Tensor y = unsqueeze(arange(height), 1), x = unsqueeze(arange(width), 0);
  Tensor picture = 0.3f * x / width + 0.1f * y / height;
  picture = where(hypot(x - 24, y - 30) < 17, 0.9f, picture);
  picture = where((x >= 50) & (x < 58) & (y >= 8) & (y < 56), 0.7f, picture);
  return where(abs(hypot(x - 76, y - 32) - 13) < 3, 1.f, picture);
}

/// Weights of a normal distribution, `radius` elements to each side; their sum is 1.
std::vector<float> gaussian(float sigma, int radius) {
  std::vector<float> weights;
  float total = 0;
  for (int i = -radius; i <= radius; ++i) {
    const float z = static_cast<float>(i) / sigma;
    weights.push_back(std::exp(-z * z / 2));
    total += weights.back();
  }
  for (float& weight : weights) weight /= total;
  return weights;
}

/// The weighted sum of each element's neighbours along `axis`; beyond an edge the element at the edge goes on.
Tensor stencil(Tensor x, int axis, const std::vector<float>& weights) {
  const int radius = static_cast<int>(weights.size()) / 2;
  std::array<std::pair<int, int>, 2> widths{};
  widths.at(static_cast<std::size_t>(axis)) = {radius, radius};
  Tensor padded = pad(x, widths, PadMode::replicate);
  Tensor total;
  int start = 0;
  for (float weight : weights) total += weight * narrow(padded, axis, start++, x.size(axis));
  return total;
}

struct Edges {
  Tensor strength;   // f32 [h, w], 1 at the strongest edge
  Tensor histogram;  // i64 [bins]
  Tensor preview;    // f32 [h / 4, w / 2]
};

Edges find_edges(Tensor picture) {
  const std::vector<float> bell = gaussian(1.2f, 3), smooth{1, 2, 1}, slope{-1, 0, 1};
  Tensor blurred = stencil(stencil(picture, 0, bell), 1, bell);
  Tensor across = stencil(stencil(blurred, 0, smooth), 1, slope);
  Tensor down = stencil(stencil(blurred, 1, smooth), 0, slope);
  Tensor strength = sqrt(square(across) + square(down));
  strength /= amax(strength);
  // interpolate takes (batch, channels, h, w).
  Tensor preview = interpolate(unsqueeze(strength, {0, 1}),
                               {.size = {picture.size(0) / 4, picture.size(1) / 2}, .mode = Interpolation::linear});
  return {strength, histogram(strength, bins, 0, 1), squeeze(preview, {0, 1})};
}

void print_histogram(Tensor counts) {
  for (int i = 0; i < bins; ++i) std::printf("%4.2f %5d\n", 1.0 * i / bins, item<int>(counts(i)));
}

void print_picture(Tensor x) {
  constexpr char shades[] = " .:-=+*#";
  const std::vector<int> levels = to_vector<int>(clamp(x * 8, 0, 7));
  const int columns = static_cast<int>(x.size(1));
  for (int i = 0; i < static_cast<int>(levels.size()); ++i) {
    std::putchar(shades[levels[static_cast<std::size_t>(i)]]);
    if (i % columns == columns - 1) std::putchar('\n');
  }
}

}  // namespace

int main() {
  auto compiled = jit::compile(find_edges);
  Tensor picture = make_picture();
  Edges edges = compiled(picture);
  std::printf("strength of edges, and how many pixels have it\n");
  print_histogram(edges.histogram);
  print_picture(edges.preview);
  std::printf("kernels: %d\n", static_cast<int>(compiled.stats().kernels));
  // Compiled code rounds a product and its sum once (fma); differences of like neighbours keep few digits.
  const Agreement agreement = allclose(edges.strength, find_edges(picture).strength, {.atol = 1e-6});
  std::printf("as uncompiled: %s\n", agreement ? "yes" : agreement.text().c_str());
  return agreement ? 0 : 1;
}
