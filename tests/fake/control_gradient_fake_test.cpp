// Derivatives of control flow, on the fake device.
#include "../unit/control_gradient_test.cpp"
