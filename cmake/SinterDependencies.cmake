# Finds what Sinter stands on: Eigen and TBB always, AsmJit for the x86 code generator.
# Sets sinter_has_x86, sinter_asmjit_target and sinter_asmjit_is_pic; sinter_has_cuda and sinter_cuda_include_dir.

# Eigen's packages call no other major version compatible, and 5 serves as well as 3.
find_package(Eigen3 QUIET NO_MODULE)
if(NOT Eigen3_FOUND)
  message(FATAL_ERROR
    "Sinter needs Eigen, which was not found. Install it (Debian and Ubuntu: apt-get install libeigen3-dev), or name the folder "
    "of its Eigen3Config.cmake in Eigen3_DIR. ${Eigen3_NOT_FOUND_MESSAGE}")
endif()
if(Eigen3_VERSION VERSION_LESS 3.3)
  message(FATAL_ERROR "Sinter needs Eigen 3.3 or later; ${Eigen3_DIR} has ${Eigen3_VERSION}")
endif()
find_package(TBB QUIET CONFIG)
if(NOT TBB_FOUND)
  message(FATAL_ERROR
    "Sinter needs TBB, which was not found. Install it (Debian and Ubuntu: apt-get install libtbb-dev), or name the folder of "
    "its TBBConfig.cmake in TBB_DIR. ${TBB_NOT_FOUND_MESSAGE}")
endif()
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

# The CUDA back end needs the toolkit's headers alone; its libraries and the driver are opened at run time.
find_path(sinter_cuda_include_dir cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
set(sinter_has_cuda_headers FALSE)
if(sinter_cuda_include_dir AND EXISTS "${sinter_cuda_include_dir}/nvrtc.h" AND EXISTS "${sinter_cuda_include_dir}/cublasLt.h")
  file(STRINGS "${sinter_cuda_include_dir}/cuda.h" sinter_cuda_version_line REGEX "^#define CUDA_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+$" sinter_cuda_version "${sinter_cuda_version_line}")
  if(sinter_cuda_version GREATER_EQUAL 13000)
    set(sinter_has_cuda_headers TRUE)
  endif()
endif()
option(SINTER_CUDA "Generate CUDA kernels with NVRTC; needs the headers of CUDA Toolkit 13 (cuda.h, nvrtc.h, cublasLt.h)"
       ${sinter_has_cuda_headers})
if(SINTER_CUDA AND NOT sinter_has_cuda_headers)
  message(FATAL_ERROR
    "SINTER_CUDA is ON, but the headers of CUDA Toolkit 13 (cuda.h, nvrtc.h, cublasLt.h) were not found. Name the toolkit in "
    "CUDA_HOME, or set SINTER_CUDA=OFF to build without the CUDA back end.")
elseif(NOT SINTER_CUDA)
  message(STATUS "Sinter is built without the CUDA back end (headers of CUDA Toolkit 13 not found, or SINTER_CUDA=OFF)")
endif()
set(sinter_has_cuda ${SINTER_CUDA})

# Configuration files (SINTER_CONFIG, jit::configure) are read by yaml-cpp.
find_package(yaml-cpp CONFIG QUIET)
option(SINTER_YAML "Read configuration files with yaml-cpp" ${yaml-cpp_FOUND})
if(SINTER_YAML AND NOT yaml-cpp_FOUND)
  message(FATAL_ERROR
    "SINTER_YAML is ON, but yaml-cpp was not found. Install it (Debian and Ubuntu: apt-get install libyaml-cpp-dev), or set "
    "SINTER_YAML=OFF: jit::configure then throws.")
endif()
set(sinter_yaml_target "")
if(SINTER_YAML)
  set(sinter_yaml_target yaml-cpp)
  if(TARGET yaml-cpp::yaml-cpp)
    set(sinter_yaml_target yaml-cpp::yaml-cpp)
  endif()
endif()
