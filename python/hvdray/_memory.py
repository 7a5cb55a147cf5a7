# SPDX-License-Identifier: Apache-2.0
"""Memory that processes of one machine share: sealed, so that nobody can change it any more."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any, Optional, Sequence

from ._messages import Bytes

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
# Of a result that is shared: the memory of a worker may have a limit, and this is a copy.
LEAST, MOST = 1 << 20, 512 << 20


def place() -> list[str]:
    """Processes with the same one see each other's descriptors in /proc. Empty: nobody does."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return [file.read().strip(), os.readlink("/proc/self/ns/pid")]
    except OSError:
        return []


def sealed_memory(parts: Sequence[Bytes]) -> Optional[int]:
    """A descriptor of memory with these bytes that nobody can change any more. None: there is no such memory here, or not so
    much."""
    try:
        memory = os.memfd_create("hvdray-object", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return None
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(memory, view) :]
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    except BaseException as error:
        os.close(memory)
        if isinstance(error, OSError):
            return None
        raise
    return memory


def mapped_of(pid: int, told: Any) -> Optional[mmap.mmap]:
    """Private, of the descriptor that a worker tells, or None. It may tell anything: only what is sealed is taken."""
    try:
        # A pipe would have us wait.
        descriptor = os.open(f"/proc/{pid}/fd/{int(told)}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, TypeError):
        return None
    try:
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS != SEALS:
            return None
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError, OverflowError):
        return None
    finally:
        os.close(descriptor)
