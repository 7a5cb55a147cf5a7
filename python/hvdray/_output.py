# SPDX-License-Identifier: Apache-2.0
"""What workers and hvdray print: passed on as it comes, or held for the thread that waits for a call."""

from __future__ import annotations

import array
import codecs
import contextlib
import fcntl
import os
import select
import sys
import termios
import threading
import time
from collections import deque
from typing import IO, Any, Callable, Optional, Union

MAX_HELD = 1 << 20  # bytes; where nobody waits for a call, what is older is dropped
MAX_LAST_LINES = 8
WAITING_S = 2.0  # after show(): whoever waits for a call shows far more often

OnChunk = Callable[[bool, bytes], None]  # is of stderr, text
OUTPUTS = ("auto", "inherit", "wait", "none")


def fill_standard_streams() -> None:
    """Where a daemon has closed them, descriptors of ours would get their numbers, and Popen put others there in the child."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


class Output:
    """`how`: "inherit": to the stdout and stderr of this process. "wait": show() prints it to sys.stdout and sys.stderr,
    so that it lands in the cell of a notebook that waits. "none": nowhere. "auto": "wait", if sys.stdout is not the
    stdout of this process, else "inherit". A function gets it, on threads of ours, one chunk at a time."""

    def __init__(self, stdout: Optional[IO[bytes]], stderr: Optional[IO[bytes]], how: Union[str, OnChunk]):
        assert stdout is not None and stderr is not None
        stdout_of_program = getattr(sys, "stdout", None)
        if how in ("auto", "wait") and stdout_of_program is None:
            how = "none"  # as pythonw has it
        if how == "auto":
            how = "inherit" if _is_own(stdout_of_program, 1) else "wait"
        self.is_shown = how == "wait"
        self._on_chunk = None if isinstance(how, str) else how
        self.is_taken = self.is_shown or self._on_chunk is not None  # by somebody who asks for all that has been said
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._has_come = threading.Condition(self._lock)  # more of the pipes, or their reader waits for room
        self._shown_at = float("-inf")
        self._dropped = 0  # bytes
        self.on_full: Callable[[], None] = lambda: None  # wakes whoever waits for a call
        self._early: Optional[list[tuple[bool, bytes]]] = []  # None: released
        self._held: deque[tuple[bool, bytes]] = deque()  # is of stderr, text
        self._held_bytes = 0
        # A chunk may end within a character.
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._last: deque[bytes] = deque(maxlen=MAX_LAST_LINES)
        self._targets = (1, 2) if how == "inherit" else None
        self._taken = {stdout: 0, stderr: 0}  # bytes, of pipes that have not ended
        self._threads = [
            threading.Thread(target=self._pump, args=(source, source is stderr), name="hvdray output", daemon=True)
            for source in (stdout, stderr)
        ]
        for thread in self._threads:
            thread.start()

    def release(self) -> None:
        """Passes on what is said. Until then it is held: the end of a program that does not come up is told otherwise."""
        with self._lock:
            early, self._early = self._early, None
            for is_error, chunk in early or ():
                self._pass_on(is_error, chunk)

    def settle(self) -> None:
        """Shows all that is in the pipes."""
        with self._lock:
            wanted = {source: taken + _waiting(source) for source, taken in self._taken.items()}
        while True:
            self.show()
            with self._lock:
                if all(self._taken.get(source, size) >= size for source, size in wanted.items()):
                    break
                self._has_come.wait(0.1)
        self.show()

    def show(self) -> None:
        """Prints what is held, in order of arrival."""
        while True:
            with self._lock:
                self._shown_at = time.monotonic()
                dropped, self._dropped = self._dropped, 0
                if not self._held:
                    break
                is_error, text = self._held.popleft()
                self._held_bytes -= len(text)
                self._has_room.notify_all()
            self._print(True, f"hvdray: {dropped} bytes of older output dropped: no call waited for them\n" if dropped else "")
            self._print(is_error, self._decoders[is_error].decode(text))

    def _print(self, is_error: bool, text: str) -> None:
        # The program may have put anything there. What can't be shown is lost, and the call is not.
        with contextlib.suppress(Exception):
            stream: Any = sys.stderr if is_error else sys.stdout
            if text:
                stream.write(text)
                stream.flush()

    def last_lines(self) -> str:
        """Of stderr."""
        return b"\n".join(self._last).decode(errors="replace").strip()

    def drain(self) -> None:
        """Returns when all has been read; the program has ended."""
        for thread in self._threads:
            thread.join(timeout=5)  # A process that outlives it may hold the pipe.

    def close(self) -> None:
        self.drain()
        self.show()

    def _pump(self, source: Any, is_error: bool) -> None:
        rest = b""
        readable = select.poll()
        readable.register(source.fileno(), select.POLLIN)
        while True:
            readable.poll()
            self._wait_for_room()
            with self._lock:  # What has been said is either in the pipe or counted, for settle().
                chunk = os.read(source.fileno(), 1 << 16)
                self._taken[source] += len(chunk)
                is_early = self._early is not None
                if self._early is not None:
                    self._early.append((is_error, chunk))
                elif self.is_taken:
                    self._pass_on(is_error, chunk)
                if not chunk:
                    del self._taken[source]
                self._has_come.notify_all()
                if not chunk:
                    break
            if not (is_early or self.is_taken):
                self._pass_on(is_error, chunk)
            if is_error:
                *lines, rest = (rest + chunk)[-(1 << 14) :].split(b"\n")
                self._last.extend(lines)
        if rest:
            self._last.append(rest)
        source.close()

    def _wait_for_room(self) -> None:
        """While a call waits, writers wait for their reader."""
        while self.is_shown:
            with self._lock:
                patience = self._shown_at + WAITING_S - time.monotonic()
                if self._held_bytes < MAX_HELD // 2 or patience <= 0:
                    return
            self.on_full()  # without our lock: it takes another one
            with self._lock:
                if self._held_bytes >= MAX_HELD // 2:
                    self._has_come.notify_all()
                    self._has_room.wait(patience)

    def _pass_on(self, is_error: bool, chunk: bytes) -> None:
        if self._on_chunk is not None:
            self._on_chunk(is_error, chunk)
        elif self._targets is not None:
            _write_all(self._targets[is_error], chunk)
        elif self.is_shown:
            self._held.append((is_error, chunk))
            self._held_bytes += len(chunk)
            while self._held_bytes > MAX_HELD:
                oldest = len(self._held.popleft()[1])
                self._held_bytes -= oldest
                self._dropped += oldest


def _waiting(source: IO[bytes]) -> int:
    """Bytes in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(source.fileno(), termios.FIONREAD, count)
    return count[0]


def _is_own(stream: Any, descriptor: int) -> bool:
    try:
        return bool(stream.fileno() == descriptor)
    except (AttributeError, OSError, ValueError):
        return False


def _write_all(target: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        pass  # Nobody reads it.
