// What is made of transforms: convolutions, and spectra of overlapping frames.
#pragma once

#include <sinter/expr/fft_signal.hpp>

#include <sinter/expr/fft.ipp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/fft_plan.hpp>

SINTER_NAMESPACE_BEGIN
namespace fft {
namespace detail {

// ---- convolution

/// Products of numbers that are pairs.
inline Term product_of_pairs(const Term& a, const Term& b) {
  const auto part = [](const Term& x, int which) {
    return Term(expr_detail::part_of(x, x.rank() - 1, which, which + 1, x.where), x.where);
  };
  const Term ar = part(a, 0), ai = part(a, 1), br = part(b, 0), bi = part(b, 1);
  const Term re = ar * br - ai * bi, im = ar * bi + ai * br;
  return {concat({re.value, im.value}, re.rank() - 1, a.where), a.where};
}
/// Both operands of one dtype.
struct Operands {
  Term x, y;
  bool is_complex = false;
};
inline Operands operands_of(const In& x, const In& y, std::string_view op) {
  const Term a = expr_detail::floating(x), b = expr_detail::floating(y);
  const DType dtype = promote(a.dtype(), b.dtype(), op, x.where);
  Operands out{{cast(a, dtype), x.where}, {cast(b, dtype), x.where}, sinter::is_complex(dtype)};
  require_transformable(out.x, op);
  if (a.rank() != b.rank() || a.rank() == 0)
    throw ShapeError(op, "x is " + a.shape().text() + ", y is " + b.shape().text(), x.where,
                     "they must have equally many axes, at least one");
  return out;
}
/// Lengths along one axis of what is convolved.
struct ConvolvedAxis {
  int axis = 0;
  std::int64_t x = 0, y = 0, padded = 0;
};
inline std::vector<ConvolvedAxis> convolved_axes(const Operands& both, const ConvolveOptions& options,
                                                 std::string_view op) {
  std::vector<ConvolvedAxis> out;
  bool is_x_longer = true, is_y_longer = true;
  for (const std::int64_t axis : expr_detail::reduced_axes(options.axes, both.x.rank(), op, both.x.where)) {
    const int at = static_cast<int>(axis);
    ConvolvedAxis one{at, static_cast<std::int64_t>(both.x.shape()[at]), static_cast<std::int64_t>(both.y.shape()[at])};
    if (one.x == 0 || one.y == 0)
      throw ShapeError(op, "x is " + both.x.shape().text() + ", y is " + both.y.shape().text(), both.x.where,
                       "axes along which they are convolved need at least one element");
    one.padded = fft_detail::smooth_length(one.x + one.y - 1);
    is_x_longer = is_x_longer && one.x >= one.y;
    is_y_longer = is_y_longer && one.y >= one.x;
    out.push_back(one);
  }
  if (options.mode == ConvolveMode::valid && !is_x_longer && !is_y_longer)
    throw ShapeError(op, "x is " + both.x.shape().text() + ", y is " + both.y.shape().text(), both.x.where,
                     "with ConvolveMode::valid one of them must be at least as long as the other along every axis");
  return out;
}
inline Term spectrum_of(Term x, const std::vector<ConvolvedAxis>& axes, bool is_complex) {
  IntVector rest;
  for (const ConvolvedAxis& one : axes) {
    x = resized(x, one.axis, one.padded);
    if (is_complex || one.axis != axes.back().axis) rest.push_back(one.axis);
  }
  if (!is_complex) x = real_transform(x, axes.back().axis, FourierSign::minus, FourierScale::none);
  return complex_transform(x, rest, Norm::backward, Direction::forward);
}

// ---- frames

/// The numbers of a short-time transform, checked.
struct Frames {
  std::int64_t length = 0, hop = 0, window = 0;
};
inline Frames frames_of(std::int64_t n_fft, std::optional<std::int64_t> hop, std::optional<std::int64_t> window,
                        std::string_view op, Location where) {
  const Frames out{n_fft, hop.value_or(n_fft / 4), window.value_or(n_fft)};
  const auto refuse = [&](std::string_view what, std::int64_t value, std::string_view need) {
    throw UserError(op, std::string(what) + " is " + std::to_string(value) + ", it must be " + std::string(need),
                    where);
  };
  if (n_fft < 1) refuse("n_fft", n_fft, "at least 1");
  if (out.hop < 1) refuse("hop_length", out.hop, "at least 1");
  if (out.window < 1 || out.window > n_fft)
    refuse("win_length", out.window, "from 1 to n_fft = " + std::to_string(n_fft));
  return out;
}
/// The window as long as a frame; none where all of it is 1.
inline std::optional<Term> window_of(const std::optional<Tensor>& window, const Frames& frames, const Term& like,
                                     std::string_view op) {
  if (!window && frames.window == frames.length) return std::nullopt;
  const DType dtype = like.dtype();
  const Term given(
      window ? *window : ones(Shape{frames.window}, {.dtype = dtype, .device = like.value.device()}, like.where),
      like.where);
  if (given.rank() != 1 || !(given.shape()[0] == Dim(frames.window)))
    throw ShapeError(op, "the window is " + given.shape().text() + ", win_length is " + std::to_string(frames.window),
                     like.where, "the window must have win_length elements");
  if (is_complex(given.dtype()))
    throw DTypeError(op, "the window is " + std::string(name(given.dtype())) + ", it must be real", like.where);
  const auto before = static_cast<int>((frames.length - frames.window) / 2);
  const auto after = static_cast<int>(frames.length - frames.window) - before;
  const Tensor same = cast(given, dtype);
  return Term(before + after == 0 ? same : pad(In(same, like.where), {{before, after}}), like.where);
}
inline Term summed_frames(const Term& frames, Dim samples, const Frames& numbers) {
  const int axis = frames.rank() - 2;
  Attrs attrs;
  attrs.axes = {axis};
  attrs.shape = Shape(frames.shape().dims().first(as_index(axis)));
  attrs.shape.push_back(samples);
  attrs.set(ops::SumWindows::sizes, IntVector{numbers.length});
  attrs.set(ops::SumWindows::strides, IntVector{numbers.hop});
  return {expr_detail::record<ops::SumWindows>({Leaf(frames.value.impl())}, std::move(attrs), frames.where),
          frames.where};
}
/// A signal, or rows of signals, padded and cut into frames: (..., frames, n_fft), and of complex ones pairs of these.
inline Term cut_into_frames(const Term& x, const Frames& frames, const StftOptions& options) {
  const bool has_parts = is_complex(x.dtype());
  const int axis = x.rank() - 1;
  Term t = has_parts ? Term(view_as_real(x), x.where) : x;
  if (options.center) {
    const auto width = static_cast<int>(frames.length / 2);
    std::vector<std::pair<int, int>> widths(as_index(t.rank()), {0, 0});
    widths[as_index(axis)] = {width, width};
    t = {pad(t, std::span<const std::pair<int, int>>(widths), options.pad_mode), x.where};
  }
  if (!expr_detail::is_at_most(Dim(frames.length), t.shape()[axis]))
    throw ShapeError("stft", "x is " + x.shape().text() + ", n_fft is " + std::to_string(frames.length), x.where,
                     "the signal is shorter than a frame");
  const Tensor cut = unfold(t, axis, frames.length, frames.hop);
  return {has_parts ? movedim(In(cut, x.where), -1, -2) : cut, x.where};
}

}  // namespace detail

SINTER_DECL Tensor fftconvolve(const In& x, const In& y, ConvolveOptions options) {
  using namespace detail;
  constexpr std::string_view op = "fft::fftconvolve";
  Operands both = operands_of(x, y, op);
  const std::vector<ConvolvedAxis> axes = convolved_axes(both, options, op);
  if (both.is_complex) {
    both.x = pairs_of(both.x, op);
    both.y = pairs_of(both.y, op);
  }
  const Term spectrum =
      product_of_pairs(spectrum_of(both.x, axes, both.is_complex), spectrum_of(both.y, axes, both.is_complex));
  IntVector rest;
  for (const ConvolvedAxis& one : axes)
    if (both.is_complex || one.axis != axes.back().axis) rest.push_back(one.axis);
  Term whole = complex_transform(spectrum, rest, Norm::backward, Direction::inverse);
  if (!both.is_complex)
    whole = transform_to_real(whole, axes.back().axis, axes.back().padded, FourierSign::plus, FourierScale::full);
  for (const ConvolvedAxis& one : axes) {
    const std::int64_t full = one.x + one.y - 1;
    const std::int64_t count = options.mode == ConvolveMode::full   ? full
                               : options.mode == ConvolveMode::same ? one.x
                                                                    : full - 2 * (std::min(one.x, one.y) - 1);
    const std::int64_t start = (full - count) / 2;
    whole = {expr_detail::part_of(whole, one.axis, start, start + count, x.where), x.where};
  }
  return both.is_complex ? from_pairs(whole) : whole.value;
}

}  // namespace fft

