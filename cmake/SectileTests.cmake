# How tests are declared: C++ (GoogleTest), scripts, code that must not compile, lit.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(GoogleTest)

# sectile_test(name source...): a GoogleTest program; each of its tests is an entry of ctest.
function(sectile_test name)
  sectile_program(${name}_test ${ARGN})
  target_link_libraries(${name}_test PRIVATE GTest::gmock GTest::gmock_main)
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 1200)
endfunction()

# sectile_script_test(name script.py argument...): a Python script that exits with 0 when all is well.
function(sectile_script_test name script)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
endfunction()

# sectile_cli_test(name argument...): tests/cli/NAME_test.py, which drives the program `sectile`.
function(sectile_cli_test name)
  string(JOIN "." entry cli.${name} ${ARGN})
  sectile_script_test(${entry} cli/${name}_test.py $<TARGET_FILE:sectile_cli> ${ARGN})
endfunction()

# sectile_compile_fail(source...): each source must be refused by the compiler, with an error that
# matches the regular expression after `// expect: ` in it. Public headers only.
function(sectile_compile_fail)
  set(includes ${SECTILE_PUBLIC_INCLUDES})
  list(TRANSFORM includes PREPEND -I)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME compile_fail.${name} COMMAND Python3::Interpreter
      ${PROJECT_SOURCE_DIR}/tests/compile_fail/expect_error.py ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only ${includes})
  endforeach()
endfunction()

# sectile_lit(folder): every file below that has RUN lines, as one entry of ctest.
function(sectile_lit folder)
  configure_file(${folder}/lit.site.cfg.py.in ${PROJECT_BINARY_DIR}/tests/lit/lit.site.cfg.py @ONLY)
  add_test(NAME lit COMMAND ${LLVM_TOOLS_BINARY_DIR}/lit -sv -j2 ${PROJECT_BINARY_DIR}/tests/lit)
  set_tests_properties(lit PROPERTIES PROCESSORS 2 TIMEOUT 900)
endfunction()
