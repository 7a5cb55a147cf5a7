# SPDX-License-Identifier: Apache-2.0
"""HorovodTrainer on Ray Train, whose own can't be made any more: Ray's engine, and for its workers what Horovod needs to find
each other. docs/ray_train.md.

The classes and functions here go to Ray's processes by value: nodes have no hvdray.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

from .. import _binary, _errors
from .._errors import HvdrayError
from ._versions import check_ray

check_ray("hvdray.ray.train")
try:
    import ray  # type: ignore[import]
    from ray.train._internal.utils import count_required_parameters  # type: ignore[import]
    from ray.train.backend import Backend, BackendConfig  # type: ignore[import]

    try:
        from ray.train.v2._internal.constants import is_v2_enabled  # type: ignore[import]
    except ImportError:  # Ray 2.40
        IS_V2 = False
    else:
        IS_V2 = is_v2_enabled()
    if IS_V2:
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # type: ignore[import]
    else:
        from ray.train.data_parallel_trainer import DataParallelTrainer  # type: ignore[import]
except ImportError as missing:
    check_ray("hvdray.ray.train", missing)
    raise

__all__ = ["HorovodConfig", "HorovodTrainer"]

# Ray looks at its workers every 2 s. Those that only lost a peer wait that long, and the time in which Ray hears of a death.
VICTIM_WAIT_S = 3.0
MAX_TIMEOUT_S = 1e6  # Gloo counts in milliseconds, of 32 bits
LOOPBACK = "127.0.0.1"
LOST_PEER = re.compile(r"HorovodInternalError|Connection (closed by|reset by) peer|Broken pipe|Connection closed", re.IGNORECASE)
SNIPPET = re.compile(r"^(?=\[Rank [\d,]+ Error Snippet\]:$)", re.MULTILINE)


@dataclass
class HorovodConfig(BackendConfig):  # type: ignore[misc]
    """`nics`: interfaces of which workers take the first that their host has; None: the one that holds the address of their
    Ray node, and loopback if all workers are on one node. `timeout_s`: for workers to find each other. The rest is
    accepted and unused."""

    nics: Optional[Union[str, Iterable[str]]] = None
    verbose: int = 1
    key: Optional[str] = None
    ssh_port: Optional[int] = None
    ssh_identity_file: Optional[str] = None
    ssh_str: Optional[str] = None
    timeout_s: float = 300
    placement_group_timeout_s: float = 100

    def __post_init__(self) -> None:
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s < MAX_TIMEOUT_S:
            raise ValueError(f"timeout_s must be a number of seconds above 0, not {self.timeout_s!r}")
        self.nics = self.nics.split(",") if isinstance(self.nics, str) else list(self.nics or [])
        self.program = ""  # of hvdray, on `node`
        self.node = ""  # of Ray; empty: not known, or each

    @property
    def backend_cls(self) -> type:
        return HorovodBackend

    @property
    def train_func_context(self) -> Callable[[], Any]:
        return behind_who_began


class HorovodTrainer(DataParallelTrainer):  # type: ignore[misc]
    """ray.train.horovod.HorovodTrainer, with Ray's own data, reports, checkpoints, storage, restarts and elasticity."""

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Optional[Mapping[str, Any]] = None,
        horovod_config: Optional[HorovodConfig] = None,
        tensorflow_backend: Optional[HorovodConfig] = None,
        torch_backend: Optional[HorovodConfig] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        resume_from_checkpoint: Any = None,
        **of_ray: Any,
    ):
        """`tensorflow_backend`, `torch_backend`: other names of `horovod_config`. `of_ray`: scaling_config, run_config, datasets,
        dataset_config and what else a DataParallelTrainer of this Ray takes. Raises ValueError, TypeError and HvdrayError."""
        given = [config for config in (horovod_config, tensorflow_backend, torch_backend) if config is not None]
        if len(given) > 1:
            raise ValueError("horovod_config, tensorflow_backend and torch_backend are names of one parameter: give one of them")
        if count_required_parameters(train_loop_per_worker) > 1:
            raise ValueError("train_loop_per_worker must take one argument, which is train_loop_config, or none")
        config = copy.copy(given[0]) if given else HorovodConfig()
        if not isinstance(config, HorovodConfig):
            raise TypeError(
                f"horovod_config must be a HorovodConfig of hvdray.ray.train, not of {type(config).__module__}: {type(config).__name__}"
            )
        if IS_V2 and resume_from_checkpoint is not None:
            raise ValueError(
                "this Ray takes no resume_from_checkpoint: a run of the same name and storage_path (RunConfig) goes on from its last"
                " checkpoint; another run's goes to the function in train_loop_config"
            )
        if IS_V2 and metadata is not None:
            raise ValueError("this Ray takes no metadata: pass what the function needs in train_loop_config")
        if not IS_V2:
            of_ray.update(metadata=metadata, resume_from_checkpoint=resume_from_checkpoint)
        config.program = config.program or _binary.find_binary()
        if hasattr(self, "_param_dict"):  # V1 makes the trainer again, in an actor, where no hvdray need be
            self._param_dict.update(horovod_config=config, tensorflow_backend=None, torch_backend=None)
        super().__init__(train_loop_per_worker, train_loop_config=train_loop_config, backend_config=config, **of_ray)
        self._horovod_config = config
        self._tell_node()

    def fit(self) -> Any:
        """A ray.train.Result. Raises what Ray's own trainers raise; of an error with `worker_failures`, those who only lost a
        peer come last."""
        ray.get_runtime_context()  # calls ray.init() where the program has not
        self._tell_node()
        try:
            return super().fit()
        except Exception as error:
            put_victims_last(error)
            raise

    def _tell_node(self) -> None:
        config = self._horovod_config
        if ray.is_initialized() and not config.node and os.path.exists(config.program):
            config.node = ray.get_runtime_context().get_node_id()


