# SPDX-License-Identifier: Apache-2.0
"""Discovery for the elastic calls of RayExecutor, at horovod.ray's path."""

from __future__ import annotations

from ._discovery import ChangingHosts, NodeDiscovery, no_kill

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0  # between two questions to a discovery object


class RayHostDiscovery(NodeDiscovery):
    def __init__(self, use_gpu: bool = False, cpus_per_worker: float = 1, gpus_per_worker: float = 1):
        super().__init__(use_gpu, cpus_per_worker, gpus_per_worker)
        self.cpus_per_worker = cpus_per_worker
        self.gpus_per_worker = gpus_per_worker


class TestDiscovery(RayHostDiscovery, ChangingHosts):
    """The nodes of the cluster, of which now and then one is hidden."""

    __test__ = False  # for pytest

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_worker: float = 1,
        gpus_per_worker: float = 1,
        verbose: bool = True,
        _graceful: bool = True,
    ):
        no_kill(_graceful)
        RayHostDiscovery.__init__(self, use_gpu, cpus_per_worker, gpus_per_worker)
        ChangingHosts.__init__(self, min_hosts, max_hosts, change_frequency_s, verbose)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return self.left_of(super().find_available_hosts_and_slots())
