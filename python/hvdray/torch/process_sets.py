# SPDX-License-Identifier: Apache-2.0
"""Some of the ranks, for operations among them alone."""

from __future__ import annotations

import weakref
from typing import Iterable, Optional, Sequence, Union

from . import _device
from .._async import _core


class ProcessSet:
    """Ranks that operate among themselves, once `init(process_sets=…)` or `add_process_set()` has given it an id."""

    process_set_id: Optional[int] = None
    ranks: Optional[list[int]] = None
    mpi_comm = None  # MPI's communicators are not supported; scripts may ask

    def __init__(self, ranks: Iterable[int]) -> None:
        try:
            self.ranks = sorted(ranks)
        except TypeError:
            raise ValueError("a ProcessSet is a list of ranks; communicators of MPI are not supported") from None
        if any(type(rank) is not int for rank in self.ranks):
            raise ValueError("ProcessSet should be initialized with a list of process ranks")

    def size(self) -> Optional[int]:
        """How many ranks it has; None: it is not registered."""
        return None if self.process_set_id is None else len(_core.ranks_of(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This process's number within it; None: it is not registered."""
        if self.process_set_id is None:
            return None
        ranks = _core.ranks_of(self.process_set_id)
        if _core.rank() not in ranks:
            raise ValueError("Process is not part of provided process set.")
        return ranks.index(_core.rank())

    def included(self) -> Optional[bool]:
        """Whether this process belongs to it."""
        return None if self.ranks is None else _core.rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
_registered: weakref.WeakSet[ProcessSet] = weakref.WeakSet()


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers the set. Every rank calls it, also those outside."""
    entry = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _core.check_dynamic_sets("adding")
    return _register(entry)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forgets the set, after its operations. Every rank calls it. False: there was nothing to remove."""
    number = process_set.process_set_id
    if not number:  # not registered, or all ranks
        return False
    _core.check_dynamic_sets("removing")
    process_set.process_set_id = None
    if number not in _core.process_sets():
        return False
    _core.change_sets(remove=number)
    if _device.lane is not None:
        _device.lane.forget(number)
    return True


def begin(process_sets: Iterable[ProcessSet]) -> None:
    """After init(): the set of all ranks, and those that it was given."""
    global_process_set.ranks = _core.ranks_of(0)
    for entry in (*_registered, *process_sets):  # ids of an earlier life may be others' now
        entry.process_set_id = None
    _registered.clear()
    for number, entry in enumerate(process_sets):
        try:
            _register(entry)
        except ValueError as error:
            raise ValueError(f"process_sets entry number {number}: {error}") from None


def _register(entry: ProcessSet) -> ProcessSet:
    assert entry.ranks is not None
    if any(_core.ranks_of(number) == entry.ranks for number in _core.process_sets()):
        raise ValueError(f"Attempted to add a duplicate process set: {entry}")
    entry.process_set_id = _core.change_sets(add=entry.ranks)
    _registered.add(entry)
    return entry
