# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from Debian packages. Only one adapter links each (docs/architecture.md).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(EVENT_CORE REQUIRED IMPORTED_TARGET libevent_core)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-cpp)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(PUGIXML REQUIRED pugixml)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(SSH2 REQUIRED IMPORTED_TARGET libssh2)
if(HVDRAY_STATIC)
  # Debian has no archives of libzip and cpp-httplib; of the latter, a program of one source needs none.
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/static_libraries.sh OUTPUT_VARIABLE made
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  find_library(YAML_STATIC libyaml-cpp.a REQUIRED)
  find_library(SSH2_STATIC libssh2.a REQUIRED)
  set_target_properties(PkgConfig::YAML PROPERTIES INTERFACE_LINK_LIBRARIES ${YAML_STATIC})
  set_target_properties(PkgConfig::SSH2 PROPERTIES INTERFACE_LINK_LIBRARIES "${SSH2_STATIC};ssl;crypto;z")
  set_target_properties(PkgConfig::ZIP PROPERTIES INTERFACE_LINK_LIBRARIES "${made}/lib/libzip.a;z")
  set_target_properties(PkgConfig::HTTPLIB PROPERTIES INTERFACE_LINK_LIBRARIES Threads::Threads
                        INTERFACE_INCLUDE_DIRECTORIES ${made}/include INTERFACE_COMPILE_OPTIONS "")
endif()
if(HVDRAY_TESTS)
  find_package(GTest REQUIRED)
endif()

# The agent is static and needs libevent's archive; only the base loop uses this target.
find_library(EVENT_CORE_STATIC libevent_core.a REQUIRED)
add_library(hvdray_event_core INTERFACE)
target_link_libraries(hvdray_event_core INTERFACE ${EVENT_CORE_STATIC} Threads::Threads)
