# SPDX-License-Identifier: Apache-2.0
"""A study's file on a disk of this machine, where a commit is a write that no process waits to see on the disk: it outlives
every kill. After a power failure the file is whole, but may lack the last commits."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from typing import Any, Optional

SQLITE = "sqlite:///"
_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay")  # All who open the log share memory.


def local_file(url: str) -> Optional[str]:
    """The path of such a file; None: the storage is another one."""
    if not url.startswith(SQLITE) or "?" in url:
        return None
    path = url[len(SQLITE) :]
    return path if _filesystem_of(os.path.dirname(os.path.realpath(path))) in _LOCAL else None


def _filesystem_of(folder: str) -> str:
    found, longest = "", -1
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            words = line.split(" ")
            place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4])
            if len(place) >= longest and os.path.commonpath([folder, place]) == place:
                found, longest = words[words.index("-") + 1], len(place)
    return found


def begin_log(path: str) -> None:
    """Commits go to a log beside the file from now on, unless another program has it in its hands."""
    _set_journal(path, "WAL")


def end_log(path: str) -> None:
    """The file alone is the study again, which who may only read it can read; unless another search goes on."""
    _set_journal(path, "DELETE")


def _set_journal(path: str, mode: str) -> None:
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=0)) as link:
        link.execute(f"PRAGMA journal_mode={mode}")


def on_connect(link: Any, _record: Any) -> None:
    """For SQLAlchemy: with a log, commits wait for no disk."""
    if link.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        link.execute("PRAGMA synchronous=NORMAL")
