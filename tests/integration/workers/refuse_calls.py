# SPDX-License-Identifier: Apache-2.0
"""Runs a command in which system calls are refused by their numbers, as some containers' filters do, and as older kernels do that
don't have them yet: refuse_calls.py FIRST LAST ERRNO COMMAND..."""

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_AT_LEAST, JUMP_IF_ABOVE, RETURN = 0x20, 0x35, 0x25, 0x06
RETURN_ERRNO, RETURN_ALLOW = 0x00050000, 0x7FFF0000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse(first, last, error):
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (LOAD_WORD, 0, 0, 0),  # the number of the call
        (JUMP_IF_AT_LEAST, 0, 2, first),
        (JUMP_IF_ABOVE, 1, 0, last),
        (RETURN, 0, 0, RETURN_ERRNO | error),
        (RETURN, 0, 0, RETURN_ALLOW)))
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code) // 8, code)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0):
        raise OSError(ctypes.get_errno(), "prctl")
    # A filter that does not work would make the test a lie.
    for number in (first, last):
        if libc.syscall(number, -1, -1, -1, -1, -1, -1) != -1 or ctypes.get_errno() != error:
            raise RuntimeError(f"call {number} is not refused")


if __name__ == "__main__":
    refuse(int(sys.argv[1]), int(sys.argv[2]), getattr(errno, sys.argv[3]))
    os.execvp(sys.argv[4], sys.argv[4:])
