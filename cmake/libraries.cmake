# Third-party libraries, all from Debian packages. Each is linked by one adapter only (style 3).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(EVENT_CORE REQUIRED IMPORTED_TARGET libevent_core)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-cpp)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
find_package(CLI11 REQUIRED)
if(HVDRAY_TESTS)
  find_package(GTest REQUIRED)
endif()

# The agent has to link without libevent's shared object; only the base loop sees this.
find_library(EVENT_CORE_STATIC libevent_core.a REQUIRED)
add_library(hvdray_event_core INTERFACE)
target_link_libraries(hvdray_event_core INTERFACE ${EVENT_CORE_STATIC} Threads::Threads)
