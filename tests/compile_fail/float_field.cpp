// A float field of an argument would be a constant of the trace.
// expect: sinter: a float or double would be frozen into the compiled function; declare it Scalar
#include <sinter/sinter.hpp>

using namespace sinter;

struct Settings {
  Tensor weight;
#ifdef SINTER_COMPILE_FAIL
  float rate;
#else
  Scalar rate;
#endif
};

void use(Settings settings) {
  auto f = jit::compile([](const Settings& s) { return s.weight * s.rate; });
  f(settings);
}
