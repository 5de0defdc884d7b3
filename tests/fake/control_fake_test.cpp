// Control flow, on the fake device.
#include "../unit/control_test.cpp"