SINTER_DECL Tensor stft(const In& x, std::int64_t n_fft, StftOptions options) {
  using namespace fft::detail;
  const Term t = expr_detail::floating(x);
  require_transformable(t, "stft");
  if (t.rank() != 1 && t.rank() != 2)
    throw ShapeError("stft", "x is " + t.shape().text() + ", (samples) or (batch, samples) is required", x.where);
  const Frames frames = frames_of(n_fft, options.hop_length, options.win_length, "stft", x.where);
  const bool has_parts = is_complex(t.dtype()), is_onesided = options.onesided.value_or(!has_parts);
  if (has_parts && is_onesided)
    throw UserError("stft", "x is complex, and a one-sided spectrum is asked for", x.where,
                    "leave out .onesided: a complex signal needs all frequencies");
  Term cut = cut_into_frames(t, frames, options);
  const Term real_like = has_parts ? cut : t;
  if (const std::optional<Term> window = window_of(options.window, frames, real_like, "stft"))
    cut = cut * (has_parts ? Term(unsqueeze(*window, 1), x.where) : *window);
  const FourierScale scale = options.normalized ? FourierScale::root : FourierScale::none;
  const int frame_axis = t.rank() - 1;
  Term spectra = cut;
  if (is_onesided) {
    spectra = real_transform(cut, frame_axis + 1, FourierSign::minus, scale);
  } else {
    if (!has_parts) spectra = pairs_of(cut, "stft");
    spectra = complex_transform(spectra, {frame_axis + 1}, options.normalized ? fft::Norm::ortho : fft::Norm::backward,
                                Direction::forward);
  }
  return from_pairs(Term(transpose(spectra, frame_axis, frame_axis + 1), x.where));
}

