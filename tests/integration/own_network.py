# SPDX-License-Identifier: Apache-2.0
"""A network that reaches nothing but itself."""

import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def network_of_its_own():
    """This thread, and what it starts, in a network that has `lo` only."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)
