# What `cmake --install` puts where: the library with its public headers, the programs, what find_package(Sectile) and
# pkg-config read, the documents. docs/install.md says so to users. Nothing installed holds the prefix: all may be moved.
include(CMakePackageConfigHelpers)

# The paths between folders are those of any prefix.
foreach(name BINDIR LIBDIR INCLUDEDIR DATADIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
    message(FATAL_ERROR "CMAKE_INSTALL_${name} must be relative: what is installed finds its parts by relative paths")
  endif()
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Sectile)
set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH libraries_from_programs /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig} /)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})

option(SECTILE_RELOCATABLE "Installed programs and libraries find each other by relative run paths; off for packages,
  whose libraries lie where the system looks" ON)
# LLVM's folder is the distribution's.
set_target_properties(sectile PROPERTIES INSTALL_RPATH "${LLVM_LIBRARY_DIR}")
if(SECTILE_RELOCATABLE)
  set_target_properties(sectile PROPERTIES INSTALL_RPATH "$ORIGIN;${LLVM_LIBRARY_DIR}")
  set_target_properties(sectile_sealed sectile_vgpu PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(sectile_cli sectile-opt PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
endif()

install(TARGETS sectile_vgpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}) # nobody links it
install(TARGETS sectile sectile_rt sectile_sealed sectile_usage_runtime sectile_usage_kernels EXPORT SectileTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# CMake's sectile_add_bundle runs Sectile::program.
set_target_properties(sectile_cli PROPERTIES EXPORT_NAME program)
install(TARGETS sectile_cli EXPORT SectileTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS sectile-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder ${SECTILE_PUBLIC_INCLUDES})
  install(DIRECTORY ${folder}/sectile DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL
    FILES_MATCHING PATTERN "*.h")
endforeach()

install(FILES capi/include/sectile.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT SectileTargets NAMESPACE Sectile:: DESTINATION ${package})
configure_package_config_file(cmake/SectileConfig.cmake.in ${PROJECT_BINARY_DIR}/SectileConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SectileConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/SectileBundle.cmake cmake/SectileBundle.cpp.in ${PROJECT_BINARY_DIR}/SectileConfig.cmake
  ${PROJECT_BINARY_DIR}/SectileConfigVersion.cmake DESTINATION ${package})
foreach(module sectile sectile-runtime sectile-kernels)
  configure_file(cmake/${module}.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${pkgconfig})
endforeach()

# As in the tree, so that links between the documents hold.
set(documents ${CMAKE_INSTALL_DATADIR}/doc/sectile)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${documents})
install(DIRECTORY docs DESTINATION ${documents} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
  PATTERN "site" EXCLUDE)
install(DIRECTORY examples DESTINATION ${documents} FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h" PATTERN "*.c" PATTERN "*.json"
  PATTERN "find_package/CMakeLists.txt" PATTERN "bundle/CMakeLists.txt" PATTERN "decoder/*" PATTERN "minilm/*" PATTERN "__pycache__" EXCLUDE)

# The man page and the completions are made from the program's help.
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)

# What has to be built for an install: no tests.
add_custom_target(sectile_installed DEPENDS sectile sectile_rt sectile_sealed sectile_vgpu sectile_cli sectile-opt)
if(TARGET sectile_generated)
  add_dependencies(sectile_installed sectile_generated)
endif()

# Last: the list of all files, by which `./dev uninstall` removes them.
install(CODE "set(list ${CMAKE_INSTALL_DATADIR}/sectile/installed-files)")
install(CODE [[
  set(text "")
  foreach(file ${CMAKE_INSTALL_MANIFEST_FILES})
    file(RELATIVE_PATH file ${CMAKE_INSTALL_PREFIX} ${file})
    string(APPEND text "${file}\n")
  endforeach()
  file(WRITE "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${list}" "${text}${list}\n")
]])
