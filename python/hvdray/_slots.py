# SPDX-License-Identifier: Apache-2.0
"""Who has which slot in the present generation of an elastic call, from the events of `hvdray serve`. docs/python.md, "The
driver of an elastic call"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ._errors import HvdrayError

if TYPE_CHECKING:
    from ._elastic import ElasticCall

Slot = tuple[str, int]  # host, local rank


@dataclass(frozen=True)
class SlotInfo:
    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int


NO_SLOT = SlotInfo("", -1, -1, -1, -1, -1, -1)  # as horovod.runner.common.util.hosts has it


class Slots:
    """Fed with events, in their order."""

    def __init__(self) -> None:
        self.infos: dict[Slot, SlotInfo] = {}  # by rank
        self._workers: dict[Slot, int] = {}
        self._listening: set[int] = set()  # workers that take notices

    def on_event(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "generation":
            self._on_generation(event["ranks"])
        elif kind == "worker_registered":
            self._listening.add(event["worker"])
        elif kind == "worker_exited":
            self._listening.discard(event.get("worker", -1))

    def takes_notices(self, slot: Slot) -> bool:
        return slot in self.infos and self._workers[slot] in self._listening

    def _on_generation(self, ranks: list[dict[str, Any]]) -> None:
        slots = [(row["host"], row["local_rank"]) for row in ranks]
        on_host = Counter(host for host, _ in slots)
        across = Counter(local_rank for _, local_rank in slots)
        passed: Counter[int] = Counter()
        infos = {}
        for rank, (host, local_rank) in enumerate(slots):
            infos[host, local_rank] = SlotInfo(
                hostname=host,
                rank=rank,
                local_rank=local_rank,
                cross_rank=passed[local_rank],
                size=len(slots),
                local_size=on_host[host],
                cross_size=across[local_rank],
            )
            passed[local_rank] += 1
        self.infos = infos  # whole: other threads read it
        self._workers = {slot: row.get("worker", -1) for slot, row in zip(slots, ranks)}


class SlotClient:
    """The worker at a slot, whichever process it is."""

    def __init__(self, call: "ElasticCall", slot: Slot):
        self._call = call
        self._slot = slot

    def notify_hosts_updated(self, timestamp: float, update_res: Any) -> None:
        """The worker is told that hosts have changed. `timestamp`: seconds since 1970, above that of its last notice.
        `update_res` is not passed on. Does not wait. Raises HvdrayError if there is no such worker any more."""
        self._call.notify(self._slot, int(timestamp))


class ElasticDriver:
    """What a program may ask of the call that runs. Threads: any, also that of a discovery object."""

    def __init__(self, call: Callable[[], "Optional[ElasticCall]"]):
        self._call = call

    def get_slot_info(self, host: str, slot: int) -> SlotInfo:
        """`slot`: its local rank. Of a slot that has no rank: an empty `hostname`, and -1."""
        return self._infos().get((host, slot), NO_SLOT)

    def get_coordinator_info(self) -> Optional[SlotInfo]:
        """The slot of rank 0; None while there is no generation."""
        return next(iter(self._infos().values()), None)

    def get_worker_client(self, slot_info: Any) -> Optional[SlotClient]:
        """None: no worker there takes notices, or not yet."""
        call, slot = self._call(), (slot_info.hostname, slot_info.local_rank)
        return SlotClient(call, slot) if call is not None and call.takes_notices(slot) else None

    def world_size(self) -> int:
        """Of the present generation; 0: there is none."""
        return len(self._infos())

    def _infos(self) -> dict[Slot, SlotInfo]:
        call = self._call()
        return call.slots if call is not None else {}


def no_worker(slot: Slot) -> HvdrayError:
    return HvdrayError(f"no worker on host {slot[0]}, local rank {slot[1]}, takes notices")
