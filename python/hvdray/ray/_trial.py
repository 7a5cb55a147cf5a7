# SPDX-License-Identifier: Apache-2.0
"""One trial of Ray Tune: in its actor, run_trial() has Horovod's workers call the user's function, and hands rank 0's reports to Tune. On
workers, a stand-in for Tune's session sends them, and waits until Tune has taken each."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import tempfile
from typing import Any, Mapping, Optional, Sequence

from .. import _worker
from .._errors import HvdrayError
from .._payload import loads
from .._pool import Pool
from .runner import RayExecutor

GRACE_S = 1  # Tune waits 2 s for a trial that it has stopped, and then does not use its actor again.
# ray.tune imports pyarrow, whose allocator else begins a thread at its import, and no fork would have that.
FORKABLE = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}

_pool: Optional[Pool] = None  # of this actor, for trials that follow each other in it (TuneConfig(reuse_actors=True))


def run_trial(function: Any, config: Any, asked: Mapping[str, Any], timeout_s: float, modules: Sequence[str]) -> Any:
    """What the function returns on rank 0. `function`: pickled. `asked`: of Pool. `modules`: that workers import before the first trial;
    none: those that its workers have imported, from the second on. Raises what Tune refuses, and what the workers' ends raise."""
    import ray  # type: ignore[import]
    from ray.train._internal.session import get_session  # type: ignore[import]

    global _pool
    session = get_session()
    node = ray.get_runtime_context().get_node_id()
    if _pool is None:
        _pool = Pool(**asked, backend="ray", env=FORKABLE, options={"start_timeout": timeout_s, "grace": GRACE_S})
        _pool.learn({0: list(modules)}, _pool.base.env)
    executor = RayExecutor(num_workers=asked["num_workers"], pool=_pool)
    names = ("trial_name", "trial_id", "trial_resources", "trial_dir", "experiment_name")
    facts = {**{name: getattr(session, name) for name in names}, "loaded_checkpoint": session.loaded_checkpoint}
    reports = _Reports(session, executor)
    value = None
    try:
        executor.start()
        value = executor.run(work, [function, config, ray.cloudpickle.dumps(facts), node], callbacks=[reports.take])[0]
    except HvdrayError:
        if reports.refused is None:
            raise
    finally:
        executor.shutdown()
    if reports.refused is not None:
        raise reports.refused
    return value


class _Reports:
    """take() is called on the thread of the trial's function, and there Tune stops a trial by SystemExit, which no one catches."""

    def __init__(self, session: Any, executor: RayExecutor):
        self._session = session
        self._executor = executor
        self.refused: Optional[Exception] = None

    def take(self, told: "dict[str, Any]") -> None:
        if told["rank"] != 0:
            return self._keep(told["rank"], told["metrics"])
        answer: dict[str, Any] = {"do": "answer", "ask": told["ask"]}
        try:
            self._report(told)
        except Exception as error:
            self.refused = error
            answer["refused"] = f"{type(error).__name__}: {error}"
        import ray

        latest = ray.cloudpickle.dumps(self._session.loaded_checkpoint)
        self._executor._started()._answer_loop(0, answer, latest)

    def _report(self, told: "dict[str, Any]") -> None:
        files = told["files"]
        if files is None:
            return self._session.report(told["metrics"], checkpoint=told["checkpoint"])  # type: ignore[no-any-return]
        from ray.train import Checkpoint  # type: ignore[import]

        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files)
            self._session.report(told["metrics"], checkpoint=Checkpoint.from_directory(folder))

    def _keep(self, rank: int, metrics: Any) -> None:
        """Beside the trial's own, for who looks into it."""
        storage = self._session.storage
        is_local = type(storage.storage_filesystem).__name__ == "LocalFileSystem"
        folder = os.path.join(storage.trial_fs_path if is_local else storage.trial_driver_staging_path, f"worker_{rank}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "result.json"), "a") as file:
            file.write(json.dumps(metrics, default=str) + "\n")


# ---- On workers


def work(function: Any, config: Any, facts: bytes, trial_node: str) -> Any:
    """What each worker calls."""
    import ray.train._internal.session as sessions  # type: ignore[import]

    session = _Session(pickle.loads(facts), trial_node)
    setattr(sessions, "_session", session)
    _take_keywords()
    sizes, content = function
    value = loads(sizes, bytearray(content))(config)
    if inspect.isgenerator(value):
        for metrics in value:
            session.report(metrics if isinstance(metrics, dict) else {"_metric": metrics})
        return None
    return value if session.rank == 0 else None


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
        self._asked += 1
        told: dict[str, Any] = {"ask": self._asked, "rank": self.rank, "metrics": metrics, "checkpoint": None, "files": None}
        if self.rank != 0:
            return worker.log(told)
        if checkpoint is not None and self._is_here(checkpoint):
            told["files"] = read_files(checkpoint.path)
        else:
            told["checkpoint"] = checkpoint
        worker.log(told)
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
