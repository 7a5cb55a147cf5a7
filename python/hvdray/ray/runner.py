# SPDX-License-Identifier: Apache-2.0
"""RayExecutor: horovod.ray's interface to workers that stay on a Ray cluster, on hvdray.Executor."""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

from .._elastic import settle_limits
from .._errors import HvdrayError
from .._executor import Callbacks, Executor
from .._launcher import PARAMETERS as EXECUTORS
from .._ray_job import check_no_job
from .._slots import ElasticDriver
from . import elastic_v2

if TYPE_CHECKING:
    from .._pool import Pool

_KEY = secrets.token_bytes(32)
# By option; those of create_settings() too.
PARAMETERS = {
    **EXECUTORS,
    "start_timeout": "timeout_s",
    "placement_group_timeout": "placement_group_timeout_s",
    "blacklist_cooldown_range": "cooldown_range",
    "network_interfaces": "nics",
}


@dataclass
class MiniSettings:
    """What an executor reads of its settings; any object with some of these will do. The ssh_* and key have no effect."""

    nics: Optional[Any] = None  # names of network interfaces
    verbose: int = 1
    key: bytes = field(default=_KEY, repr=False)
    ssh_port: Optional[int] = None
    ssh_identity_file: Optional[str] = None
    timeout_s: float = 300  # for workers to start
    placement_group_timeout_s: float = 100
    elastic: bool = False

    @property
    def start_timeout(self) -> float:
        return self.timeout_s


class Coordinator:
    """Where each rank is: local and cross ranks from the nodes of all ranks. Executors let hvdray do this."""

    def __init__(self, settings: Any):
        self.settings = settings
        self.node_id_by_rank: dict[str, list[int]] = {}  # in order of registration
        self.hostnames: set[str] = set()

    @property
    def world_size(self) -> int:
        return sum(map(len, self.node_id_by_rank.values()))

    @property
    def node_id_string(self) -> str:
        return ",".join(f"{node}:{len(ranks)}" for node, ranks in self.node_id_by_rank.items())

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        self.hostnames.add(hostname)
        self.node_id_by_rank.setdefault(node_id, []).append(world_rank)

    def finalize_registration(self) -> dict[int, dict[str, int]]:
        """By rank, the variables of its place. The cross ranks of a local rank count the nodes that have that local rank."""
        nodes = list(self.node_id_by_rank.values())
        sizes = Counter(local for ranks in nodes for local in range(len(ranks)))
        seen: Counter[int] = Counter()
        places: dict[int, dict[str, int]] = {}
        for ranks in nodes:
            for local, rank in enumerate(ranks):
                places[rank] = {
                    "HOROVOD_CROSS_RANK": seen[local],
                    "HOROVOD_CROSS_SIZE": sizes[local],
                    "HOROVOD_LOCAL_RANK": local,
                    "HOROVOD_LOCAL_SIZE": len(ranks),
                }
                seen[local] += 1
        return places


