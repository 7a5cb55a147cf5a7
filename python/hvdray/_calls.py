# SPDX-License-Identifier: Apache-2.0
"""One call on the workers of a gang: who has answered, and what becomes of those who have not. docs/python.md, "How calls
end", is its table."""

from __future__ import annotations

import signal
import time
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from ._errors import HvdrayError, SerializationError, WorkerDied, WorkerError, with_class_of
from ._launcher import Gang, Launcher
from ._payload import loads


class Answer(NamedTuple):
    head: dict[str, Any]
    content: Any  # bytes, or None: there was not so much memory


class Limits(NamedTuple):
    grace_s: float
    timeout_s: Optional[float] = None
    is_ended_at_once: bool = False  # a failure ends all workers


class Call:
    """Waits on the thread that made it; answers come under the launcher's condition."""

    def __init__(self, number: int, ranks: Sequence[int], on_answer: Optional[Callable[[int, "Call"], None]] = None):
        self.number = number
        self.ranks = list(ranks)
        self.answers: dict[int, Answer] = {}
        self.on_answer = on_answer
        self.failed: Optional[int] = None  # the first rank that did
        self.interrupted_by: Optional[BaseException] = None
        self.killed: list[int] = []

    def on_data(self, rank: int, data: Any, content: Any) -> None:
        if not isinstance(data, dict) or data.get("call") != self.number or rank in self.answers:
            return  # Of a call that was given up.
        self.answers[rank] = Answer(data, content)
        if data.get("ok") is not True and self.failed is None:
            self.failed = rank
        if self.on_answer is not None:
            self.on_answer(rank, self)

    def pending(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.answers]

    def interrupt(self, why: BaseException) -> None:
        """From any thread, under the condition: as Ctrl-C does."""
        if self.interrupted_by is None:
            self.interrupted_by = why

    # ---- waiting

    def wait(self, launcher: Launcher, gang: Gang, limits: Limits) -> None:
        """Returns once all ranks have answered, or the gang has ended."""
        waiting = _Waiting(self, launcher, gang, limits)
        while True:
            try:
                if not waiting.step():
                    return
            except KeyboardInterrupt as why:
                waiting.on_keyboard(why)

    # ---- what came of it

    def outcome(self, gang: Gang) -> list[Any]:
        """The values in the order of `ranks`, or raises what the table says."""
        if self.interrupted_by is not None:
            raise self._interruption() from None
        if gang.refusal is not None:
            raise gang.refusal
        if self.failed is not None:
            raise self._failure(gang, self.failed)
        if self.pending():
            raise died(gang)
        return [self._value(gang, rank) for rank in self.ranks]

    def _interruption(self) -> BaseException:
        assert self.interrupted_by is not None
        if not self.killed:
            return self.interrupted_by
        ranks = ", ".join(map(str, self.killed))
        return type(self.interrupted_by)(f"{self.interrupted_by}; killed, because they did not return: ranks {ranks}".lstrip("; "))

    def _value(self, gang: Gang, rank: int) -> Any:
        head, content = self.answers[rank]
        if "value" in head:
            return head["value"]
        if content is None:
            raise HvdrayError(f"the result of rank {rank} is larger than the memory here")
        try:
            return loads(head.get("sizes"), content)
        except Exception as error:
            where = f"rank {rank} on host {_host(gang, rank)}"
            raise SerializationError(f"the result of {where} can't be read here: {error}") from error

    def _failure(self, gang: Gang, rank: int) -> HvdrayError:
        head, content = self.answers[rank]
        told = _told(head)
        where = f"rank {rank} on host {_host(gang, rank)}"
        if told.get("kind") == "result":
            error = SerializationError(f"{where}: {told.get('text')}", hint=told.get("hint", ""))
            return error
        text = f"{told.get('name')}: {told.get('text')}"
        raised = with_class_of(_exception_of(head, content, text), f"{where} raised {text}")
        raised.rank, raised.host = rank, _host(gang, rank)
        raised.pid = gang.workers[rank]["pid"] if gang.workers else 0
        raised.traceback = told.get("traceback", "")
        if told.get("module"):
            name = told["module"].partition(".")[0]
            raised.hint = f"install {name} on {raised.host}, or send its code along: hvdray.ship({name})"
        raised.outcomes = [self._outcome_of(gang, other) for other in range(max(self.ranks) + 1)]
        raised.report = gang.verdict
        return raised

    def _outcome_of(self, gang: Gang, rank: int) -> Any:
        if rank not in self.answers:
            return None
        head, content = self.answers[rank]
        if head.get("ok") is not True:
            told = _told(head)
            return _exception_of(head, content, f"{told.get('name')}: {told.get('text')}")
        try:
            return self._value(gang, rank)
        except HvdrayError as error:
            return error


