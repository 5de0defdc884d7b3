# Finds what Sinter stands on: Eigen and TBB always, AsmJit for the x86 code generator.
# Sets sinter_has_x86, sinter_asmjit_target and sinter_asmjit_is_pic.

find_package(Eigen3 3.3 REQUIRED NO_MODULE)
find_package(TBB REQUIRED CONFIG)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(SINTER_ASMJIT_SOURCE_DIR "" CACHE PATH
    "An AsmJit source folder, built position-independent as part of Sinter; empty: find_package(asmjit)")

set(sinter_asmjit_target "")
set(sinter_asmjit_is_pic TRUE)
set(sinter_is_x86_64 FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(sinter_is_x86_64 TRUE)
endif()

if(sinter_is_x86_64 AND (NOT DEFINED SINTER_X86 OR SINTER_X86))
  if(SINTER_ASMJIT_SOURCE_DIR)
    include(SinterAsmjitFromSource)
    set(sinter_asmjit_target sinter_asmjit)
  else()
    find_package(asmjit CONFIG QUIET)
    if(asmjit_FOUND)
      set(sinter_asmjit_target asmjit::asmjit)
      include(SinterAsmjitPic)
    elseif(SINTER_X86)
      message(FATAL_ERROR
        "SINTER_X86 is ON, but AsmJit was not found. Install it (Debian and Ubuntu: apt-get install libasmjit-dev), "
        "name a source folder in SINTER_ASMJIT_SOURCE_DIR, or set SINTER_X86=OFF to build on the reference back end.")
    else()
      message(WARNING
        "AsmJit was not found: Sinter is built without the x86 code generator and runs on the slow reference back "
        "end. Install it (Debian and Ubuntu: apt-get install libasmjit-dev), or name a source folder in "
        "SINTER_ASMJIT_SOURCE_DIR.")
    endif()
  endif()
endif()

if(sinter_asmjit_target)
  set(sinter_x86_default ON)
else()
  set(sinter_x86_default OFF)
endif()
option(SINTER_X86 "Generate x86-64 machine code with AsmJit; OFF: everything runs on the reference back end"
       ${sinter_x86_default})
if(SINTER_X86 AND NOT sinter_is_x86_64)
  message(FATAL_ERROR "SINTER_X86 is ON, but the target processor is ${CMAKE_SYSTEM_PROCESSOR}")
endif()
set(sinter_has_x86 ${SINTER_X86})
