// Discrete Fourier transforms under the names of torch.fft. What is made of them is in fft_signal.hpp.
// f32 and c64, f64 and c128; integers become f32. Any length from 1 on: prime ones too take n log n steps. Transforms
// run on the host, lines side by side on threads, and what stands around them fuses as elsewhere. They are linear, so
// derivatives are transforms again, of any order; under vmap they take the batch as further lines.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

SINTER_NAMESPACE_BEGIN
namespace fft {

/// Which of a transform and its inverse is divided by the length n: the inverse; both, by sqrt(n); the transform.
enum class Norm : std::uint8_t { backward, ortho, forward };

struct Options {
  Optional<Dim> n{};  // the axis is cut, or padded with zeros at its end, to this length first
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

/// The frequencies of a transform of n samples at distance d: 0, 1, ..., -2, -1, divided by n d. f32 or f64.
Tensor fftfreq(Dim n, double d = 1, TensorOptions options = {}, Location where = std::source_location::current());
/// Those of a half spectrum: 0, 1, ..., n / 2, divided by n d.
Tensor rfftfreq(Dim n, double d = 1, TensorOptions options = {}, Location where = std::source_location::current());

}  // namespace fft
SINTER_NAMESPACE_END
