# SPDX-License-Identifier: Apache-2.0
"""libhvdray.so by ctypes: collective/async/async.h, whose names, types and order these are."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sysconfig
from typing import Any, Iterator

_FILE = "libhvdray.so.0"

ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER, JOIN, ADD_SET, REMOVE_SET = range(9)
NAMES = "allreduce allgather broadcast alltoall reducescatter barrier join add_process_set remove_process_set".split()
BAD_ARGUMENT, NOT_SUPPORTED = 101, 106  # others: it is over
LEFT = 4  # by a rank that has done all that was planned

_int64s = ctypes.POINTER(ctypes.c_int64)
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, _int64s, ctypes.c_int)

# By letter, for the lines below.
_C = {
    "i": ctypes.c_int, "q": ctypes.c_int64, "n": ctypes.c_size_t, "d": ctypes.c_double, "s": ctypes.c_char_p,
    "p": ctypes.c_void_p, "I": ctypes.POINTER(ctypes.c_int), "Q": _int64s, "P": ctypes.POINTER(ctypes.c_void_p),
    "A": ALLOCATE, "-": None,
}


def _fields(text: str) -> list[tuple[str, Any]]:
    return [(name, _C[letter]) for name, letter in (field.split(":") for field in text.split())]


class Call(ctypes.Structure):
    _fields_ = _fields(
        "kind:i process_set:i type:i op:i root:i is_absent:i dimensions:i shape:Q prescale:d postscale:d rows:Q row_count:n "
        "following:i"
    )


RUN = _C["U"] = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Call))


class Request(ctypes.Structure):
    _fields_ = _fields(
        "name:s kind:i process_set:i type:i op:i root:i device:i prescale:d postscale:d dimensions:i shape:Q input:p "
        "output:p splits:Q split_count:n ranks:I rank_count:n sequence:q context:p allocate:A run:U"
    )


class Result(ctypes.Structure):
    _fields_ = _fields(
        "dimensions:i shape:Q received_splits:Q received_split_count:n last_rank:i process_set:i sequence:q"
    )


class Place(ctypes.Structure):
    _fields_ = _fields("rank:i size:i local_rank:i local_size:i cross_rank:i cross_size:i")


_C.update(R=ctypes.POINTER(Request), E=ctypes.POINTER(Result), L=ctypes.POINTER(Place))
# Function, what it returns, what it takes.
_PROTOTYPES = """
    hvdray_error s
    hvdray_async_init i sP
    hvdray_async_shutdown_because - ps
    hvdray_async_fail - ps
    hvdray_async_free - p
    hvdray_async_status i p
    hvdray_async_await_end i p
    hvdray_async_place - pL
    hvdray_async_process_set_ranks i piIn
    hvdray_async_process_sets i pIn
    hvdray_async_submit i pRnQ
    hvdray_async_poll i pq
    hvdray_async_wait_for i pqi
    hvdray_async_missing n pqIn
    hvdray_async_result i pqE
    hvdray_async_release - pq
    hvdray_async_reap n pQn
    hvdray_async_timeline_start i psi
    hvdray_async_timeline_stop i p
"""


def load() -> ctypes.CDLL:
    """The library with its prototypes. Raises ImportError."""
    tried = list(_candidates())
    path = next((path for path in tried if os.path.isfile(path)), None)
    if path is None:
        raise ImportError(f"hvdray.torch needs {_FILE}; it is not at {', '.join(tried)}. HVDRAY_LIBRARY may name it")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"hvdray.torch: {error}{_about_libc()}") from error
    for name, result, *arguments in (line.split() for line in _PROTOTYPES.strip().splitlines()):
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"hvdray.torch: {path} is of another version: it has no {name}()") from None
        function.restype = _C[result]
        function.argtypes = [_C[letter] for letter in "".join(arguments)]
    return library


def _about_libc() -> str:
    """Where the C library is another one, Alpine's say, the loader's own words help nobody."""
    try:
        if os.confstr("CS_GNU_LIBC_VERSION"):
            return ""
    except (OSError, ValueError):
        pass
    return ". It needs glibc 2.17 or later, and this Python has another C library; hvdray's programs, and calls of functions, need none"


def _candidates() -> Iterator[str]:
    """HVDRAY_LIBRARY alone, if it is set, as by `hvdray run --horovod builtin`. Else where wheels, installs and builds
    have it."""
    named = os.environ.get("HVDRAY_LIBRARY")
    if named:
        yield os.path.abspath(os.path.expanduser(named))
        return
    packages = pathlib.Path(__file__).resolve().parents[2]
    parents = list(packages.parents)[:3]
    roots = [sysconfig.get_path("data"), packages, *parents[1:2], *parents]
    for folder in ("lib/hvdray", "lib"):
        yield from (os.path.join(root, folder, _FILE) for root in dict.fromkeys(map(str, roots)))
    for build in ("release", "debug"):
        yield str(packages.parent / "build" / build / "collective" / _FILE)
