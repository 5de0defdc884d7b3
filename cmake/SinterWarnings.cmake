# Flags of this repository's own files. They stay in its directories and are never part of an exported target.

set(SINTER_SANITIZE "" CACHE STRING "Sanitizers for this repository's programs: address,undefined or thread; empty: none")

add_library(sinter_flags INTERFACE)
target_compile_options(sinter_flags INTERFACE -Wall -Wextra)
if(SINTER_SANITIZE)
  target_compile_options(sinter_flags INTERFACE
    -fsanitize=${SINTER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(sinter_flags INTERFACE -fsanitize=${SINTER_SANITIZE})
endif()

# For files built with -march=native: GCC 12 warns of its own AVX-512 header, Clang 18 and later of machines with AVX10.1
# (it finds avx10.1-256 and avx10.1-512 together, and says with each file that the larger one is taken).
set(sinter_quiet_intrinsics "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(sinter_quiet_intrinsics -Wno-maybe-uninitialized)
else()
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-Winvalid-feature-combination sinter_knows_feature_combinations)
  if(sinter_knows_feature_combinations)
    set(sinter_quiet_intrinsics -Wno-invalid-feature-combination)
  endif()
endif()
