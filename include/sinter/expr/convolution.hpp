// Convolutions of one to three axes and transposed ones, and their windows: unfold and fold.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// A number for each axis of an image or signal: one for all, or one for each.
class PerAxis {
 public:
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  PerAxis(I number) : numbers_{static_cast<std::int64_t>(number)} {}
  PerAxis(std::initializer_list<std::int64_t> numbers) {
    for (std::int64_t number : numbers) numbers_.push_back(number);
  }
  template <IntegerList L>
  PerAxis(const L& numbers) {
    for (auto number : numbers) numbers_.push_back(static_cast<std::int64_t>(number));
  }
  std::span<const std::int64_t> list() const;

 private:
  IntVector numbers_;
};

/// Zeros at both ends of each axis: numbers, or pairs {before, after}, one for all axes or one for each; or valid,
/// none, or same, so that the result is as long as x (stride 1).
class ConvPadding {
 public:
  enum Kind : std::uint8_t { numbers, valid, same };
  ConvPadding() : ConvPadding(Kind::valid) {}
  ConvPadding(Kind kind) : kind_(kind), before_(0), after_(0) {}
  template <class N>
    requires std::is_convertible_v<const N&, PerAxis>
  ConvPadding(const N& given) : kind_(Kind::numbers), before_(given), after_(given) {}
  ConvPadding(std::initializer_list<std::int64_t> given) : kind_(Kind::numbers), before_(given), after_(given) {}
  ConvPadding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> pairs);
  Kind kind() const { return kind_; }
  const PerAxis& before() const { return before_; }
  const PerAxis& after() const { return after_; }

 private:
  Kind kind_;
  PerAxis before_, after_;
};

struct ConvOptions {
  PerAxis stride = 1;
  ConvPadding padding = 0;
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  Optional<Tensor> bias = {};  // (o)
};
using Conv2dOptions = ConvOptions;
/// x [n, c, s...], weight [o, c / groups, k...] to [n, o, s'...]; or one example, [c, s...] to [o, s'...].
Tensor conv1d(const In& x, const In& weight, ConvOptions options = {});
Tensor conv2d(const In& x, const In& weight, ConvOptions options = {});
Tensor conv3d(const In& x, const In& weight, ConvOptions options = {});

struct ConvTransposeOptions {
  PerAxis stride = 1;
  PerAxis padding = 0;
  PerAxis output_padding = 0;  // further elements at the end, less than the stride or the dilation
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  Optional<Tensor> bias = {};
};
/// The adjoint of the convolution: x [n, c, s...], weight [c, o / groups, k...] to [n, o, (s - 1) stride - 2 padding +
/// dilation (k - 1) + output_padding + 1...]; or one example, [c, s...].
Tensor conv_transpose1d(const In& x, const In& weight, ConvTransposeOptions options = {});
Tensor conv_transpose2d(const In& x, const In& weight, ConvTransposeOptions options = {});
Tensor conv_transpose3d(const In& x, const In& weight, ConvTransposeOptions options = {});

struct UnfoldOptions {
  PerAxis dilation = 1, padding = 0, stride = 1;
};
/// Windows of images as columns (im2col): x [n, c, h, w] to [n, c kh kw, positions].
Tensor unfold(const In& x, PerAxis kernel, UnfoldOptions options = {});
/// Its adjoint: columns added up where they came from, in images of `size` = (h, w).
Tensor fold(const In& x, const Shape& size, PerAxis kernel, UnfoldOptions options = {});

SINTER_NAMESPACE_END