class _Waiting:
    """First patience, then SIGINT, then the gang's end, with a grace between them."""

    def __init__(self, call: Call, launcher: Launcher, gang: Gang, limits: Limits):
        self.call, self.launcher, self.gang, self.limits = call, launcher, gang, limits
        self.timeout = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        self.next: Union[Callable[[], None], None] = None
        self.due: Optional[float] = None
        self.is_interrupting = False

    def step(self) -> bool:
        """False: there is nothing more to wait for."""
        call, launcher = self.call, self.launcher
        if launcher.output.is_shown:
            launcher.output.show()
        with launcher.condition:
            if self.gang.has_ended or not call.pending():
                return False
            launcher.check()
            self._decide()
            if self.due is None or time.monotonic() < self.due:
                self._sleep()
                return True
        act, self.next, self.due = self.next, None, None
        if act is not None:
            act()
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
        is_again = isinstance(self.call.interrupted_by, KeyboardInterrupt)
        self.call.interrupted_by = why
        self.is_interrupting = True
        self._plan(time.monotonic(), self._kill if is_again else self._interrupt)

    def _interrupt(self) -> None:
        self.launcher.signal(self.gang, self.call.pending(), signal.SIGINT)
        self._plan(time.monotonic() + self.limits.grace_s, self._kill)

    def _stop(self) -> None:
        self.launcher.stop(self.gang, self.limits.grace_s)

    def _kill(self) -> None:
        self.call.killed = self.call.pending()
        self.launcher.stop(self.gang, 0)


def died(gang: Gang) -> HvdrayError:
    """The verdict on a gang that ended by itself."""
    verdict = gang.verdict or {}
    error = verdict.get("exit", {}).get("error") or {}
    first = verdict.get("first_failure")
    message = error.get("message") or "the workers have ended"
    if first is None:
        return HvdrayError(message, code=error.get("code", ""), hint=error.get("hint", ""), report=verdict)
    said = first.get("last_stderr") or []
    text = message + (f"; it said: {said[-1]}" if said else "")
    dead = WorkerDied(text, code=error.get("code", ""), hint=error.get("hint", ""), report=verdict)
    dead.rank, dead.host, dead.pid = first["rank"], first["host"], first["pid"]
    dead.exit_code, dead.signal, dead.oom = first["exit_code"], first["signal"], first["oom"]
    dead.last_stderr = said
    return dead


def _told(head: dict[str, Any]) -> dict[str, str]:
    """What a worker says of its error. It may say anything."""
    error = head.get("error")
    return {key: str(value) for key, value in error.items() if value is not None} if isinstance(error, dict) else {}


def _exception_of(head: dict[str, Any], content: Any, text: str) -> BaseException:
    if content is not None and "sizes" in head:
        try:
            error = loads(head["sizes"], content)
            if isinstance(error, BaseException):
                return error
        except Exception:  # Its class is not known here.
            pass
    return RuntimeError(text)


def _host(gang: Gang, rank: int) -> str:
    return str(gang.workers[rank]["host"]) if rank < len(gang.workers) else "?"

