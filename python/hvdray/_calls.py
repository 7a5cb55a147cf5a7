# SPDX-License-Identifier: Apache-2.0
"""One call on the workers of a gang: who has answered, and what becomes of those who have not. docs/python.md, "How calls
end", is its table."""

from __future__ import annotations

import json
import linecache
import re
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from ._errors import HvdrayError, SerializationError, WorkerDied, WorkerError, show_traceback, with_class_of
from ._interpreter import SignalCopies
from ._launcher import Gang, Launcher
from ._launcher import error_of as error_of_serve
from ._payload import loads


class Answer(NamedTuple):
    head: dict[str, Any]
    content: Any  # bytes, or None: there was not so much memory


class Limits(NamedTuple):
    grace_s: float
    timeout_s: Optional[float] = None
    deadline: Optional[float] = None  # of time.monotonic(): the call may have waited for another one, and for the start
    is_ended_at_once: bool = False  # a failure ends all workers


def limits_of(grace_s: float, timeout: Optional[float]) -> Limits:
    """From now. Raises TypeError, ValueError."""
    if timeout is None:
        return Limits(grace_s)
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, not {type(timeout).__name__}")
    if not timeout >= 0:
        raise ValueError(f"timeout must be 0 or more, not {timeout}")
    # No lock of Python's waits longer than threading.TIMEOUT_MAX, which is 292 years.
    return Limits(grace_s, timeout, time.monotonic() + timeout) if timeout < 1e9 else Limits(grace_s)


class Log:
    """What workers log, for the callbacks of their call. add() on any thread; tell() on the one that waits."""

    def __init__(self, callbacks: Optional[Sequence[Callable[[Any], Any]]] = None):
        self._callbacks = list(callbacks or ())
        self._untold: deque[Callable[[], Any]] = deque()

    @property
    def is_wanted(self) -> bool:
        return bool(self._callbacks)

    @property
    def has_news(self) -> bool:
        return bool(self._untold)

    def add(self, read: Callable[[], Any]) -> None:
        """`read`: returns what was logged, or raises HvdrayError."""
        if self._callbacks:
            self._untold.append(read)

    def tell(self) -> None:
        while self._untold:
            try:
                value = self._untold.popleft()()
            except HvdrayError as error:
                warnings.warn(f"something that a worker has logged is lost: {error}", RuntimeWarning, stacklevel=1)
                continue
            for callback in list(self._callbacks):
                try:
                    callback(value)
                except Exception:
                    self._callbacks.remove(callback)
                    warnings.warn(f"the callback {callback!r} has raised, and is called no more:\n{traceback.format_exc()}",
                                  RuntimeWarning, stacklevel=1)


