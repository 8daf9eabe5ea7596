# What `cmake --install` puts where: the library with its public headers, the programs, and what
# find_package(Sectile) reads.
include(CMakePackageConfigHelpers)

file(RELATIVE_PATH libraries_from_programs
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR})
set_target_properties(sectile PROPERTIES INSTALL_RPATH ${LLVM_LIBRARY_DIR})
set_target_properties(sectile_cli sectile-opt PROPERTIES
  INSTALL_RPATH "$ORIGIN/${libraries_from_programs};${LLVM_LIBRARY_DIR}")

install(TARGETS sectile EXPORT SectileTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sectile_cli sectile-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder ${SECTILE_PUBLIC_INCLUDES})
  install(DIRECTORY ${folder}/sectile DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL
    FILES_MATCHING PATTERN "*.h")
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Sectile)
install(EXPORT SectileTargets NAMESPACE Sectile:: DESTINATION ${package})
configure_package_config_file(cmake/SectileConfig.cmake.in ${PROJECT_BINARY_DIR}/SectileConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SectileConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SectileConfig.cmake
  ${PROJECT_BINARY_DIR}/SectileConfigVersion.cmake DESTINATION ${package})
