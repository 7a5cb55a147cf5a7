# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed gets for an operation that has begun."""

from __future__ import annotations

import queue
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Optional, Sequence

import torch
from torch._C import _distributed_c10d as c10d

from .._async import _core

_begun: queue.SimpleQueue[torch.futures.Future[None]] = queue.SimpleQueue()
_thread: Optional[threading.Thread] = None


def _complete_futures() -> None:
    """One after the other, as their operations do: what is bound to them waits."""
    while True:
        _begun.get().set_result(None)


class Work(c10d.Work):
    """One operation in flight, or a group of them."""

    def __init__(
        self, what: str, handle: int, tensors: Sequence[torch.Tensor], timeout: timedelta, at_end: Callable[[], Any]
    ) -> None:
        super().__init__()
        self._what = what
        self._at_end = at_end
        self._lock = threading.Lock()
        self._handle: Optional[int] = handle
        self._tensors = list(tensors)
        self._timeout = timeout
        self._error: Optional[Exception] = None
        self._future: Any = None

    def settle(self, timeout: Optional[timedelta] = None) -> Optional[Exception]:
        """Waits; why it failed. Raises only when the time is over."""
        limit = (timeout or self._timeout).total_seconds()  # torch says 0 for none
        with self._lock:
            if self._handle is not None:
                try:
                    _core.wait(self._handle, time.monotonic() + limit)
                except TimeoutError:
                    raise RuntimeError(f"hvdray: {self._what} has not ended after {limit:g} s{self._of_whom()}") from None
                except Exception as error:
                    self._error = error
                self._handle = None
                self._at_end()
        return self._error

    def _of_whom(self) -> str:
        assert self._handle is not None
        missing = _core.missing(self._handle)
        if not missing:
            return ""
        return f": rank{'s'[: len(missing) - 1]} {', '.join(map(str, missing))} of the job never began it"

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        error = self.settle(timeout)
        if error is not None:
            raise error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        handle = self._handle
        try:
            return handle is None or _core.poll(handle)
        except ValueError:  # it has just been waited for, or the library has been shut down
            return True

    def result(self) -> list[torch.Tensor]:
        """What DDP's join() of torch 1.13 asks for."""
        return self._tensors

    def get_future(self) -> Any:
        global _thread
        if self._future is None:
            begun: Any = torch.futures.Future()
            # What a callback raises is an error to C++. What set_exception() gets is one to Python alone: DDP crashes.
            self._future = begun.then(self._outcome)
            _begun.put(begun)
            if _thread is None:
                _thread = threading.Thread(target=_complete_futures, name="hvdray.c10d", daemon=True)
                _thread.start()
        return self._future

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        self.wait()
        return self._tensors