class HorovodBackend(Backend):  # type: ignore[misc]
    """In the process that leads the workers: on_start() at each start of them, on_shutdown() not always."""

    share_cuda_visible_devices = True
    _store: Optional["Store"] = None

    def on_start(self, worker_group: Any, backend_config: HorovodConfig) -> None:
        self._end_store()
        workers = worker_group.get_workers() if hasattr(worker_group, "get_workers") else worker_group.workers
        nodes = [worker.metadata.node_id for worker in workers]
        addresses = {worker.metadata.node_id: worker.metadata.node_ip for worker in workers}
        here = ray.get_runtime_context().get_node_id()
        self._store = Store(backend_config, LOOPBACK if {here} == set(nodes) else ray.util.get_node_ip_address(), addresses.values())

        def on(rank: int, function: Callable[..., Any], *args: Any) -> Any:
            return worker_group.execute_single_async(rank, function, *args)

        chosen = [on(nodes.index(node), choose_interface, backend_config.nics, addresses[node], len(addresses) > 1) for node in addresses]
        port, *interfaces = ray.get([on(0, free_port), *chosen])
        common = {
            **self._store.variables,
            "HOROVOD_GLOO_TIMEOUT_SECONDS": max(1, int(backend_config.timeout_s)),
            "MASTER_ADDR": addresses[nodes[0]] if len(addresses) > 1 else LOOPBACK,
            "MASTER_PORT": port,
        }
        interface_of = dict(zip(addresses, interfaces))
        ray.get(
            [on(rank, set_variables, {**common, **place, **names_of(interface_of[nodes[rank]])}) for rank, place in enumerate(places_of(nodes))]
        )

    def on_shutdown(self, worker_group: Any, backend_config: HorovodConfig) -> None:
        self._end_store()

    def _end_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


