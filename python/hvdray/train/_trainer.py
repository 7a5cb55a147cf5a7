# SPDX-License-Identifier: Apache-2.0
"""Runs a loop on workers until it has returned on all, with restarts from the last commit. docs/train.md."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import uuid
import warnings
from typing import Any, Callable, Mapping, Optional, Union

from .._errors import LASTING, HvdrayError, SerializationError, WorkerError, nearest
from .._executor import NOT_EXECUTED, Executor, Hosts
from .._launcher import HOST_LOST
from .._payload import dumps, loads
from ._checkpoint import Checkpoint
from ._config import RunConfig
from ._data import check_datasets
from ._receiver import Receiver, tidy
from ._result import Result, RunFile, TrainingFailedError
from ._session import run_loop, takes_config
from ._store import Store, store_of

OTHERS = {"num_workers", "min_workers", "max_workers", "hosts", "results"}  # of an Executor, and given otherwise or not at all


class Trainer:
    """One run. fit() once, or until something of it is kept, on any thread that may wait."""

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Optional[Mapping[str, Any]] = None,
        num_workers: Optional[Union[int, tuple[int, int]]] = None,
        hosts: Optional[Hosts] = None,
        run_config: Optional[RunConfig] = None,
        datasets: Optional[Mapping[str, Any]] = None,
        resume_from_checkpoint: Optional[Checkpoint] = None,
        **executor: Any,
    ):
        """`train_loop_per_worker`: takes nothing, or one argument, the config; it is called on each worker. `num_workers`: a number, or
        (min, max) of an elastic run: whenever hosts come or go, new workers begin with the last commit; default: all slots of `hosts`. `datasets`: lists, arrays,
        frames, map-style sets by name. `executor`: other parameters of hvdray.Executor. Nothing starts before fit(). Raises
        TypeError and ValueError."""
        self._wants_config = takes_config(train_loop_per_worker)
        if train_loop_config is not None and not isinstance(train_loop_config, Mapping):
            raise TypeError(f"train_loop_config must be a dict, not {type(train_loop_config).__name__}")
        if run_config is not None and not isinstance(run_config, RunConfig):
            raise TypeError(f"run_config must be a RunConfig, not {type(run_config).__name__}")
        if resume_from_checkpoint is not None and not isinstance(resume_from_checkpoint, Checkpoint):
            raise TypeError(f"resume_from_checkpoint must be a Checkpoint, not {type(resume_from_checkpoint).__name__}")
        _check_names(executor)
        self._loop = train_loop_per_worker
        self._config = dict(train_loop_config) if train_loop_config is not None else None
        self._run_config = run_config or RunConfig()
        self._datasets = check_datasets(datasets)
        self._start_from = resume_from_checkpoint
        self._given: dict[str, Any] = {"num_workers": num_workers, "hosts": hosts, **executor}
        self._make_executor().shutdown()  # what does not fit together is said now
        self._restored = ""
        self._last: Optional[Store] = None  # of the last fit()

    @classmethod
    def restore(
        cls,
        path: str,
        train_loop_per_worker: Optional[Callable[..., Any]] = None,
        *,
        datasets: Optional[Mapping[str, Any]] = None,
        **changed: Any,
    ) -> "Trainer":
        """The trainer of the run in `path`, whose fit() goes on from its last commit, or returns at once if it has finished. What is not
        given is read from trainer.pkl there, a pickle, unless it belongs to another user. `datasets` must be given again. Raises
        HvdrayError, and what the constructor raises."""
        store = store_of(str(path))
        if RunFile.read(store) is None:
            raise HvdrayError(f"there is no run in {store.root}: it has no run.json")
        told = _read_trainer(store)
        if train_loop_per_worker is None and "train_loop_per_worker" not in told:
            raise HvdrayError(f"the loop of {store.root} is not known: give train_loop_per_worker")
        known = {**told, **changed}
        names = known.pop("names_of_datasets", [])
        if train_loop_per_worker is not None:
            known["train_loop_per_worker"] = train_loop_per_worker
        lacking = sorted(set(names) - set(datasets or {}))
        if lacking:
            raise ValueError(f"datasets are not kept with a run: give {', '.join(lacking)} again")
        trainer = cls(datasets=datasets, **known)
        trainer._restored = store.root
        return trainer

    def fit(self) -> Result:
        """Returns when the loop has returned on all workers. Raises TrainingFailedError when it has failed once more than max_failures,
        or before its first report by an ImportError, NameError or SyntaxError; KeyboardInterrupt after Ctrl-C; HvdrayError if workers
        can't be started, or another trainer uses the directory. After each of them, Trainer.restore(path) goes on."""
        if self._last is not None and _has_kept(self._last, RunFile.read(self._last)):
            raise HvdrayError("fit() has been called already", hint="Trainer.restore(path) goes on with a run")
        store = self._store()
        store.open()
        try:
            run = RunFile.read(store)
            if not self._restored and _has_kept(store, run):
                hint = f"Trainer.restore({store.root!r}) goes on with it; another name begins anew"
                raise HvdrayError(f"there is a run in {store.root} already", hint=hint)
            if run is not None and run.state == "finished":
                return Result(store, run)
            self._last = store
            self._keep(store)
            return self._run(store, run if run is not None and self._restored else RunFile(store))
        finally:
            store.close()

    # ---- how

    def _store(self) -> Store:
        if self._restored:
            return store_of(self._restored)
        root = str(self._run_config.storage_path or os.path.expanduser("~/hvdray_results"))
        name = self._run_config.name or time.strftime("hvdray-%Y-%m-%d_%H-%M-%S") + f"-{uuid.uuid4().hex[:6]}"
        return store_of(f"{root.rstrip('/') or '/'}/{name}")

    def _keep(self, store: Store) -> None:
        """What restore() and Result read."""
        store.put("params.json", json.dumps(_with_texts(self._config or {}), indent=2, sort_keys=True, default=repr).encode() + b"\n")
        kept = {
            "train_loop_per_worker": self._loop,
            "train_loop_config": self._config,
            "run_config": self._run_config,
            "resume_from_checkpoint": self._start_from,
            "names_of_datasets": sorted(self._datasets),
            **self._given,
        }
        try:
            payload = dumps(kept, ["the trainer"])
            store.put("trainer.pkl", json.dumps(payload.sizes).encode() + b"\n" + b"".join(payload.parts))
        except SerializationError:
            store.remove("trainer.pkl")  # restore() is told what it needs, and fit() says what can't be sent.

    def _make_executor(self) -> Executor:
        given = dict(self._given)
        workers = given.pop("num_workers")
        if isinstance(workers, (tuple, list)):
            if len(workers) != 2:
                raise ValueError(f"num_workers must be a number or (min, max), not {workers!r}")
            given.update(min_workers=workers[0], max_workers=workers[1])
            given["options"] = {"elastic_mode": "gang", **(given.get("options") or {})}
            if given["min_workers"] > given["max_workers"]:
                raise ValueError(f"num_workers={workers!r}: min is above max")
        else:
            given["num_workers"] = workers
        return Executor(**given)

    def _run(self, store: Store, run: RunFile) -> Result:
        run.state, run.num_workers = "running", self._given["num_workers"]
        tidy(store, run)
        store.remove("error.txt")
        executor = self._make_executor()
        state, failures, metrics = "interrupted", 0, None
        most = self._run_config.failure_config.max_failures
        try:
            while True:
                run.attempts += 1
                run.write()
                receiver = self._receiver(executor, store, run)
                try:
                    value = self._attempt(executor, store, receiver)
                    state = "finished"
                    return Result(store, run, return_value=value, metrics=receiver.latest_metrics or metrics)
                except HvdrayError as failure:
                    metrics = receiver.latest_metrics or metrics
                    is_of_loop = failure.code == HOST_LOST or (isinstance(failure, WorkerError) and failure.code != NOT_EXECUTED)
                    is_lasting = isinstance(failure.__cause__, LASTING) and receiver.latest_metrics is None
                    if receiver.failure is None and not is_of_loop:
                        raise
                    failures += 1
                    if receiver.failure is not None or is_lasting or 0 <= most < failures:
                        state = "failed"
                        raise self._failed(store, run, failure, failures, metrics, receiver.failure) from receiver.failure or failure
                    print(f"hvdray: {_first_line(failure)}; restarting from {_from(run)}, failure {failures}"
                          + (f" of {most}" if most >= 0 else ""), file=sys.stderr, flush=True)
                    run.go_back()
                    tidy(store, run)
                    executor.restart()
        except KeyboardInterrupt:
            print(f"hvdray: interrupted; {_going_on(store, run)}", file=sys.stderr, flush=True)
            raise
        finally:
            executor.shutdown()
            try:
                tidy(store, run, is_over=True)
                run.finish(state)
            except OSError as problem:
                warnings.warn(f"the end of the run can't be written: {problem}", RuntimeWarning, stacklevel=2)

    def _receiver(self, executor: Executor, store: Store, run: RunFile) -> Receiver:
        start = None
        if self._start_from is not None:
            start = os.path.abspath(self._start_from.path)
            if not os.path.isdir(start):
                raise FileNotFoundError(f"resume_from_checkpoint is not there: {start}")
        receiver = Receiver(store, run, self._run_config.checkpoint_config, executor._answer_loop, start)
        executor._on_train = receiver.take
        return receiver

    def _attempt(self, executor: Executor, store: Store, receiver: Receiver) -> Any:
        """Rank 0's value."""
        try:
            about = {"probe": store.probe(), "name": store.root.rsplit("/", 1)[-1], "storage": store.root}
            args = (self._loop, self._wants_config, self._config or {}, about, self._datasets)
            values = executor._run_once(run_loop, args, None, None)
        finally:
            receiver.close()
        if receiver.failure is not None:
            raise HvdrayError(f"the run's files can't be written: {receiver.failure}") from receiver.failure
        return values[0] if values else None

    def _failed(
        self, store: Store, run: RunFile, error: BaseException, failures: int, metrics: Any, broken: Optional[BaseException]
    ) -> TrainingFailedError:
        times = "" if failures == 1 else f" for the {failures}th time" if failures > 3 else f" {('twice', 'three times')[failures - 2]}"
        what = f"the run's files can't be written: {broken}" if broken is not None else f"the loop has failed{times}: {_first_line(error)}"
        hint = _going_on(store, run)
        failed = TrainingFailedError(what, hint=hint, code=getattr(error, "code", ""), report=getattr(error, "report", None))
        failed.worker_failures = _failures_of(error)
        try:
            store.put("error.txt", f"{what}\n\n{getattr(error, 'traceback', '')}".encode("utf-8", "replace"))
            failed.result = Result(store, run, error=failed, metrics=metrics)
        except OSError:
            pass  # A full disk, which is what the error says.
        return failed


