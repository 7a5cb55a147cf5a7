# SPDX-License-Identifier: Apache-2.0
"""What a worker stands on, whatever functions have done to their interpreter between two calls: streams that are gone or can't
be flushed, handlers of signals, the channel's descriptor."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from typing import Any, Callable

import _signal  # type: ignore[import]  # the module signal makes an enum of each number: 20 times as slow


class SignalCopies:
    """Signals that come so close together are one if they are equal or SIGHUP is among them, as in base/signals.h: what signals a program
    often signals its group, too, and systemd sends SIGTERM and SIGHUP."""

    WITHIN_S = 0.1

    def __init__(self) -> None:
        self._last: dict[int, float] = {}

    def is_new(self, number: int = signal.SIGINT) -> bool:
        now = time.monotonic()
        for other, last in self._last.items():
            if (other == number or signal.SIGHUP in (other, number)) and now - last < self.WITHIN_S:
                return False
        self._last[number] = now
        return True


class Handlers:
    """Of signals, as functions have set them. Between calls what they raise must not end the worker, nor cost it half a message;
    SystemExit, which asks for that, excepted. SIGINT is ours then, and in calls unless a function has a handler for it."""

    def __init__(self, on_interrupt: Callable[[int, Any], None], on_error: Callable[[BaseException], None]):
        """`on_interrupt`: our handler of SIGINT. `on_error`: takes what a handler has raised between calls."""
        self._on_interrupt = on_interrupt
        self._on_error = on_error
        self._taken: dict[int, tuple[Any, Any]] = {}  # by signal: theirs, and ours in its place

    def take(self) -> None:
        for signo in range(1, 32):
            theirs = _signal.getsignal(signo)
            if callable(theirs) and theirs != self._on_interrupt:
                ours = self._on_interrupt if signo == signal.SIGINT else self._guarded(theirs)
                self._taken[signo] = theirs, ours
                signal.signal(signo, ours)
        if _signal.getsignal(signal.SIGINT) != self._on_interrupt:
            signal.signal(signal.SIGINT, self._on_interrupt)
        _signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))  # Calls and workers are ended by them.

    def give(self) -> None:
        while self._taken:
            signo, (theirs, ours) = self._taken.popitem()
            if _signal.getsignal(signo) == ours:
                signal.signal(signo, theirs)

    def _guarded(self, theirs: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
        def handler(signo: int, frame: Any) -> None:
            try:
                theirs(signo, frame)
            except SystemExit:
                raise
            except BaseException as error:
                self._on_error(error)

        return handler


def identity_of(channel: socket.socket) -> tuple[int, int]:
    try:
        status = os.fstat(channel.fileno())
        return status.st_dev, status.st_ino
    except OSError as error:
        if error.errno != errno.EBADF:  # what a signal's handler raises, such as TimeoutError
            raise
        return -1, -1


def complain(text: str) -> None:
    """On stderr, whatever the function has put there."""
    for name in ("stderr", "__stderr__"):
        try:
            stream = getattr(sys, name)
            stream.write(text)
            stream.flush()
            return
        except Exception:
            pass


def flush(name: str) -> bool:
    """False: there is no such stream, or it can't be flushed."""
    try:
        getattr(sys, name).flush()
        return True
    except BaseException:  # It is the function's.
        return False


def flush_streams() -> None:
    flush("stdout")
    flush("stderr")


def settle_streams() -> None:
    """Python ends with exit code 120 if it can't flush them."""
    for name in ("stdout", "stderr"):
        if not flush(name):
            setattr(sys, name, getattr(sys, f"__{name}__") if flush(f"__{name}__") else None)
