# SPDX-License-Identifier: Apache-2.0
"""Messages as docs/serve.md and docs/channel.md define them: a JSON object on a line, then `blob` raw bytes."""

from __future__ import annotations

import array
import socket
from collections import deque
from json import dumps, loads  # as they were when we came: a program may replace those of the module
from typing import Any, Union

MAX_LINE = 1 << 20
MAX_DESCRIPTORS = 64

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
    """Reads a worker's channel, with the descriptors that come with its messages. Blocks. No threads."""

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def _receive(self, size: int) -> None:
        """Raises EOFError."""
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        data, ancillary, _, _ = self._channel.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                self._descriptors.extend(numbers)
        if not data:
            raise EOFError
        self._bytes += data

    def message(self) -> tuple[dict[str, Any], bytearray]:
        """The next message and its blob. Raises EOFError, and ValueError for what is no message."""
        searched = 0
        while (end := self._bytes.find(b"\n", searched)) < 0:
            searched = len(self._bytes)
            if searched > MAX_LINE:
                raise ValueError("a line above 1 MiB")
            self._receive(1 << 16)
        message, size = parse_head(bytes(self._bytes[:end]))
        del self._bytes[: end + 1]
        while len(self._bytes) < size:
            self._receive(min(size - len(self._bytes), 1 << 20))
        blob = self._bytes[:size]
        del self._bytes[:size]
        return message, blob

    def descriptor(self) -> int:
        """The one that came with the message read last. Raises ValueError."""
        if not self._descriptors:
            raise ValueError("an object without a descriptor")
        return self._descriptors.popleft()
