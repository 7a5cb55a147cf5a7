# Compiler options of every target of ours, as the interface library hvdray_options.
add_library(hvdray_options INTERFACE)
target_include_directories(hvdray_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(hvdray_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Wno-missing-field-initializers)
if(HVDRAY_WERROR)
  target_compile_options(hvdray_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(hvdray_options INTERFACE -Wthread-safety)
endif()
if(HVDRAY_SANITIZE STREQUAL "address")
  target_compile_options(hvdray_options INTERFACE -fsanitize=address,undefined
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hvdray_options INTERFACE -fsanitize=address,undefined)
elseif(HVDRAY_SANITIZE STREQUAL "thread")
  target_compile_options(hvdray_options INTERFACE -fsanitize=thread)
  target_link_options(hvdray_options INTERFACE -fsanitize=thread)
elseif(NOT HVDRAY_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HVDRAY_SANITIZE: address, thread or empty, not '${HVDRAY_SANITIZE}'")
endif()
if(HVDRAY_FUZZ)
  # Coverage feedback in the libraries, without which libFuzzer is blind.
  target_compile_options(hvdray_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NOT HVDRAY_SANITIZE STREQUAL "")
  set(HVDRAY_STATIC_AGENT OFF)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Object files are the same in every clone of the tree, so one cache serves all of them.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
                                  CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# hvdray_library(NAME SOURCES... [LINK targets...]): one static library of a room.
function(hvdray_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC hvdray_options ${ARG_LINK})
endfunction()

# hvdray_test(NAME SOURCES... [LINK targets...]): one unit test binary, one ctest entry.
function(hvdray_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE hvdray_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
