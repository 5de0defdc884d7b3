// The precision of products, on the stand-in device.
#include "../unit/precision_test.cpp"
