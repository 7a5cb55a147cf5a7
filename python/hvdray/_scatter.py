# SPDX-License-Identifier: Apache-2.0
"""Values that go to each host once, for many calls: scatter() of an Executor."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ._launcher import Gang, Launcher
from ._payload import Payload, note_scattered

_keys = itertools.count(1)


class Scattered:
    """Among the arguments of a call, or in its closure, it is the value there. Workers keep that until they end."""

    def __init__(self, payload: Payload):
        self.key = next(_keys)
        self.payload = payload
        self._numbers: "weakref.WeakKeyDictionary[Launcher, int]" = weakref.WeakKeyDictionary()
        self._known: "weakref.WeakKeyDictionary[Gang, set[int]]" = weakref.WeakKeyDictionary()  # the ranks that have it

    def __repr__(self) -> str:
        return f"<hvdray: scattered, {self.payload.total} bytes>"

    def __reduce__(self) -> Any:
        note_scattered(self)
        return value_here, (self.key,)

    def on(self, launcher: Launcher, gang: Gang, ranks: list[int]) -> tuple[list[Any], list[int]]:
        """For the head of a call, and the objects to send with it."""
        number = self._numbers.get(launcher)
        if number is None:
            number = launcher.next_object()
            launcher.put(number, self.payload.parts)
            self._numbers[launcher] = number
            weakref.finalize(self, _drop, weakref.ref(launcher), number).atexit = False
        lacks = not self._known.get(gang, set()).issuperset(ranks)
        return [self.key, number, self.payload.sizes], [number] if lacks else []

    def note_sent(self, gang: Gang, ranks: list[int]) -> None:
        """What on() has returned is on its way."""
        self._known.setdefault(gang, set()).update(ranks)


def _drop(weak: "weakref.ref[Launcher]", number: int) -> None:
    launcher = weak()
    if launcher is not None and launcher.lost is None and not launcher.is_over:
        launcher.drop(number)


def value_here(key: int) -> Any:
    """On a worker."""
    from . import _worker

    assert _worker.current is not None
    return _worker.current.scattered[key]
