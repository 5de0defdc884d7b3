# Configures the project without options, in a fresh folder, and checks what it would compile. In: source, build, compiler.

file(REMOVE_RECURSE "${build}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G Ninja "-DCMAKE_CXX_COMPILER=${compiler}"
          -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "It does not configure:\n${output}")
endif()

file(STRINGS "${build}/compile_commands.json" files REGEX "\"file\":")
list(LENGTH files count)
list(FILTER files EXCLUDE REGEX "/cmake/compiled/[a-z0-9_]+\\.cpp\"")
list(FILTER files EXCLUDE REGEX "/cmake/mpi/sinter_mpi\\.cpp\"")   # where MPI is found
if(count EQUAL 0 OR files)
  message(FATAL_ERROR "Of ${count} files that a plain build compiles, these are not the library's: ${files}")
endif()
