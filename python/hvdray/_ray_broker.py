# SPDX-License-Identifier: Apache-2.0
"""Ray, as a `hvdray serve` of this process gets slots from it: the broker of _ray_driver.py on threads of its own."""

from __future__ import annotations

import json
import os
import queue
import secrets
import socket
import threading
from types import ModuleType
from typing import Any, Callable, Iterable, Mapping

from ._errors import HvdrayError, PlacementTimeout
from ._output import fill_standard_streams

END_S = 10.0  # for Ray to take actors and groups back


def the_ray() -> ModuleType:
    """Ray, connected: ray.init() if the program has not, as Ray's own calls do. Raises HvdrayError."""
    try:
        import ray  # type: ignore[import]
    except ImportError as error:
        raise HvdrayError(f"Ray is not installed here: {error}", hint='pip install "ray>=2.40"') from None
    if not ray.is_initialized():
        ray.init()
    if ray._private.worker._global_node is None:
        raise HvdrayError("this program uses Ray through Ray Client; workers can't reach it",
                          hint="run it on a node of the cluster, or start it there as a job")
    return ray  # type: ignore[no-any-return]


def current_group() -> Any:
    """The placement group that this process is in; None: in none. Raises HvdrayError."""
    return the_ray().util.get_current_placement_group()


def variables() -> dict[str, str]:
    """With which a function that uses Ray on a worker joins this cluster, and starts none of its own."""
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    known = {name: os.environ[name] for name in names if name in os.environ}
    return {"RAY_ADDRESS": the_ray().get_runtime_context().gcs_address, **known}


def foreign_hosts(hosts: Iterable[str]) -> list[str]:
    """Those that are no living node of the cluster."""
    known = {name for node in the_ray().nodes() if node["Alive"] for name in node["Resources"]}
    return [host for host in hosts if f"node:{host}" not in known]


def check_room(options: Mapping[str, Any]) -> None:
    """Raises PlacementTimeout at once for what no node of the cluster could ever hold, unless it may get others."""
    ray = the_ray()
    slots = options.get("num_slots", 1) if "num_hosts" in options else 1
    wanted = {"CPU": options.get("cpus_per_slot", 1) * slots, "GPU": options.get("gpus_per_slot", 1) * slots}
    if not options.get("use_gpu"):
        del wanted["GPU"]
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes) or _may_grow(ray):
        return
    text = " and ".join(f"{amount:g} {name}" for name, amount in wanted.items())
    raise PlacementTimeout(f"no node of the Ray cluster has {text}, which {'a host' if slots > 1 else 'a worker'} needs", code="HVD-E0219",
                           hint="request less, or add nodes: ray.cluster_resources() shows what there is")


def _may_grow(ray: Any) -> bool:
    """An autoscaler that only observes names the type of each node after the node's id. Unknown: it may."""
    told = ray.experimental.internal_kv._internal_kv_get(b"__autoscaling_status")
    types = (json.loads(told).get("autoscaler_report") or {}).get("node_type_mapping") if told else None
    return not isinstance(types, dict) or any(kind != f"node_{node}" for node, kind in types.items())


class RayBroker:
    """For one `hvdray serve`."""

    def __init__(self, uses_current_group: bool):
        """Starts it. `uses_current_group`: slots only within the placement group that this process is in, if it is in
        one. Raises HvdrayError."""
        ray = the_ray()
        from . import _ray_driver

        # Nodes have no hvdray.
        ray.cloudpickle.register_pickle_by_value(_ray_driver)
        group = current_group() if uses_current_group else None
        fill_standard_streams()
        ours, self.theirs = socket.socketpair()
        ours.settimeout(None)  # not that of socket.setdefaulttimeout()
        self._pid = os.getpid()
        self._socket = ours
        outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._broker = _ray_driver.Broker(outbox.put, secrets.token_hex(4), group)
        outbox.put({"hello": _facts(ray, group is not None)})
        pipe, orders = ours.makefile("wb"), ours.makefile("rb")
        self.on_begun: Callable[[], None] = lambda: None  # serve's options are right, and it waits for slots
        jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (_ray_driver.write_lines, (pipe, outbox)),
            (self._read, (orders,)),
            (self._run, (outbox,)),
        ]
        self._threads = [threading.Thread(target=job, args=args, name="hvdray ray", daemon=True) for job, args in jobs]
        for thread in self._threads:
            thread.start()

    def _run(self, outbox: "queue.SimpleQueue[Any]") -> None:
        self._broker.run()
        outbox.put(None)  # serve hears of our end, if it has not ended itself

    def _read(self, orders: Any) -> None:
        try:
            with orders:
                for line in orders:
                    self.on_begun()
                    self._broker.inbox.put(json.loads(line))
        except OSError:
            pass
        self._broker.inbox.put(None)

    @property
    def failure(self) -> str:
        """Why it has ended before it was told to; or empty."""
        return self._broker.failure

    def close(self) -> None:
        """Once serve has ended: returns when its actors and groups are given back."""
        if os.getpid() != self._pid:
            return
        self.theirs.close()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        for thread in self._threads:
            thread.join(END_S)
        self._socket.close()


def _facts(ray: Any, is_in_group: bool) -> dict[str, Any]:
    context = ray.get_runtime_context()
    return {
        "ray": ray.__version__,
        "python": "",
        "logs": ray._private.worker._global_node.get_logs_dir_path(),
        "node_id": context.get_node_id(),
        "node_ip": ray.util.get_node_ip_address(),
        "is_in_group": is_in_group,
        "has_directory": bool(context.runtime_env.get("working_dir")),
    }
