# Configures, builds and runs the consumer project in a fresh folder. In: how, mode, library, kind, prefix, source, project,
# build, compiler, generator, x86, asmjit_source.

file(REMOVE_RECURSE "${build}")
set(options "-DCONSUMER_HOW=${how}" "-DCONSUMER_LIBRARY=${library}" "-DCONSUMER_KIND=${kind}" "-DCONSUMER_X86=${x86}")
if(how STREQUAL "find_package")
  list(APPEND options "-DCMAKE_PREFIX_PATH=${prefix}")
else()
  list(APPEND options "-DCONSUMER_SINTER_SOURCE=${source}" "-DSINTER_X86=${x86}")
  if(asmjit_source)
    list(APPEND options "-DSINTER_ASMJIT_SOURCE_DIR=${asmjit_source}")
  endif()
endif()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${project}" -B "${build}" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
          -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 ${options}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(mode STREQUAL "refuse")
  if(status EQUAL 0)
    message(FATAL_ERROR "A shared library over an AsmJit that is not position independent was configured without an error")
  endif()
  if(NOT "${output}${errors}" MATCHES "AsmJit_is_not_position_independent__set_SINTER_ASMJIT_SOURCE_DIR")
    message(FATAL_ERROR "The error does not say what to do:\n${output}${errors}")
  endif()
  return()
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "The consumer does not configure:\n${output}${errors}")
endif()
if(mode STREQUAL "configure")
  return()
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target consumer RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "The consumer does not build:\n${output}")
endif()

execute_process(COMMAND "${build}/consumer" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output MATCHES "5 7 9")
  message(FATAL_ERROR "The consumer ended with ${status} and printed: ${output}")
endif()
