# SPDX-License-Identifier: Apache-2.0
"""submit() and map() of an Executor: calls on one worker each, as many at a time as there are workers."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional

from ._calls import Answer, died, error_of, value_of
from ._errors import HvdrayError
from ._launcher import Gang, Launcher
from ._payload import Payload, call_each, dumps

if TYPE_CHECKING:
    from ._executor import Executor


class Tasks:
    """One thread has the executor's turn as long as there are any, and hands them out."""

    def __init__(self, executor: "Executor"):
        self._executor = executor
        self._lock = threading.Condition()
        self._queue: deque[tuple["Future[Any]", Payload]] = deque()
        self._is_going = False
        self._thread: Optional[threading.Thread] = None
        self._running: dict[int, tuple[int, "Future[Any]", list[int], Payload]] = {}  # by rank; what was sent, too: it holds what is scattered
        self._answers: deque[tuple[int, Answer]] = deque()

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Future[Any]":
        """Raises SerializationError."""
        payload = dumps((fn, args, kwargs), ["fn", "args", "kwargs"])
        future: "Future[Any]" = Future()
        with self._lock:
            self._queue.append((future, payload))
            if not self._is_going:
                self._is_going = True
                self._thread = threading.Thread(target=self._go, name="hvdray submit", daemon=True)
                self._thread.start()
        launcher = self._executor._launcher
        if launcher is not None:
            with launcher.condition:
                launcher.condition.notify_all()
        return future

    def map(self, fn: Callable[..., Any], iterables: Iterable[Iterable[Any]], timeout: Optional[float], chunksize: int) -> Iterator[Any]:
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        deadline = None if timeout is None else time.monotonic() + timeout
        calls = zip(*iterables)
        chunks = iter(lambda: list(itertools.islice(calls, chunksize)), [])
        futures = deque(self.submit(call_each, (fn, chunk), {}) for chunk in chunks)

        def values() -> Iterator[Any]:
            try:
                while futures:
                    left = None if deadline is None else deadline - time.monotonic()
                    yield from futures.popleft().result(left)
            finally:
                for future in futures:
                    future.cancel()

        return values()

    @property
    def are_there(self) -> bool:
        return self._is_going

    def wait(self, deadline: Optional[float] = None) -> bool:
        """Until there are none. False: at the deadline, or on their own thread, there are."""
        with self._lock:
            if threading.current_thread() is not self._thread:
                self._lock.wait_for(lambda: not self._is_going, None if deadline is None else max(deadline - time.monotonic(), 0))
            return not self._is_going

    def interrupt(self) -> None:
        """Those that run end as with Ctrl-C, and those that wait are cancelled."""
        with self._lock:
            for future, _ in self._queue:
                future.cancel()
            launcher, gang = self._executor._launcher, self._executor._gang
            if launcher is not None and gang is not None and self._running:
                launcher.signal(gang, list(self._running), signal.SIGINT)

    # ---- on the thread

    def _go(self) -> None:
        try:
            while True:
                with self._executor._gang_for_tasks() as (launcher, gang):
                    self._hand_out(launcher, gang)
                with self._lock:
                    if not self._queue:
                        self._is_going = False
                        self._lock.notify_all()
                        return
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            failed = [future for _, future, *_ in self._running.values()]
            failed += [future for future, _ in self._queue if future.set_running_or_notify_cancel()]
            self._running, self._is_going = {}, False
            self._queue.clear()
            self._answers.clear()
            self._lock.notify_all()
        for future in failed:
            future.set_exception(error)

    def _hand_out(self, launcher: Launcher, gang: Gang) -> None:
        """Returns when all is done. Raises what ends all: a worker has died."""
        with launcher.condition:
            gang.on_data = self._on_data
        while True:
            with launcher.condition:
                launcher.check()
                if gang.has_ended or any(rank in gang.exited for rank in self._running):
                    break
                if not self._answers and not (self._queue and len(self._running) < len(gang.workers)):
                    if not self._running:
                        return
                    launcher.condition.wait()
                    continue
            while self._answers:
                self._take(launcher, gang, *self._answers.popleft())
            for rank in range(len(gang.workers)):
                if rank not in self._running and not self._start_next(launcher, gang, rank):
                    break
        launcher.stop(gang, 0)
        self._executor._wait_for_end(launcher, gang)
        raise gang.why or died(gang, list(self._running))

    def _start_next(self, launcher: Launcher, gang: Gang, rank: int) -> bool:
        while True:
            with self._lock:
                if not self._queue:
                    return False
                future, payload = self._queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                call = self._executor._next_number()
                self._running[rank] = call, future, [], payload
            head = {"call": call, "do": "run"}
            self._running[rank][2].extend(self._executor._post(launcher, gang, [([rank], payload)], head, lambda why: None))
            return True

    def _on_data(self, rank: int, data: Any, content: Any) -> None:
        if isinstance(data, dict) and rank in self._running and data.get("call") == self._running[rank][0] and "ok" in data:
            self._answers.append((rank, Answer(data, content)))

    def _take(self, launcher: Launcher, gang: Gang, rank: int, answer: Answer) -> None:
        with self._lock:
            _, future, shared, _ = self._running.pop(rank)
        for number in shared:
            launcher.drop(number)
        worker, wants_json = gang.workers[rank], self._executor._results == "json"
        try:
            if answer.head["ok"] is True:
                future.set_result(value_of(answer, rank, worker["host"], wants_json))
            else:
                future.set_exception(error_of(answer, rank, worker["host"], worker["pid"], wants_json))
        except HvdrayError as error:
            future.set_exception(error)
