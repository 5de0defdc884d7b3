# Finds out whether the installed AsmJit may go into a shared library. Debian's libasmjit.a is not position independent;
# the link error it gives ("relocation R_X86_64_32 ... recompile with -fPIC") names neither AsmJit's package nor the way out.

if(NOT DEFINED SINTER_ASMJIT_IS_PIC)
  set(probe_dir "${CMAKE_BINARY_DIR}/CMakeFiles/sinter_asmjit_pic")
  file(WRITE "${probe_dir}/CMakeLists.txt" [=[
cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES CXX)
find_package(asmjit CONFIG REQUIRED)
add_library(probe SHARED probe.cpp)
target_link_libraries(probe PRIVATE asmjit::asmjit)
]=])
  file(WRITE "${probe_dir}/probe.cpp" [=[
#include <asmjit/x86.h>
void* probe() {
  static asmjit::JitRuntime runtime;
  asmjit::CodeHolder code;
  code.init(runtime.environment());
  asmjit::x86::Compiler compiler(&code);
  compiler.addFunc(asmjit::FuncSignatureT<void>());
  compiler.endFunc();
  compiler.finalize();
  void* entry = nullptr;
  runtime.add(&entry, &code);
  return entry;
}
]=])
  try_compile(SINTER_ASMJIT_IS_PIC "${probe_dir}/build" "${probe_dir}" probe
              CMAKE_FLAGS "-Dasmjit_DIR=${asmjit_DIR}" "-DCMAKE_BUILD_TYPE=Release")
  set(SINTER_ASMJIT_IS_PIC "${SINTER_ASMJIT_IS_PIC}" CACHE INTERNAL "libasmjit can be linked into a shared library")
  if(NOT SINTER_ASMJIT_IS_PIC)
    message(STATUS "AsmJit in ${asmjit_DIR} is not position independent: Sinter links into programs, not into shared "
                   "libraries. For those set SINTER_ASMJIT_SOURCE_DIR to an AsmJit source folder (tools/asmjit_source fetches "
                   "one), or SINTER_X86=OFF.")
  endif()
endif()
set(sinter_asmjit_is_pic ${SINTER_ASMJIT_IS_PIC})
