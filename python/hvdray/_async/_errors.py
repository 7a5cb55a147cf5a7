# SPDX-License-Identifier: Apache-2.0
"""What operations raise beside ValueError."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """An operation failed on every rank: one died, left, or asked for something that doesn't fit the others'.

    `elastic.run` restores the last commit and goes on after it.
    """


class MismatchError(HorovodInternalError, ValueError):
    """An argument of some rank's operation is wrong, or doesn't fit the others' (shape, type, operator, root, scale, …).

    All ranks get it, so that none waits for the one that was refused. Another try would fail alike.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """The job's hosts have changed. With `skip_sync`, only by hosts that left: nobody needs the state."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync
