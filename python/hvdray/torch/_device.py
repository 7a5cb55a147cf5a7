# SPDX-License-Identifier: Apache-2.0
"""Tensors of a GPU: torch's own NCCL group does their operations, in the order that all ranks have planned.

The library's thread hands each planned operation to a thread here, which starts it on a stream of its own. The program's
stream waits for that, and the host does not, but for elastic jobs, which have to know whether an operation went well.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import socket
import threading
import time
import warnings
import weakref
import zlib
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from . import _collectives, _place
from .._async import _core, _library
from .._async._errors import HorovodInternalError

_FAREWELL = 10.0  # seconds for what has been planned to end, before a rank leaves and when one has left
_GRACE = 0.5  # the same, when one has died
_NEWS = 5.0  # so long the news that a rank has died may travel


class Cuda:
    """All that is CUDA's or NCCL's. Tests put another into its place."""

    kind = "cuda"

    def count(self) -> int:
        """How many devices this process has for it; 0: also where torch can't abort a group of NCCL."""
        can_abort = self._abort_of(getattr(_collectives.c10d, "ProcessGroupNCCL", None)) is not None
        return torch.cuda.device_count() if can_abort else 0

    def device(self, index: int) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device() if index < 0 else index)

    def make(self, store: Any, rank: int, size: int) -> Any:
        options = _collectives.c10d.ProcessGroupNCCL.Options()
        options._timeout = timedelta(days=365)
        # The core knows who has died, and aborts; torch would end the process.
        with _environment(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="0"):
            return _collectives.c10d.ProcessGroupNCCL(store, rank, size, options)

    @staticmethod
    def _abort_of(group: Any) -> Any:
        return getattr(group, "abort", None) or getattr(group, "_shutdown", None)

    def abort(self, group: Any) -> None:
        self._abort_of(group)()

    def stream(self, device: torch.device) -> Any:
        return torch.cuda.Stream(device)

    def current_stream(self, device: torch.device) -> Any:
        return torch.cuda.current_stream(device)

    def on(self, stream: Any) -> Any:
        return torch.cuda.stream(stream)

    def lend(self, tensor: torch.Tensor, stream: Any) -> None:
        """Its memory is not to be used again before `stream` has come so far."""
        tensor.record_stream(stream)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Planned:
    """What the library says of an operation. Copied: its memory is the library's."""

    def __init__(self, call: Any, part: Part) -> None:
        self.kind, self.process_set, self.op, self.root = call.kind, call.process_set, call.op, call.root
        self.dtype = _collectives.DTYPES[call.type]
        self.prescale, self.postscale = call.prescale, call.postscale
        self.shape = tuple(call.shape[: call.dimensions])
        self.rows = list(call.rows[: call.row_count])
        self.part = None if call.is_absent else part  # None: zeros of a rank that has joined


class Part:
    """One tensor's operation, from submit until the program's stream waits for it. A join has one without a tensor."""

    def __init__(self, lane: Lane, tensor: Any, output: Any = None, splits: Any = None, ready: Any = None) -> None:
        self.lane, self.tensor, self.output, self.splits, self.ready = lane, tensor, output, splits, ready
        self.is_planned = False
        self.launched = threading.Event()
        self.done: Any = None  # an event of the lane's stream
        self.error: Optional[HorovodInternalError] = None

    def is_done(self) -> bool:
        """Also when the library has refused it."""
        return not self.is_planned or self.launched.is_set() and (self.done is None or self.done.query())

    def wait(self, until: Optional[float]) -> Optional[HorovodInternalError]:
        """For an operation that has been planned; why it failed. Others may come after it on the caller's stream."""
        if not self.launched.wait(None if until is None else max(until - time.monotonic(), 0)):
            raise TimeoutError
        if self.error is None and self.lane.waits_on_host:
            self.done.synchronize()
            self.error = self.lane.error
        if self.error is None:
            stream = self.lane.api.current_stream(self.tensor.device)
            stream.wait_event(self.done)
            self.lane.api.lend(self.output, stream)
        return self.error


