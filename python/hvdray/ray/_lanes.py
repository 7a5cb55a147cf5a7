# SPDX-License-Identifier: Apache-2.0
"""Where the workers of a trial of Ray Tune come from: lanes, which stay warm for the trial that follows. They are in the keeper of a
search, one actor on each node (tune.py), or, where that can't be, in the trial's own actor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
from typing import Any, Callable, Optional, Sequence

from .._executor import Executor
from .._pool import Pool
from .._process import start_of
from .._trust import no_link
from ._work import Packed, Search, pickled, work

GRACE_S = 1  # Tune waits 2 s for a trial that it has stopped, and then does not use its actor again.
IDLE_S = 60.0
# ray.tune imports pyarrow, whose allocator else begins a thread at its import, and no fork would have that.
FORKABLE = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}


class Lane:
    """Workers for one trial at a time."""

    def __init__(self, search: Search, is_on_this_node: bool):
        """`is_on_this_node`: they are, and not where the current placement group has room."""
        from .._ray_broker import variables

        options = {"start_timeout": search.timeout_s, "grace": GRACE_S}
        place = {"num_workers": search.asked["num_workers"], "backend": "local"} if is_on_this_node else {**search.asked, "backend": "ray"}
        self._files: Optional[WorkerFiles] = None
        self._rests = [b"", b""]  # of stdout and stderr: the line that has not ended
        self.learnt: Sequence[str] = ()  # what the first trial that imported more has imported
        self.uses = 0
        self.pool = Pool(**place, env={**FORKABLE, **variables()}, options=options, output=self._on_output)
        self.pool.add(search.modules)

    def executor(self) -> Executor:
        """For one trial, not yet started."""
        return Executor(pool=self.pool)

    def run(self, executor: Executor, calls: "list[Any]", folder: str, on_told: Callable[[Any], None]) -> Packed:
        """What the function returns on rank 0. `calls`: arguments of work(). Raises what Executor does."""
        files = self._files = WorkerFiles(folder)
        try:
            executor.start()
            told = executor.run(work, calls, callbacks=[lambda told: on_told(told) if told["rank"] == 0 else files.keep_report(told)])
        finally:
            executor.shutdown()
            files.close()
        value, fresh = told[0]
        if fresh and not self.learnt:
            self.learnt = fresh
            self.pool.add(fresh)
        return value  # type: ignore[no-any-return]

    def _on_output(self, is_error: bool, text: bytes) -> None:
        """In whole lines: also what is shown goes to Ray's log."""
        *lines, self._rests[is_error] = (self._rests[is_error] + text).split(b"\n")
        stream = sys.stderr if is_error else sys.stdout
        for line in lines:
            stream.write(line.decode(errors="replace") + "\n")
            if self._files is not None:
                self._files.keep_output(line + b"\n")
        stream.flush()


class _Trial:
    """In a keeper. What its thread has to tell waits for whoever asks next, on the keeper's event loop."""

    def __init__(self, process: int) -> None:
        self.process = process  # of its actor
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[Any] = asyncio.Queue()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._executor: Optional[Executor] = None
        self._thread: Optional[threading.Thread] = None

    def start(self, run: Callable[..., None]) -> None:
        self._thread = threading.Thread(target=run, args=(self,), name="hvdray trial", daemon=True)
        self._thread.start()

    def tell(self, what: Any) -> None:
        self._loop.call_soon_threadsafe(self._told.put_nowait, what)

    async def next(self) -> Any:
        return await self._told.get()

    def use(self, executor: Executor) -> None:
        with self._lock:
            self._executor = executor
            is_stopped = self._is_stopped
        if is_stopped:
            executor.shutdown()

    def answer(self, answer: "dict[str, Any]", content: bytes) -> None:
        if self._executor is not None:
            self._executor._answer_loop(0, answer, content)

    def stop(self) -> None:
        """Returns when no worker is left."""
        with self._lock:
            self._is_stopped = True
            executor = self._executor
        if executor is not None:
            executor.shutdown()
        if self._thread is not None:
            self._thread.join()


class Lanes:
    """Of a keeper, whose event loop calls these."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Lane] = []
        self._trials: dict[str, _Trial] = {}
        self._learnt: Sequence[str] = ()

    async def begin(self, key: str, who: "tuple[int, str]", search: Search, calls: "list[Any]", folder: str) -> Any:
        """The first that a trial hears: a report, or its end. None: its process, `who`, is not to be seen here."""
        try:
            process = os.pidfd_open(who[0])
        except OSError:
            return None
        if start_of(who[0]) != who[1]:
            os.close(process)
            return None
        trial = self._trials[key] = _Trial(process)
        # Tune may end the trial's actor at any time, and so may Ray.
        asyncio.get_running_loop().add_reader(process, lambda: asyncio.ensure_future(self.end(key)))
        trial.start(lambda trial: self._run(trial, search, calls, folder))
        return await trial.next()

    async def go_on(self, key: str, answer: "dict[str, Any]", content: bytes) -> Any:
        """Answers the trial's last report, and returns the next, or the end."""
        self._trials[key].answer(answer, content)
        return await self._trials[key].next()

    async def end(self, key: str) -> None:
        """Also of a trial that still runs; returns when none of its workers is left."""
        trial = self._trials.pop(key, None)
        if trial is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(trial.process)
            os.close(trial.process)
            await loop.run_in_executor(None, trial.stop)

    def _run(self, trial: _Trial, search: Search, calls: "list[Any]", folder: str) -> None:
        try:
            lane = self._take(search)
            try:
                executor = lane.executor()
                trial.use(executor)
                told: dict[str, Any] = {"value": lane.run(executor, calls, folder, trial.tell)}
            finally:
                self._give_back(lane)
        except BaseException as error:
            told = {"error": pickled(error)}
        trial.tell(told)

    def _take(self, search: Search) -> Lane:
        with self._lock:
            if self._free:
                return self._free.pop()
        return Lane(search._replace(modules=[*search.modules, *self._learnt]), is_on_this_node=True)

    def _give_back(self, lane: Lane) -> None:
        with self._lock:
            self._learnt = lane.learnt or self._learnt
            self._free.append(lane)
            lane.uses += 1
            timer = threading.Timer(IDLE_S, self._close_idle, (lane, lane.uses))
        timer.daemon = True
        timer.start()

    def _close_idle(self, lane: Lane, uses: int) -> None:
        with self._lock:
            if lane not in self._free or lane.uses != uses:
                return
            self._free.remove(lane)
        lane.pool.close()


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
