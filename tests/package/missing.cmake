# Configures the project on a machine that lacks what it stands on, and checks that the error says what to install.
# In: source, build, compiler.

foreach(package Eigen3 TBB)
  string(REGEX REPLACE "[0-9]+$" "" name ${package})
  string(TOLOWER "${package}" library)
  file(REMOVE_RECURSE "${build}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" "-DCMAKE_CXX_COMPILER=${compiler}"
            -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(FIND "${output}" "Sinter needs ${name}, which was not found. Install it" message)
  string(FIND "${output}" "apt-get install lib${library}-dev" install)
  if(status EQUAL 0 OR message EQUAL -1 OR install EQUAL -1)
    message(FATAL_ERROR "Without ${package} it ends with ${status} and says:\n${output}")
  endif()
endforeach()
