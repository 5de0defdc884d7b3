# The libraries. Users see of them an include path, C++20, and the definitions that select the ABI; what the .ipp files need
# (Eigen, TBB, AsmJit) reaches users of sinter::inline alone.

if(sinter_has_x86 AND NOT sinter_asmjit_is_pic)
  # A link item with '::' that is no target stops CMake's generation with its name, and the name says what to do.
  set(refuse_shared "$<$<OR:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>>:sinter::this_AsmJit_is_not_position_independent__set_SINTER_ASMJIT_SOURCE_DIR_or_SINTER_X86_OFF>")
else()
  set(refuse_shared "")
endif()

set(sinter_implementation_libraries Eigen3::Eigen TBB::tbb Threads::Threads ${CMAKE_DL_LIBS})
if(sinter_has_x86)
  list(APPEND sinter_implementation_libraries ${sinter_asmjit_target})
endif()

if(SINTER_YAML)
  list(APPEND sinter_implementation_libraries ${sinter_yaml_target})
endif()

function(sinter_public_interface target scope)
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(NOT sinter_has_x86 AND sinter_is_x86_64)   # elsewhere config.hpp knows by itself
    target_compile_definitions(${target} ${scope} SINTER_NO_X86)
  endif()
  if(sinter_has_cuda)
    target_compile_definitions(${target} ${scope} SINTER_CUDA)
  endif()
endfunction()

# Every file that includes Sinter compiles what it uses of it.
add_library(sinter_inline INTERFACE)
add_library(sinter::inline ALIAS sinter_inline)
sinter_public_interface(sinter_inline INTERFACE)
target_link_libraries(sinter_inline INTERFACE ${sinter_implementation_libraries} ${refuse_shared})
if(SINTER_YAML)
  target_compile_definitions(sinter_inline INTERFACE SINTER_YAML)
endif()
if(sinter_has_cuda)
  target_include_directories(sinter_inline SYSTEM INTERFACE "${sinter_cuda_include_dir}")
endif()

set(sinter_parts core ops linalg fft expr passes kernel runtime reference x86 cuda jit io solvers dist
  cuda_source debug observe onnx)   # sinter_small_parts last: SinterStatic.cmake

add_library(sinter_compiled STATIC)
foreach(part IN LISTS sinter_parts)   # so that they compile side by side, and an edit rebuilds one
  target_sources(sinter_compiled PRIVATE "${PROJECT_SOURCE_DIR}/cmake/compiled/${part}.cpp")
endforeach()
add_library(sinter::compiled ALIAS sinter_compiled)
if(SINTER_YAML)   # one file alone is built with it, and no header depends on it
  set_source_files_properties("${PROJECT_SOURCE_DIR}/cmake/compiled/debug.cpp" PROPERTIES COMPILE_DEFINITIONS SINTER_YAML)
endif()
sinter_public_interface(sinter_compiled PUBLIC)
target_compile_definitions(sinter_compiled PUBLIC SINTER_SEPARATE_COMPILATION)
if(sinter_has_cuda)
  target_include_directories(sinter_compiled SYSTEM PRIVATE "${sinter_cuda_include_dir}")
endif()
target_link_libraries(sinter_compiled
  PRIVATE ${sinter_implementation_libraries} $<BUILD_INTERFACE:sinter_flags>
  INTERFACE ${refuse_shared})
include("${CMAKE_CURRENT_LIST_DIR}/SinterStatic.cmake")
sinter_static_library(sinter_compiled)

# Headers alone are installed of it: a build that links to it compiles their definitions itself, once for all its programs
# (SinterFromHeaders.cmake). Here the same comes from sinter_compiled.
add_library(sinter INTERFACE)
add_library(sinter::sinter ALIAS sinter)
sinter_public_interface(sinter INTERFACE)
target_compile_definitions(sinter INTERFACE SINTER_SEPARATE_COMPILATION)
target_link_libraries(sinter INTERFACE $<BUILD_INTERFACE:sinter_compiled>)
set_target_properties(sinter_compiled PROPERTIES EXPORT_NAME compiled)
set_target_properties(sinter_inline PROPERTIES EXPORT_NAME inline)
