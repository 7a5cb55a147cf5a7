# SPDX-License-Identifier: Apache-2.0
"""Which reports become commits. Pure.

A *round* is the n-th report of each rank of an attempt, counted from 0. It is settled, after all earlier ones, when every rank that
has ever reported has made its own n-th or ended well. What a rank that reports for the first time gives to a settled round
still counts, unless a later round is committed; so the last commit never goes back. A round in which a report failed has no
commit.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Optional


class Made(NamedTuple):
    """One report."""

    metrics: Optional[dict[str, Any]]  # of rank 0, else None
    has_files: bool
    has_failed: bool = False


class Step(NamedTuple):
    """What is to be done for a round, in this order."""

    number: int
    dropped: tuple[int, ...]  # ranks whose files go
    committed: tuple[int, ...]  # ranks whose files become a checkpoint, or join that of the round
    metrics: Optional[dict[str, Any]]  # of rank 0: a line of the log; None: there is none


class Commits:
    """Of one attempt."""

    def __init__(self, expected: Iterable[int] = ()):
        """`expected`: ranks that have reported in an earlier attempt."""
        self.reporters = set(expected)
        self._made: dict[int, int] = {}
        self._well: set[int] = set()
        self._open: dict[int, dict[int, Made]] = {}
        self._committed: set[int] = set()
        self._void: set[int] = set()

    def begin(self, rank: int) -> int:
        """The rank begins a report: from now on it is waited for. Returns the number of its round."""
        self.reporters.add(rank)
        return self._made.get(rank, 0)

    def make(self, rank: int, made: Made) -> list[Step]:
        """The report that it began is safe, or has failed. Returns what that settles."""
        number = self.begin(rank)
        self._made[rank] = number + 1
        self._open.setdefault(number, {})[rank] = made
        return self._settle_all()

    def end_well(self, rank: int) -> list[Step]:
        """Its loop has returned: nothing waits for it any more."""
        self._well.add(rank)
        return self._settle_all()

    def made_by(self, rank: int) -> int:
        """How many reports of it are safe, or have failed."""
        return self._made.get(rank, 0)

    def _settle_all(self) -> list[Step]:
        least = min((self._made.get(rank, 0) for rank in self.reporters - self._well), default=None)
        ready = sorted(number for number in self._open if least is None or number < least)
        return [self._settle(number, self._open.pop(number)) for number in ready]

    def _settle(self, number: int, reports: dict[int, Made]) -> Step:
        with_files = tuple(sorted(rank for rank, made in reports.items() if made.has_files or made.has_failed))
        metrics = next((made.metrics for made in reports.values() if made.metrics is not None and not made.has_failed), None)
        is_committed = number in self._committed
        if any(made.has_failed for made in reports.values()) and not is_committed:
            self._void.add(number)
        given = tuple(rank for rank in with_files if not reports[rank].has_failed)
        is_superseded = not is_committed and number < max(self._committed, default=0)
        if number in self._void or is_superseded or not given:
            return Step(number, with_files, (), metrics)
        self._committed.add(number)
        return Step(number, tuple(rank for rank in with_files if rank not in given), given, metrics)


def to_prune(scores: "list[Optional[float]]", num_to_keep: Optional[int]) -> list[int]:
    """Which of the committed checkpoints, oldest first, go. Larger scores are better, None and NaN are worst; without scores (all
    None) the oldest go. Never the latest."""
    if num_to_keep is None or len(scores) <= num_to_keep:
        return []
    worst = float("-inf")
    values = [worst if score is None or score != score else score for score in scores]
    order = sorted(range(len(scores) - 1), key=lambda at: (values[at], at))
    return sorted(order[: len(scores) - num_to_keep])
