# SPDX-License-Identifier: Apache-2.0
"""In a worker: what a loop calls. It asks the driver, whose side is _receiver.py, and waits for no other rank.

A question is a `data` message with `train`; the driver answers each, in their order, with a message whose `do` is "answer".
"""

from __future__ import annotations

import inspect
import json
import os
import threading
from collections import deque
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from .. import _worker
from .._disk import sync_tree
from . import _files
from ._checkpoint import Checkpoint, receive
from ._data import Shard
from ._metrics import checked_metrics, to_json

WINDOW = 8  # pieces that are on their way at a time
_current: "Optional[Session]" = None


class Context:
    """Of this rank, as long as it lives."""

    def __init__(self, name: str, storage: str):
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK")
        numbers = [int(os.environ.get(f"HOROVOD_{name}", "1" if "SIZE" in name else "0")) for name in names]
        self._rank, self._size, self._local_rank, self._local_size, self._node_rank = numbers
        self._name, self._storage = name, storage

    def get_world_rank(self) -> int:
        return self._rank

    def get_world_size(self) -> int:
        return self._size

    def get_local_rank(self) -> int:
        """Among the workers of its host."""
        return self._local_rank

    def get_local_world_size(self) -> int:
        return self._local_size

    def get_node_rank(self) -> int:
        """Of its host, in the order of their first ranks."""
        return self._node_rank

    def get_experiment_name(self) -> str:
        return self._name

    def get_storage_path(self) -> str:
        """The directory of the run as the driver has it, or its URL."""
        return self._storage


class Session:
    def __init__(self, worker: Any, about: Mapping[str, Any], datasets: Mapping[str, Any]):
        self._worker = worker
        self._about = about
        self._datasets = datasets
        self._lock = threading.RLock()  # of questions
        self._pid = os.getpid()
        self._is_over = False
        self._asked = 0
        self._due: deque[int] = deque()  # questions without their answers
        self.context = Context(about["name"], about["storage"])
        self._from = [int(os.environ.get("HVDRAY_GENERATION", "1")), self.context.get_world_rank(), self.context.get_world_size()]
        self._sees_storage = _sees(about["probe"])

    def report(self, metrics: Any, checkpoint: Optional[Checkpoint]) -> None:
        plain = to_json(checked_metrics(metrics))
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            raise TypeError(f"checkpoint must be a Checkpoint, not {type(checkpoint).__name__}")
        with self._lock:
            begun = self._ask({"do": "begin"})
            try:
                if checkpoint is not None:
                    self._save(checkpoint, begun["part"])
            except BaseException:
                self._ask({"do": "made", "metrics": plain, "failed": True})
                raise
            self._ask({"do": "made", "metrics": plain, "checkpoint": checkpoint is not None})

    def _save(self, checkpoint: Checkpoint, part: Optional[str]) -> None:
        with checkpoint.as_directory() as source:
            found = _files.scan(source)
            self._ask({"do": "part"}, [json.dumps(_files.as_rows(found[0])).encode()])
            if self._sees_storage and part is not None:
                _files.copy_in(source, found, part, str(os.getpid()))
                sync_tree(part)
            else:
                self._stream(source, found[1])
                self._ask({"do": "sync"})
            _files.check_unchanged(source, found)

    def _stream(self, source: str, files: "list[_files.Found]") -> None:
        waiting = 0
        try:
            for rows, parts in _pieces(source, files):
                self._tell({"do": "piece", "rows": rows}, parts)
                waiting += 1
                while waiting >= WINDOW:
                    waiting -= 1
                    self._hear()
        finally:
            failure = None
            for _ in range(waiting):
                try:
                    self._hear()
                except OSError as error:
                    failure = error
            if failure is not None:
                raise failure

    def checkpoint(self) -> Optional[Checkpoint]:
        with self._lock:
            found = self._ask({"do": "last"})
        if found["name"] is None:
            return None
        if self._sees_storage and found["path"] is not None and os.path.isdir(found["path"]):
            return Checkpoint(found["path"])

        def fetch(target: str) -> None:
            with self._lock:
                listing = json.loads(self._ask({"do": "list", "name": found["name"]})["content"])
                listed = _files.as_found(listing["folders"]), _files.as_found(listing["files"])
                receive(target, listed, lambda wanted: self._pieces(found["name"], wanted))

        return Checkpoint(found["where"], fetch=fetch)

    def _pieces(self, checkpoint: str, wanted: list[tuple[str, int]]) -> list[bytes]:
        rows = [[_files.as_text(name), at] for name, at in wanted]
        answer = self._ask({"do": "get", "name": checkpoint, "wanted": rows})
        rest = memoryview(answer["content"])
        found = []
        for size in answer["sizes"]:
            found.append(bytes(rest[:size]))
            rest = rest[size:]
        return found

    def shard(self, name: str, equal: bool) -> Shard:
        if name not in self._datasets:
            known = ", ".join(sorted(self._datasets)) or "none at all"
            raise KeyError(f"the trainer has no data set {name!r}; it has {known}")
        return Shard(self._datasets[name], self.context.get_world_rank(), self.context.get_world_size(), equal)

    def end(self, is_good: bool) -> None:
        with self._lock:
            self._is_over = True
            if is_good:
                self._tell({"do": "end"}, [])
                self._hear()

    # ---- questions

    def _ask(self, question: dict[str, Any], parts: Sequence[bytes] = ()) -> dict[str, Any]:
        self._check()
        self._due.clear()  # of what an exception has ended
        self._tell(question, parts)
        return self._hear()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a forked child can't report: the channel is its parent's")
        if self._is_over:
            raise RuntimeError("the loop has returned: reports are no longer read")

    def _tell(self, question: dict[str, Any], parts: Sequence[bytes]) -> None:
        self._asked += 1
        self._due.append(self._asked)
        self._worker.tell({"train": {"from": self._from, "ask": self._asked, **question}}, parts)

    def _hear(self) -> dict[str, Any]:
        """Raises OSError if the driver could not do it."""
        answer: dict[str, Any] = {}
        number = self._due.popleft()
        while answer.get("for") != self._from or answer.get("ask") != number:  # One may be for who had this rank before.
            answer, content = self._worker.hear()
        if answer.get("error") is not None:
            number, text = answer["error"]
            raise OSError(number, text) if number else OSError(text)
        return {**answer, "content": bytes(content)}


