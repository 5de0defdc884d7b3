// The op tables of tests/conformance, on the GPU.
#define SINTER_TEST_ON_GPU
#include "../conformance/op_table_networks_test.cpp"
