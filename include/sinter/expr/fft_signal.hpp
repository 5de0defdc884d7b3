// What is made of Fourier transforms: convolutions, as SciPy's, and spectra of overlapping frames, as PyTorch's.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace fft {

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
  Optional<std::int64_t> hop_length{};  // from one frame to the next; n_fft / 4
  Optional<std::int64_t> win_length{};  // n_fft; a shorter window stands in the middle of a frame
  Optional<Tensor> window{};            // ones
  bool center = true;                   // frame t is centred at t hop_length: the signal is padded
  PadMode pad_mode = PadMode::reflect;
  bool normalized = false;    // divided by sqrt(n_fft)
  Optional<bool> onesided{};  // the first n_fft / 2 + 1 frequencies; so for real signals
};
/// The spectra of frames of n_fft samples of (samples) or (batch, samples), as (..., frequencies, frames), complex.
/// torch.stft.
Tensor stft(const In& x, std::int64_t n_fft, StftOptions options = {});

struct IstftOptions {
  Optional<std::int64_t> hop_length{}, win_length{};
  Optional<Tensor> window{};
  bool center = true;
  bool normalized = false;
  Optional<std::int64_t> length{};  // of the result; what all frames cover
};
/// The signal whose stft is x, of real signals and one-sided spectra; of other spectra the one that is nearest in the
/// least squares. torch.istft. Where windows add up to nothing the result is not defined (NaN or infinite).
Tensor istft(const In& x, std::int64_t n_fft, IstftOptions options = {});

SINTER_NAMESPACE_END
