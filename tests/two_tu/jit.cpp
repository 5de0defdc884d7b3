// One of the four files that hold Sinter's code when it is compiled separately; see CMakeLists.txt.
#define SINTER_IMPLEMENTATION_JIT
#include <sinter/sinter.hpp>
