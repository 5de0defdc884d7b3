// Control flow, on the stand-in device.
#include "../unit/control_test.cpp"
