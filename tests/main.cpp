// main() of every test program, which keeps no machine code on disk unless it is told to: tests must not meet each
// other's, nor fill the user's cache. Built without the precompiled header: Catch2 2.x defines main only where this macro
// precedes its first inclusion.
#include <cstdlib>

[[maybe_unused]] static const int is_cache_off = ::setenv("SINTER_CACHE_MB", "0", 0);

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