class Call:
    """Waits on the thread that made it; answers come under the launcher's condition."""

    def __init__(self, number: int, ranks: Sequence[int], wants_json: bool = False):
        """`wants_json`: reads no pickle of a worker."""
        self.number = number
        self.ranks = list(ranks)
        self.answers: dict[int, Answer] = {}
        self.wants_json = wants_json
        self.failed: Optional[int] = None  # the first rank that did
        self.interrupted_by: Optional[BaseException] = None
        self.is_failure_first = False  # the time was up only while others were waited for
        self.killed: list[int] = []
        self.on_value: Optional[Callable[[int, Any], None]] = None  # of a rank, as soon as it is there; on the waiting thread
        self.log = Log()
        self.on_train: Optional[Callable[[Any, Any], None]] = None  # of what loops tell hvdray.train
        self._hosts: list[str] = []  # by rank
        self._told_ranks: set[int] = set()
        self._values: dict[int, Any] = {}

    def on_data(self, rank: int, data: Any, content: Any) -> None:
        if not isinstance(data, dict) or data.get("call") != self.number or rank in self.answers:
            return  # Of a call that was given up.
        if data.get("log") is True:
            self.log.add(lambda: value_of(Answer(data, content), rank, self._hosts[rank], self.wants_json))
            return
        if "train" in data:
            if self.on_train is not None:
                self.on_train(data["train"], content)
            return
        self.answers[rank] = Answer(data, content)
        # A result that does not travel is no reason to interrupt others.
        if data.get("ok") is not True and self.failed is None and _told(data).get("kind") != "result":
            self.failed = rank

    def pending(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.answers]

    def interrupt(self, why: BaseException) -> None:
        """From any thread, under the condition: as Ctrl-C does."""
        if self.interrupted_by is None:
            self.interrupted_by = why
            self.is_failure_first = self.failed is not None and isinstance(why, TimeoutError)

    # ---- waiting

    def wait(self, launcher: Launcher, gang: Gang, limits: Limits) -> None:
        """Returns once all ranks have answered, or the gang has ended."""
        self._hosts = [worker["host"] for worker in gang.workers]
        waiting = _Waiting(self, launcher, gang, limits)
        while True:
            try:
                is_over = not waiting.step()
                if self.on_value is not None:
                    self._tell_values(gang)
                self.log.tell()
                if is_over:
                    return
            except KeyboardInterrupt as why:
                waiting.on_keyboard(why)
            except HvdrayError:
                raise
            except BaseException:  # Of a signal handler: the next call must not wait behind this one.
                gang.is_given_up = True
                launcher.stop(gang, limits.grace_s)
                raise

    def has_news(self) -> bool:
        """Under the condition: what on_value or callbacks do not know yet."""
        return self.log.has_news or (self.on_value is not None and len(self._told_ranks) < len(self.answers))

    def _tell_values(self, gang: Gang) -> None:
        for rank, answer in list(self.answers.items()):
            if rank in self._told_ranks or self.on_value is None:
                continue
            self._told_ranks.add(rank)
            if answer.head.get("ok") is True:
                try:
                    self.on_value(rank, self._value(gang, rank))
                except HvdrayError:
                    pass  # outcome() says it.

    # ---- what came of it

    def outcome(self, gang: Gang) -> list[Any]:
        """The values in the order of `ranks`, or raises what the table says."""
        if self.interrupted_by is not None and not self.is_failure_first:
            raise self._interruption() from None
        if gang.why is not None:
            raise gang.why
        if self.failed is not None:
            raise self._failure(gang, self.failed)
        if self.pending():
            raise died(gang, self.pending())
        for rank in self.ranks:
            if self.answers[rank].head.get("ok") is not True:
                raise self._failure(gang, rank)
        return [self._value(gang, rank) for rank in self.ranks]

    def _interruption(self) -> BaseException:
        assert self.interrupted_by is not None
        if not self.killed:
            return self.interrupted_by
        ranks = ", ".join(map(str, self.killed))
        return type(self.interrupted_by)(f"{self.interrupted_by}; killed, because they did not return: ranks {ranks}".lstrip("; "))

    def _value(self, gang: Gang, rank: int) -> Any:
        if rank not in self._values:
            self._values[rank] = value_of(self.answers[rank], rank, _host(gang, rank), self.wants_json)
        return self._values[rank]

    def _failure(self, gang: Gang, rank: int) -> HvdrayError:
        pid = gang.workers[rank]["pid"] if gang.workers else 0
        raised = error_of(self.answers[rank], rank, _host(gang, rank), pid, self.wants_json)
        if isinstance(raised, WorkerError):
            raised.outcomes = [self._outcome_of(gang, other) for other in range(max(self.ranks) + 1)]
            raised.report = gang.verdict
        return raised

    def _outcome_of(self, gang: Gang, rank: int) -> Any:
        if rank not in self.answers:
            return None
        if self.answers[rank].head.get("ok") is not True:
            told = _told(self.answers[rank].head)
            return _exception_of(self.answers[rank], f"{told.get('name')}: {told.get('text')}", self.wants_json)
        try:
            return self._value(gang, rank)
        except HvdrayError as error:
            return error