def _check_names(executor: Mapping[str, Any]) -> None:
    known = {*inspect.signature(Trainer).parameters, *inspect.signature(Executor).parameters.keys() - OTHERS} - {"executor"}
    for name in executor:
        if name in OTHERS:
            raise ValueError(f"a Trainer takes no {name}" + (": num_workers=(min, max)" if "_workers" in name else ""))
        if name == "scaling_config":  # of ray.train
            raise TypeError("Trainer() takes no scaling_config: its fields are parameters, as num_workers=2, use_gpu=True")
        if name not in known:
            raise TypeError(f"Trainer() got an unexpected keyword argument {name!r}{nearest(name, sorted(known))}")


def _has_kept(store: Store, run: Optional[RunFile]) -> bool:
    """What another run in its place would lose."""
    return run is not None and bool(run.checkpoints or run.state == "finished" or store.read("result.json"))


def _failures_of(error: BaseException) -> "dict[int, BaseException]":
    """The one that began it first."""
    failures: dict[int, BaseException] = {}
    if isinstance(error, WorkerError):
        failures[error.rank] = error.__cause__ or error
        for rank, outcome in enumerate(error.outcomes):
            if isinstance(outcome, BaseException):
                failures.setdefault(rank, outcome)
    return failures


def _with_texts(value: Any) -> Any:
    """Keys of JSON are texts."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): _with_texts(part) for key, part in value.items()}
    return [_with_texts(part) for part in value] if isinstance(value, (list, tuple)) else value


def _first_line(error: BaseException) -> str:
    return str(getattr(error, "message", error)).split("\n", 1)[0]


def _going_on(store: Store, run: RunFile) -> str:
    return f"Trainer.restore({store.root!r}) goes on from {_from(run)}"


def _from(run: RunFile) -> str:
    return str(run.checkpoints[-1]["name"]) if run.checkpoints else "the beginning"


def _read_trainer(store: Store) -> dict[str, Any]:
    """Its constructor's arguments; empty: they are not there, or not to be trusted."""
    if "://" not in store.root and os.path.exists(store.path("trainer.pkl")):
        owner = os.stat(store.path("trainer.pkl")).st_uid
        if owner not in (os.geteuid(), 0):
            return {}
    content = store.read("trainer.pkl")
    if content is None:
        return {}
    sizes, _, rest = content.partition(b"\n")
    try:
        told: dict[str, Any] = loads(json.loads(sizes), bytearray(rest))
        return told
    except Exception as error:
        raise HvdrayError(f"{store.root}/trainer.pkl can't be read: {type(error).__name__}: {error}") from error