class RayExecutor:
    """Workers on the Ray cluster of this program. Threads: any; calls wait for each other."""

    @classmethod
    def create_settings(
        cls,
        timeout_s: float = 30,
        ssh_identity_file: Optional[str] = None,
        ssh_str: Optional[str] = None,
        placement_group_timeout_s: float = 100,
        nics: Optional[Any] = None,
        verbose: int = 1,
    ) -> MiniSettings:
        """`timeout_s`: for the workers to start, once their slots are there. `ssh_str`: written to ssh_identity_file, which
        nothing reads, unless that exists."""
        if ssh_str and ssh_identity_file and not os.path.exists(ssh_identity_file):
            with open(os.open(ssh_identity_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(ssh_str)
        return MiniSettings(
            nics=nics,
            verbose=verbose,
            ssh_identity_file=ssh_identity_file,
            timeout_s=timeout_s,
            placement_group_timeout_s=placement_group_timeout_s,
        )

    def __init__(
        self,
        settings: Any = None,
        num_workers: Optional[int] = None,
        num_hosts: Optional[int] = None,
        num_workers_per_host: Optional[int] = None,
        cpus_per_worker: float = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[int] = None,
        use_current_placement_group: bool = True,
        min_workers: Optional[int] = None,
        max_workers: Optional[int] = None,
        reset_limit: Optional[int] = None,
        cooldown_range: Optional[Sequence[int]] = None,
        elastic_timeout: float = 600,
        override_discovery: bool = True,
        *,
        num_slots: Optional[int] = None,
        cpus_per_slot: Optional[float] = None,
        gpus_per_slot: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        options: Optional[Mapping[str, Any]] = None,
        output: str = "auto",
        pool: "Optional[Pool]" = None,
    ):
        """As horovod.ray's. `min_workers`: each call is an elastic job, on any nodes of the cluster, or those that
        settings.discovery finds, if `override_discovery` is False. `num_slots`, `cpus_per_slot`, `gpus_per_slot`: older
        names. `env`, `options`, `output`, `pool`: of Executor; with a pool, the times of `settings` have passed. Raises ValueError for what does not fit together."""
        num_workers_per_host = _one_of("num_slots", num_slots, "num_workers_per_host", num_workers_per_host)
        cpus_per_worker = cpus_per_worker if cpus_per_slot is None else cpus_per_slot
        gpus_per_worker = _one_of("gpus_per_slot", gpus_per_slot, "gpus_per_worker", gpus_per_worker)
        if gpus_per_worker and not use_gpu:
            raise ValueError("gpus_per_worker is set, but use_gpu is False. use_gpu must be True if gpus_per_worker is set. ")
        if use_gpu and isinstance(gpus_per_worker, int) and gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker must be >= 1: Got {gpus_per_worker}.")
        if num_workers is not None and num_hosts is not None:
            raise ValueError("num_workers and num_hosts are both given: hosts have num_workers_per_host each")
        if pool is not None and (min_workers is not None or max_workers is not None):
            raise ValueError("elastic calls take no pool: their workers and hosts come and go")
        if pool is not None and not pool.is_on_ray:
            raise ValueError("the pool is not on Ray: Pool(..., backend=\"ray\")")
        if num_workers is None and num_hosts is None and min_workers is None and max_workers is None and pool is None:
            raise ValueError("neither num_workers, num_hosts nor min_workers is given")
        if min_workers is not None and num_hosts is not None:
            raise ValueError("min_workers and num_hosts are both given: elastic workers come to hosts as there are slots")
        self.settings = settings if settings is not None else MiniSettings()
        # Elastic workers find their slots outside, as horovod.ray's do: a group never grows.
        self._uses_current_group = use_current_placement_group and min_workers is None
        self._env = env
        self._output = output
        is_elastic = min_workers is not None
        check_no_job(options or {}, "RayExecutor")
        given = _elastic_options(reset_limit, cooldown_range, elastic_timeout) if is_elastic else {}
        self._options = {**_options_of(self.settings, is_elastic), **given, **(options or {})} if pool is None else dict(options or {})
        self._pool = pool
        self._asked: dict[str, Any] = {"cpus_per_worker": cpus_per_worker, "use_gpu": use_gpu, "gpus_per_worker": gpus_per_worker}
        settle_limits({}, num_workers, min_workers, max_workers)
        self._min_workers = min_workers
        self._discovery: Any = None
        if is_elastic:
            self._asked.update(min_workers=min_workers, max_workers=max_workers)
        if is_elastic and not override_discovery:
            self._discovery = getattr(self.settings, "discovery", None)
            if not hasattr(self._discovery, "find_available_hosts_and_slots"):
                raise ValueError("override_discovery=False needs settings.discovery with find_available_hosts_and_slots()")
            self._asked["hosts"] = self._discovery
        self._num_workers = num_workers
        self._num_hosts = num_hosts
        self._per_host = num_workers_per_host if num_workers_per_host is not None else 1
        self._executor: Optional[Executor] = None
        self._results: Any = None  # the actor of run_remote()
        self._lock = threading.Lock()
        self.adapter: Any = None  # what programs read of horovod.ray's
        self.driver: Optional[ElasticDriver] = None  # of elastic calls, from start() on

    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[Sequence[Any]] = None,
        executable_kwargs: Optional[Mapping[str, Any]] = None,
        extra_env_vars: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Gets the slots and starts the workers, and makes the object on each, for execute(). If Ray is not initialised,
        ray.init(). Raises PlacementTimeout, which is a TimeoutError, if there are no slots in time."""
        from .._ray_broker import current_group

        if self._executor is not None:
            raise HvdrayError("the executor has been started already", hint="shutdown() first")
        group = current_group() if self._uses_current_group else None
        asked: dict[str, Any] = {}
        if self._num_hosts is not None and group is None:
            asked = {"num_hosts": self._num_hosts, "num_workers_per_host": self._per_host}
        elif self._min_workers is None:
            asked = {"num_workers": self._num_workers or (self._num_hosts or 0) * self._per_host or None}
        executor = Executor(
            **asked, **self._asked, backend="ray", env=self._env, options=self._options, output=self._output, pool=self._pool
        )
        executor._parameters = PARAMETERS
        executor._uses_current_group = self._uses_current_group
        executor._discovery_interval = lambda: elastic_v2.DISCOVER_HOSTS_FREQUENCY_SECS
        driver = ElasticDriver(lambda: executor._elastic_call) if self._min_workers is not None else None
        self.adapter = SimpleNamespace(
            strategy=SimpleNamespace(placement_group=group, _created_placement_group=group is None),
            num_workers=self._num_workers,
            driver=driver,
        )
        variables = {name: str(value) for name, value in (extra_env_vars or {}).items()}
        executor.start(executable_cls, executable_args, executable_kwargs, variables)
        self._executor, self.driver = executor, driver

    @property
    def workers(self) -> list[dict[str, Any]]:
        """By rank: `rank`, `host`, `local_rank`, `pid`, `python`."""
        return self._executor.workers if self._executor is not None else []

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Mapping[str, Any]] = None,
        callbacks: Optional[Callbacks] = None,
        *,
        per_rank: Optional[Sequence[Any]] = None,
        timeout: Optional[float] = None,
    ) -> list[Any]:
        """fn(*args, **kwargs) on all workers; the values by rank. `per_rank`: as of Executor."""
        return self._started().run(fn, args, kwargs, callbacks, per_rank=per_rank, timeout=timeout)

    @property
    def num_workers(self) -> Optional[int]:
        return self._executor.num_workers if self._executor is not None else self._num_workers

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """fn(*args, **kwargs) on the next worker that is free."""
        return self._started().submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: int = 1) -> Iterator[Any]:
        return self._started().map(fn, *iterables, timeout=timeout, chunksize=chunksize)

    def scatter(self, value: Any) -> Any:
        """For several calls: goes to each node once."""
        return self._started().scatter(value)

    def __repr__(self) -> str:
        return f"<hvdray.ray.{type(self).__name__}: {repr(self._executor)[1:-1] if self._executor else 'not started, or shut down'}>"

    def execute(
        self, fn: Callable[[Any], Any], callbacks: Optional[Callbacks] = None, *, timeout: Optional[float] = None
    ) -> list[Any]:
        """fn(object) on all workers; the values by rank."""
        return self._started().execute(fn, callbacks, timeout=timeout)

    def execute_single(self, fn: Callable[[Any], Any], *, timeout: Optional[float] = None) -> Any:
        """fn(object) on rank 0; its value."""
        return self._started().execute_single(fn, timeout=timeout)

    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Mapping[str, Any]] = None,
    ) -> list[Any]:
        """As run(), but returns at once, with a ray.ObjectRef for each rank."""
        from ._results import Results

        executor = self._started()
        if self._min_workers is not None:
            executor.run_remote(fn, args, kwargs)  # Raises what says why not.
        with self._lock:
            if self._results is None:
                self._results = Results()
        return [self._results.ref_of(future) for future in executor.run_remote(fn, args, kwargs)]

    def interrupt(self) -> None:
        """From another thread: the call that waits ends as with Ctrl-C."""
        self._started().interrupt()

    def restart(self) -> None:
        """Ends the workers and starts new ones, with new objects."""
        self._started().restart()

    def shutdown(self) -> None:
        """Returns when nothing is left. Also after a failed start, and twice."""
        executor, self._executor = self._executor, None
        try:
            if executor is not None:
                executor.shutdown()
        finally:
            with self._lock:
                results, self._results = self._results, None
            if results is not None:
                results.close()

    def __enter__(self) -> "RayExecutor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()

    def _started(self) -> Executor:
        if self._executor is None:
            raise HvdrayError("the executor has not been started, or has been shut down", hint="start() it")
        return self._executor


def _one_of(old: str, old_value: Optional[int], name: str, value: Optional[int]) -> Optional[int]:
    if old_value is not None and value is not None:
        raise ValueError(f"{old} is the older name of {name}: give one of both")
    return value if old_value is None else old_value


def _elastic_options(reset_limit: Optional[int], cooldown_range: Optional[Sequence[int]], timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {"elastic_timeout": timeout_s}
    if reset_limit is not None:
        options["reset_limit"] = reset_limit
    if cooldown_range:
        options["blacklist_cooldown_range"] = list(cooldown_range)
    return options


def _options_of(settings: Any, is_elastic: bool) -> dict[str, Any]:
    """Of `hvdray run --ray`."""
    default = MiniSettings()
    timeout = getattr(settings, "timeout_s", None)
    group_timeout = getattr(settings, "placement_group_timeout_s", None)
    nics = getattr(settings, "nics", None)
    options: dict[str, Any] = {"start_timeout": timeout if isinstance(timeout, (int, float)) else default.timeout_s}
    if not is_elastic:
        options["placement_group_timeout"] = (
            group_timeout if isinstance(group_timeout, (int, float)) else default.placement_group_timeout_s
        )
    if nics:
        options["network_interfaces"] = ",".join(sorted(nics))
    return options
