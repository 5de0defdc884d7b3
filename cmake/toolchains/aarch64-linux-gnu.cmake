# Cross-compiles for 64-bit Arm with Debian's g++-aarch64-linux-gnu, and runs what it built in qemu-user. The environment
# variable SINTER_SYSROOT names the folder into which TBB, Eigen and Catch2 for arm64 are unpacked; `tools/test --cross aarch64`
# makes it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)

set(sinter_sysroot "$ENV{SINTER_SYSROOT}")
if(sinter_sysroot STREQUAL "")
  message(FATAL_ERROR "SINTER_SYSROOT is not set: it names a folder with TBB, Eigen and Catch2 for arm64")
endif()
set(CMAKE_FIND_ROOT_PATH "${sinter_sysroot}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=${sinter_sysroot}/usr/lib/aarch64-linux-gnu")
