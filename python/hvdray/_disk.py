# SPDX-License-Identifier: Apache-2.0
"""What must outlive a power failure."""

from __future__ import annotations

import os
import stat
from typing import Callable

MANY = 64  # files


def sync_tree(root: str) -> None:
    """Returns when all of a directory is on the disk. Many files go by one call for their whole file system, because after each
    single one the disk's own cache is emptied. Raises OSError."""
    paths = []
    for folder, _, names in os.walk(root, onerror=_raise):
        paths += [folder, *(os.path.join(folder, name) for name in names)]
    if len(paths) > MANY:
        _sync(root, _syncfs)
        return
    for path in paths:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            _sync(path, os.fsync)


def sync_folder(path: str) -> None:
    """Its entries, not what they are."""
    _sync(path, os.fsync)


def _syncfs(descriptor: int) -> None:
    import ctypes  # takes longer than most checkpoints

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _sync(path: str, how: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        how(descriptor)
    finally:
        os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error
