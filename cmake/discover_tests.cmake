# Run by ctest itself: lists the test cases of one program and registers each as a test of its own.
# In: suite (name prefix), executable, emulator (what runs it where this processor cannot; may be empty), environment,
# label, timeout, properties, and for groups python and run_group. Where the environment has SINTER_TEST_GROUP=N, up to N
# cases are one test of ctest and share a process.

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
set(specifications "")
foreach(name IN LISTS names)
  if(name STREQUAL "")
    continue()
  endif()
  # A comma or a bracket in a name is syntax in a Catch2 test specification.
  string(REGEX REPLACE "([][,*~\\])" "\\\\\\1" specification "${name}")
  if("$ENV{SINTER_TEST_GROUP}" GREATER 1)
    string(REPLACE ";" "\\;" specification "${specification}")
    list(APPEND specifications "${specification}")
  else()
    add_test("${suite}: ${name}" ${emulator} "${executable}" "${specification}")
    set_tests_properties("${suite}: ${name}" PROPERTIES ${properties} ENVIRONMENT "${environment}")
  endif()
endforeach()

# Every n-th case is in one group, so that the long tests of a file are in several.
list(LENGTH specifications count)
if(count GREATER 0)
  math(EXPR groups "(${count} + $ENV{SINTER_TEST_GROUP} - 1) / $ENV{SINTER_TEST_GROUP}")
  math(EXPR limit "${timeout} * 10")
  foreach(group RANGE 1 ${groups})
    set(members "")
    math(EXPR first "${group} - 1")
    math(EXPR last "${count} - 1")
    foreach(place RANGE ${first} ${last} ${groups})
      list(GET specifications ${place} specification)
      string(REPLACE ";" "\\;" specification "${specification}")
      list(APPEND members "${specification}")
    endforeach()
    set(name "${suite}: group ${group} of ${groups}")
    add_test("${name}" "${python}" "${run_group}" ${timeout} ${emulator} "${executable}" -- ${members})
    set_tests_properties("${name}" PROPERTIES LABELS ${label} TIMEOUT ${limit} ENVIRONMENT "${environment}")
  endforeach()
endif()
