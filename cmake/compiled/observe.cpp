// A translation unit of sinter::compiled: profiles, pages and pictures.
#include <sinter/src_observe.hpp>
