# SPDX-License-Identifier: Apache-2.0
"""Who is there, and what this library can do."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Iterable, Optional, Sequence, Union

import torch

from . import _device, _place, _requests, process_sets
from .._async import _core
from .._async._core import is_initialized as is_initialized
from .._async._core import rank as rank
from .._async._core import size as size
from ._operations import allgather_async, synchronize

_core.not_begun = "Horovod has not been initialized; use hvd.init()."


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[str, Iterable[Any], None] = None) -> None:
    """Meets the other ranks of the job. Again, while initialized: only registers the sets.

    process_sets: ProcessSets to register, or "dynamic" to allow `add_process_set()` later.
    """
    if isinstance(process_sets, str) and process_sets.lower() == "dynamic":
        os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        process_sets = None
    is_new = not _core.is_initialized()
    if is_new:
        _check_alone()
        _place.refresh()
        _core.start()
        _requests.count_on(0)
        atexit.unregister(_leave)
        atexit.register(_leave)
    try:
        _check_comm(comm)
        if is_new:
            _device.begin(_rows_of_all)
        _begin_sets(list(process_sets or ()))
    except Exception:
        shutdown()
        raise


def _check_alone() -> None:
    theirs = sys.modules.get("horovod.torch")
    if theirs not in (None, sys.modules["hvdray.torch"]) and theirs.is_initialized():
        raise ValueError("Horovod itself is initialized in this process: use it or hvdray.torch, not both")


def _begin_sets(entries: list[Any]) -> None:
    process_sets.begin(entries)
    state = _core.state()
    if state.place.local_size != state.place.size:  # the same on all ranks
        state.is_homogeneous = len(set(map(tuple, _rows_of_all([state.place.local_size], "hosts")))) == 1


def _rows_of_all(row: "list[int]", name: str) -> "list[list[int]]":
    """By rank. All ranks call it."""
    return synchronize(allgather_async(torch.tensor([row]), name)).tolist() if size() > 1 else [row]  # type: ignore[no-any-return]


def _check_comm(comm: Any) -> None:
    if comm is None:
        return
    try:
        ranks = list(comm)
    except TypeError:
        raise ValueError("init(): communicators of MPI are not supported, lists of ranks are") from None
    if ranks and sorted(ranks) != list(range(size())):
        raise ValueError("init(): comm has to name all ranks; for some of them use a ProcessSet")


def shutdown() -> None:
    """Leaves. Operations in flight end with HorovodInternalError on every rank; init() may come again."""
    _stop()


def _stop(why: str = "") -> None:
    lane, _device.lane = _device.lane, None
    if lane is not None:
        lane.finish(failed=bool(why))
    _core.stop(why)
    if lane is not None:
        lane.close()


def _leave() -> None:
    """At the end of the program. An exception that ends it, which others only see as a rank that is gone, is told."""
    error: Optional[BaseException] = getattr(sys, "last_value", None)
    _stop("" if error is None else f"raised {type(error).__name__}: {error}".partition("\n")[0][:300])


def local_rank() -> int:
    return int(_core.state().place.local_rank)


def local_size() -> int:
    return int(_core.state().place.local_size)


def cross_rank() -> int:
    return int(_core.state().place.cross_rank)


def cross_size() -> int:
    return int(_core.state().place.cross_size)


def is_homogeneous() -> bool:
    """Whether all hosts have equally many ranks."""
    return _core.state().is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Rank 0 begins to write Horovod's timeline into the file."""
    state = _core.state()
    if _core.library.hvdray_async_timeline_start(state.pointer, os.fsencode(file_path), int(mark_cycles)) != 0:
        raise ValueError(_core.last_error())


def stop_timeline() -> None:
    """Ends the timeline, if there is one."""
    state = _core.state()
    _core.library.hvdray_async_timeline_stop(state.pointer)


def mpi_threads_supported() -> bool:
    raise ValueError("Horovod MPI is not enabled; Please make sure it's installed and enabled.")


def gloo_built(verbose: bool = False) -> bool:
    """True: programs ask it to learn whether they can do without MPI."""
    return True


gloo_enabled = gloo_built


def nccl_built(verbose: bool = False) -> int:
    """0, or NCCL's version."""
    return 0


def mpi_built(verbose: bool = False) -> bool:
    return False


mpi_enabled = ddl_built = ccl_built = cuda_built = rocm_built = mpi_built
