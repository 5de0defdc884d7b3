// Windows that signals are multiplied by before they are transformed. Names and formulas are those of
// torch.signal.windows; a window of one element is 1. Computed in f64 and rounded once.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>

SINTER_NAMESPACE_BEGIN
namespace window {

/// Whether the window ends where it began, or one element before, as spectra need it: periodic is sym=False.
enum class Ends : std::uint8_t { symmetric, periodic };
struct Options {
  Ends ends = Ends::symmetric;
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

/// The sum of (-1)^i weights[i] cos(i angle), with angles from 0 to 2 pi.
Tensor general_cosine(Dim count, std::initializer_list<double> weights, Options options = {},
                      Location where = std::source_location::current());
Tensor general_hamming(Dim count, double alpha = 0.54, Options options = {},
                       Location where = std::source_location::current());
Tensor hann(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor hamming(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor blackman(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor nuttall(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor bartlett(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor cosine(Dim count, Options options = {}, Location where = std::source_location::current());
Tensor gaussian(Dim count, double stddev = 1, Options options = {}, Location where = std::source_location::current());
Tensor exponential(Dim count, double tau = 1, std::optional<double> centre = {}, Options options = {},
                   Location where = std::source_location::current());
Tensor kaiser(Dim count, double beta = 12, Options options = {}, Location where = std::source_location::current());

}  // namespace window
SINTER_NAMESPACE_END
