// Derivatives of control flow, on the stand-in device.
#include "../unit/control_gradient_test.cpp"