class Lane:
    """From init() to shutdown(): a stream, the thread that fills it, and the groups."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.device: Optional[torch.device] = None  # the first tensor's
        self.error: Optional[HorovodInternalError] = None  # why all has ended
        self.waits_on_host = _place.is_elastic()
        self._rank = _core.rank()
        self._ranks: dict[int, list[int]] = {}  # by process set
        self._groups: dict[int, _collectives.Group] = {}
        self._why = ""
        self._leaves = self._failed = False  # by shutdown(); by an exception that ends the program
        self._stream: Any = None
        self._last: Any = None  # event
        self._batch: list[_Planned] = []  # the library's thread's
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: set[_Planned] = set()  # and not launched
        self._ended, self._closed = threading.Event(), threading.Event()
        self._store = _collectives.Store(_core.life(), self._ended) if _core.size() > 1 else _collectives.c10d.HashStore()
        self._thread = threading.Thread(target=self._work, name="hvdray.device", daemon=True)
        self._thread.start()
        _core.on_end(self._end)

    def takes(self, tensor: Any) -> bool:
        return tensor.device.type == self.api.kind and self.device in (None, tensor.device)

    def use(self, device: torch.device, process_set: int) -> None:
        """Before operations of that set on that device are submitted."""
        if self.device is None:
            self.device = device
        if process_set not in self._ranks:
            self._ranks[process_set] = _core.ranks_of(process_set)

    def plan(self, call: Any, part: Part) -> None:
        """From the library's thread."""
        planned = _Planned(call, part)
        with self._lock:
            if self.error is not None:
                raise self.error
            self._open.add(planned)
            part.is_planned = True
        self._batch.append(planned)
        if call.following == 0:
            batch, self._batch = self._batch, []
            self._queue.put(batch)

    def forget(self, process_set: int) -> None:
        """A set that has been removed, after its operations."""
        self._ranks.pop(process_set, None)
        self._queue.put(process_set)

    def _work(self) -> None:
        item: Any
        for item in iter(self._queue.get, None):
            try:
                with torch.no_grad():
                    if isinstance(item, int):
                        self._close_group(item)
                    else:
                        self._launch(item)
            except Exception as error:
                if not self._ended.wait(_NEWS):
                    self._why = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
                    _core.fail(f"failed on its device with {self._why}")
                return

    def _launch(self, batch: Sequence[_Planned]) -> None:
        assert self.device is not None
        if self._stream is None:
            self._stream = self.api.stream(self.device)
        parts = [planned.part for planned in batch if planned.part is not None]
        with self.api.on(self._stream):
            for part in parts:
                self._stream.wait_event(part.ready)
                self.api.lend(part.tensor, self._stream)
                if part.output is not None:
                    self.api.lend(part.output, self._stream)
            outputs = _collectives.run(self._group(batch[0].process_set), batch, self.device)
            self._last = done = self._stream.record_event()
        with self._lock:
            self._open.difference_update(batch)
            for planned, output in zip(batch, outputs):
                if planned.part is not None and planned.part.error is None:
                    planned.part.output, planned.part.done = output, done
                    planned.part.launched.set()

    def _group(self, process_set: int) -> _collectives.Group:
        group = self._groups.get(process_set)
        if group is None:
            ranks = self._ranks[process_set]
            store = _collectives.c10d.PrefixStore(str(process_set), self._store)
            group = _collectives.Group(self.api.make(store, ranks.index(self._rank), len(ranks)), ranks, self._rank)
            with self._lock:
                if self.error is not None:
                    raise self.error
                self._groups[process_set] = group
        return group

    def _close_group(self, process_set: int) -> None:
        group = self._groups.pop(process_set, None)
        if group is not None:
            self._last.synchronize()
            self.api.abort(group.backend)

    def _drain(self, seconds: float) -> None:
        """Waits for what has been planned; not for ever, as a rank may have died."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and (
            self._open and self._thread.is_alive() or self._last is not None and not self._last.query()
        ):
            time.sleep(0.001)

    def _part(self, process_set: int, ranks: Sequence[int]) -> None:
        """Waits until the members of a group have drained, too: whoever closes its side breaks what others still do with
        it. Not for ever, nor beyond the generation, with which the rendezvous forgets what it was told."""
        keys = {rank: f"{process_set}/drained/{rank}" for rank in ranks}
        all_have, own = f"{process_set}/drained/all", keys[self._rank]
        is_first = self._rank == ranks[0]
        awaited = list(keys.values()) if is_first else [all_have]
        until = time.monotonic() + _FAREWELL
        try:
            self._store.set(own, "yes")
            while not self._failed and time.monotonic() < until:
                if self._store.check(awaited) or not self._store.check([own]):
                    break
                time.sleep(0.005)
            if is_first:
                self._store.set(all_have, "yes")
        except HorovodInternalError:
            pass  # the launcher has gone

    def finish(self, failed: bool) -> None:
        """Before shutdown(): others may still need what this rank has started."""
        self._leaves, self._failed = True, failed
        self._queue.put(None)
        until = time.monotonic() + _FAREWELL
        while self._thread.is_alive() and not self._ended.is_set() and time.monotonic() < until:
            self._thread.join(0.01)
        if not self._ended.is_set():
            self._drain(until - time.monotonic())

    def close(self) -> None:
        """After shutdown()."""
        self._closed.wait(_FAREWELL)

    def _end(self, why: str, has_left: bool) -> None:
        """All operations end. A rank that has left has done all that was planned before, so that it ends here, too. What
        one that has died holds up is failed, and let go."""
        self._ended.set()
        self._drain(_FAREWELL if has_left else _GRACE)
        if has_left or self._leaves:
            for process_set, group in list(self._groups.items()):
                self._part(process_set, group.ranks)
        with self._lock:
            self.error = HorovodInternalError(self._why or why)
            for part in filter(None, (planned.part for planned in self._open)):
                part.error = self.error
                part.launched.set()
            self._open.clear()
        self._queue.put(None)
        for group in list(self._groups.values()):
            try:
                self.api.abort(group.backend)
            except Exception as error:
                warnings.warn(f"hvdray.torch: a group of GPUs could not be closed: {error}")
        self._groups.clear()
        self._closed.set()


api: Any = Cuda()
lane: Optional[Lane] = None
_contexts = itertools.count(1)
_by_context: weakref.WeakValueDictionary[int, Part] = weakref.WeakValueDictionary()


@_library.RUN
def _run(context: int, call: Any) -> int:
    """Called from the library's thread."""
    try:
        part = _by_context[context]
        part.lane.plan(call.contents, part)
        return 0
    except Exception:
        return 1


