# SPDX-License-Identifier: Apache-2.0
"""Runs a command in which pidfd_getfd(2) is refused with EPERM, as some containers' filters do."""

import ctypes
import os
import struct
import sys

PIDFD_GETFD = 438  # on every architecture
EPERM = 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
RETURN_ERRNO, RETURN_ALLOW = 0x00050000, 0x7FFF0000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse():
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (LOAD_WORD, 0, 0, 0),  # the number of the call
        (JUMP_IF_EQUAL, 0, 1, PIDFD_GETFD),
        (RETURN, 0, 0, RETURN_ERRNO | EPERM),
        (RETURN, 0, 0, RETURN_ALLOW)))
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code) // 8, code)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0):
        raise OSError(ctypes.get_errno(), "prctl")
    # A filter that does not work would make the test a lie.
    if libc.syscall(PIDFD_GETFD, os.pidfd_open(os.getpid()), 0, 0) != -1 or ctypes.get_errno() != EPERM:
        raise RuntimeError("pidfd_getfd is not refused")


if __name__ == "__main__":
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