class _Waiting:
    """First patience, then SIGINT, then the gang's end, with a grace between them."""

    def __init__(self, call: Call, launcher: Launcher, gang: Gang, limits: Limits):
        self.call, self.launcher, self.gang, self.limits = call, launcher, gang, limits
        self.timeout = limits.deadline
        self.next: Union[Callable[[], None], None] = None
        self.due: Optional[float] = None
        self.is_interrupting = False
        self.is_stopping = False
        self._keys = SignalCopies()

    def step(self) -> bool:
        """False: there is nothing more to wait for."""
        call, launcher = self.call, self.launcher
        launcher.check_process()  # A callback or a signal handler may have forked.
        if launcher.output.is_shown:
            launcher.output.show()
        with launcher.condition:
            if self.gang.has_ended or not call.pending():
                return False
            launcher.check()
            self._decide()
            if self.due is None or time.monotonic() < self.due:
                if not call.has_news():
                    self._sleep()
                return True
            act = self.next
        if act is not None:
            act()  # Planned until it is done: a signal may cut it short.
            if act == self.next:
                self.next = self.due = None
        return True

    def _sleep(self) -> None:
        until = [at for at in (self.due, self.timeout) if at is not None]
        pause = min(until) - time.monotonic() if until else None
        if self.launcher.output.is_shown:
            pause = min(0.1, pause) if pause is not None else 0.1
        self.launcher.condition.wait(None if pause is None else max(pause, 0))

    def _decide(self) -> None:
        now = time.monotonic()
        if self.timeout is not None and now >= self.timeout:
            self.timeout = None
            self.call.interrupt(TimeoutError(f"not all workers have returned after {self.limits.timeout_s:g} s"))
            if self.is_interrupting and self.due is not None:
                self.due = now  # what comes after a failure, sooner
        if not self.is_stopping and any(rank in self.gang.exited for rank in self.call.pending()):
            self.is_interrupting = self.is_stopping = True
            self._plan(now, self._end)
        if self.call.interrupted_by is not None and not self.is_interrupting:
            self.is_interrupting = True
            self._plan(now, self._interrupt)
        elif self.call.failed is not None and self.next is None and not self.is_interrupting:
            self.is_interrupting = True
            if self.limits.is_ended_at_once:
                self._plan(now, self._stop)
            else:
                self._plan(now + self.limits.grace_s, self._interrupt)

    def _plan(self, due: float, act: Callable[[], None]) -> None:
        self.due, self.next = due, act

    def on_keyboard(self, why: BaseException) -> None:
        """Again: at once."""
        if not self._keys.is_new():
            return
        is_again = isinstance(self.call.interrupted_by, KeyboardInterrupt)
        self.call.interrupted_by = why
        self.is_interrupting = True
        self._plan(time.monotonic(), self._kill if is_again else self._interrupt)

    def _interrupt(self) -> None:
        self.launcher.signal(self.gang, self.call.pending(), signal.SIGINT)
        self._plan(time.monotonic() + self.limits.grace_s, self._kill)

    def _end(self) -> None:
        """A worker that has ended answers nothing any more, and others may wait for it."""
        self.launcher.stop(self.gang, 0)

    def _stop(self) -> None:
        self.launcher.stop(self.gang, self.limits.grace_s)

    def _kill(self) -> None:
        self.call.killed = self.call.pending()
        self.launcher.stop(self.gang, 0)


def died(gang: Gang, pending: Sequence[int] = ()) -> HvdrayError:
    """The verdict on a gang that ended by itself. `pending`: who had not answered."""
    verdict = gang.verdict or {}
    error = verdict.get("exit", {}).get("error") or {}
    first = verdict.get("first_failure")
    ended = next((gang.exited[rank] for rank in pending if rank in gang.exited), None)
    if first is None and ended is not None and not error:  # Else it was stopped, because of a lost host, say.
        return _dead_without_failure(ended, verdict)
    if first is None:
        return error_of_serve(error, gang.parameters, verdict)
    said = first.get("last_stderr") or []
    # SIGKILL is what hvdray sends such a worker.
    broken = first["error"] if str(first.get("error")).startswith("broken channel: ") else ""
    why = error_of_serve(error, gang.parameters)
    dead = WorkerDied(why.message + (f": {broken}" if broken else f"; it said: {said[-1]}" if said else ""), code=why.code, hint=why.hint, report=verdict)
    dead.rank, dead.host, dead.pid = first["rank"], first["host"], first["pid"]
    dead.exit_code, dead.signal, dead.oom = first["exit_code"], first["signal"], first["oom"]
    dead.last_stderr = said
    return dead


