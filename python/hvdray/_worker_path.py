# SPDX-License-Identifier: Apache-2.0
"""The driver's path on a worker's host: which of its directories are there and may be trusted, and where they go."""

from __future__ import annotations

import os
import stat
import sys
from typing import Sequence

STANDARD = os.path.dirname(os.__file__)
OWN = (STANDARD, os.path.join(STANDARD, "lib-dynload"))
added: list[str] = []  # to sys.path
left_out: list[str] = []  # others may write there


def add(entries: Sequence[str]) -> None:
    """To sys.path, behind the kit, which is its first, and the standard library: no module there may take the place of one of
    Python's. By their real names, so that no link leads elsewhere later."""
    kit, *own = sys.path
    added.clear()
    left_out.clear()
    for entry in entries:
        if entry not in own and os.path.exists(entry):
            (added if is_trusted(entry) else left_out).append(os.path.realpath(entry))
    behind = max((i + 1 for i, entry in enumerate(own) if entry in OWN), default=0)
    sys.path[:] = [kit, *own[:behind], *(entry for entry in added if entry not in own), *own[behind:]]


def is_trusted(path: str) -> bool:
    """It and the directories above it belong to this user or root, and nobody else may write there."""
    path, is_last = os.path.realpath(path), True
    while True:
        try:
            facts = os.stat(path)
        except OSError:
            return False
        is_shared = facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP and not _is_private(facts.st_gid))
        is_sticky = facts.st_mode & stat.S_ISVTX and not is_last
        if facts.st_uid not in (0, os.geteuid()) or (is_shared and not is_sticky):
            return False
        if path == "/":
            return True
        path, is_last = os.path.dirname(path), False


def _is_private(group: int) -> bool:
    """Each user has a group of his own where new files are writable for their group (umask 002)."""
    import grp
    import pwd

    try:
        user, named = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and named.gr_name == user.pw_name and set(named.gr_mem) <= {user.pw_name}


def left_out_with(module: str) -> str:
    """A directory that was left out, and that has this module; empty: none."""
    name = module.partition(".")[0]
    places = ((folder, os.path.join(folder, name)) for folder in left_out)
    return next((folder for folder, path in places if os.path.exists(path) or os.path.exists(path + ".py")), "")