class Store:
    """`hvdray rendezvous`, where Horovod's workers find each other; it ends with this process at the latest."""

    def __init__(self, config: HorovodConfig, address: str, clients: Iterable[str]):
        """Only `clients`, addresses of nodes, may connect to it. Raises HvdrayError."""
        self.variables: dict[str, str] = {}
        argv = ["hvdray", "rendezvous", "--quiet", "--host", address]
        if address != LOOPBACK:
            argv += ["--allow", ",".join(sorted({f"{client}/32" for client in clients}))]
        with tempfile.TemporaryFile() as said, program_of(config) as program:
            self._process = subprocess.Popen(
                argv, executable=f"/proc/self/fd/{program}", pass_fds=[program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
            )
            assert self._process.stdout is not None
            with self._process.stdout as announced:
                lines = [announced.readline().decode() for _ in range(5)]
            if not lines[-1]:
                self.close()
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise HvdrayError(f"the workers' rendezvous did not start: {text or f'exit code {self._process.returncode}'}")
        for line in lines[1:]:
            name, _, value = line.strip().partition("=")
            self.variables[name] = value

    def close(self) -> None:
        self._process.kill()  # It holds nothing that is worth an orderly end.
        self._process.wait()


@contextlib.contextmanager
def program_of(config: HorovodConfig) -> Iterator[int]:
    """A descriptor of hvdray: the driver's, whose node need not be this one (V1)."""
    if not config.node or config.node == ray.get_runtime_context().get_node_id():
        program = os.open(config.program, os.O_RDONLY)
    else:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # type: ignore[import]

        there = NodeAffinitySchedulingStrategy(config.node, soft=False)
        content = ray.get(ray.remote(read_file).options(num_cpus=0, scheduling_strategy=there).remote(config.program))
        program = os.memfd_create("hvdray")
        with open(program, "wb", closefd=False) as file:
            file.write(content)
        sealed = os.open(f"/proc/self/fd/{program}", os.O_RDONLY)  # What is open for writing can't be executed.
        os.close(program)
        program = sealed
    try:
        yield program
    finally:
        os.close(program)


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def places_of(nodes: "list[str]") -> "list[dict[str, Any]]":
    """The variables that tell each rank where it stands; `nodes`: by rank."""
    count: Counter[str] = Counter()
    local_ranks = []
    for node in nodes:
        local_ranks.append(count[node])
        count[node] += 1
    places = []
    for rank, (node, local) in enumerate(zip(nodes, local_ranks)):
        cross = [other for other in count if count[other] > local]  # in the order of their first ranks
        places.append(
            {
                "HOROVOD_HOSTNAME": node,
                "HOROVOD_RANK": rank,
                "HOROVOD_SIZE": len(nodes),
                "HOROVOD_LOCAL_RANK": local,
                "HOROVOD_LOCAL_SIZE": count[node],
                "HOROVOD_CROSS_RANK": cross.index(node),
                "HOROVOD_CROSS_SIZE": len(cross),
                "RANK": rank,
                "WORLD_SIZE": len(nodes),
                "LOCAL_RANK": local,
                "LOCAL_WORLD_SIZE": count[node],
            }
        )
    return places


def names_of(interface: str) -> "dict[str, str]":
    names = {"HOROVOD_GLOO_IFACE": interface, "GLOO_SOCKET_IFNAME": interface}
    return names if interface == "lo" else {**names, "NCCL_SOCKET_IFNAME": interface}


# ---- On workers


def set_variables(variables: "dict[str, Any]") -> None:
    os.environ.update({name: str(value) for name, value in variables.items()})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def choose_interface(nics: "list[str]", address: str, has_peers: bool) -> str:
    """`address`: of this node, and the other nodes of the cluster reach it. Raises HvdrayError."""
    import fcntl

    held: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # One without an IPv4 address.
                answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
                held[name] = socket.inet_ntoa(answer[20:24])
        if nics:
            found = next((name for name in nics if name in held), None)
            if found is None:
                raise HvdrayError(f"nics: {socket.gethostname()} has none of {', '.join(nics)}, but {', '.join(sorted(held))}")
            return found
        wanted = address if has_peers else LOOPBACK
        if wanted not in held.values():  # Behind a translation of addresses: the one by which it reaches itself from outside.
            probe.connect((address, 9))
            wanted = probe.getsockname()[0]
    found = next((name for name, its in held.items() if its == wanted), None)
    if found is None:
        raise HvdrayError(f"{socket.gethostname()}: no interface has the address {wanted}", hint="HorovodConfig(nics=[...])")
    return found


# ---- Who began


def is_victim(error: BaseException) -> bool:
    """Of another rank's end, as far as the error tells."""
    if any(kind.__name__ == "HorovodInternalError" for kind in type(error).__mro__):
        return True
    return isinstance(error, (RuntimeError, ConnectionError)) and LOST_PEER.search(str(error)) is not None


@contextlib.contextmanager
def behind_who_began() -> Iterator[None]:
    """Around the user's function. Ray ends all ranks at the first error that it sees: it should be the one that began."""
    try:
        yield
    except Exception as error:
        if is_victim(error):
            time.sleep(VICTIM_WAIT_S)
        raise


def put_victims_last(error: BaseException) -> None:
    """Of Ray's WorkerGroupError, in `worker_failures` and in its text."""
    failures: Any = getattr(error, "worker_failures", None)
    if not isinstance(failures, dict):
        return
    ranks = sorted(failures, key=lambda rank: (is_victim(failures[rank]), rank))
    victims = {str(rank) for rank in ranks if is_victim(failures[rank])}
    if not victims or len(victims) == len(ranks):
        return
    setattr(error, "worker_failures", {rank: failures[rank] for rank in ranks})
    text = getattr(error, "_error_message", "")
    head, *snippets = SNIPPET.split(text)
    snippets = [snippet.rstrip("\n") for snippet in snippets]
    snippets.sort(key=lambda snippet: set(snippet[len("[Rank ") : snippet.index(" Error")].split(",")) <= victims)
    whole = head + "\n".join(snippets)
    setattr(error, "_error_message", whole)
    error.args = tuple(arg.replace(text, whole) if isinstance(arg, str) and text else arg for arg in error.args)


for _module in (sys.modules[__name__], _errors, _binary):
    ray.cloudpickle.register_pickle_by_value(_module)
