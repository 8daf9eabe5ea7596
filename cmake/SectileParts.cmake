# sectile_part(): one top-level folder as an object library; sectile_library(): all of them as libsectile.
set_property(GLOBAL PROPERTY SECTILE_PARTS "")

# Where public headers (<sectile/...>) lie: in the parts, and the generated version.h.
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/include/sectile/version.h)
set(SECTILE_PUBLIC_INCLUDES ${PROJECT_BINARY_DIR}/include)
foreach(part dsl runtime autotune kernels)
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
  sectile_use_pch(${target})
  add_dependencies(${target} sectile_tablegen)
endfunction()

# sectile_part(name source...): adds the sources of one folder to libsectile.
function(sectile_part name)
  add_library(sectile_${name} OBJECT ${ARGN})
  sectile_setup(sectile_${name})
  set_property(GLOBAL APPEND PROPERTY SECTILE_PARTS sectile_${name})
endfunction()

# sectile_program(name source...): a program over libsectile that may use its internals.
function(sectile_program name)
  add_executable(${name} ${ARGN})
  sectile_setup(${name})
  target_link_libraries(${name} PRIVATE sectile MLIR LLVM)
endfunction()

function(sectile_library)
  get_property(parts GLOBAL PROPERTY SECTILE_PARTS)
  set(objects)
  foreach(part ${parts})
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  add_library(sectile SHARED ${PROJECT_SOURCE_DIR}/runtime/Version.cpp ${objects})
  add_library(Sectile::sectile ALIAS sectile)
  # The compile cache tells builds apart by it.
  target_link_options(sectile PRIVATE LINKER:--build-id=sha1)
  # Its launch index knows programs by theirs; not every linker makes one unasked.
  target_link_options(sectile INTERFACE LINKER:--build-id=sha1)
  set_target_properties(sectile PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINKER_LANGUAGE CXX)
  foreach(folder ${SECTILE_PUBLIC_INCLUDES})
    target_include_directories(sectile PUBLIC $<BUILD_INTERFACE:${folder}>)
  endforeach()
  target_include_directories(sectile SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_include_directories(sectile INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(sectile INTERFACE cxx_std_20)
  target_link_libraries(sectile PRIVATE MLIR LLVM ${SECTILE_LIBRARIES})
endfunction()
