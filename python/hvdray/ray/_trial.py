# SPDX-License-Identifier: Apache-2.0
"""One trial of Ray Tune: in its actor, run_trial() has Horovod's workers call the user's function, and hands rank 0's reports to Tune. On
workers, a stand-in for Tune's session sends them, and waits until Tune has taken each. _lanes.py has the workers."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import re
import sys
import tempfile
import uuid
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Sequence

from .. import _worker
from .._errors import HvdrayError
from .._payload import dumps, loads
from .._trust import no_link

if TYPE_CHECKING:
    from ._lanes import Lane

NAMESPACE = "hvdray"  # of Ray
_lane: "Optional[Lane]" = None  # of this actor, without a keeper; for trials that follow each other in it


class Packed(NamedTuple):
    """A value on its way between this actor and workers. What a keeper passes on it does not unpickle."""

    sizes: "list[int]"
    content: bytes

    def value(self) -> Any:
        return loads(self.sizes, bytearray(self.content))


class Search(NamedTuple):
    """What all trials of a search have in common."""

    asked: Mapping[str, Any]  # of Pool
    timeout_s: float  # for workers to start
    modules: Sequence[str]  # that workers import before the first trial


def packed(value: Any, names: Sequence[str]) -> Packed:
    """Raises SerializationError. `names`: of dumps()."""
    payload = dumps(value, names)
    return Packed(payload.sizes, b"".join(map(bytes, payload.parts)))


def run_trial(function: Packed, config: Any, search: Search, keeper: Optional[str]) -> Any:
    """What the function returns on rank 0. `keeper`: its name. Raises what Tune refuses, and what the workers' ends raise."""
    import ray  # type: ignore[import]
    from ray.train._internal.session import get_session  # type: ignore[import]

    global _lane
    session = get_session()
    node = ray.get_runtime_context().get_node_id()
    names = ("trial_name", "trial_id", "trial_resources", "trial_dir", "experiment_name")
    facts = {**{name: getattr(session, name) for name in names}, "loaded_checkpoint": session.loaded_checkpoint}
    reports = _Reports(session)
    calls = [function, packed(config, ["config"]), ray.cloudpickle.dumps(facts)]
    value: Optional[Packed] = None
    try:
        its = keeper_on(node, keeper, search.timeout_s) if keeper is not None else None
        end = run_in(its, search, [*calls, "localhost"], reports) if its is not None else None
        if end is not None:
            value = end.get("value")
            if value is None:
                raise unpickled(end["error"])
        else:
            from ._lanes import Lane

            lane = _lane = _lane or Lane(search, is_on_this_node=False)
            executor = lane.executor()
            value = lane.run(executor, [*calls, node], reports.folder, lambda told: executor._answer_loop(0, *reports.take(told)))
    except HvdrayError:
        if reports.refused is None:
            raise
    if reports.refused is not None:
        raise reports.refused
    return value.value() if value is not None else None


def keeper_on(node: str, name: str, timeout_s: float) -> Any:
    """None: it has gone, or this trial has workers on other nodes."""
    import ray

    group = ray.util.get_current_placement_group()
    nodes = ray.util.placement_group_table(group)["bundles_to_node_id"].values() if group is not None else [node]
    if set(nodes) != {node}:
        return None
    try:
        keeper = ray.get_actor(name, NAMESPACE)
        return ray.get(keeper.on.remote(node), timeout=timeout_s) or keeper
    except (ValueError, ray.exceptions.RayError):
        return None


def run_in(keeper: Any, search: Search, calls: "list[Any]", reports: "_Reports") -> "Optional[dict[str, Any]]":
    """How the trial has ended in the keeper; None: that is not for it."""
    import ray

    key, pid = uuid.uuid4().hex, os.getpid()
    try:
        told = ray.get(keeper.begin.remote(key, (pid, birth_of(pid)), search, calls, reports.folder))
        try:
            while told is not None and "ask" in told:
                told = ray.get(keeper.go_on.remote(key, *reports.take(told)))
        finally:  # Tune stops a trial by SystemExit, in reports.take().
            ray.get(keeper.end.remote(key))
    except ray.exceptions.RayActorError as error:
        raise HvdrayError(f"the actor that has the workers of this node's trials has ended: {error}") from None
    return told


