# SPDX-License-Identifier: Apache-2.0
"""Host discovery on Ray, as horovod.ray has it; elastic and elastic_v2 give it their names."""

from __future__ import annotations

import random
import time
from typing import Any, Mapping


class NodeDiscovery:
    """The living nodes of this program's Ray, with the slots that their resources are enough for."""

    def __init__(self, use_gpu: bool, cpus: float, gpus: float):
        self.use_gpu = use_gpu
        self._cpus = cpus
        self._gpus = gpus

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Slots by address, of nodes that have any."""
        import ray  # type: ignore[import]

        found: dict[str, int] = {}
        for node in ray.nodes():
            resources = node["Resources"]
            slots = resources.get("CPU", 0) // self._cpus
            if self.use_gpu:
                slots = min(slots, resources.get("GPU", 0) // self._gpus)
            if node["alive"] and slots >= 1:
                address = node["NodeManagerAddress"]
                found[address] = found.get(address, 0) + int(slots)
        return found


class ChangingHosts:
    """Takes a host away or gives it back every `change_frequency_s` seconds, for tests of elastic programs. Between
    `min_hosts` and `max_hosts` stay, if there are so many."""

    def __init__(self, min_hosts: int, max_hosts: int, change_frequency_s: float, verbose: bool):
        self._min_hosts = min_hosts
        self._max_hosts = max_hosts
        self._change_frequency_s = change_frequency_s
        self.verbose = verbose
        self._removed_hosts: set[str] = set()
        self._changed_at = time.monotonic()

    def add_host(self, hosts: Mapping[str, int]) -> None:
        removed = sorted(self._removed_hosts & set(hosts))
        if removed:
            self._removed_hosts.remove(random.choice(removed))

    def remove_host(self, hosts: Mapping[str, int]) -> None:
        present = sorted(set(hosts) - self._removed_hosts)
        if present:
            self._removed_hosts.add(random.choice(present))

    def change_hosts(self, hosts: Mapping[str, int]) -> None:
        self._removed_hosts &= set(hosts)
        present = len(hosts) - len(self._removed_hosts)
        if present <= self._min_hosts or (present < self._max_hosts and random.random() < 0.5):
            self.add_host(hosts)
        else:
            self.remove_host(hosts)

    def left_of(self, hosts: Mapping[str, int]) -> dict[str, int]:
        if time.monotonic() - self._changed_at >= self._change_frequency_s:
            self._changed_at = time.monotonic()
            self.change_hosts(hosts)
        left = {host: slots for host, slots in hosts.items() if host not in self._removed_hosts}
        if self.verbose:
            print(f"hosts: {len(left)} of {len(hosts)}: {left}")
        return left


def no_kill(graceful: Any) -> None:
    if not graceful:
        raise ValueError("_graceful=False would kill a node of the cluster, and is not done here")
