# Flags for every target of the runtime, and how a test is added.

function(rillet_target_flags target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra $<$<BOOL:${RILLET_WERROR}>:-Werror> -Werror=implicit-function-declaration -Wshadow -Wstrict-prototypes -fno-math-errno -fvisibility=hidden
    $<$<NOT:$<BOOL:${RILLET_SANITIZE}>>:-ffunction-sections -fdata-sections>)
  if(RILLET_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
  if(RILLET_FREESTANDING)
    target_compile_definitions(${target} PUBLIC RLT_FREESTANDING)
    target_compile_options(${target} PRIVATE -ffreestanding)
  endif()
  if(NOT RILLET_ERROR_MESSAGES)
    target_compile_definitions(${target} PUBLIC RLT_NO_ERROR_MESSAGES)
    target_compile_options(${target} PRIVATE -Wno-unneeded-internal-declaration)  # clang: texts that only messages use
  endif()
  if(RILLET_SINGLE_THREADED)
    target_compile_definitions(${target} PUBLIC RLT_SINGLE_THREADED)
  endif()
endfunction()

# rillet_test(name source...): an executable of the test harness, run by ctest.
function(rillet_test name)
  add_executable(${name} ${ARGN})
  rillet_target_flags(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE rillet_runtime)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
