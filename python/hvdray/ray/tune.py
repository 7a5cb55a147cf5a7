# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainableCreator, which Ray 1 had: trials of Ray Tune that are Horovod jobs. docs/ray_train.md.

This module goes to trials by value, for nodes have no hvdray; it brings the package along, and _trial.py does the work.
"""

from __future__ import annotations

import dis
import hashlib
import importlib.util
import inspect
import io
import os
import secrets
import shutil
import sys
import tempfile
import zipfile
from types import CodeType, ModuleType
from typing import Any, Callable, Iterator, Optional

from ._versions import check_ray

check_ray("hvdray.ray.tune")
try:
    import ray  # type: ignore[import]
    from ray.train._internal.utils import count_required_parameters  # type: ignore[import]
    from ray.tune import PlacementGroupFactory, with_resources  # type: ignore[import]
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # type: ignore[import]
except ImportError as missing:
    check_ray("hvdray.ray.tune", missing)
    raise

__all__ = ["DistributedTrainableCreator"]


def DistributedTrainableCreator(
    func: Callable[[Any], Any],
    use_gpu: bool = False,
    num_hosts: Optional[int] = None,
    num_workers: Optional[int] = None,
    num_cpus_per_worker: Optional[float] = None,
    timeout_s: float = 30,
    replicate_pem: bool = False,
    *,
    num_slots: Optional[int] = None,
    num_cpus_per_slot: Optional[float] = None,
    num_gpus_per_slot: Optional[int] = None,
) -> Callable[[Any], Any]:
    """A trainable for Tuner and tune.run: each trial calls func(config) on `num_workers`, or on that many of each of
    `num_hosts` nodes. `timeout_s`: for them to start. `num_slots`, `num_cpus_per_slot`: older names. `replicate_pem` has no
    effect. Raises ValueError and TypeError."""
    if not callable(func):
        raise TypeError(f"func must be a function, not {type(func).__name__}")
    if count_required_parameters(func) != 1:
        raise ValueError("func must take one argument, the config of a trial")
    workers = _one_of(num_workers=num_workers, num_slots=num_slots)
    cpus = _one_of(num_cpus_per_worker=num_cpus_per_worker, num_cpus_per_slot=num_cpus_per_slot)
    for name, value in (("num_hosts", num_hosts), ("num_workers", workers), ("num_gpus_per_slot", num_gpus_per_slot)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} must be a number above 0, not {value!r}")
    for name, number in (("num_cpus_per_worker", cpus), ("timeout_s", timeout_s)):
        if number is not None and (type(number) not in (int, float) or not 0 < number < 1e6):
            raise ValueError(f"{name} must be a number above 0, not {number!r}")
    if num_gpus_per_slot is not None and not use_gpu:
        raise ValueError("num_gpus_per_slot is set, but use_gpu is False")
    each = {"CPU": 1 if cpus is None else cpus}
    if use_gpu:
        each["GPU"] = num_gpus_per_slot or 1
    count = workers or 1
    if num_hosts is None:
        bundles, strategy = [dict(each) for _ in range(count)], "PACK"
    else:
        bundles = [{name: amount * count for name, amount in each.items()} for _ in range(num_hosts)]
        strategy = "STRICT_SPREAD" if num_hosts > 1 else "PACK"
    asked = {
        "num_workers": count * (num_hosts or 1),
        "cpus_per_worker": each["CPU"],
        "use_gpu": bool(use_gpu),
        "gpus_per_worker": each.get("GPU"),
    }
    package = Package(func, has_keeper=not use_gpu and num_hosts in (None, 1))

    def trainable(config: "dict[str, Any]") -> Any:
        package.files.open()
        from hvdray.ray._trial import run_trial
        from hvdray.ray._work import Packed, Search

        return run_trial(Packed(*package.function), config, Search(asked, timeout_s, package.modules), package.keeper)

    trainable.__name__ = trainable.__qualname__ = getattr(func, "__name__", "trainable")
    # The trial itself needs nothing: Ray drops the empty bundle, and its actor is in the first worker's.
    return with_resources(trainable, PlacementGroupFactory([{}, *bundles], strategy=strategy))  # type: ignore[no-any-return]


def _one_of(**named: Any) -> Any:
    given = {name: value for name, value in named.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are names of one parameter: give one of them")
    return next(iter(given.values()), None)


class Package:
    """The user's function, pickled for workers, and what trials need besides. In the driver, made when Ray pickles the trainable."""

    def __init__(self, function: Any, has_keeper: bool):
        self.function = function
        self.modules = modules_of(function)
        self.files: Any = None
        self.keeper: Optional[str] = None  # its name
        self._has_keeper = has_keeper
        self._cluster = ""
        self._handle: Any = None  # As long as the driver has it, and lives, the keeper does.

    def __getstate__(self) -> "dict[str, Any]":
        if isinstance(self.function, tuple):  # in a trial
            return self.__dict__
        from .._payload import dumps

        self._prepare()
        payload = dumps(self.function, ["func"])
        function = (payload.sizes, b"".join(bytes(part) for part in payload.parts))
        return {"function": function, "modules": self.modules, "files": self.files, "keeper": self.keeper}

    def _prepare(self) -> None:
        """Once for each cluster that the driver is in."""
        from ._trial import NAMESPACE

        here = ray._private.worker._global_node if ray.is_initialized() else None  # None also through Ray Client
        cluster = f"{here.session_name} {ray.get_runtime_context().get_job_id()}" if here is not None else ""
        if self.files is not None and cluster == self._cluster:
            return
        self._cluster, self.files, self.keeper, self._handle = cluster, Files(packed()), None, None
        if self._has_keeper and cluster:
            self.keeper = f"hvdray-{secrets.token_hex(8)}"
            node = ray.get_runtime_context().get_node_id()
            self._handle = start_keeper(self.files, node, name=self.keeper, namespace=NAMESPACE)