def birth_of(pid: int) -> str:
    """When the process began; empty: there is none. A number alone may be another one's later."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def pickled(error: Optional[BaseException]) -> "list[bytes]":
    """Of a keeper, for the trial: with its cause, and so on."""
    import ray

    chain = []
    while error is not None:
        try:
            content = ray.cloudpickle.dumps(error)
            pickle.loads(content)
        except Exception:  # Of the user's class: anything.
            content = ray.cloudpickle.dumps(HvdrayError(f"{type(error).__name__}: {error}"))
        chain.append(content)
        error = error.__cause__
    return chain


def unpickled(chain: "list[bytes]") -> BaseException:
    errors: list[BaseException] = [pickle.loads(content) for content in chain]
    for error, cause in zip(errors, errors[1:]):
        error.__cause__ = cause
    return errors[0]


class _Reports:
    """take() is called on the thread of the trial's function, and there Tune stops a trial by SystemExit, which no one catches."""

    def __init__(self, session: Any):
        self._session = session
        self.refused: Optional[Exception] = None

    @property
    def folder(self) -> str:
        """Of the trial, on this node."""
        storage = self._session.storage
        is_local = type(storage.storage_filesystem).__name__ == "LocalFileSystem"
        return str(storage.trial_fs_path if is_local else storage.trial_driver_staging_path)

    def take(self, told: "dict[str, Any]") -> "tuple[dict[str, Any], bytes]":
        """What to answer."""
        answer: dict[str, Any] = {"do": "answer", "ask": told["ask"]}
        try:
            self._report(*told["report"].value())
        except Exception as error:
            self.refused = error
            answer["refused"] = f"{type(error).__name__}: {error}"
        import ray

        return answer, ray.cloudpickle.dumps(self._session.loaded_checkpoint)

    def _report(self, metrics: Any, checkpoint: Any, files: "Optional[dict[str, bytes]]") -> None:
        if files is None:
            return self._session.report(metrics, checkpoint=checkpoint)  # type: ignore[no-any-return]
        from ray.train import Checkpoint  # type: ignore[import]

        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files)
            self._session.report(metrics, checkpoint=Checkpoint.from_directory(folder))


# ---- On workers


def work(function: Packed, config: Packed, facts: bytes, trial_node: str) -> "tuple[Optional[Packed], list[str]]":
    """What each worker calls. Returns what the function has returned, on rank 0, and the installed modules that it has imported."""
    import ray.train._internal.session as sessions  # type: ignore[import]

    session = _Session(pickle.loads(facts), trial_node)
    setattr(sessions, "_session", session)
    _take_keywords()
    known = set(sys.modules)
    value = function.value()(config.value())
    if inspect.isgenerator(value):
        for metrics in value:
            session.report(metrics if isinstance(metrics, dict) else {"_metric": metrics})
        value = None
    if _worker.current is not None:
        _worker.current.leaves_at_once = True
    return packed(value, ["the result"]) if session.rank == 0 else None, imported(known)


def imported(known: "set[str]") -> "list[str]":
    """The installed modules that are there now, those that import others first; none if they are Python's own."""
    fresh = set(sys.modules) - known
    if not any("-packages" + os.sep in str(getattr(sys.modules[name], "__file__", "")) for name in fresh):
        return []
    return [name for name in reversed(_worker.installed()) if name in fresh]  # They come to sys.modules when they are whole.


