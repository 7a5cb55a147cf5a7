# SPDX-License-Identifier: Apache-2.0
# What pyproject.toml puts into the wheel: the programs into the environment's bin/, the data of the first job into its
# share/hvdray/, completions where bash looks for them beside bin/, and libhvdray.so.0, by its soname because a wheel has
# no links, into its lib/hvdray/. The manual stays out: pip makes each file by itself, and its 26 pages are a twentieth of the time.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME wheel)
install(TARGETS hvdray hvdray-agent hvdray-bench hvdray-digits RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
install(FILES examples/digits/digits.csv examples/digits/DATA.md DESTINATION "${SKBUILD_DATA_DIR}/share/hvdray")
install(FILES docs/completions/hvdray.bash DESTINATION "${SKBUILD_DATA_DIR}/share/bash-completion/completions" RENAME hvdray)
install(FILES docs/completions/_hvdray DESTINATION "${SKBUILD_DATA_DIR}/share/zsh/site-functions")
install(FILES docs/completions/hvdray.fish DESTINATION "${SKBUILD_DATA_DIR}/share/fish/vendor_completions.d")
install(PROGRAMS $<TARGET_FILE:hvdray_shared> DESTINATION "${SKBUILD_DATA_DIR}/lib/hvdray" RENAME libhvdray.so.0)
