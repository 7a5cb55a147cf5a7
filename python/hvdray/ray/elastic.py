# SPDX-License-Identifier: Apache-2.0
"""ElasticRayExecutor, the older of horovod.ray's two interfaces to elastic jobs on Ray, on RayExecutor."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

from .._executor import Callbacks
from .._slots import ElasticDriver
from ._discovery import ChangingHosts, NodeDiscovery, no_kill
from .runner import MiniSettings, RayExecutor


class RayHostDiscovery(NodeDiscovery):
    def __init__(self, use_gpu: bool = False, cpus_per_slot: float = 1, gpus_per_slot: float = 1):
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot)
        self.cpus_per_slot = cpus_per_slot
        self.gpus_per_slot = gpus_per_slot


class TestDiscovery(RayHostDiscovery, ChangingHosts):
    """The nodes of the cluster, of which now and then one is hidden."""

    __test__ = False  # for pytest

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_slot: float = 1,
        gpus_per_slot: float = 1,
        verbose: bool = True,
        _graceful: bool = True,
    ):
        no_kill(_graceful)
        RayHostDiscovery.__init__(self, use_gpu, cpus_per_slot, gpus_per_slot)
        ChangingHosts.__init__(self, min_hosts, max_hosts, change_frequency_s, verbose)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return self.left_of(super().find_available_hosts_and_slots())


@dataclass
class ElasticSettings(MiniSettings):
    """What ElasticRayExecutor reads besides; any object with some of these will do."""

    min_num_proc: int = 1
    max_num_proc: Optional[int] = None
    reset_limit: Optional[int] = None
    cooldown_range: Optional[Sequence[int]] = None
    elastic_timeout: float = 600
    discovery: Any = None  # has find_available_hosts_and_slots(); read with override_discovery=False
    elastic: bool = True


class ElasticRayExecutor:
    """Each run() is an elastic job on the Ray cluster of this program. Threads: any; runs wait for each other."""

    @staticmethod
    def create_settings(
        min_num_proc: int = 1,
        max_num_proc: Optional[int] = None,
        reset_limit: Optional[int] = None,
        elastic_timeout: float = 600,
        timeout_s: float = 30,
        ssh_identity_file: Optional[str] = None,
        nics: Optional[Any] = None,
        min_np: Optional[int] = None,
        max_np: Optional[int] = None,
        **more: Any,
    ) -> ElasticSettings:
        """`more`: further attributes of the settings, such as `discovery` and `cooldown_range`."""
        if min_np is not None:
            warnings.warn("min_np is deprecated, use min_num_proc instead", DeprecationWarning, stacklevel=2)
            min_num_proc = min_np
        if max_np is not None:
            warnings.warn("max_np is deprecated, use max_num_proc instead", DeprecationWarning, stacklevel=2)
            max_num_proc = max_np
        settings = ElasticSettings(
            nics=nics,
            ssh_identity_file=ssh_identity_file,
            timeout_s=timeout_s,
            min_num_proc=min_num_proc,
            max_num_proc=max_num_proc,
            reset_limit=reset_limit,
            elastic_timeout=elastic_timeout,
        )
        for name, value in more.items():
            setattr(settings, name, value)
        return settings

    def __init__(
        self,
        settings: Any,
        use_gpu: bool = False,
        cpus_per_slot: float = 1,
        gpus_per_slot: Optional[int] = None,
        env_vars: Optional[Mapping[str, Any]] = None,
        override_discovery: bool = True,
    ):
        """Raises ValueError for what does not fit together. `override_discovery`: all nodes of the cluster, whatever
        settings.discovery says."""
        if gpus_per_slot and not use_gpu:
            raise ValueError("gpus_per_slot is set, but use_gpu is False. use_gpu must be True if gpus_per_slot is set. ")
        if use_gpu and isinstance(gpus_per_slot, int) and gpus_per_slot < 1:
            raise ValueError(f"gpus_per_slot must be >= 1: Got {gpus_per_slot}.")
        self.settings = settings
        default = ElasticSettings()
        self._env_vars = dict(env_vars or {})
        self._executor = RayExecutor(
            settings,
            min_workers=getattr(settings, "min_num_proc", None) or default.min_num_proc,
            max_workers=getattr(settings, "max_num_proc", None),
            reset_limit=getattr(settings, "reset_limit", None),
            cooldown_range=getattr(settings, "cooldown_range", None),
            elastic_timeout=getattr(settings, "elastic_timeout", None) or default.elastic_timeout,
            cpus_per_worker=cpus_per_slot,
            use_gpu=use_gpu,
            gpus_per_worker=gpus_per_slot,
            override_discovery=override_discovery,
        )

    def start(self) -> None:
        """If Ray is not initialised: ray.init(). Workers start with run()."""
        self._executor.start(extra_env_vars=self._env_vars)

    def run(self, worker_fn: Callable[[], Any], callbacks: Optional[Callbacks] = None, *, timeout: Optional[float] = None) -> list[Any]:
        """worker_fn() on all workers, also those that come later; the values of the last generation, by rank."""
        return self._executor.run(worker_fn, callbacks=callbacks, timeout=timeout)

    @property
    def driver(self) -> Optional[ElasticDriver]:
        """From start() on: who has which slot in the present run."""
        return self._executor.driver

    @property
    def workers(self) -> list[dict[str, Any]]:
        """Of the present generation, by rank: `rank`, `host`, `local_rank`, `pid`, `python`."""
        return self._executor.workers

    def interrupt(self) -> None:
        """From another thread: the run that waits ends as with Ctrl-C."""
        self._executor.interrupt()

    def shutdown(self) -> None:
        """Returns when nothing is left."""
        self._executor.shutdown()

    def __enter__(self) -> "ElasticRayExecutor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()
