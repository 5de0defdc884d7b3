// A std::complex argument where the compiled function takes a Scalar, which is real.
// expect: sinter: a std::complex enters as a Tensor of rank 0, a Scalar is real: declare the parameter Tensor
#include <sinter/sinter.hpp>

#include <complex>

using namespace sinter;

void use(Tensor x) {
  auto f = jit::compile([](Tensor t, Scalar s) { return t * s; });
  f(x, 2.0);
#ifdef SINTER_COMPILE_FAIL
  f(x, std::complex<float>(0, 1));
#endif
}
