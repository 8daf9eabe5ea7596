# The compiler's flags and the libraries of LLVM and MLIR.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Our own assertions stay on in every build: a compiler that is wrong should say so.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEV "-O1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")
# Programs too: -fPIE instead would not go with the precompiled header of the library.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers are hashed by content, so that two trees share one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# MLIR takes only its own minor version as compatible, so the major one is checked here.
# Where Debian and Ubuntu, Fedora and Gentoo have it beside other versions.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22 /usr/lib64/llvm22 /usr/lib/llvm/22)
if(LLVM_VERSION_MAJOR EQUAL 23)
  message(WARNING "Every change to Sectile is tested with LLVM and MLIR 22; ${LLVM_VERSION} in ${LLVM_DIR} is tried at times")
elseif(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "Sectile needs LLVM and MLIR 22 or 23, found ${LLVM_VERSION} in ${LLVM_DIR}: "
    "name another folder with -DMLIR_DIR=.../lib/cmake/mlir")
endif()
# Static archives on Debian, which use the shared LLVM; shared libraries on others.
find_package(LLD REQUIRED CONFIG HINTS ${LLVM_LIBRARY_DIR}/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(sectile_warnings INTERFACE)
target_compile_options(sectile_warnings INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 reports these inside LLVM's headers and the standard library's, where nothing is wrong.
  target_compile_options(sectile_warnings INTERFACE -Wno-init-list-lifetime -Wno-maybe-uninitialized
    -Wno-dangling-reference -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-free-nonheap-object)
  target_compile_options(sectile_warnings INTERFACE -Wno-unknown-warning-option)
else()
  # libstdc++ 16 asks for its loops to be unrolled, and clang says when it does not.
  target_compile_options(sectile_warnings INTERFACE -Wno-pass-failed)
  add_link_options(-fuse-ld=lld)
endif()

if(SECTILE_SANITIZE)
  set(SECTILE_SANITIZE_OPTIONS -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_compile_options(${SECTILE_SANITIZE_OPTIONS})
  add_link_options(-fsanitize=address,undefined)
endif()
