// Images and signals at other resolutions: interpolation, sampling at given places, and channels exchanged for pixels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// nearest takes the pixel below, nearest_exact the one whose centre is closest; linear is bilinear and trilinear of
/// more axes; area is the mean of the pixels that are covered.
enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, bicubic, area };
/// What keeps its place: the corners of the outer pixels (half of a pixel before the first centre), or their centres.
enum class Align : std::uint8_t { pixel_corners, pixel_centres };
struct InterpolateOptions {
  Shape size = {};                 // extents of the result, one for each axis after (batch, channels); or
  std::vector<double> scale = {};  // factors: extents are rounded down, and the places computed with them
  Interpolation mode = Interpolation::nearest;
  Align align = Align::pixel_corners;  // pixel_centres is PyTorch's align_corners = true
  bool antialias = false;              // of linear and bicubic: made smaller, all pixels that are covered count
};
/// x (batch, channels, 1 to 3 axes) at another size.
Tensor interpolate(const In& x, InterpolateOptions options);

enum class GridPadding : std::uint8_t { zeros, border, reflection };
struct GridSampleOptions {
  Interpolation mode = Interpolation::linear;  // or nearest, or bicubic (of images)
  GridPadding padding = GridPadding::zeros;    // what lies outside
  Align align = Align::pixel_corners;
};
/// x (n, c, h, w) at the places of grid (n, h', w', 2), whose (x, y) run from -1 to 1: (n, c, h', w'). Volumes
/// (n, c, d, h, w) at (x, y, z) of (n, d', h', w', 3): (n, c, d', h', w').
Tensor grid_sample(const In& x, const In& grid, GridSampleOptions options = {});

/// (..., c r^2, h, w) to (..., c, h r, w r), and back.
Tensor pixel_shuffle(const In& x, std::int64_t factor);
Tensor pixel_unshuffle(const In& x, std::int64_t factor);
/// Channels, axis 1, of each group dealt out in turn.
Tensor channel_shuffle(const In& x, std::int64_t groups);

SINTER_NAMESPACE_END
