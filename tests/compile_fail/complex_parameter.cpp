// A std::complex parameter of a compiled function: such an argument enters as a Tensor of rank 0.
// expect: sinter: a std::complex enters as a Tensor of rank 0: declare the parameter Tensor
#include <sinter/sinter.hpp>

#include <complex>

using namespace sinter;

void use(Tensor x) {
  auto right = jit::compile([](Tensor t, Tensor c) { return t * c; });
  right(x, std::complex<float>(0, 1));
#ifdef SINTER_COMPILE_FAIL
  auto wrong = jit::compile([](Tensor t, std::complex<float> c) { return t * c; });
#endif
}
