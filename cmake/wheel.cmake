# SPDX-License-Identifier: Apache-2.0
# What pyproject.toml puts into the wheel: the programs into the environment's bin/, the data of the first job into its
# share/hvdray/, and libhvdray.so.0, by its soname because a wheel has no links, into its lib/hvdray/.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME wheel)
install(TARGETS hvdray hvdray-agent hvdray-bench hvdray-digits RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
install(FILES examples/digits/digits.csv examples/digits/DATA.md DESTINATION "${SKBUILD_DATA_DIR}/share/hvdray")
install(PROGRAMS $<TARGET_FILE:hvdray_shared> DESTINATION "${SKBUILD_DATA_DIR}/lib/hvdray" RENAME libhvdray.so.0)
