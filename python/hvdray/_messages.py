# SPDX-License-Identifier: Apache-2.0
"""Messages as docs/serve.md and docs/channel.md define them: a JSON object on a line, then `blob` raw bytes."""

from __future__ import annotations

import array
import functools
import itertools
import socket
from json import dumps, loads  # as they were when we came: a program may replace those of the module
from typing import Any, Union

MAX_LINE = 1 << 20
MAX_DESCRIPTORS = 64
LOST = -1  # in place of a descriptor: this process may have no more

Bytes = Union[bytes, bytearray, memoryview]


def head_of(message: dict[str, Any], blob: int = 0) -> bytes:
    """The line of a message; the caller sends the blob after it."""
    if blob:
        message = {**message, "blob": blob}
    return dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse_head(line: bytes) -> tuple[dict[str, Any], int]:
    """Raises ValueError for what is no message."""
    message = loads(line)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError("a message must be an object with a type")
    blob = message.pop("blob", 0)
    if not isinstance(blob, int) or isinstance(blob, bool) or blob < 0:
        raise ValueError("blob must be a number of bytes")
    return message, blob


class ChannelReader:
    """Reads a worker's channel, with the descriptors that come with its messages. Blocks. No threads. What a signal's handler raises
    in the midst of it costs at most the message that would have been returned."""

    def __init__(self, channel: socket.socket):
        self._receive_from = channel.recvmsg  # as it is now: a function may replace the class's
        self._block = functools.partial(channel.setblocking, True)
        # One attribute, so that all of it changes at once: the bytes, the descriptors, and what recvmsg() has returned since.
        self._state: tuple[bytes, tuple[int, ...], list[Any]] = b"", (), []

    def _receive(self, size: int) -> None:
        """Raises EOFError."""
        before, descriptors, got = self._state
        if not got:
            space = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
            receive = functools.partial(self._receive_from, size, space, socket.MSG_CMSG_CLOEXEC)
            try:
                got.extend(itertools.islice(iter(receive, None), 1))  # No handler runs before the list has it.
            except BlockingIOError:  # A function has made all descriptors so.
                self._block()
                return
        data, ancillary, flags, _ = got[0]
        if flags & socket.MSG_CTRUNC:
            descriptors += (LOST,)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                descriptors += tuple(numbers)
        if not data:
            raise EOFError
        self._state = before + data, descriptors, []

    def message(self) -> tuple[dict[str, Any], bytearray]:
        """The next message and its blob; that of an object has its `descriptor`. Raises EOFError, and ValueError for what is no
        message."""
        searched = 0
        while (end := self._state[0].find(b"\n", searched)) < 0:
            searched = len(self._state[0])
            if searched > MAX_LINE:
                raise ValueError("a line above 1 MiB")
            self._receive(1 << 16)
        message, size = parse_head(self._state[0][:end])
        begin, end = end + 1, end + 1 + size
        while len(self._state[0]) < end:
            self._receive(min(end - len(self._state[0]), 1 << 20))
        read, descriptors, got = self._state
        if message["type"] == "object":
            if not descriptors:
                raise ValueError("an object without a descriptor")
            message["descriptor"], descriptors = descriptors[0], descriptors[1:]
        blob = bytearray(read[begin:end])
        self._state = read[end:], descriptors, got
        return message, blob
