# SPDX-License-Identifier: Apache-2.0
"""A search: trials on lanes, their reports into the study, the pruner's word back. docs/tune.md."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import queue
import time
from typing import Any, Callable, Mapping, Optional, Union

from .._errors import LASTING, HvdrayError
from ._lanes import GRACE_S, Attempt, Ended, Lane, Lines, Modules, News, Report
from ._shown import View, counted
from ._signals import Signals, clock
from ._slots import lanes_of
from ._errors import SpecError, TuneError
from ._spec import GROUP, Search, read
from ._sqlite import SQLITE
from ._study import COMPLETE, DIRECTORY, FAIL, PRUNED, Book

TICK_S = 0.5
QUIET_S = 60.0  # then it is said that report_from has found nothing
NEVER_RAN = (126, 127)  # exit codes of sh
MAX_STEP = 1 << 31  # of a database
MATCH_S = 2.0  # of CPU: what report_from may take for a line


def run(spec: Union[str, "os.PathLike[str]", Mapping[str, Any], Callable[..., Any]], *, resume: bool = False, **keys: Any) -> Any:
    """Runs a search, and returns Optuna's study. `spec`: the path of a file, a mapping with its keys, or a function, whose search
    is in `keys`. After Ctrl-C, which ends trials in good order, `resume` goes on. Raises TuneError."""
    return go(read(spec, keys), resume, View.silent())


def url_of(search: Search) -> str:
    """A path of SQLite is in the output directory."""
    if search.storage.startswith(SQLITE):
        return SQLITE + os.path.abspath(os.path.join(search.output, os.path.expanduser(search.storage[len(SQLITE) :])))
    return search.storage


def go(search: Search, resume: bool, view: View) -> Any:
    """Raises TuneError, and KeyboardInterrupt."""
    with search.placing():
        return _go(search, resume, view)


def _go(search: Search, resume: bool, view: View) -> Any:
    hosts = lanes_of(search)
    try:
        os.makedirs(search.output, exist_ok=True)
    except OSError as error:
        raise TuneError(f"can't make the directory {search.output}: {error.strerror}") from None
    with contextlib.closing(Book(search, url_of(search), resume)) as book:
        loop = _Loop(search, book, view)
        view.begin(search, book, len(hosts))
        with Signals(loop.news) as signals:
            loop.run(hosts, signals.taken)
            view.end(book)
            if not loop.has_begun and not signals.taken and loop.failure is None:
                view.nothing_left(search, book)
    if signals.taken:
        view.how_to_go_on(search)
        signals.raise_again()
    if loop.failure is not None:
        raise loop.failure
    return book.study


@dataclasses.dataclass(eq=False)
class Running:
    trial: Any  # Optuna's
    lane: Lane
    attempt: Attempt
    began: float
    step: int = -1
    value: Optional[float] = None
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    failures: int = 0
    is_told: bool = False  # the study knows how it ended
    is_taken: bool = False  # by another search
    timed_out: bool = False
    said_quiet: bool = False
    unread: str = ""  # a value that is no number


class _Loop:
    def __init__(self, search: Search, book: Book, view: View):
        self.news: "queue.SimpleQueue[News]" = queue.SimpleQueue()
        self.failure: Optional[HvdrayError] = None
        self._search = search
        self._book = book
        self._view = view
        self._lanes: list[Lane] = []
        self._free: list[Lane] = []
        self._running: dict[Attempt, Running] = {}
        self._orphans: list[Running] = []  # their lane is lost
        self._is_ending = False
        self.has_begun = False  # a trial
        self._looked = time.monotonic()
        self._signals: list[int] = []
        self._heard = 0  # of them

    def run(self, hosts: list[str], signals: list[int]) -> None:
        """`signals`: grows by those that come."""
        self._signals = signals
        modules = Modules()
        self._lanes = [Lane(number, self._search, text, modules, self.news) for number, text in enumerate(hosts)]
        self._free = list(self._lanes)
        try:
            self._take_over()
            while True:
                self._hear_signals()
                self._fill()
                if self._running:
                    self._take_news()
                elif self._is_ending or not self._take_over():
                    break
        except BaseException:
            self._end(0)
            while self._running:
                self._forget_news()
            raise
        finally:
            for lane in self._lanes:
                lane.close_soon()
            for lane in self._lanes:
                lane.join()

    def _hear_signals(self) -> None:
        """Before all news that wait: of a trial that reports faster than a database takes it, they are many."""
        while self._heard < len(self._signals):
            self._heard += 1
            if self._heard == 1 and self._running:
                self._view.note(f"ends {counted(len(self._running), 'trial')}; again: at once")
            self._end(GRACE_S if self._heard == 1 else 0)

    def _end(self, grace_s: float) -> None:
        self._is_ending = True
        for running in self._running.values():
            running.lane.stop(running.attempt, grace_s)

    def _fail(self, error: HvdrayError) -> None:
        """The search can't go on, or is not to."""
        if self.failure is None:
            self.failure = error
        self._end(GRACE_S)

    # ---- beginning

    def _fill(self) -> None:
        while self._free and not self._is_ending:
            if self._orphans:
                orphan = self._orphans.pop()
                self._begin(orphan, self._free.pop(0))
                continue
            trial = self._book.next()
            if trial is None:
                return
            directory = trial.user_attrs.get(DIRECTORY) or self._new_directory(trial.number)
            attempt = Attempt(trial.number, directory, dict(trial.params))
            running = Running(trial, self._free[0], attempt, time.monotonic(), step=self._book.last_step(trial))
            self._book.note(trial.number, directory=directory)
            self._begin(running, self._free.pop(0))

    def _new_directory(self, number: int) -> str:
        """Another study may have left one of that name, and its checkpoint there. Raises TuneError."""
        path = os.path.abspath(os.path.join(self._search.output, f"trial_{number}"))
        for count in itertools.count(2):
            try:
                os.makedirs(path)
                return path
            except FileExistsError:
                path = os.path.abspath(os.path.join(self._search.output, f"trial_{number}.{count}"))
            except OSError as error:
                raise TuneError(f"can't make the directory {path}: {error.strerror}") from None
        raise AssertionError

    def _begin(self, running: Running, lane: Lane) -> None:
        running.lane = lane
        self.has_begun = True
        self._running[running.attempt] = running
        lane.begin(running.attempt)
        self._view.began(running)

    # ---- news

    def _take_news(self) -> None:
        try:
            news = self.news.get(timeout=TICK_S)
        except queue.Empty:
            news = None
        self._hear_signals()
        if isinstance(news, Report):
            self._on_report(news)
        elif isinstance(news, Lines):
            news.done()
            self._on_lines(news)
        elif isinstance(news, Ended):
            self._on_ended(news)
        elif news is not None:
            news()
        self._look_at_clock()
        self._view.refresh(self._running.values())

    def _forget_news(self) -> None:
        """After a failure of the study itself: only the ends count."""
        news = self.news.get()
        if isinstance(news, Ended):
            running = self._running.pop(news.attempt)
            if not running.is_told:
                try:
                    self._book.requeue(running.trial.number)
                except Exception:  # What has brought us here. The next search finds that we are dead.
                    pass
        elif isinstance(news, Lines):
            news.done()

    def _take_over(self) -> bool:
        """False: there was nothing."""
        numbers = self._book.take_over()
        for number in numbers:
            self._view.note(f"trial {number} was cut short, and is run again")
        return bool(numbers)

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        if now - self._looked < TICK_S:
            return
        self._looked = now
        if self._book.tell_alive():
            self._take_over()
        for running in self._running.values():
            limit, age = self._search.trial_timeout, now - running.began
            if limit is not None and age > limit and not running.attempt.is_stopped:
                running.timed_out = True
                running.lane.stop(running.attempt, GRACE_S)
            if self._search.report_from is not None and running.value is None and age > QUIET_S and not running.said_quiet:
                running.said_quiet = True
                self._view.note(f"trial {running.trial.number}: report_from has matched no line of rank 0 in {QUIET_S:g} s{running.unread}; "
                                f"see {running.attempt.directory}/output.txt")

    def _on_lines(self, lines: Lines) -> None:
        pattern, running = self._search.report_from, self._running.get(lines.attempt)
        assert pattern is not None
        group = GROUP if GROUP in pattern.groupindex else self._search.metric
        with clock(MATCH_S) as limited:
            for line in lines.lines:
                if running is None or running.attempt.is_stopped:
                    return
                try:
                    with limited():
                        found = pattern.search(line)
                except TimeoutError:
                    running.unread = f"; report_from has taken more than {MATCH_S:g} s for a line"
                    self._hear_signals()
                    continue
                if found is not None and found["step"] is not None and found[group] is not None:
                    self._on_line(running, found["step"], found[group])

    def _on_line(self, running: Running, step: str, value: str) -> None:
        try:
            metrics = {"step": int(step), self._search.metric: float(value.rstrip(",;"))}
        except ValueError:
            running.unread = f"; it has matched {value!r} at step {step!r}"
            return
        self._on_report(Report(running.attempt, metrics))

    def _on_report(self, report: Report) -> None:
        running = self._running.get(report.attempt)
        if running is None or running.is_told or running.is_taken or report.attempt.is_stopped:
            return
        step, value = report.metrics.get("step"), _number(report.metrics.get(self._search.metric))
        running.metrics = {**running.metrics, **report.metrics}
        if value is None:
            if self._search.metric in report.metrics:
                running.unread = f"; it has reported {report.metrics[self._search.metric]!r}, which is not a number"
            return
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < MAX_STEP:
            step = running.step + 1
        running.step = step
        running.value = value
        if not self._book.report(running.trial, value, running.step):
            running.is_taken = True
            running.lane.stop(running.attempt, GRACE_S)
        elif math.isnan(value):
            self._prune(running, f"{self._search.metric} is NaN at step {running.step}")
        elif self._book.should_prune(running.trial):
            self._prune(running, "")
        self._view.reported(running)

    def _prune(self, running: Running, why: str) -> None:
        running.is_told = True
        self._book.finish(running.trial.number, PRUNED, why=why, metrics=running.metrics)
        running.lane.stop(running.attempt, GRACE_S)

    def _on_ended(self, ended: Ended) -> None:
        running = self._running.pop(ended.attempt)
        number = running.trial.number
        if ended.is_lane_lost:
            return self._on_lost(ended, running)
        self._free.append(ended.lane)
        if running.is_told or running.is_taken:
            pass
        elif running.timed_out:
            self._fail_trial(running, f"trial_timeout: it has run for {self._search.trial_timeout:g} s")
        elif ended.attempt.is_stopped:
            self._book.requeue(number)
        elif ended.error is not None:
            if self._on_failure(ended.error, ended.exit_code, running):
                return
        elif running.value is None:
            names = ", ".join(name for name in running.metrics if name != "step")
            metric = self._search.metric
            self._fail_trial(running, f"it has reported no {metric}" + (running.unread or (names and f"; its reports have {names}")))
        else:
            self._book.finish(number, COMPLETE, running.value, metrics=running.metrics)
        self._view.ended(running, self._book)

    def _on_lost(self, ended: Ended, running: Running) -> None:
        assert ended.error is not None
        self._lanes.remove(ended.lane)
        ended.lane.close_soon()
        if not self._lanes or isinstance(ended.error, SpecError):
            self._book.requeue(running.trial.number)
            self._fail(ended.error)
            return
        self._view.note(f"a lane is lost, {len(self._lanes)} are left: {ended.error.message}")
        self._orphans.append(running)

    def _on_failure(self, error: HvdrayError, exit_code: int, running: Running) -> bool:
        """True: it begins again."""
        is_lasting = isinstance(error.__cause__, LASTING) and running.value is None
        if running.failures < self._search.max_failures and not self._is_ending and not is_lasting:
            running.failures += 1
            self._view.note(f"trial {running.trial.number} has failed, and begins again: {error.message}")
            running.attempt = dataclasses.replace(running.attempt)
            self._free.remove(running.lane)
            self._begin(running, running.lane)
            return True
        self._fail_trial(running, error.message)
        never_ran = self._search.command and exit_code in NEVER_RAN and running.value is None
        if never_ran and not any(trial.state in (COMPLETE, PRUNED) for trial in self._book.counted()):
            self._fail(TuneError(f"the command can't be run: {error.message}"))
        return False

    def _fail_trial(self, running: Running, why: str) -> None:
        running.is_told = True
        self._book.finish(running.trial.number, FAIL, why=why, metrics=running.metrics)
        if self._search.fail_fast:
            self._fail(TuneError(f"trial {running.trial.number} has failed: {why}"))


def _number(value: Any) -> Optional[float]:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
