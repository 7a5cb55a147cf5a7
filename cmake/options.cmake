# SPDX-License-Identifier: Apache-2.0
# Compiler options for all our targets, as the interface library hvdray_options.
add_library(hvdray_options INTERFACE)
target_include_directories(hvdray_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(hvdray_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Wno-missing-field-initializers)
if(HVDRAY_WERROR)
  target_compile_options(hvdray_options INTERFACE -Werror)
endif()
if(HVDRAY_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ takes an included source for a header, where it warns about types with local members.
  target_compile_options(hvdray_options INTERFACE -Wno-subobject-linkage)
endif()
# A section per function lets the linker drop uncalled ones: the agent is sent over networks.
target_compile_options(hvdray_options INTERFACE $<$<CONFIG:Release>:-ffunction-sections>
                       $<$<CONFIG:Release>:-fdata-sections>)
target_link_options(hvdray_options INTERFACE $<$<CONFIG:Release>:LINKER:--gc-sections>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(hvdray_options INTERFACE -Wthread-safety)
endif()
if(HVDRAY_SANITIZE STREQUAL "address")
  target_compile_options(hvdray_options INTERFACE -fsanitize=address,undefined
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hvdray_options INTERFACE -fsanitize=address,undefined)
  # At a fixed address: else every check of the sanitizer has a relocation, a third of each program and of its start.
  target_link_options(hvdray_options INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
elseif(HVDRAY_SANITIZE STREQUAL "thread")
  target_compile_options(hvdray_options INTERFACE -fsanitize=thread)
  target_link_options(hvdray_options INTERFACE -fsanitize=thread)
elseif(NOT HVDRAY_SANITIZE STREQUAL "")
  message(FATAL_ERROR "HVDRAY_SANITIZE: expected address, thread or empty, found '${HVDRAY_SANITIZE}'")
endif()
if(HVDRAY_FUZZ)
  # libFuzzer needs coverage feedback from the libraries.
  target_compile_options(hvdray_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NOT HVDRAY_SANITIZE STREQUAL "")
  set(HVDRAY_STATIC_AGENT OFF)
  # Links these hundred large programs in a quarter of the time.
  find_program(LLD ld.lld)
  if(LLD)
    target_link_options(hvdray_options INTERFACE -fuse-ld=lld)
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With an unwritable cache (a read-only home) ccache would fail every compilation.
  execute_process(COMMAND sh -c "folder=$(\"$0\" --get-config cache_dir) && mkdir -p \"$folder\" && test -w \"$folder\""
                          ${CCACHE} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    message(STATUS "The compiler cache is not writable: building without it")
  else()
    # Object files are the same in every clone of the tree and in every locale, so one cache serves all.
    # With DEPEND, ccache reads includes from the compiler's dependency list and runs no preprocessor first.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_DEPEND=1
                                    CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=locale,pch_defines,time_macros
                                    ${CCACHE})
  endif()
endif()

# hvdray_sources(OUT NAME SOURCES...): the sources of target NAME; with HVDRAY_UNITY, generated sources that include
# up to twenty of them each. Their includes start at the top of the tree, so every clone hits the compiler cache. A
# source with its own properties (compile definitions or options) stays alone.
function(hvdray_sources out name)
  if(NOT HVDRAY_UNITY)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(result)
  set(paths)
  foreach(source IN LISTS ARGN)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${path} is_generated)
    if(definitions OR options OR is_generated)
      list(APPEND result ${source})
      continue()
    endif()
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    list(APPEND paths ${path})
  endforeach()
  # As few generated sources as possible, of equal size.
  list(LENGTH paths left)
  math(EXPR files "(${left} + 19) / 20")
  while(files)
    math(EXPR share "(${left} + ${files} - 1) / ${files}")
    list(SUBLIST paths 0 ${share} these)
    list(TRANSFORM these REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN these "" text)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${name}_${files}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND result ${file})
    math(EXPR left "${left} - ${share}")
    math(EXPR files "${files} - 1")
    if(files)
      list(SUBLIST paths ${share} -1 paths)
    endif()
  endwhile()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# hvdray_optimize(LEVEL): sets -O for all targets of this directory in release builds. Optimizing code that runs once
# per job, or only in tests, would take a quarter of hvdray's build time.
set(HVDRAY_LEVEL 2)
macro(hvdray_optimize level)
  set(HVDRAY_LEVEL ${level})
  add_compile_options($<$<CONFIG:Release>:-O${level}>)
endmacro()

# hvdray_precompile(TARGET [tests]): with HVDRAY_UNITY, precompiles the most common headers, once per optimization
# level: g++ accepts only precompiled headers made with the same options.
function(hvdray_precompile target)
  if(NOT HVDRAY_UNITY OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  set(headers hvdray_headers_${HVDRAY_LEVEL}${ARGN})
  if(NOT TARGET ${headers})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers/${headers}.cc CONTENT "")
    add_library(${headers} STATIC ${CMAKE_BINARY_DIR}/headers/${headers}.cc)
    target_link_libraries(${headers} PRIVATE hvdray_options)
    target_include_directories(${headers} SYSTEM PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
    target_precompile_headers(${headers} PRIVATE <algorithm> <chrono> <functional> <map> <memory> <optional> <set>
                              <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)
    if(ARGN)
      # Test programs are compiled with -fPIE, so these headers must be too.
      set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${headers} PRIVATE -fPIE)
      target_link_libraries(${headers} PRIVATE GTest::gtest)
      target_precompile_headers(${headers} PRIVATE <gtest/gtest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# hvdray_library(NAME SOURCES... [LINK targets...]): a static library of a room.
function(hvdray_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  hvdray_sources(sources ${name} ${ARG_UNPARSED_ARGUMENTS})
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC hvdray_options ${ARG_LINK})
  hvdray_precompile(${name})
endfunction()

# hvdray_embed(OUT FUNCTION HEADER FILE [JOINED]): a source that defines FUNCTION, which HEADER declares: it returns the
# text of FILE, so that file and program can't be of different versions. JOINED: a script for /bin/sh as one line.
function(hvdray_embed out function header file)
  cmake_path(ABSOLUTE_PATH file NORMALIZE)
  cmake_path(GET file STEM LAST_ONLY stem)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${stem}_text.cc)
  add_custom_command(OUTPUT ${source}
                     COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${source} -DNAME=${function} -DHEADER=${header}
                             "-DJOINED=${ARGN}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
                     DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake VERBATIM)
  set(${out} ${source} PARENT_SCOPE)
endfunction()

# hvdray_executable(NAME SOURCES... [LINK targets...]): a program of the product.
function(hvdray_executable name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  hvdray_sources(sources ${name} ${ARG_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE hvdray_options ${ARG_LINK})
endfunction()

# hvdray_unit_test(TARGET): the target unit_tests builds it, too; ./check builds no more under the address sanitizer.
function(hvdray_unit_test target)
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)
  endif()
  add_dependencies(unit_tests ${target})
endfunction()

# hvdray_link_static(TARGET): a program that needs only a kernel. Packed relocations make it a twentieth smaller.
function(hvdray_link_static target)
  target_link_options(${target} PRIVATE -static-pie LINKER:-z,pack-relative-relocs $<$<CONFIG:Release>:-s>)
  hvdray_list_inputs(${target})
endfunction()

# hvdray_static_headers(TARGET): one that includes what tools/static_libraries.sh has made. Only those: what differs from other
# builds in its command is compiled again.
function(hvdray_static_headers target)
  if(HVDRAY_STATIC)
    target_include_directories(${target} SYSTEM PRIVATE ${HVDRAY_MADE}/include)
  endif()
endfunction()

# hvdray_list_inputs(TARGET): the linker lists all files that it reads in FILE.d beside the program or library, for tools/sbom.py.
function(hvdray_list_inputs target)
  if(HVDRAY_STATIC)
    target_link_options(${target} PRIVATE LINKER:--dependency-file=$<TARGET_FILE:${target}>.d)
  endif()
endfunction()

# hvdray_test(NAME SOURCES... [LINK targets...]): one unit test binary, one ctest entry.
function(hvdray_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE hvdray_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  hvdray_precompile(${name} tests)
  set(entry ${name})
  set(limit 300)
  if(HVDRAY_SANITIZE)
    string(APPEND entry ".${HVDRAY_SANITIZE}")
    set(limit 600)
  endif()
  # Brief: what failed is not lost among hundreds of tests that passed.
  add_test(NAME ${entry} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${entry} PROPERTIES LABELS unit TIMEOUT ${limit})
  hvdray_unit_test(${name})
endfunction()
