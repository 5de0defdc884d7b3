// Control flow, on the GPU.
#include "../unit/control_test.cpp"
