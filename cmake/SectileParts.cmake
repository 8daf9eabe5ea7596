# sectile_part(): one top-level folder as an object library; sectile_library(): all of them as libsectile, and as the
# library that tests link.
set_property(GLOBAL PROPERTY SECTILE_PARTS "")
set_property(GLOBAL PROPERTY SECTILE_RUNTIME_PARTS "")
set_property(GLOBAL PROPERTY SECTILE_SEALED_PARTS "")
set_property(GLOBAL PROPERTY SECTILE_VIRTUAL_PARTS "")

# What the names of shared libraries end with. Before 1.0 a minor version may change what it likes.
set(SECTILE_ABI ${PROJECT_VERSION_MAJOR})
if(SECTILE_ABI EQUAL 0)
  set(SECTILE_ABI 0.${PROJECT_VERSION_MINOR})
endif()

# Where public headers (<sectile/...>) lie: in the parts, and the generated version.h.
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/include/sectile/version.h)
set(SECTILE_PUBLIC_INCLUDES ${PROJECT_BINARY_DIR}/include)
foreach(part dsl runtime autotune kernels capi)
  list(APPEND SECTILE_PUBLIC_INCLUDES ${PROJECT_SOURCE_DIR}/${part}/include)
endforeach()

include(SectilePch)

# What a target that compiles Sectile's own sources needs.
function(sectile_setup target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} PRIVATE ${SECTILE_PUBLIC_INCLUDES})
  # TableGen's output is generated code: not ours to keep free of warnings.
  target_include_directories(${target} SYSTEM PRIVATE ${PROJECT_BINARY_DIR} ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE sectile_warnings)
  sectile_use_pch(${target} library)
  add_dependencies(${target} sectile_tablegen)
endfunction()

# sectile_part(name source...): adds the sources of one folder to libsectile.
function(sectile_part name)
  add_library(sectile_${name} OBJECT ${ARGN})
  sectile_setup(sectile_${name})
  set_property(GLOBAL APPEND PROPERTY SECTILE_PARTS sectile_${name})
endfunction()

# Objects that go without LLVM: its folders are not even on the path.
function(sectile_without_llvm target)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${SECTILE_PUBLIC_INCLUDES})
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  target_link_libraries(${target} PRIVATE sectile_warnings)
endfunction()

