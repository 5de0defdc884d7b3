// The random programs of tests/fuzz, on the fake device.
#define SINTER_TEST_ON_DEVICE
#include "../fuzz/program_fuzz_test.cpp"
