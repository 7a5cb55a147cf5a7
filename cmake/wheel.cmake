# SPDX-License-Identifier: Apache-2.0
# What pyproject.toml puts into the wheel: the programs into the environment's bin/, and libhvdray.so.0 and the shared libraries that
# they need, all but glibc's, into its lib/hvdray/ with their licences. So a machine needs none of them.
install(TARGETS hvdray hvdray-agent hvdray-bench RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT wheel)
# DT_RPATH rather than DT_RUNPATH: it holds for what the libraries themselves need, too.
foreach(program hvdray hvdray-bench)
  target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/hvdray")
endforeach()
target_link_options(hvdray_shared PRIVATE -Wl,--disable-new-dtags -s)
set_target_properties(hvdray_shared PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
# By its soname: a wheel has no links.
install(PROGRAMS $<TARGET_FILE:hvdray_shared> DESTINATION "${SKBUILD_DATA_DIR}/lib/hvdray" RENAME libhvdray.so.0 COMPONENT wheel)
install(CODE "set(folder \"${SKBUILD_DATA_DIR}/lib/hvdray\")
set(programs \"$<TARGET_FILE:hvdray>\" \"$<TARGET_FILE:hvdray-bench>\")
set(shared \"$<TARGET_FILE:hvdray_shared>\")" COMPONENT wheel)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} LIBRARIES ${shared} RESOLVED_DEPENDENCIES_VAR libraries
       PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv)\\.so")
  file(MAKE_DIRECTORY "${folder}/licenses")
  foreach(library IN LISTS libraries)
    file(REAL_PATH "${library}" real)
    cmake_path(GET library FILENAME name)  # its soname; a wheel has no links
    file(COPY_FILE "${real}" "${folder}/${name}")
    cmake_path(GET real FILENAME file)
    execute_process(COMMAND dpkg-query -S "*/${file}" OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX MATCH "^[^:]+" package "${owner}")
    if(NOT EXISTS "/usr/share/doc/${package}/copyright")
      message(FATAL_ERROR "no licence found for ${library}")
    endif()
    file(COPY_FILE "/usr/share/doc/${package}/copyright" "${folder}/licenses/${package}")
  endforeach()
]] COMPONENT wheel)
