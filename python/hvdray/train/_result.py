# SPDX-License-Identifier: Apache-2.0
"""What is committed of a run (run.json), and what a program reads of it."""

from __future__ import annotations

import importlib
import io
import json
import math
import time
from typing import Any, Iterable, Mapping, Optional

from .._errors import HvdrayError
from ._checkpoint import Checkpoint, stored
from ._metrics import decoded, encoded, flat, read_back, score_of
from ._store import Store, store_of


class TrainingFailedError(HvdrayError):
    """The loop has failed once more than max_failures. `worker_failures`: the exceptions of the last attempt by rank, the one that
    began it first; it is the `__cause__`. `result`: what is committed."""

    worker_failures: "dict[int, BaseException]" = {}
    result: "Optional[Result]" = None


class RunFile:
    """run.json, which alone says what is committed. One thread at a time."""

    def __init__(self, store: Store, content: Optional[Mapping[str, Any]] = None):
        told = content or {}
        self._store = store
        self.state: str = told.get("state", "running")  # finished, failed, interrupted
        self.checkpoints: list[dict[str, Any]] = [{**e, "metrics": decoded(e["metrics"])} for e in told.get("checkpoints", [])]
        self.next_number: int = told.get("next_number", 0)
        self.iterations: int = 0
        self.sizes: dict[str, int] = {}
        self.columns: list[str] = []  # of progress.csv
        self.attempts: int = told.get("attempts", 0)
        self.reporters: "frozenset[Any]" = frozenset(told.get("reporters", ()))
        self.num_workers: Any = told.get("num_workers")
        self._marks: dict[str, Any] = told.get("marks", {"iterations": 0, "sizes": {}, "seconds": 0.0})
        self._began = time.monotonic()
        self._before = 0.0
        self.go_back()

    @classmethod
    def read(cls, store: Store) -> "Optional[RunFile]":
        """None: there is no run. Raises HvdrayError."""
        content = store.read("run.json")
        if content is None:
            return None
        try:
            told = json.loads(content)
            if told["version"] != 1:
                raise ValueError(f"version {told['version']}")
            return cls(store, told)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HvdrayError(f"{store.root}/run.json can't be read: {error}") from None

    @staticmethod
    def read_metrics(text: str) -> dict[str, Any]:
        metrics: dict[str, Any] = read_back(text)
        return metrics

    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    def has(self, name: str) -> bool:
        return any(entry["name"] == name for entry in self.checkpoints)

    def commit(self, name: str, metrics: Optional[dict[str, Any]]) -> None:
        """A checkpoint, whose files are there, or more of one. `metrics`: None: as they are."""
        if not self.has(name):
            self.checkpoints.append({"name": name, "iteration": self.iterations, "metrics": {}})
            self.next_number += 1
        if metrics is not None:
            next(entry for entry in self.checkpoints if entry["name"] == name).update(metrics=metrics, iteration=self.iterations)
        self._mark()
        self.write()

    def drop(self, names: Iterable[str]) -> None:
        gone = set(names)
        self.checkpoints = [entry for entry in self.checkpoints if entry["name"] not in gone]
        self.write()

    def finish(self, state: str) -> None:
        self.state = state
        if state == "finished":
            self._mark()
        self.write()

    def go_back(self) -> None:
        """To the last commit: what was reported after it comes again."""
        self.iterations = self._marks["iterations"]
        self.sizes = dict(self._marks["sizes"])
        self._before, self._began = self._marks["seconds"], time.monotonic()

    def _mark(self) -> None:
        self._marks = {
            "iterations": self.iterations,
            "sizes": dict(self.sizes),
            "seconds": round(self.seconds(), 3),
        }

    def write(self) -> None:
        told = {
            "version": 1,
            "state": self.state,
            "attempts": self.attempts,
            "num_workers": self.num_workers,
            "next_number": self.next_number,
            "checkpoints": [{**entry, "metrics": encoded(entry["metrics"])} for entry in self.checkpoints],
            "marks": self._marks,
            "reporters": sorted(self.reporters),
        }
        self._store.put("run.json", json.dumps(told, allow_nan=False).encode() + b"\n")


class Result:
    """`metrics`: the last that rank 0 reported. `checkpoint`: the last committed one. `best_checkpoints`: all that are kept, with
    their metrics. `error`: a TrainingFailedError, or None. `path`: of the run. `return_value`: rank 0's; None if read from disk.
    `config`: the loop's."""

    def __init__(
        self, store: Store, run: RunFile, *, error: Optional[BaseException] = None, return_value: Any = None, metrics: Any = None
    ):
        self._store = store
        self.path = store.root
        self.best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = [
            (stored(store, entry["name"]), entry["metrics"]) for entry in run.checkpoints
        ]
        self.checkpoint = self.best_checkpoints[-1][0] if self.best_checkpoints else None
        self.error = error
        self.return_value = return_value
        lines = lines_of(store) if metrics is None else []
        self.metrics: Optional[dict[str, Any]] = metrics if metrics is not None else (lines[-1] if lines else None)
        params = store.read("params.json")
        self.config: Any = json.loads(params) if params else None

    @classmethod
    def from_path(cls, path: str) -> "Result":
        """Of a run that has ended, or goes on. Raises HvdrayError."""
        store = store_of(str(path))
        run = RunFile.read(store)
        if run is None:
            raise HvdrayError(f"there is no run in {store.root}: it has no run.json")
        said = store.read("error.txt") if run.state == "failed" else None
        return cls(store, run, error=TrainingFailedError(said.decode(errors="replace").strip()) if said else None)

    @property
    def metrics_dataframe(self) -> Any:
        """One row for each report of rank 0, "a/b" for what is in objects. Needs pandas."""
        pandas: Any = importlib.import_module("pandas")
        return pandas.DataFrame([flat(line) for line in lines_of(self._store)])

    def get_best_checkpoint(self, metric: str, mode: str = "max") -> Optional[Checkpoint]:
        """Of those that are kept; the latest of equals. NaN is never best. None: none has that metric. Raises ValueError."""
        if mode not in ("max", "min"):
            raise ValueError(f'mode must be "max" or "min", not {mode!r}')
        best, found = -math.inf, None
        for checkpoint, metrics in self.best_checkpoints:
            score = score_of(metrics, metric, mode)
            if score is not None and score >= best:
                best, found = score, checkpoint
        return found

    def __repr__(self) -> str:
        return f"Result(path={self.path!r}, metrics={self.metrics!r}, checkpoint={self.checkpoint!r}, error={self.error!r})"


def lines_of(store: Store) -> list[dict[str, Any]]:
    """What rank 0 has reported, as result.json has it."""
    lines = []
    for line in io.BytesIO(store.read("result.json") or b""):
        if line.endswith(b"\n"):
            read = read_back(line)
            if not isinstance(read["checkpoint_dir_name"], str):
                read["checkpoint_dir_name"] = None
            lines.append(read)
    return lines
