# SPDX-License-Identifier: Apache-2.0
# cmake --install: the programs in one directory (hvdray looks for the others there, for the agent in
# ../libexec/hvdray, too), a horovodrun link to hvdray, man pages, completions, documents, and an example that runs from its installed place.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
# The component `programs` is what tools/build_tarball.py packs.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)
set(HVDRAY_AGENT_DIR ${CMAKE_INSTALL_BINDIR} CACHE STRING "Where the agent goes, below the prefix: bin or libexec/hvdray")
install(TARGETS hvdray hvdray-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hvdray-agent RUNTIME DESTINATION ${HVDRAY_AGENT_DIR})
install(CODE "
  file(CREATE_LINK hvdray
       \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/horovodrun\" SYMBOLIC)")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
install(FILES docs/completions/_hvdray DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
foreach(program hvdray horovodrun)  # by whose names these shells look for a file
  install(FILES docs/completions/hvdray.bash RENAME ${program}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES docs/completions/hvdray.fish RENAME ${program}.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES examples/digits/digits.csv examples/digits/DATA.md DESTINATION ${CMAKE_INSTALL_DATADIR}/hvdray)
# The example's program is installed if it was built; ./quickstart builds it.
install(TARGETS hvdray-digits RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME rest)
install(FILES README.md README_zh.md CHANGELOG.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.svg"
        PATTERN man EXCLUDE PATTERN completions EXCLUDE PATTERN site EXCLUDE)
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/configs)
# The collective library for programs of others: find_package(hvdray), pkg-config hvdray.
install(TARGETS hvdray_shared EXPORT hvdray LIBRARY DESTINATION lib INCLUDES DESTINATION include include/hvdray)
install(FILES collective/hvdray.h DESTINATION include)
install(FILES collective/async/async.h DESTINATION include/hvdray)
# hvdray run --horovod builtin finds this; it loads the library.
install(DIRECTORY python/hvdray DESTINATION lib/hvdray/python FILES_MATCHING PATTERN "*.py")
install(FILES collective/algorithm_table.h collective/communicator.h collective/operation.h collective/work_queue.h DESTINATION include/hvdray/collective)
install(FILES base/environ.h base/error_code.h base/result.h base/status.h base/types.h DESTINATION include/hvdray/base)
install(EXPORT hvdray NAMESPACE hvdray:: FILE hvdrayTargets.cmake DESTINATION lib/cmake/hvdray)
configure_package_config_file(cmake/hvdrayConfig.cmake.in ${CMAKE_BINARY_DIR}/hvdrayConfig.cmake
                              INSTALL_DESTINATION lib/cmake/hvdray)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hvdrayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/hvdray.pc.in ${CMAKE_BINARY_DIR}/hvdray.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hvdrayConfig.cmake ${CMAKE_BINARY_DIR}/hvdrayConfigVersion.cmake
        DESTINATION lib/cmake/hvdray)
install(FILES ${CMAKE_BINARY_DIR}/hvdray.pc DESTINATION lib/pkgconfig)
install(FILES examples/bandwidth_c.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
# The quickstart job, with installed paths.
install(CODE "
  set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/configs/quickstart.yaml\")
  file(READ \"\${file}\" text)
  string(REGEX REPLACE \"From the root of the checkout, after a release build\"
         \"From any directory\" text \"\${text}\")
  string(REPLACE \"build/release/bin/hvdray run --cluster configs/quickstart.yaml\"
         \"hvdray run --cluster \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/configs/quickstart.yaml\"
         text \"\${text}\")
  string(REPLACE \"build/release/bin/\" \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\" text \"\${text}\")
  string(REPLACE \"examples/digits/\"
         \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/hvdray/\" text \"\${text}\")
  string(REPLACE \"build/quickstart_report.json\" \"quickstart_report.json\" text \"\${text}\")
  file(WRITE \"\${file}\" \"\${text}\")")
