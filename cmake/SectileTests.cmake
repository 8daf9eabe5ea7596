# How tests are declared: C++ (GoogleTest), scripts, code that must not compile, lit.
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# sectile_test(name source... [SHARDS count]): a GoogleTest program, an entry of ctest: its tests share a process, which
# compiles what they have in common once. In shards it is that many entries, each of which runs its part of the tests.
# OPTIMISED: its own loops take longer without optimisation than compiling with it does.
function(sectile_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "SHARDS" "")
  sectile_program(${name}_test ${arg_UNPARSED_ARGUMENTS})
  if(COMMAND sectile_unoptimised AND NOT arg_OPTIMISED)
    sectile_unoptimised(${name}_test tests)
  endif()
  target_link_libraries(${name}_test PRIVATE GTest::gmock GTest::gmock_main)
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  if(NOT arg_SHARDS)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
    return()
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name}_test)
    set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
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
  set(command ${CMAKE_CXX_COMPILER} -std=c++20 ${SECTILE_PUBLIC_INCLUDES})
  list(TRANSFORM command PREPEND -I REGEX "^/.*/include$")
  set(precompiled ${PROJECT_BINARY_DIR}/tests/compile_fail.pch)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND NOT TEST compile_fail.headers)
    add_test(NAME compile_fail.headers COMMAND ${command} -x c++-header
      ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/headers.h -o ${precompiled})
    set_tests_properties(compile_fail.headers PROPERTIES FIXTURES_SETUP compile_fail)
  endif()
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(options)
    file(STRINGS ${source} macros REGEX "^#define") # what changes the headers is read before them
    if(TEST compile_fail.headers AND NOT macros)
      set(options -include-pch ${precompiled})
    endif()
    add_test(NAME compile_fail.${name} COMMAND Python3::Interpreter
      ${PROJECT_SOURCE_DIR}/tests/compile_fail/expect_error.py ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      ${command} -fsyntax-only ${options})
    set_tests_properties(compile_fail.${name} PROPERTIES FIXTURES_REQUIRED compile_fail)
  endforeach()
endfunction()

# sectile_lit(folder): every file below that has RUN lines, as one entry of ctest.
function(sectile_lit folder)
  configure_file(${folder}/lit.site.cfg.py.in ${PROJECT_BINARY_DIR}/tests/lit/lit.site.cfg.py @ONLY)
  add_test(NAME lit COMMAND ${LLVM_TOOLS_BINARY_DIR}/lit -sv -j2 ${PROJECT_BINARY_DIR}/tests/lit)
  set_tests_properties(lit PROPERTIES PROCESSORS 2 TIMEOUT 900)
endfunction()
