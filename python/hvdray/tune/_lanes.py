# SPDX-License-Identifier: Apache-2.0
"""A lane runs one trial after the other on the same slots: an `hvdray serve`, so that those after the first start warm."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import re
import shlex
import sys
import threading
from typing import Any, Callable, Optional, Union

from .._calls import Answer, died, error_of
from .._elastic import call_of
from .._errors import HvdrayError
from .._kit import BOOTSTRAP, STANDARD_IMPORTS, driver_place, kit
from .._launcher import Gang, Launcher
from .._pool import common_modules
from .._trust import no_link
from ._slots import without_slots
from ._spec import Search, argv_of, text_of
from ._trial import call

OUTPUT = "output.txt"  # in the directory of a trial
GRACE_S = 5.0
MAX_LINE = 1 << 16  # bytes
MAX_UNREAD = 16  # chunks of lines of a trial, which then waits
_ENDS = re.compile(rb"[\r\n]")  # progress bars write over their line
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")  # and other orders to a terminal
# The command is a variable, because argv is one for all gangs of a serve. `eval` keeps words with blanks whole.
SHELL = 'c=$HVDRAY_TRIAL_COMMAND; unset HVDRAY_TRIAL_COMMAND; eval "exec $c"'


@dataclasses.dataclass(eq=False)
class Attempt:
    """One gang of a trial."""

    number: int  # of the trial
    directory: str
    values: dict[str, Any]
    is_stopped: bool = False
    grace_s: float = GRACE_S


@dataclasses.dataclass
class Report:
    attempt: Attempt
    metrics: dict[str, Any]


@dataclasses.dataclass
class Lines:
    """Of rank 0, if there is `report_from`. `done`: lets more of them come."""

    attempt: Attempt
    lines: list[str]
    done: Callable[[], None]


@dataclasses.dataclass
class Ended:
    lane: "Lane"
    attempt: Attempt
    error: Optional[HvdrayError]  # None: its workers have ended well
    exit_code: int = 0
    is_lane_lost: bool = False  # the attempt has not begun, and the lane can begin none


News = Union[Report, Lines, Ended, Callable[[], None]]


class Modules:
    """What the workers of the first good trial had imported; those of later ones begin with it."""

    def __init__(self) -> None:
        self.names: list[str] = []


class Lane:
    """begin(), stop(), close_soon() and join() on the thread of the search; what comes of them is told by `news`."""

    def __init__(self, number: int, search: Search, hosts: str, modules: Modules, news: "queue.SimpleQueue[News]"):
        self._number = number
        self._search = search
        tags = {"tag_output": "rank", "prefix_output_with_timestamp": False}  # whatever a user's configuration says
        self._options = {**tags, **without_slots(search.run), "hosts": hosts, "np": search.np}
        self._modules = modules
        self._news = news
        self._attempts: queue.SimpleQueue[Optional[Attempt]] = queue.SimpleQueue()
        self._launcher: Optional[Launcher] = None
        self._kit = 0
        self._is_warming = False
        self._gang: Optional[Gang] = None
        self._lines: Optional[_Output] = None
        self._thread = threading.Thread(target=self._serve, name="hvdray lane", daemon=True)
        self._thread.start()

    def begin(self, attempt: Attempt) -> None:
        self._attempts.put(attempt)

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        """Ended follows. May be called again, with less grace."""
        attempt.is_stopped, attempt.grace_s = True, grace_s
        launcher = self._launcher
        if launcher is not None:
            with launcher.condition:
                launcher.condition.notify_all()

    def close_soon(self) -> None:
        """No attempt lives."""
        self._attempts.put(None)

    def join(self) -> None:
        """Returns when nothing is left of it."""
        self._thread.join()

    # ---- on its own thread

    def _serve(self) -> None:
        for attempt in iter(self._attempts.get, None):
            try:
                ended = self._run(attempt)
            except HvdrayError as error:
                self._drop_launcher()
                ended = Ended(self, attempt, error, is_lane_lost=True)
            except Exception as error:  # Whoever waits must hear of it.
                self._drop_launcher()
                ended = Ended(self, attempt, HvdrayError(f"{type(error).__name__}: {error}"), is_lane_lost=True)
            self._news.put(ended)
        self._drop_launcher()

    def _drop_launcher(self) -> None:
        launcher, self._launcher = self._launcher, None
        self._kit, self._is_warming = 0, False
        if launcher is not None:
            launcher.close()

    def _run(self, attempt: Attempt) -> Ended:
        """Raises HvdrayError if it has not begun."""
        if self._launcher is not None and not self._launcher.is_usable:
            self._drop_launcher()
        if self._launcher is None:
            self._launcher = Launcher(self._options, self._worker(), self._on_chunk)
        launcher = self._launcher
        self._warm(launcher)
        os.makedirs(attempt.directory, exist_ok=True)
        with open(os.path.join(attempt.directory, OUTPUT), "ab", 0, opener=no_link) as file:
            self._lines = lines = _Output(file, attempt, self._search, self._news)
            answers: dict[int, Answer] = {}
            gang, objects = self._start(launcher, attempt, answers)
            is_over = self._wait(launcher, gang, attempt)
            if is_over and launcher.lost is None:
                launcher.show_output()
                for number in objects:
                    launcher.drop(number)
            self._lines = None
            lines.end()
        if not is_over or launcher.lost is not None or gang.refusal is not None:
            error = gang.refusal or launcher.lost
            if gang.refusal is not None and not gang.exited and not attempt.is_stopped:
                raise gang.refusal
            if error is not None and not launcher.is_up and not attempt.is_stopped:
                raise error
            self._drop_launcher()
            return Ended(self, attempt, error or HvdrayError("stopped before its workers were there"), 125)
        return self._ended(attempt, gang, answers)

    def _worker(self) -> list[str]:
        return ["sh", "-c", SHELL] if self._search.command else [sys.executable, "-c", BOOTSTRAP]

    def _warm(self, launcher: Launcher) -> None:
        if self._search.command or self._is_warming or not self._modules.names:
            return
        self._is_warming = True
        names = [*self._modules.names, *(name for name in STANDARD_IMPORTS if name not in self._modules.names)]
        launcher.warm([f"?{name}" for name in names][:256], {})

    def _start(self, launcher: Launcher, attempt: Attempt, answers: dict[int, Answer]) -> tuple[Gang, list[int]]:
        def on_report(rank: int, metrics: dict[str, Any]) -> None:
            if rank == 0:
                self._news.put(Report(attempt, metrics))

        def on_data(rank: int, data: Any, content: Any) -> None:
            if isinstance(data, dict) and "ok" in data:
                answers.setdefault(rank, Answer(data, content))

        own = {"ID": attempt.number, "DIR": attempt.directory, "LANE": self._number, "METRIC": self._search.metric}
        variables = {f"HVDRAY_TRIAL_{name}": str(value) for name, value in own.items()}
        variables["HVDRAY_TRIAL_CONFIG"] = json.dumps(attempt.values)
        if self._search.command:
            words = argv_of(self._search.command, self._search.by_variable, placeholders(attempt))
            variables["HVDRAY_TRIAL_COMMAND"] = shlex.join(words)
            return launcher.begin(variables, [], None, on_data, None, on_report), []
        if not self._kit:
            self._kit = launcher.next_object()
            launcher.put(self._kit, [kit()])
        payload = call_of("run", (call, (self._search.func, attempt.values, variables), {}), None)
        number = launcher.next_object()
        launcher.put(number, payload.parts)
        head = {"call": 1, "do": "once", **driver_place(False), "results": "json", "sizes": payload.sizes, "object": number, "modules": True}
        return launcher.begin({}, [self._kit, number], head, on_data, None, on_report), [number]

    def _wait(self, launcher: Launcher, gang: Gang, attempt: Attempt) -> bool:
        """False: it was stopped before it could begin."""
        told: Optional[float] = None
        with launcher.condition:
            while not gang.has_ended and launcher.lost is None:
                if attempt.is_stopped and not launcher.is_up:
                    return False
                if attempt.is_stopped and (told is None or attempt.grace_s < told):
                    told = attempt.grace_s
                    launcher.stop(gang, told)
                    continue
                launcher.condition.wait()
        return True

    def _ended(self, attempt: Attempt, gang: Gang, answers: dict[int, Answer]) -> Ended:
        verdict = gang.verdict or {}
        code = int(verdict.get("exit", {}).get("code", 1))
        if code == 0:
            if answers and not self._modules.names:
                self._modules.names = common_modules([answer.head.get("modules") for answer in answers.values()])
            return Ended(self, attempt, None)
        for rank, answer in sorted(answers.items()):
            if answer.head.get("ok") is not True:
                return Ended(self, attempt, error_of(answer, rank, _host(gang, rank), 0, True), code)
        return Ended(self, attempt, died(gang), code)

    def _on_chunk(self, is_error: bool, chunk: bytes) -> None:
        lines = self._lines
        if lines is not None:
            lines.add(is_error, chunk)


class _Output:
    """What a trial prints, into its file; rank 0's lines go to the search, too, which looks for reports in them."""

    def __init__(self, file: Any, attempt: Attempt, search: Search, news: "queue.SimpleQueue[News]"):
        self._file = file
        self._attempt = attempt
        self._has_reports = search.report_from is not None
        self._news = news
        self._room = threading.Semaphore(MAX_UNREAD)
        self._rests = [b"", b""]

    def add(self, is_error: bool, chunk: bytes) -> None:
        try:
            self._file.write(chunk)
        except (OSError, ValueError):
            pass  # A full disk: the trial itself goes on.
        if not self._has_reports:
            return
        *lines, rest = _ENDS.split(self._rests[is_error] + chunk)
        self._rests[is_error] = rest[-MAX_LINE:]
        self._pass_on(lines)

    def end(self) -> None:
        """The last line may lack its end."""
        if self._has_reports:
            self._pass_on(self._rests)

    def _pass_on(self, lines: list[bytes]) -> None:
        parts = (line.partition(b">:") for line in lines)
        ours = [_COLOURS.sub(b"", text).decode(errors="replace") for tag, _, text in parts if tag in (b"[0]<stdout", b"[0]<stderr")]
        if ours:
            self._room.acquire()
            self._news.put(Lines(self._attempt, ours, self._room.release))


def placeholders(attempt: Attempt) -> dict[str, str]:
    own = {"trial_id": str(attempt.number), "trial_dir": attempt.directory, "config": json.dumps(attempt.values)}
    return {**own, **{name: text_of(value) for name, value in attempt.values.items()}}


def _host(gang: Gang, rank: int) -> str:
    return str(gang.workers[rank]["host"]) if rank < len(gang.workers) else "?"
