# SPDX-License-Identifier: Apache-2.0
"""The library's state in this process, and operations in flight: what they point to lives until they have ended."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator, Optional, Sequence

from . import _library
from ._library import Place, Request, Result
from ._errors import HorovodInternalError, MismatchError

library = _library.load()
_REAPED = 256
_LOOK_MS = 200


class Operation:
    """What one public handle stands for: an operation, or a group of them."""

    __slots__ = ("handles", "finish", "kept", "parts")

    def __init__(self, finish: Callable[["Operation"], Any], kept: Any, parts: Sequence[Any] = ()) -> None:
        self.handles: list[int] = []
        self.finish = finish  # makes the result, once all have ended well
        self.kept = kept  # inputs, outputs, buffers
        self.parts = parts  # what goes on where the library has done its own: they have is_done() and wait()


class Handle(int):
    """A number for `poll` and `synchronize`. When nobody has it any more, nobody will ask for the result."""

    def __del__(self) -> None:
        if self in _operations:
            forget(self)


class _State:
    """From init() to shutdown()."""

    def __init__(self, pointer: ctypes.c_void_p, life: str) -> None:
        self.pointer = pointer
        self.life = life
        self.place = Place()
        library.hvdray_async_place(pointer, ctypes.byref(self.place))
        self.is_homogeneous = True
        self.waiting = 0  # threads


_state: Optional[_State] = None
lock = threading.RLock()  # submit, and what it adds to _kept, is one step for reap
_operations: dict[int, Operation] = {}  # by public handle, until synchronized or forgotten
_kept: dict[int, Any] = {}  # by the library's handle, until reaped
_reaped = (ctypes.c_int64 * _REAPED)()
_next_reap = 0  # from this handle on
_inits: dict[str, int] = {}  # by generation
not_begun = "not initialized; use hvdray.arrays.init()"


def last_error() -> str:
    return str(library.hvdray_error().decode(errors="replace"))


def state() -> _State:
    if _state is None:
        raise ValueError(not_begun)
    return _state


def is_initialized() -> bool:
    return _state is not None


def rank() -> int:
    return int(state().place.rank)


def size() -> int:
    return int(state().place.size)


def start() -> None:
    """Meets the other ranks. Blocks."""
    global _state
    generation = os.environ.get("HVDRAY_GENERATION", "")
    again = _inits.get(generation, 0)
    name = f"torch.{again}" if again else "torch"
    pointer = ctypes.c_void_p()
    if library.hvdray_async_init(name.encode(), ctypes.byref(pointer)) != 0:
        raise HorovodInternalError(last_error())
    _inits[generation] = again + 1
    _state = _State(pointer, f"{generation}.{again}")


def life() -> str:
    """All ranks have the same, and no other init() has it."""
    return state().life


def on_end(act: Callable[[str, bool], None]) -> None:
    """Calls it, from a thread of its own, when all operations end: with why, and whether a rank has left in order."""
    stack = ExitStack()
    pointer = stack.enter_context(_in_use())

    def await_end() -> None:
        with stack:
            has_left = library.hvdray_async_await_end(pointer) == _library.LEFT
            why = last_error()
        act(why, has_left)

    threading.Thread(target=await_end, name="hvdray.end", daemon=True).start()


def fail(why: str) -> None:
    """Ends all operations, on all ranks, as one that couldn't do what was planned. It is still initialized."""
    with _in_use() as pointer:
        library.hvdray_async_fail(pointer, why.encode(errors="replace"))


@contextmanager
def _in_use() -> Iterator[ctypes.c_void_p]:
    """The library's state, which stop() doesn't free meanwhile."""
    with lock:
        current = state()
        current.waiting += 1
    try:
        yield current.pointer
    finally:
        with lock:
            current.waiting -= 1


def stop(why: str = "") -> None:
    """Ends what is in flight, here and on the others, who are told why. Handles of this life are unknown from now on."""
    global _state
    with lock:
        ended, _state = _state, None
        _operations.clear()
    if ended is None:
        return
    library.hvdray_async_shutdown_because(ended.pointer, why.encode(errors="replace"))
    until = time.monotonic() + 2
    while ended.waiting and time.monotonic() < until:  # other threads, which it has let go
        time.sleep(0.001)
    if not ended.waiting:  # else it is called from a signal handler in the middle of a wait
        library.hvdray_async_free(ended.pointer)
    with lock:
        _kept.clear()


def _after_fork() -> None:
    """The child has no thread of the library: it is as if init() had never been called."""
    global _state, lock
    _state = None
    lock = threading.RLock()
    _operations.clear()
    _kept.clear()


os.register_at_fork(after_in_child=_after_fork)


def submit(requests: Any, count: int, operation: Operation) -> Handle:
    """Begins an operation, or a group of them. Raises what is wrong with it on this rank."""
    global _next_reap
    handles = (ctypes.c_int64 * count)()
    with lock:
        current = state()
        code = library.hvdray_async_submit(current.pointer, requests, count, handles)
        if code == 0:
            operation.handles = list(handles)
            for handle in handles:
                _kept[handle] = operation.kept
            _operations[handles[0]] = operation
    if code != 0:
        raise _refusal(code)
    if handles[-1] >= _next_reap:
        _next_reap = handles[-1] + 64
        reap()
    return Handle(handles[0])


