# cmake --install: the two programs side by side (hvdray looks for its agent there), page, completion.
include(GNUInstallDirs)
install(TARGETS hvdray hvdray-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES docs/man/hvdray-run.1 docs/man/hvdray-check.1 docs/man/hvdray-replay.1
        docs/man/hvdray-follow.1 docs/man/hvdray-status.1 docs/man/hvdray-slots.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/completions/hvdray.bash RENAME hvdray
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/configs)
