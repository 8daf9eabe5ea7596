# sectile_use_pch(target name): precompiles the headers that most sources use, once: `library` has those of MLIR and LLVM;
# `sealed` the standard library's, for sealed sources.
#
# With clang the result lies in the user's cache folder, under a name made of all that it depends on: every build tree
# then compiles with the very same file, and ccache finds one tree's objects for another.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_library(sectile_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_include_directories(sectile_pch SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(sectile_pch PRIVATE sectile_warnings)
  target_precompile_headers(sectile_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)
  function(sectile_use_pch target name)
    if(name STREQUAL "library")
      target_precompile_headers(${target} REUSE_FROM sectile_pch)
    endif()
  endfunction()
  return()
endif()

# sectile_precompile(NAME FILES option...): the target sectile_pch_NAME, whose property SECTILE_PCH is what these headers
# make together, precompiled for sources with these options.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
function(sectile_precompile name files)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/cmake/ OUTPUT_VARIABLE sources)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(header "")
  foreach(source ${sources})
    file(READ ${source} text)
    string(APPEND header "${text}")
  endforeach()
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
  list(APPEND flags ${ARGN} -std=c++20 -fPIC -fpch-instantiate-templates -Xclang -fno-pch-timestamp)
  if(SECTILE_SANITIZE)
    list(APPEND flags ${SECTILE_SANITIZE_OPTIONS})
  endif()
  list(APPEND flags -isystem ${MLIR_INCLUDE_DIRS})
  string(SHA256 key "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_VERSION} ${LLVM_PACKAGE_VERSION} ${flags} ${header}")
  string(SUBSTRING ${key} 0 16 key)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(folder $ENV{XDG_CACHE_HOME}/sectile-build/${key})
  else()
    set(folder $ENV{HOME}/.cache/sectile-build/${key})
  endif()
  set(pch ${folder}/pch.h.pch)
  # Left alone where another tree has made it: a newer date would have every tree build everything again. Written beside
  # and renamed, as another tree may be making the same one.
  add_custom_command(OUTPUT ${pch}
    COMMAND test -f ${pch} || ( mkdir -p ${folder} && cat ${sources} > ${folder}/pch.h &&
      ${CMAKE_CXX_COMPILER} ${flags} -x c++-header ${folder}/pch.h -o ${pch}.$$$$ && mv ${pch}.$$$$ ${pch} )
    COMMENT "Precompiling headers: ${name}")
  add_custom_target(sectile_pch_${name} DEPENDS ${pch})
  set_target_properties(sectile_pch_${name} PROPERTIES SECTILE_PCH ${pch})
endfunction()
sectile_precompile(library pch.h)
sectile_precompile(sealed sealed_pch.h -Oz)

function(sectile_use_pch target name)
  add_dependencies(${target} sectile_pch_${name})
  set_target_properties(${target} PROPERTIES SECTILE_PCH sectile_pch_${name})
  target_compile_options(${target} PRIVATE -fpch-instantiate-templates "SHELL:-Xclang -fno-pch-timestamp")
  # At the end of the folder, when it is known which sources do without (for an optimisation level of their own).
  cmake_language(EVAL CODE "cmake_language(DEFER CALL sectile_include_pch ${target})")
endfunction()

function(sectile_include_pch target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(precompiled ${target} SECTILE_PCH)
  get_target_property(pch ${precompiled} SECTILE_PCH)
  foreach(source ${sources})
    get_source_file_property(skip ${source} SKIP_PRECOMPILE_HEADERS)
    if(NOT skip)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include-pch ${pch})
    endif()
  endforeach()
endfunction()

# sectile_unoptimised(target name): compiled in less than half of the time, in builds for development, with precompiled
# headers of its own: `unoptimised`, or `tests`, which has GoogleTest's too.
if(build_type STREQUAL "DEV" AND NOT SECTILE_SANITIZE)
  sectile_precompile(unoptimised pch.h -O0)
  sectile_precompile(tests "pch.h;sealed_pch.h;test_pch.h" -O0 -DGTEST_HAS_PTHREAD=1)
  function(sectile_unoptimised target name)
    add_dependencies(${target} sectile_pch_${name})
    set_target_properties(${target} PROPERTIES SECTILE_PCH sectile_pch_${name})
    target_compile_options(${target} PRIVATE -O0)
  endfunction()
endif()