class Files:
    """hvdray as `pip install --target` would put it into a folder."""

    def __init__(self, content: bytes):
        self._digest = hashlib.sha256(content).hexdigest()[:16]
        self._content: Any = ray.put(content) if ray.is_initialized() else content

    def open(self) -> None:
        """So that this process can import hvdray, and start it."""
        session = ray._private.worker._global_node.get_session_dir_path()
        folder = os.path.join(session, f"hvdray-{self._digest}")
        if not os.path.isdir(folder):
            content = self._content if isinstance(self._content, bytes) else ray.get(self._content)
            unpack(content, folder)
        if "hvdray" not in sys.modules and folder not in sys.path:
            sys.path.insert(0, folder)
        os.environ["HVDRAY_BINARY"] = os.path.join(folder, "bin", "hvdray")


class Keeper:
    """An actor that takes nothing: in it, the workers of a search's trials on its node stay warm from one trial to the next. It ends with
    the driver, and they with it."""

    def __init__(self, files: Files):
        files.open()
        from hvdray.ray._lanes import Lanes

        self._files, self._lanes = files, Lanes()
        self._others: "dict[str, Any]" = {}

    async def on(self, node: str) -> Any:
        """The keeper of that node; None: this one is."""
        if node == ray.get_runtime_context().get_node_id():
            return None
        if node not in self._others:
            self._others[node] = start_keeper(self._files, node)
        return self._others[node]

    async def begin(self, *what: Any) -> Any:
        return await self._lanes.begin(*what)

    async def go_on(self, *what: Any) -> Any:
        return await self._lanes.go_on(*what)

    async def end(self, key: str) -> None:
        await self._lanes.end(key)


def start_keeper(files: Files, node: str, **name: str) -> Any:
    """On that node. Its workers are not as nice as Ray's: nor are those of other jobs of hvdray."""
    place = NodeAffinitySchedulingStrategy(node, soft=False)
    plain = {"env_vars": {"RAY_worker_niceness": "0"}}
    return ray.remote(Keeper).options(num_cpus=0, runtime_env=plain, scheduling_strategy=place, **name).remote(files)


def modules_of(function: Any) -> "list[str]":
    """Ray's, and installed ones that the function imports, or knows by a global name: workers can import them before they have a
    rank. What else it imports, the first trial tells."""
    function = inspect.unwrap(function)
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    names: "set[str]" = set()
    for each in all_code(code) if isinstance(code, CodeType) else ():
        names.update(what.argval for what in dis.get_instructions(each) if what.opname == "IMPORT_NAME")
        names.update(known[name].__name__ for name in each.co_names if isinstance(known.get(name), ModuleType))
    names = {name for name in names if is_installed(name.partition(".")[0])}
    return ["ray.tune", *sorted(names)]


def all_code(code: CodeType) -> "Iterator[CodeType]":
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from all_code(part)


def is_installed(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module) if module not in ("", "mpi4py", "hvdray", "__main__") else None
    except (ImportError, ValueError):
        return False
    folders = os.path.dirname(spec.origin).split(os.sep) if spec is not None and spec.origin else []
    return "site-packages" in folders or "dist-packages" in folders


def packed() -> bytes:
    from .._binary import agent_of, find_binary
    from .._kit import kit

    content = io.BytesIO(kit())
    with zipfile.ZipFile(content, "a", zipfile.ZIP_STORED) as archive:
        for name, path in (("hvdray", find_binary()), ("hvdray-agent", agent_of(find_binary()))):
            with open(path, "rb") as program:
                archive.writestr(zipfile.ZipInfo(f"bin/{name}"), program.read())
    return content.getvalue()


def unpack(content: bytes, folder: str) -> None:
    whole = tempfile.mkdtemp(prefix="hvdray-", dir=os.path.dirname(folder))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(whole)
        for name in ("hvdray", "hvdray-agent"):
            os.chmod(os.path.join(whole, "bin", name), 0o755)
        os.rename(whole, folder)
    except OSError:
        if not os.path.isdir(folder):  # No other trial was faster.
            raise
    finally:
        shutil.rmtree(whole, ignore_errors=True)


ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
