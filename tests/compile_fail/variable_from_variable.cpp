// Alias or write? `w.set(v)` says it.
// expect: (use of deleted function.*Variable::operator=|overload resolution selected deleted operator '='|Object of type 'Variable' cannot be assigned)
#include <sinter/sinter.hpp>

using namespace sinter;

void use(Variable w, Variable v) {
  w.set(v);
  w = v * 2;
#ifdef SINTER_COMPILE_FAIL
  w = v;
#endif
}
