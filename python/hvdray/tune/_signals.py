# SPDX-License-Identifier: Apache-2.0
"""Signals while a search runs: those that end it, and the clock of what may take too long."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from types import FrameType
from typing import Any, Callable, Iterator, Optional

from .._interpreter import SignalCopies

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Signals that end a program end its trials in good order first."""

    def __init__(self, news: "queue.SimpleQueue[Any]"):
        self.taken: list[int] = []
        self._news = news
        self._were: dict[int, Any] = {}
        self._copies = SignalCopies()

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._were[number] = signal.signal(number, self._on)
        return self

    def _on(self, number: int, _frame: Optional[FrameType]) -> None:
        if not self._copies.is_new(number):
            return
        self.taken.append(number)
        self._news.put(lambda: None)  # Who waits for news looks for signals, too.

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._were.items():
            signal.signal(number, handler)

    def raise_again(self) -> None:
        if self.taken[0] == signal.SIGINT:
            raise KeyboardInterrupt
        os.kill(os.getpid(), self.taken[0])


@contextlib.contextmanager
def clock(seconds: float) -> Iterator[Callable[[], Any]]:
    """For what may take `seconds` of CPU: a regular expression that goes back and forth holds all threads. TimeoutError where it takes more, if
    the program has no timer of its own there and this is its main thread, the only one that can be interrupted."""

    def on_time(_number: int, _frame: Optional[FrameType]) -> None:
        raise TimeoutError

    @contextlib.contextmanager
    def limited() -> Iterator[None]:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGPROF) != signal.SIG_DFL or any(signal.getitimer(signal.ITIMER_PROF)):
        yield contextlib.nullcontext
        return
    before = signal.signal(signal.SIGPROF, on_time)
    try:
        yield limited
    finally:
        signal.signal(signal.SIGPROF, before)