SINTER_DECL Tensor istft(const In& x, std::int64_t n_fft, IstftOptions options) {
  using namespace fft::detail;
  const Frames frames = frames_of(n_fft, options.hop_length, options.win_length, "istft", x.where);
  Term pairs = pairs_of(x, "istft");
  const int frame_axis = pairs.rank() - 2, frequency_axis = frame_axis - 1;
  if (pairs.rank() != 3 && pairs.rank() != 4)
    throw ShapeError("istft", "x has " + std::to_string(pairs.rank() - 1) + " axes", x.where,
                     "(frequencies, frames) or (batch, frequencies, frames) is required");
  const Dim frequencies = pairs.shape()[frequency_axis], count = pairs.shape()[frame_axis];
  const Dim half(n_fft / 2 + 1);
  if (!(frequencies == half) && !(frequencies == Dim(n_fft)))
    throw ShapeError("istft", "x has " + frequencies.text() + " frequencies, n_fft is " + std::to_string(n_fft),
                     x.where, "n_fft / 2 + 1 = " + half.text() + " (one-sided) or n_fft are required");
  if (!expr_detail::is_at_most(Dim(1), count)) throw ShapeError("istft", "x has no frames", x.where);
  pairs = resized(pairs, frequency_axis, half);
  pairs = {transpose(pairs, frequency_axis, frame_axis), x.where};
  const fft::Norm norm = options.normalized ? fft::Norm::ortho : fft::Norm::backward;
  Term cut = half_to_real(pairs, frame_axis, Dim(n_fft), norm, Direction::inverse, "istft");
  const std::optional<Term> given = window_of(options.window, frames, cut, "istft");
  const Term window =
      given ? *given : Term(ones(Shape{n_fft}, {.dtype = cut.dtype(), .device = cut.value.device()}, x.where), x.where);
  const Dim samples = (count - Dim(1)) * Dim(frames.hop) + Dim(n_fft);
  if (options.center && !options.length && expr_detail::is_at_most(samples, Dim(2 * (n_fft / 2))))
    throw ShapeError("istft", "x has " + count.text() + " frames, of which centring leaves no sample", x.where,
                     "give more frames, the length, or .center = false");
  const Term weights(expand(expr_detail::squared(window), Shape{count, Dim(n_fft)}), x.where);
  const Term whole = summed_frames(cut * window, samples, frames), envelope = summed_frames(weights, samples, frames);
  const Dim margin(options.center ? n_fft / 2 : 0);
  const int axis = whole.rank() - 1;
  const auto inner = [&](const Term& t) {
    return Term(expr_detail::part_of(t, t.rank() - 1, margin, options.length ? samples : samples - margin, x.where),
                x.where);
  };
  if (options.length && *options.length < 1)
    throw UserError("istft", "length is " + std::to_string(*options.length) + ", it must be at least 1", x.where);
  const auto wanted = [&](const Term& t) {
    if (!options.length) return inner(t);
    const Term rest = inner(t);
    const Dim available = rest.shape()[rest.rank() - 1], length(*options.length);
    return expr_detail::is_at_most(length, available) ? resized(rest, rest.rank() - 1, length) : rest;
  };
  const Term signal = wanted(whole) / wanted(envelope);
  return options.length ? resized(signal, axis, Dim(*options.length)).value : signal.value;
}

SINTER_NAMESPACE_END
