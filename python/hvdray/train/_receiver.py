# SPDX-License-Identifier: Apache-2.0
"""The driver's side of reports: a thread that answers workers, writes what they stream, and commits."""

from __future__ import annotations

import csv
import io
import json
import os
import queue
import threading
import time
from typing import Any, Callable, Mapping, Optional

from . import _files
from ._commits import Commits, Made, Step, to_prune
from ._config import CheckpointConfig
from ._metrics import encoded, flat, score_of
from ._result import RunFile, lines_of
from ._store import Store

Answer = Callable[[int, dict[str, Any], bytes], None]


class Receiver:
    """Of one attempt. take() from any thread; everything else happens on the receiver's own, until close()."""

    def __init__(
        self,
        store: Store,
        run: RunFile,
        keep: CheckpointConfig,
        answer: Answer,
        start_from: Optional[str],
    ):
        """`start_from`: the directory of a checkpoint, before there is one of this run's."""
        self._store, self._run, self._keep, self._answer, self._start_from = store, run, keep, answer, start_from
        self._parts: dict[tuple[int, int], str] = {}  # by round and rank: directories with files that are not committed
        self._names: dict[int, str] = {}  # by round: of what is committed
        self._arriving: dict[tuple[int, str], Any] = {}
        self._in_use: dict[int, str] = {}  # by rank: a checkpoint that it may be reading
        self._token = os.urandom(4).hex()
        self._count = 0  # of parts
        self._generation = 0
        self._begin(0)
        self.failure: Optional[BaseException] = None  # of the storage
        self.latest_metrics: Optional[dict[str, Any]] = None
        self._queue: "queue.SimpleQueue[Optional[tuple[Any, Any]]]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._go, name="hvdray train", daemon=True)
        self._thread.start()

    def _begin(self, size: int) -> None:
        self._began_with = self._run.checkpoints[-1]["name"] if self._run.checkpoints else ""
        self._commits = Commits(rank for rank in self._run.reporters if rank < size)

    def take(self, question: Any, content: Any) -> None:
        self._queue.put((question, content))

    def close(self) -> None:
        """Once no worker lives. What they have told is dealt with."""
        self._queue.put(None)
        self._thread.join()
        self._discard()
        self._began_with = ""
        if self.failure is None:
            try:
                self._prune()
            except Exception as error:
                self.failure = error

    def _go(self) -> None:
        while (item := self._queue.get()) is not None:
            question, content = item
            generation, rank, size = question["from"]
            try:
                if generation < self._generation:
                    continue  # Of a worker that has ended.
                if generation > self._generation:
                    self._follow(generation, size)
                answer, blob = self._on(rank, question, content)
            except OSError as error:
                answer, blob = {"error": [error.errno or 0, error.strerror or str(error)]}, b""
            except Exception as error:
                answer, blob = {"error": [0, f"{type(error).__name__}: {error}"]}, b""
            self._answer(rank, {"do": "answer", "for": question["from"], "ask": question.get("ask"), **answer}, blob)

    def _follow(self, generation: int, size: int) -> None:
        """Of elastic runs: new workers begin with the last commit; what others have left is nobody's."""
        is_first, self._generation = self._generation == 0, generation
        if not is_first:
            self._discard()
            self._run.go_back()
            tidy(self._store, self._run)
        self._begin(size)

    def _discard(self) -> None:
        for arriving in self._arriving.values():
            arriving.discard()
        self._arriving, self._parts, self._names, self._in_use = {}, {}, {}, {}

    def _on(self, rank: int, question: Any, content: Any) -> tuple[dict[str, Any], bytes]:
        do = question.get("do")
        if self.failure is not None and do in ("begin", "made", "end"):
            raise self.failure
        if do == "begin":
            self._in_use.pop(rank, None)
            return {"part": self._path_of(self._part_of(rank))}, b""
        if do == "part":
            self._store.make(self._part_of(rank), _files.as_found(json.loads(bytes(content))))
        elif do == "piece":
            if content is None:
                raise MemoryError("the driver has no memory for a piece of a checkpoint")
            rest = memoryview(content)
            for name, size, mode, is_last in question["rows"]:
                self._on_piece(rank, _files.checked_name(_files.as_name(name)), rest[:size], is_last, mode)
                rest = rest[size:]
        elif do == "sync":
            self._store.flush(self._part_of(rank))
        elif do == "made":
            self._on_made(rank, question)
        elif do == "end":
            self._settle(self._commits.end_well(rank))
        elif do == "last":
            return self._last(rank), b""
        elif do == "list":
            folders, files = self._store_of(question["name"]).listing(self._checked(question["name"]))
            return {}, json.dumps({"folders": _files.as_rows(folders), "files": _files.as_rows(files)}).encode()
        elif do == "get":
            return self._get(self._store_of(question["name"]), self._checked(question["name"]), question["wanted"])
        else:
            raise ValueError(f"no such question: {do!r}")
        return {}, b""

    def _get(self, store: Store, checkpoint: str, wanted: Any) -> tuple[dict[str, Any], bytes]:
        contents: list[bytes] = []
        room = _files.PIECE
        for name, at in wanted:
            contents.append(store.piece(checkpoint, _files.checked_name(_files.as_name(name)), at) if room > 0 else b"")
            room -= len(contents[-1])
        return {"sizes": list(map(len, contents))}, b"".join(contents)

    def _part_of(self, rank: int) -> str:
        key = self._commits.begin(rank), rank
        if key not in self._parts:
            self._count += 1
            self._parts[key] = f".part-{self._token}-{self._count}"
        return self._parts[key]

    def _path_of(self, part: str) -> Optional[str]:
        return self._store.path(part) if "://" not in self._store.root else None

    def _on_piece(self, rank: int, name: str, content: Any, is_last: bool, mode: int) -> None:
        arriving = self._arriving.get((rank, name))
        try:
            if arriving is None:
                arriving = self._arriving[rank, name] = self._store.arriving(self._part_of(rank), name, f"{rank}")
            arriving.write(content)
            if is_last:
                del self._arriving[rank, name]
                arriving.finish(mode & _files.MODE)
        except Exception:
            self._arriving.pop((rank, name), None)
            if arriving is not None:
                arriving.discard()
            raise

    def _on_made(self, rank: int, question: dict[str, Any]) -> None:
        for key in [key for key in self._arriving if key[0] == rank]:
            self._arriving.pop(key).discard()
        metrics = RunFile.read_metrics(question["metrics"]) if rank == 0 else None
        made = Made(metrics, bool(question.get("checkpoint")), bool(question.get("failed")))
        if not made.has_files and not made.has_failed:
            self._parts.pop((self._commits.begin(rank), rank), None)
        if made.has_failed:
            self._store.remove(self._part_of(rank))  # The next report may need its room.
        if metrics is not None and not made.has_failed:
            self.latest_metrics = metrics
        self._settle(self._commits.make(rank, made))

    # ---- commits

    def _settle(self, steps: list[Step]) -> None:
        try:
            for step in steps:
                self._do(step)
        except Exception as error:
            self.failure = error
            raise

    def _do(self, step: Step) -> None:
        for rank in step.dropped:
            self._store.remove(self._parts.pop((step.number, rank)))
        name = self._names.get(step.number)
        is_pruned = name is not None and not self._run.has(name)
        if name is None and step.committed:
            name = self._names[step.number] = f"checkpoint_{self._run.next_number:06d}"
            self._store.remove(name)  # of a driver that was killed before it had committed it
        for rank in step.committed:
            part = self._parts.pop((step.number, rank))
            if is_pruned or name is None:
                self._store.remove(part)
            else:
                self._store.move(part, name)
        if step.metrics is not None:
            self._write_line(step.metrics, name)
        if name is not None and not is_pruned:
            self._store.sync()
            self._run.reporters = frozenset(self._commits.reporters)
            self._run.commit(name, step.metrics)
            self._prune()

    def _write_line(self, metrics: dict[str, Any], name: Optional[str]) -> None:
        run = self._run
        run.iterations += 1
        ours = {
            "training_iteration": run.iterations,
            "timestamp": int(time.time()),
            "time_total_s": round(run.seconds(), 3),
            "checkpoint_dir_name": name,
        }
        line = (json.dumps({**ours, **encoded(metrics)}, allow_nan=False) + "\n").encode()
        self._store.append("result.json", line)
        run.sizes["result.json"] = run.sizes.get("result.json", 0) + len(line)
        row = flat({**ours, **metrics})
        if set(row).issubset(run.columns):
            self._store.append("progress.csv", _csv([row], run.columns))
        else:
            _write_table(self._store, run)

    def _prune(self) -> None:
        keep, entries = self._keep, self._run.checkpoints
        attribute = keep.checkpoint_score_attribute
        scores = [score_of(e["metrics"], attribute, keep.checkpoint_score_order) if attribute else None for e in entries]
        going = [entries[at]["name"] for at in to_prune(scores, keep.num_to_keep)]
        going = [name for name in going if name not in (self._began_with, *self._in_use.values())]
        if going:
            self._run.drop(going)  # first: what run.json names is there
            for name in going:
                self._store.remove(name)

    # ---- what workers read

    def _last(self, rank: int) -> dict[str, Any]:
        # Those who begin late must not see what others have committed meanwhile: all begin with the same.
        has_reported = self._commits.made_by(rank) > 0
        name = self._run.checkpoints[-1]["name"] if has_reported and self._run.checkpoints else self._began_with
        if name:
            self._in_use[rank] = name
            return {"name": name, "path": self._path_of(name), "where": f"{self._store.root}/{name}"}
        if self._start_from is not None:
            return {"name": "", "path": self._start_from, "where": self._start_from}
        return {"name": None}

    def _store_of(self, name: str) -> Store:
        return self._store if name else Store(os.path.dirname(self._start_from or "/"))

    def _checked(self, name: str) -> str:
        if name:
            return _files.checked_name(name)
        return os.path.basename(self._start_from or "")


def tidy(store: Store, run: RunFile, is_over: bool = False) -> None:
    """Removes what is not committed; while no worker lives."""
    committed = {entry["name"] for entry in run.checkpoints}
    for name in store.names():
        is_part = name.startswith(".part-") or name.endswith(".new~") or (is_over and name == ".probe")
        if is_part or (name.startswith("checkpoint_") and name not in committed):
            store.remove(name)
    if not is_over:
        store.truncate("result.json", run.sizes.get("result.json", 0))
        _write_table(store, run)


def _write_table(store: Store, run: RunFile) -> None:
    """All of progress.csv anew: a column may come with any line."""
    rows = [flat(line) for line in lines_of(store)]
    run.columns = list(dict.fromkeys(column for row in rows for column in row))
    if rows:
        store.replace("progress.csv", _csv([dict(zip(run.columns, run.columns)), *rows], run.columns))
    else:
        store.remove("progress.csv")


def _csv(rows: "list[dict[str, Any]]", columns: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(row, column) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(row: Mapping[str, Any], column: str) -> Any:
    value = row.get(column)
    return "nan" if value != value else value