def takes(tensor: Any) -> bool:
    """Whether it goes this way, rather than over the host's memory."""
    return lane is not None and lane.takes(tensor)


def ready(tensor: torch.Tensor) -> Any:
    """An event: what the program has put on its stream so far."""
    assert lane is not None
    return lane.api.current_stream(tensor.device).record_event()


def add(request: Any, process_set: int, tensor: torch.Tensor, output: Any, splits: Any, event: Any) -> Part:
    assert lane is not None
    lane.use(tensor.device, process_set)
    out = None if output is None else output.data
    return _register(request, Part(lane, tensor.data, out, splits and list(splits), event))


def _register(request: Any, part: Part) -> Part:
    request.context, request.run = next(_contexts), _run
    _by_context[request.context] = part
    return part


def join(request: Any, index: int) -> Any:
    """Has the rank that joins take part in what others do on their devices; what has to be kept."""
    if lane is None:
        return None
    lane.use(lane.device or lane.api.device(index), 0)
    return _register(request, Part(lane, None))


def begin(rows_of_all: Callable[[list[int], str], list[list[int]]]) -> None:
    """After init(), on all ranks: whether each can have a device of its own, in all of which torch has NCCL. `rows_of_all`: each
    rank's numbers."""
    global lane
    is_off = os.environ.get("HVDRAY_TORCH_NCCL") == "0"
    visible = f"{socket.gethostname()} {os.environ.get('CUDA_VISIBLE_DEVICES')}".encode()
    count = 0 if is_off else api.count()
    lane = Lane(api) if are_enough(rows_of_all([count, zlib.crc32(visible)], "hvdray.devices")) else None


def are_enough(rows: Sequence[Sequence[int]]) -> bool:
    """Of each rank: how many devices it sees, and which."""
    ranks = Counter(which for _, which in rows)
    return all(count >= ranks[which] for count, which in rows)


def _after_fork() -> None:
    global lane
    lane = None


os.register_at_fork(after_in_child=_after_fork)
