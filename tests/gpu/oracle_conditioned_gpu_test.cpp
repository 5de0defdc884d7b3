// The oracle of tests/oracle, on the GPU.
#define SINTER_TEST_ON_GPU
#include "../oracle/conditioned.cpp"