class _Session:
    """What ray.tune.report, get_checkpoint and get_context ask."""

    world_rank = local_rank = node_rank = world_size = local_world_size = run_id = metadata = dataset_shard = None

    def __init__(self, facts: "dict[str, Any]", trial_node: str):
        self.__dict__.update(facts)
        self._trial_node = trial_node
        self.rank = int(os.environ["HOROVOD_RANK"])
        self._asked = 0

    def report(self, metrics: Any, checkpoint: Any = None) -> None:
        """Of rank 0: returns when Tune has taken it, so the checkpoint's folder may go. Raises HvdrayError."""
        worker = _worker.current
        if worker is None:
            raise RuntimeError("a report of a process that is no worker")
        if self.rank != 0:
            return worker.log({"rank": self.rank, "line": json.dumps(metrics, default=str)})
        files = None
        if checkpoint is not None and self._is_here(checkpoint):
            files, checkpoint = read_files(checkpoint.path), None
        self._asked += 1
        worker.log({"rank": 0, "ask": self._asked, "report": packed((metrics, checkpoint, files), ["metrics", "checkpoint"])})
        answer, content = worker.hear()
        while answer["ask"] != self._asked:  # One may be for a report that was interrupted.
            answer, content = worker.hear()
        self.loaded_checkpoint = pickle.loads(content)
        if "refused" in answer:
            raise HvdrayError(f"Ray Tune has refused the report: {answer['refused']}")

    def _is_here(self, checkpoint: Any) -> bool:
        """A folder that the trial's actor does not see."""
        is_local = type(checkpoint.filesystem).__name__ == "LocalFileSystem"
        return is_local and os.environ["HOROVOD_HOSTNAME"] != self._trial_node


def _take_keywords() -> None:
    """report(loss=1), as the Tune of Ray 1 had it, beside report({"loss": 1})."""
    from ray import train, tune

    its_report = getattr(tune, "report", train.report)
    if getattr(its_report, "takes_keywords", False):
        return  # The worker has had a trial before.

    def report(_metrics: Any = None, *, checkpoint: Any = None, **keywords: Any) -> None:
        if _metrics is not None and keywords:
            raise TypeError(f"report() takes one dict, or keywords: {', '.join(keywords)}")
        its_report(keywords if _metrics is None else _metrics, checkpoint=checkpoint)

    setattr(report, "takes_keywords", True)
    setattr(tune, "report", report)
    with contextlib.suppress(ImportError):
        from ray.tune.trainable import trainable_fn_utils  # type: ignore[import]

        setattr(trainable_fn_utils, "report", report)


def read_files(folder: str) -> "dict[str, bytes]":
    files = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, folder)] = file.read()
    return files


def write_files(folder: str, files: "dict[str, bytes]") -> None:
    """Raises ValueError for a name that leads out of the folder."""
    for name, content in files.items():
        path = os.path.normpath(os.path.join(folder, name))
        if not path.startswith(os.path.join(folder, "")):
            raise ValueError(f"the checkpoint has a file {name!r}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


# ---- Beside the trial's own files


class WorkerFiles:
    """`worker_<rank>/` of the trial's folder: what ranks but 0 report, and what all print."""

    def __init__(self, folder: str):
        self._folder = folder
        self._files: dict[str, Any] = {}

    def keep_report(self, told: "dict[str, Any]") -> None:
        self._write(told["rank"], "result.json", told["line"].encode() + b"\n")

    def keep_output(self, line: bytes) -> None:
        """`line`: as hvdray shows it."""
        found = _OF_RANK.match(line)
        if found:
            self._write(int(found[1]), found[2].decode(), line[found.end() :])

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, rank: int, name: str, what: bytes) -> None:
        path = os.path.join(self._folder, f"worker_{rank}", name)
        with contextlib.suppress(OSError):  # A full disk is the trial's own to tell.
            if path not in self._files:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._files[path] = open(path, "ab", buffering=0, opener=no_link)
            self._files[path].write(what)


_OF_RANK = re.compile(rb"\[(\d+)\]<(stdout|stderr)>:")