def _refusal(code: int) -> Exception:
    if code == _library.BAD_ARGUMENT:
        return ValueError(last_error())
    if code == _library.NOT_SUPPORTED:
        return NotImplementedError(last_error())
    return HorovodInternalError(last_error())


def reap() -> None:
    """Lets go what belongs to operations that have ended."""
    with lock:
        count = _REAPED
        while _state is not None and count == _REAPED:
            count = library.hvdray_async_reap(_state.pointer, _reaped, _REAPED)
            for handle in _reaped[:count]:
                _kept.pop(handle, None)


def _find(handle: int) -> Operation:
    operation = _operations.get(handle)
    if operation is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return operation


def poll(handle: int) -> bool:
    operation = _find(handle)
    with lock:
        pointer = state().pointer
        has_ended = all(library.hvdray_async_poll(pointer, one) != 0 for one in operation.handles)
    return has_ended and all(part.is_done() for part in operation.parts)


def wait(handle: int, until: Optional[float] = None) -> Any:
    """Blocks until it has ended; the result. The handle is used up then, unless a signal comes before, or the time
    `until`, of time.monotonic(): TimeoutError."""
    operation = _find(handle)
    with lock:
        current = state()
        current.waiting += 1
    try:
        failed = None
        for one in operation.handles:
            code = -1
            while code == -1:  # Python looks at signals in between
                code = library.hvdray_async_wait_for(current.pointer, one, _LOOK_MS)
                if code == -1 and until is not None and time.monotonic() > until:
                    raise TimeoutError
            if code != 0 and failed is None:
                failed = (MismatchError if code == _library.BAD_ARGUMENT else HorovodInternalError)(last_error())
        if failed is None:
            failures = [part.wait(until) for part in operation.parts]
            failed = next(filter(None, failures), None)
        try:
            if failed is not None:
                raise failed
            return operation.finish(operation)
        finally:
            forget(handle)
            for one in operation.handles:
                _kept.pop(one, None)
    finally:
        with lock:
            current.waiting -= 1


def missing(handle: int) -> list[int]:
    """Ranks that have not begun the operation, or another of its group; none: it may run."""
    ranks = (ctypes.c_int * size())()
    with lock:
        pointer = state().pointer
        for one in _find(handle).handles:
            count = library.hvdray_async_missing(pointer, one, ranks, len(ranks))
            if count:
                return list(ranks[:count])
    return []


def forget(handle: int) -> None:
    operation = _operations.pop(handle, None)
    with lock:
        if operation is not None and _state is not None:
            for one in operation.handles:
                library.hvdray_async_release(_state.pointer, one)


def result_of(handle: int) -> Result:
    """Of an operation that has ended well; its pointers are good until it is forgotten."""
    result = Result()
    if library.hvdray_async_result(state().pointer, handle, ctypes.byref(result)) != 0:
        raise HorovodInternalError(last_error())
    return result


def process_sets() -> list[int]:
    pointer = state().pointer
    count = library.hvdray_async_process_sets(pointer, None, 0)
    numbers = (ctypes.c_int * count)()
    count = min(count, library.hvdray_async_process_sets(pointer, numbers, count))
    return list(numbers[:count])


def ranks_of(process_set: int) -> list[int]:
    pointer = state().pointer
    count = library.hvdray_async_process_set_ranks(pointer, process_set, None, 0)
    if count < 0:
        raise ValueError("Process set does not exist or has not been registered.")
    ranks = (ctypes.c_int * count)()
    library.hvdray_async_process_set_ranks(pointer, process_set, ranks, count)
    return list(ranks)


def check_dynamic_sets(doing: str) -> None:
    """Horovod wants to be told beforehand, so a script that runs under it has to do so."""
    state()
    if os.environ.get("HOROVOD_DYNAMIC_PROCESS_SETS", "").lower() not in ("1", "true", "yes"):
        raise ValueError(
            f"Set HOROVOD_DYNAMIC_PROCESS_SETS=1 to allow {doing} process sets after Horovod initialization."
        )


def change_sets(add: Optional[Sequence[int]] = None, remove: int = 0) -> int:
    """Adds or removes a set, together with all other ranks; its number."""
    if any(not 0 <= rank < size() for rank in add or ()):
        raise ValueError(f"ranks are from 0 to {size() - 1}, not {add}")
    ranks = (ctypes.c_int * len(add or ()))(*(add or ()))
    request = Request(kind=_library.REMOVE_SET if add is None else _library.ADD_SET, process_set=remove, device=-1)
    request.prescale = request.postscale = 1.0
    request.ranks = ranks
    request.rank_count = len(ranks)
    operation = Operation(lambda ended: int(result_of(ended.handles[0]).process_set), ranks)
    return int(wait(submit(ctypes.byref(request), 1, operation)))
