# The part of Zephyr's build interface that a module and an application use, for this machine instead of a board:
# https://docs.zephyrproject.org/latest/develop/modules.html (module.yml's build.cmake, the zephyr_* functions, CONFIG_*).
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/prj.conf settings REGEX "^CONFIG_")
foreach(setting ${settings})
  string(REGEX MATCH "^([^=]+)=(.*)$" _ ${setting})
  set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()

enable_language(C)
add_executable(app)

function(zephyr_include_directories)
  target_include_directories(app PRIVATE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY zephyr_include_directories ${ARGN})
endfunction()

macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  get_property(directories GLOBAL PROPERTY zephyr_include_directories)
  target_include_directories(${name} PRIVATE ${directories})
  target_link_libraries(app PRIVATE ${name})
endmacro()

function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()

function(zephyr_library_import name path)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${path})
  target_link_libraries(app PRIVATE ${name})
endfunction()

foreach(module ${ZEPHYR_EXTRA_MODULES})
  file(STRINGS ${module}/zephyr/module.yml folder REGEX "^ +cmake: ")
  string(REGEX REPLACE "^ +cmake: " "" folder ${folder})
  add_subdirectory(${module}/${folder} ${CMAKE_BINARY_DIR}/module)
endforeach()
