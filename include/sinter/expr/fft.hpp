// Discrete Fourier transforms under the names of torch.fft, short-time transforms, and convolutions by transforms.
// f32 and c64, f64 and c128; integers become f32. Any length from 1 on: prime ones too take n log n steps. Transforms
// run on the host, lines side by side on threads, and what stands around them fuses as elsewhere. They are linear, so
// derivatives are transforms again, of any order; under vmap they take the batch as further lines.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

SINTER_NAMESPACE_BEGIN
namespace fft {

/// Which of a transform and its inverse is divided by the length n: the inverse; both, by sqrt(n); the transform.
enum class Norm : std::uint8_t { backward, ortho, forward };

struct Options {
  std::optional<Dim> n{};  // the axis is cut, or padded with zeros at its end, to this length first
  int dim = -1;
  Norm norm = Norm::backward;
};
/// Along several axes. Without `dim` all axes, or the last ones if `s` is given; the functions of two axes take the
/// last two.
struct ManyOptions {
  Shape s{};  // lengths of the axes, as n; empty: as they are
  Axes dim{};
  Norm norm = Norm::backward;
};

/// y_k = sum over j of x_j e^(-2 pi i j k / n). Complex.
Tensor fft(const In& x, Options options = {});
/// x_j = 1/n sum over k of y_k e^(2 pi i j k / n). Complex.
Tensor ifft(const In& x, Options options = {});
Tensor fft2(const In& x, ManyOptions options = {});
Tensor ifft2(const In& x, ManyOptions options = {});
Tensor fftn(const In& x, ManyOptions options = {});
Tensor ifftn(const In& x, ManyOptions options = {});

/// Of real numbers, of which the first n / 2 + 1 numbers say all.
Tensor rfft(const In& x, Options options = {});
/// The real numbers with that half spectrum; n is 2 (m - 1) for m numbers unless given. Imaginary parts that a real
/// signal cannot have (of the first one, and of the last one where n is even) are ignored.
Tensor irfft(const In& x, Options options = {});
/// The last axis of `dim` is halved.
Tensor rfft2(const In& x, ManyOptions options = {});
Tensor irfft2(const In& x, ManyOptions options = {});
Tensor rfftn(const In& x, ManyOptions options = {});
Tensor irfftn(const In& x, ManyOptions options = {});

/// The real spectrum of a signal x_-j = conj(x_j), of which the first n / 2 + 1 numbers are given.
Tensor hfft(const In& x, Options options = {});
/// The other way: of a real spectrum the first half of that signal.
Tensor ihfft(const In& x, Options options = {});
/// The last axis of `dim` is the half one.
Tensor hfft2(const In& x, ManyOptions options = {});
Tensor ihfft2(const In& x, ManyOptions options = {});
Tensor hfftn(const In& x, ManyOptions options = {});
Tensor ihfftn(const In& x, ManyOptions options = {});

/// Frequency 0 from the first place to the middle one (n / 2), along `dim`, or all axes.
Tensor fftshift(const In& x, Axes dim = {});
/// And back.
Tensor ifftshift(const In& x, Axes dim = {});

struct FrequencyOptions {
  DType dtype = DType::f32;
  Device device = default_device();
};
/// The frequencies of a transform of n samples at distance d: 0, 1, ..., -2, -1, divided by n d.
Tensor fftfreq(Dim n, double d = 1, FrequencyOptions options = {}, Location where = std::source_location::current());
/// Those of a half spectrum: 0, 1, ..., n / 2, divided by n d.
Tensor rfftfreq(Dim n, double d = 1, FrequencyOptions options = {}, Location where = std::source_location::current());

/// full: everything that overlaps; same: as long as the first operand, from the middle; valid: where the shorter one
/// lies within the longer one.
enum class ConvolveMode : std::uint8_t { full, same, valid };
struct ConvolveOptions {
  ConvolveMode mode = ConvolveMode::full;
  Axes axes{};  // all
};
/// The convolution of x and y along `axes`, by transforms; other axes broadcast. scipy.signal.fftconvolve.
Tensor fftconvolve(const In& x, const In& y, ConvolveOptions options = {});

}  // namespace fft

struct StftOptions {
  std::optional<std::int64_t> hop_length{};  // from one frame to the next; n_fft / 4
  std::optional<std::int64_t> win_length{};  // n_fft; a shorter window stands in the middle of a frame
  std::optional<Tensor> window{};            // ones
  bool center = true;                        // frame t is centred at t hop_length: the signal is padded
  PadMode pad_mode = PadMode::reflect;
  bool normalized = false;         // divided by sqrt(n_fft)
  std::optional<bool> onesided{};  // the first n_fft / 2 + 1 frequencies; so for real signals
};
/// The spectra of frames of n_fft samples of (samples) or (batch, samples), as (..., frequencies, frames), complex.
/// torch.stft.
Tensor stft(const In& x, std::int64_t n_fft, StftOptions options = {});

struct IstftOptions {
  std::optional<std::int64_t> hop_length{}, win_length{};
  std::optional<Tensor> window{};
  bool center = true;
  bool normalized = false;
  std::optional<std::int64_t> length{};  // of the result; what all frames cover
};
/// The signal whose stft is x, of real signals and one-sided spectra; of other spectra the one that is nearest in the
/// least squares. torch.istft. Where windows add up to nothing the result is not defined (NaN or infinite).
Tensor istft(const In& x, std::int64_t n_fft, IstftOptions options = {});

SINTER_NAMESPACE_END
