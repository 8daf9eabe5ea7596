# The library for machines without LLVM 22: all of libsectile and libsectile_rt, with LLVM, MLIR, lld and the C++ library
# inside, as one file that needs glibc 2.34 alone. It exports the C interface and nothing of C++, as its C++ library is
# its own. The Python wheel and the tarball carry it. Not part of the default build: `./dev wheel` and `./dev tarball`
# build it.

# A library links what some function of it refers to, and lld refers to all of LLVM's code generators. Ours are these;
# the initialisers of the others become empty, so that 45 MB stay outside.
set(code_generators NVPTX AMDGPU X86)
set(others ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM others ${code_generators})
set(text "// Generated: what the code generators that are left out would be registered by.\nextern \"C\" {\n")
foreach(generator ${others})
  foreach(function TargetInfo Target TargetMC AsmPrinter AsmParser Disassembler)
    string(APPEND text "void LLVMInitialize${generator}${function}() {}\n")
  endforeach()
endforeach()
string(APPEND text "}\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/static/OtherTargets.cpp CONTENT "${text}" @ONLY)

file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
if(NOT archives)
  message(STATUS "No archives of LLVM in ${LLVM_LIBRARY_DIR}: no library for machines without it")
  return()
endif()

get_property(parts GLOBAL PROPERTY SECTILE_PARTS)
get_property(runtime GLOBAL PROPERTY SECTILE_RUNTIME_PARTS)
# The functions of the C interface, and the entry of the program `sectile`.
set(header ${PROJECT_SOURCE_DIR}/capi/include/sectile.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(STRINGS ${header} declarations REGEX "^SECTILE_API ")
set(text "SECTILE_${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} {\n  global:\n    _ZN7sectile4tool11sectileMainEiPPc;\n")
foreach(declaration ${declarations})
  if(declaration MATCHES "(sectile_[a-z0-9_]+)\\(")
    string(APPEND text "    ${CMAKE_MATCH_1};\n")
  endif()
endforeach()
set(names ${PROJECT_BINARY_DIR}/static/exports.map)
file(CONFIGURE OUTPUT ${names} CONTENT "${text}  local: *;\n};\n" @ONLY)
sectile_shared_library(sectile_static ${parts} ${runtime} sectile_commands)
target_sources(sectile_static PRIVATE ${PROJECT_BINARY_DIR}/static/OtherTargets.cpp
  ${PROJECT_SOURCE_DIR}/cmake/static/Missing.cpp)
target_include_directories(sectile_static SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
set_target_properties(sectile_static PROPERTIES OUTPUT_NAME sectile EXCLUDE_FROM_ALL ON
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/static/lib)
set_property(TARGET sectile_static APPEND PROPERTY LINK_DEPENDS ${names})
target_link_libraries(sectile_static PRIVATE sectile_bench sectile_tools ${archives} ${LLVM_LIBRARY_DIR}/liblldELF.a
  ${LLVM_LIBRARY_DIR}/liblldCommon.a libsqlite3.a libzstd.a libz.a ${CMAKE_DL_LIBS})
target_link_options(sectile_static PRIVATE -fuse-ld=lld -static-libstdc++ LINKER:-z,defs LINKER:--gc-sections
  LINKER:--strip-all LINKER:-soname,libsectile.so
  LINKER:--exclude-libs,ALL LINKER:--version-script=${names})

# The program beside it.
add_executable(sectile_static_cli ${PROJECT_SOURCE_DIR}/tools/sectile/Program.cpp)
target_include_directories(sectile_static_cli PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(sectile_static_cli PRIVATE sectile_static sectile_warnings)
target_link_options(sectile_static_cli PRIVATE LINKER:--as-needed,--strip-all)
set_target_properties(sectile_static_cli PROPERTIES OUTPUT_NAME sectile EXCLUDE_FROM_ALL ON
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/static/bin BUILD_RPATH_USE_ORIGIN ON)

# Both, for machines without Python. `./dev tarball` builds it.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_target(sectile_tarball
  COMMAND Python3::Interpreter -B ${PROJECT_SOURCE_DIR}/packaging/tarball.py --version ${PROJECT_VERSION}
    --library $<TARGET_FILE:sectile_static> --program $<TARGET_FILE:sectile_static_cli>
    --headers ${SECTILE_PUBLIC_INCLUDES} --into ${PROJECT_BINARY_DIR}/dist
  DEPENDS sectile_static_cli ${PROJECT_SOURCE_DIR}/packaging/tarball.py
  COMMENT "Making the tarball" VERBATIM)
