# SPDX-License-Identifier: Apache-2.0
"""On the workers of a trial: they call the user's function, and a stand-in for Tune's session sends what it reports, and waits until Tune
has taken each. _trial.py is the other end."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import sys
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from .. import _worker
from .._errors import HvdrayError
from .._payload import dumps, loads


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


def pickled(error: Optional[BaseException]) -> "list[bytes]":
    """Of a keeper, for the trial: with its cause, and so on."""
    import ray  # type: ignore[import]

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
            raise RuntimeError("a report of a process that is not a worker")
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
    """Raises OSError, and ValueError for what is neither a file nor a directory."""
    from ..train import _files  # Most trials have no checkpoints, or no workers on other nodes.

    files = {}
    for entry in _files.scan(folder)[1]:
        with _files.reading(folder, entry.name) as file:
            files[entry.name] = file.read()
    return files
