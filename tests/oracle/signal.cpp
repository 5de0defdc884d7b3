// Frequencies and convolutions by Fourier transforms, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

TensorOptions in_dtype(const Args& a) { return {.dtype = a.at.dtype("dtype")}; }
fft::ConvolveMode mode_of(const Args& a) {
  const std::string mode = a.at.word("mode");
  if (mode == "full") return fft::ConvolveMode::full;
  return mode == "same" ? fft::ConvolveMode::same : fft::ConvolveMode::valid;
}

}  // namespace

NamedFunctions signal_functions() {
  return {
      {"fftfreq", [](const Args& a) -> Tensor { return fft::fftfreq(a.at.whole("n"), a.at.number("d"), in_dtype(a)); }},
      {"rfftfreq",
       [](const Args& a) -> Tensor { return fft::rfftfreq(a.at.whole("n"), a.at.number("d"), in_dtype(a)); }},
      {"fftconvolve",
       [](const Args& a) -> Tensor {
         return fft::fftconvolve(a[0], a[1], {.mode = mode_of(a), .axes = Axes(a.at.axes("axes"))});
       }},
  };
}

}  // namespace sinter_test
