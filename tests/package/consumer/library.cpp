// One of two shared libraries of a process, each with Sinter in it. Exports three functions whose names begin with
// LIBRARY_NAME; nothing of Sinter crosses.
#include <sinter/sinter.hpp>

#include <cstddef>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORTED(name) __attribute__((visibility("default"))) JOIN(LIBRARY_NAME, name)

using namespace sinter;

namespace {
const auto& step() {
  static const auto f = jit::compile([](Tensor x, Scalar s) { return sum(exp(x * 0) * s + x); });
  return f;
}
}  // namespace

extern "C" {
/// The sum of `count` times (`s` + 1); -1 if there is no memory for it.
float EXPORTED(_sum)(int count, float s) {
  try {
    return item<float>(step()(ones({count}), s));
  } catch (const OutOfMemory&) { return -1; }
}
void EXPORTED(_set_memory_limit)(std::size_t bytes) { set_memory_limit(bytes); }
std::size_t EXPORTED(_calls)() { return static_cast<std::size_t>(step().stats().calls); }
}
