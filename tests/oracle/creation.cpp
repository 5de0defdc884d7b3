// Tensors from nothing and windows, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

TensorOptions options(const Args& a) { return {.dtype = a.at.dtype("dtype")}; }
window::Options window_options(const Args& a) {
  return {.ends = a.at.is("periodic") ? window::Ends::periodic : window::Ends::symmetric, .dtype = a.at.dtype("dtype")};
}

NamedFunctions constant_functions() {
  return {
      {"arange",
       [](const Args& a) -> Tensor {
         return arange(Dim(a.at.whole("start")), Dim(a.at.whole("stop")), Dim(a.at.whole("step")), options(a));
       }},
      {"arange of fractions",
       [](const Args& a) -> Tensor {
         return arange(a.at.number("start"), a.at.number("stop"), a.at.number("step"), options(a));
       }},
      {"linspace",
       [](const Args& a) -> Tensor {
         return linspace(a.at.number("start"), a.at.number("stop"), a.at.whole("n"), options(a));
       }},
      {"logspace",
       [](const Args& a) -> Tensor {
         return logspace(a.at.number("start"), a.at.number("stop"), a.at.whole("n"), a.at.number("base"), options(a));
       }},
      {"eye",
       [](const Args& a) -> Tensor { return eye(a.at.whole("n"), a.at.whole("m"), a.at.axis("k"), options(a)); }},
      {"zeros", [](const Args& a) -> Tensor { return zeros(a.at.shape("shape"), options(a)); }},
      {"ones", [](const Args& a) -> Tensor { return ones(a.at.shape("shape"), options(a)); }},
      {"full", [](const Args& a) -> Tensor { return full(a.at.shape("shape"), a.at.whole("value"), options(a)); }},
      {"tril_indices",
       [](const Args& a) -> Tensor { return tril_indices(a.at.whole("n"), a.at.whole("m"), a.at.axis("k")); }},
      {"triu_indices",
       [](const Args& a) -> Tensor { return triu_indices(a.at.whole("n"), a.at.whole("m"), a.at.axis("k")); }},
  };
}

NamedFunctions window_functions() {
  return {
      {"hann", [](const Args& a) -> Tensor { return window::hann(a.at.whole("n"), window_options(a)); }},
      {"hamming", [](const Args& a) -> Tensor { return window::hamming(a.at.whole("n"), window_options(a)); }},
      {"blackman", [](const Args& a) -> Tensor { return window::blackman(a.at.whole("n"), window_options(a)); }},
      {"nuttall", [](const Args& a) -> Tensor { return window::nuttall(a.at.whole("n"), window_options(a)); }},
      {"bartlett", [](const Args& a) -> Tensor { return window::bartlett(a.at.whole("n"), window_options(a)); }},
      {"cosine", [](const Args& a) -> Tensor { return window::cosine(a.at.whole("n"), window_options(a)); }},
      {"gaussian",
       [](const Args& a) -> Tensor {
         return window::gaussian(a.at.whole("n"), a.at.number("std"), window_options(a));
       }},
      {"exponential",
       [](const Args& a) -> Tensor {
         return window::exponential(a.at.whole("n"), a.at.number("tau"), {}, window_options(a));
       }},
      {"kaiser",
       [](const Args& a) -> Tensor { return window::kaiser(a.at.whole("n"), a.at.number("beta"), window_options(a)); }},
      {"general_hamming",
       [](const Args& a) -> Tensor {
         return window::general_hamming(a.at.whole("n"), a.at.number("alpha"), window_options(a));
       }},
      {"general_cosine",
       [](const Args& a) -> Tensor {
         return window::general_cosine(a.at.whole("n"), {0.5, 0.3, 0.2}, window_options(a));
       }},
  };
}

}  // namespace

NamedFunctions creation_functions() { return joined({constant_functions(), window_functions()}); }

}  // namespace sinter_test
