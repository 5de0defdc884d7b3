// Derivatives of control flow, on the GPU.
#include "../unit/control_gradient_test.cpp"