def _dead_without_failure(ended: dict[str, Any], verdict: dict[str, Any]) -> WorkerDied:
    """Exit code 0 is no failure of a job, but of a call."""
    text = f"rank {ended['rank']} on host {ended['host']} exited with code {ended['exit_code']} before it had answered"
    dead = WorkerDied(text, report=verdict)
    dead.rank, dead.host, dead.exit_code = ended["rank"], ended["host"], ended["exit_code"]
    return dead


def value_of(answer: Answer, rank: int, host: str, wants_json: bool) -> Any:
    """Raises SerializationError, and HvdrayError for one that is too large."""
    if answer.content is None:
        raise HvdrayError(f"the result of rank {rank} is larger than the memory here")
    try:
        return json.loads(bytes(answer.content)) if wants_json else loads(answer.head.get("sizes"), answer.content)
    except Exception as error:
        raise SerializationError(f"the result of rank {rank} on host {host} can't be read here: {error}") from error


def error_of(answer: Answer, rank: int, host: str, pid: int, wants_json: bool) -> HvdrayError:
    """What a worker answered that has no value: a WorkerError, or a SerializationError."""
    told = _told(answer.head)
    where = f"rank {rank} on host {host}"
    if told.get("kind") == "result":
        return SerializationError(f"{where}: {told.get('text')}", hint=told.get("hint", ""))
    if told.get("kind") == "python":
        raised = WorkerError(f"{where}: {told.get('text')}")
        mine = ".".join(map(str, sys.version_info[:2]))
        raised.hint = f"install Python {mine} there, and name it if its path is another: python= of an Executor, executable= of hvdray.run"
    else:
        text = f"{told.get('name')}: {told.get('text')}"
        raised = with_class_of(_exception_of(answer, text, wants_json), f"{where} raised {text}")
    raised.rank, raised.host, raised.pid = rank, host, pid
    raised.traceback = _with_cells(str(told.get("traceback", "")))
    show_traceback(raised)
    if told.get("left_out"):
        raised.hint = f"it is in {told['left_out']} on {raised.host}, where others may write: chmod go-w that directory and those above it"
    elif told.get("module"):
        name = told["module"].partition(".")[0]
        raised.hint = f"install {name} on {raised.host}"
        if name in sys.modules:
            raised.hint += f", or send its code along: hvdray.ship({name})"
    return raised


def _with_cells(text: str) -> str:
    """Adds the lines of a notebook's cells, which are known here alone, to a traceback."""
    lines = text.split("\n")
    shown = []
    for line, below in zip(lines, [*lines[1:], ""]):
        shown.append(line)
        place = re.match(r'  File "(.+)", line (\d+)', line)
        known: Any = linecache.cache.get(place[1]) if place and not below.startswith("    ") else None
        if place and known and len(known) == 4 and 0 < int(place[2]) <= len(known[2]):
            shown.append("    " + known[2][int(place[2]) - 1].strip())
    return "\n".join(shown)


def _exception_of(answer: Answer, text: str, wants_json: bool) -> BaseException:
    if answer.content is not None and "sizes" in answer.head and not wants_json:
        try:
            error = loads(answer.head["sizes"], answer.content)
            if isinstance(error, BaseException):
                return error
        except Exception:  # Its class is not known here.
            pass
    return RuntimeError(text)


def _told(head: dict[str, Any]) -> dict[str, str]:
    """What a worker says of its error. It may say anything."""
    error = head.get("error")
    return {key: str(value) for key, value in error.items() if value is not None} if isinstance(error, dict) else {}


def _host(gang: Gang, rank: int) -> str:
    return str(gang.workers[rank]["host"]) if rank < len(gang.workers) else "?"

