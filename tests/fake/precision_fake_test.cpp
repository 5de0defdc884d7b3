// The precision of products, on the fake device.
#include "../unit/precision_test.cpp"
