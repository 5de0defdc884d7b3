# Run by ctest itself: lists the test cases of one program and registers each as a test of its own.
# In: suite (name prefix), executable, emulator (what runs it where this processor cannot; may be empty), environment, properties.

if(NOT EXISTS "${executable}")
  add_test("${suite}.not_built" "${executable}")
  return()
endif()

# --list-test-names-only is Catch2 2.x, where the exit status is the number of tests; 3.x has --list-tests.
execute_process(COMMAND ${emulator} "${executable}" --list-test-names-only RESULT_VARIABLE status OUTPUT_VARIABLE names ERROR_QUIET)
if(names STREQUAL "")
  execute_process(COMMAND ${emulator} "${executable}" --list-tests --verbosity quiet RESULT_VARIABLE status OUTPUT_VARIABLE names)
endif()
if(NOT status MATCHES "^[0-9]+$" OR names STREQUAL "")
  add_test("${suite}.lists_its_tests" ${emulator} "${executable}" --list-tests)
  set_tests_properties("${suite}.lists_its_tests" PROPERTIES ${properties})
  message(WARNING "${executable} does not list its tests: ${status}")
  return()
endif()

string(REPLACE ";" "\\;" names "${names}")
string(REPLACE "\n" ";" names "${names}")
foreach(name IN LISTS names)
  if(name STREQUAL "")
    continue()
  endif()
  # A comma or a bracket in a name is syntax in a Catch2 test specification.
  string(REGEX REPLACE "([][,*~\\])" "\\\\\\1" specification "${name}")
  add_test("${suite}: ${name}" ${emulator} "${executable}" "${specification}")
  set_tests_properties("${suite}: ${name}" PROPERTIES ${properties} ENVIRONMENT "${environment}")
endforeach()