# sectile_runtime_part(name source...): adds the sources of one folder to libsectile_rt.
function(sectile_runtime_part name)
  sectile_without_llvm(sectile_${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY SECTILE_RUNTIME_PARTS sectile_${name})
endfunction()

# sectile_virtual_part(name source...): adds them to libsectile and to libsectile_vgpu.
function(sectile_virtual_part name)
  sectile_without_llvm(sectile_${name} ${ARGN})
  foreach(list SECTILE_PARTS SECTILE_VIRTUAL_PARTS)
    set_property(GLOBAL APPEND PROPERTY ${list} sectile_${name})
  endforeach()
endfunction()

# sectile_sealed_part(name source...): adds them to the library that sealed programs have, made small.
function(sectile_sealed_part name)
  sectile_without_llvm(sectile_${name} ${ARGN})
  target_compile_definitions(sectile_${name} PRIVATE SECTILE_SEALED)
  # Exceptions need no tables that hold within prologues and epilogues.
  target_compile_options(sectile_${name} PRIVATE -Oz -fno-asynchronous-unwind-tables)
  sectile_use_pch(sectile_${name} sealed)
  set_property(GLOBAL APPEND PROPERTY SECTILE_SEALED_PARTS sectile_${name})
endfunction()

# sectile_program(name source...): a program that uses Sectile's internals. It is not installed: libsectile has none.
function(sectile_program name)
  add_executable(${name} ${ARGN})
  sectile_setup(${name})
  target_link_libraries(${name} PRIVATE sectile_internal MLIR LLVM)
endfunction()

# The public headers' names, as a version script.
function(sectile_exports target)
  find_program(SECTILE_CLANG NAMES clang++ HINTS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(headers ${PROJECT_SOURCE_DIR}/tools/Programs.h ${PROJECT_SOURCE_DIR}/capi/include/sectile.h)
  foreach(folder ${SECTILE_PUBLIC_INCLUDES})
    file(GLOB found CONFIGURE_DEPENDS ${folder}/sectile/*.h)
    list(APPEND headers ${found})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/sectile/*.h) # those that they include
    list(APPEND sources ${found})
  endforeach()
  set(includes ${SECTILE_PUBLIC_INCLUDES})
  list(TRANSFORM includes PREPEND -I)
  set(script ${PROJECT_BINARY_DIR}/exports.map)
  add_custom_command(OUTPUT ${script}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/exports.py ${SECTILE_CLANG} ${script}
      ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} $<TARGET_FILE:sectile_rt> ${headers}
      -- -std=c++20 ${includes}
    DEPENDS sectile_rt ${headers} ${sources} ${PROJECT_SOURCE_DIR}/cmake/exports.py
    COMMENT "Listing what the public headers declare" VERBATIM)
  add_custom_target(${target}_exports DEPENDS ${script})
  add_dependencies(${target} ${target}_exports)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# A shared library of these parts, with what all of ours have in common.
function(sectile_shared_library target)
  set(objects)
  foreach(part ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  add_library(${target} SHARED ${objects})
  # The compile cache tells builds apart by it.
  target_link_options(${target} PRIVATE LINKER:--build-id=sha1)
  # Its launch index knows programs by theirs; not every linker makes one unasked.
  target_link_options(${target} INTERFACE LINKER:--build-id=sha1)
  # Others keep addresses of ours: of the compiler, of kernels.
  target_link_options(${target} PRIVATE LINKER:-z,nodelete)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  foreach(folder ${SECTILE_PUBLIC_INCLUDES})
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
  endforeach()
  target_compile_features(${target} INTERFACE cxx_std_20)
endfunction()

# One that is installed.
function(sectile_public_library target)
  sectile_shared_library(${target} ${ARGN})
  add_library(Sectile::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${SECTILE_ABI})
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

function(sectile_library)
  get_property(parts GLOBAL PROPERTY SECTILE_PARTS)
  get_property(runtime GLOBAL PROPERTY SECTILE_RUNTIME_PARTS)
  get_property(sealed GLOBAL PROPERTY SECTILE_SEALED_PARTS)

  # The runtime exports all names of ours, as the compiler's library uses more of it than users may.
  sectile_public_library(sectile_rt ${runtime})
  set(names ${PROJECT_SOURCE_DIR}/cmake/runtime.map)
  target_link_options(sectile_rt PRIVATE LINKER:--version-script=${names} LINKER:--gc-sections
    LINKER:-z,pack-relative-relocs $<$<CXX_COMPILER_ID:Clang>:LINKER:--icf=safe>)
  set_property(TARGET sectile_rt APPEND PROPERTY LINK_DEPENDS ${names})
  target_link_libraries(sectile_rt PRIVATE ${CMAKE_DL_LIBS})

  # What the runtime opens for a virtual device where there is no compiler.
  get_property(virtual GLOBAL PROPERTY SECTILE_VIRTUAL_PARTS)
  sectile_public_library(sectile_vgpu ${virtual})
  set(names ${PROJECT_SOURCE_DIR}/cmake/vgpu.map)
  target_link_options(sectile_vgpu PRIVATE LINKER:--version-script=${names} LINKER:--gc-sections
    LINKER:-z,pack-relative-relocs)
  set_property(TARGET sectile_vgpu APPEND PROPERTY LINK_DEPENDS ${names})
  target_link_libraries(sectile_vgpu PRIVATE sectile_rt ${CMAKE_DL_LIBS})

  sectile_public_library(sectile ${parts})
  target_link_libraries(sectile PUBLIC sectile_rt PRIVATE MLIR LLVM ${SECTILE_LIBRARIES})
  sectile_exports(sectile)

  # What sealed programs have in place of libsectile. It exports what that does, as far as it has it; what nothing
  # exported needs is left out, and with it all that would need the language.
  sectile_public_library(sectile_sealed ${sealed})
  set_target_properties(sectile_sealed PROPERTIES OUTPUT_NAME sectile_kernels EXPORT_NAME sectile_kernels)
  target_link_libraries(sectile_sealed PUBLIC sectile_rt)
  add_dependencies(sectile_sealed sectile_exports)
  target_link_options(sectile_sealed PRIVATE LINKER:--version-script=${PROJECT_BINARY_DIR}/exports.map LINKER:--gc-sections
    LINKER:-z,pack-relative-relocs LINKER:-O2
    $<$<CXX_COMPILER_ID:Clang>:LINKER:--undefined-version,--icf=safe>)
  set_property(TARGET sectile_sealed APPEND PROPERTY LINK_DEPENDS ${PROJECT_BINARY_DIR}/exports.map)
  if(NOT SECTILE_SANITIZE) # whose functions are the program's
    target_link_options(sectile_sealed PRIVATE LINKER:-z,defs)
  endif()

  # What programs without the compiler link: Sectile::runtime, and Sectile::kernels for the library's kernels too.
  foreach(usage runtime kernels)
    add_library(sectile_usage_${usage} INTERFACE)
    add_library(Sectile::${usage} ALIAS sectile_usage_${usage})
    set_target_properties(sectile_usage_${usage} PROPERTIES EXPORT_NAME ${usage})
    target_compile_definitions(sectile_usage_${usage} INTERFACE SECTILE_SEALED)
  endforeach()
  target_link_libraries(sectile_usage_runtime INTERFACE sectile_rt)
  target_link_libraries(sectile_usage_kernels INTERFACE sectile_sealed sectile_usage_runtime)
  # CMake refuses a target that links both the compiler and one of these.
  foreach(target sectile sectile_usage_runtime sectile_usage_kernels)
    set_target_properties(${target} PROPERTIES COMPATIBLE_INTERFACE_BOOL SECTILE_SEALED INTERFACE_SECTILE_SEALED ON)
  endforeach()
  set_target_properties(sectile PROPERTIES INTERFACE_SECTILE_SEALED OFF)

  # All objects of both with every name visible, for tests. It looks for bin/sectile beside it, as libsectile does.
  sectile_shared_library(sectile_internal ${parts} ${runtime})
  target_link_libraries(sectile_internal PRIVATE MLIR LLVM ${SECTILE_LIBRARIES})
  # It calls its own copies of templates, not those of a test that is compiled without optimisation.
  target_link_options(sectile_internal PRIVATE LINKER:-Bsymbolic-functions)
  set_target_properties(sectile_internal PROPERTIES EXCLUDE_FROM_ALL ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/internal/lib)
endfunction()