def _pieces(source: str, files: "list[_files.Found]") -> "Iterator[tuple[list[Any], list[bytes]]]":
    """What a message has: a part of a large file, or many small ones."""
    rows: list[Any] = []
    parts: list[bytes] = []
    room = _files.PIECE
    for entry in files:
        with _files.reading(source, entry.name) as file:
            at, is_last = 0, False
            while not is_last:
                data = file.read(min(room, entry.size - at)) if at < entry.size else b""
                at += len(data)
                is_last = at >= entry.size or not data
                name = _files.as_text(entry.name)
                rows.append([name, len(data), entry.mode, is_last])
                parts.append(data)
                room -= len(data) + _files.room_of(name)
                if room <= 0:
                    yield rows, parts
                    rows, parts, room = [], [], _files.PIECE
    if rows:
        yield rows, parts


def _sees(probe: Sequence[str]) -> bool:
    try:
        with open(probe[0], encoding="ascii") as file:
            return bool(probe[0]) and file.read() == probe[1] and os.access(os.path.dirname(probe[0]), os.W_OK)
    except (OSError, ValueError):
        return False


def takes_config(loop: Callable[..., Any]) -> bool:
    """Raises TypeError for what takes neither nothing nor one argument."""
    if not callable(loop):
        raise TypeError(f"train_loop_per_worker must be a function, not {type(loop).__name__}")
    try:
        signature = inspect.signature(loop)
    except (TypeError, ValueError):  # of C code
        return True
    for args in ((None,), ()):
        try:
            signature.bind(*args)
        except TypeError:
            continue
        return bool(args)
    raise TypeError(f"train_loop_per_worker takes no argument or one, the config, and not {signature}")


def run_loop(loop: Callable[..., Any], wants_config: bool, config: Any, about: Mapping[str, Any], datasets: Mapping[str, Any]) -> Any:
    """On each worker. The value of rank 0 is the run's."""
    global _current
    session = _current = Session(_worker.current, about, datasets)
    is_good = False
    try:
        value = loop(config) if wants_config else loop()
        is_good = True
        return value if session.context.get_world_rank() == 0 else None
    finally:
        if os.getpid() == session._pid:
            session.end(is_good)
            _current = None


def _session(name: str) -> Session:
    if _current is None:
        raise RuntimeError(f"hvdray.train.{name}() is for a loop that a Trainer runs")
    return _current


def report(metrics: Mapping[str, Any], checkpoint: Optional[Checkpoint] = None) -> None:
    """Returns when this rank's files are safe; waits for no other rank. `metrics`: numbers, texts, booleans, None, and dicts and lists
    of them, 64 KiB at most; scalars of NumPy and torch are numbers. Those of rank 0 count. `checkpoint`: its files join those
    that other ranks give to the same round, and are then committed under one name. From any thread of the loop's process, but
    no forked child. Raises TypeError and ValueError before anything is written; OSError if the files can't be read or written:
    then nothing of this round is committed."""
    _session("report").report(metrics, checkpoint)


def get_checkpoint() -> Optional[Checkpoint]:
    """The last committed one; until this rank's first report, that with which all ranks have begun. None: there is none yet, and the
    trainer was given none."""
    return _session("get_checkpoint").checkpoint()


def get_context() -> Context:
    """Which rank this is, of how many, and which run."""
    return _session("get_context").context


def get_dataset_shard(name: str = "train", equal: bool = True) -> Shard:
    """This rank's part of `datasets[name]`. `equal`: each rank has ⌊rows/size⌋ rows, so that all make as many steps; else no row is
    left out, for evaluation. Raises KeyError."""
    return _session("get_dataset_shard").shard(name, equal)
