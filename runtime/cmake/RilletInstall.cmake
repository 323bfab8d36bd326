# `cmake --install`: headers, library and the package that find_package(rillet) finds; its target is rillet::runtime.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rillet)
install(DIRECTORY include/rillet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS rillet_runtime EXPORT rillet ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rillet NAMESPACE rillet:: DESTINATION ${package} FILE rilletTargets.cmake)
configure_package_config_file(cmake/rilletConfig.cmake.in rilletConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(rilletConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rilletConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/rilletConfigVersion.cmake
  DESTINATION ${package})
