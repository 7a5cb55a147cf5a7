# SPDX-License-Identifier: Apache-2.0
"""What a search shows: a table that lives on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any, Iterable, Optional, TextIO

from ._lanes import Attempt, placeholders
from ._spec import Search, argv_of, text_of

if TYPE_CHECKING:
    from ._run import Running
    from ._study import Book

REFRESH_S = 0.2
HIDDEN = "hvdray:"
HOW = HIDDEN + "how"  # of a study


class View:
    def __init__(self, stream: Optional[TextIO], is_live: bool, file: str = ""):
        """`stream`: None: nothing is shown. `file`: of the search, for the line that tells how to go on."""
        self._stream = stream
        self._is_live = is_live and stream is not None
        self._file = file
        self._rows: list[int] = []  # how long the lines of the table are that are on the terminal
        self._drawn = 0.0
        self._search: Optional[Search] = None
        self._book: "Optional[Book]" = None

    @staticmethod
    def silent() -> "View":
        return View(None, False)

    def begin(self, search: Search, book: "Book", lanes: int) -> None:
        self._search, self._book = search, book
        each = f" of {search.np} workers" if search.np > 1 else ""
        self.note(f"study {search.study} in {search.output}: {counted(search.trials, 'trial')}{each}, {lanes} at a time")

    def note(self, text: str) -> None:
        self._clear()
        self._write(f"{printable(text)}\n")

    def began(self, running: "Running") -> None:
        pass

    def reported(self, running: "Running") -> None:
        pass

    def ended(self, running: "Running", book: "Book") -> None:
        if not self._is_live and self._stream is not None and self._search is not None:
            self.note(line_of(book.trials()[running.trial.number], self._search.metric))

    def refresh(self, running: "Iterable[Running]") -> None:
        now = time.monotonic()
        if not self._is_live or self._book is None or now - self._drawn < REFRESH_S:
            return
        self._drawn = now
        self._draw(self._book, [entry.trial.number for entry in running])

    def end(self, book: "Book") -> None:
        if self._is_live:
            self._draw(book, [])
            self._rows = []

    def how_to_go_on(self, search: Search) -> None:
        if self._file:
            self.note(f"to go on: hvdray tune {shlex.quote(self._file)} --resume")

    def nothing_left(self, search: Search, book: "Book") -> None:
        trials = book.counted()
        failed = sum(trial.state.name == "FAIL" for trial in trials)
        self.note(f"nothing to run: the study has {counted(len(trials), 'trial')}"
                  + (f", {failed} failed" if failed else "") + "; a larger number (trials:) goes on")

    def _draw(self, book: "Book", running: list[int]) -> None:
        assert self._search is not None
        size = self._size()
        rows = table(ranked(book.counted(), book.study), self._search.metric, max(size.lines - 3, 3))
        rows = [_cut(row, size.columns - 1) for row in rows]
        self._clear()
        self._write("".join(row + "\n" for row in rows))
        self._rows = [_width(row) for row in rows]

    def _clear(self) -> None:
        if self._rows:
            size = self._size()  # It may be narrower now, and have wrapped them.
            height = sum(max(-(-length // size.columns), 1) for length in self._rows)
            self._write(f"\x1b[{min(height, size.lines - 1)}A\x1b[J")
            self._rows = []

    def _size(self) -> os.terminal_size:
        """Of the stream's own terminal: stdout may be a file."""
        try:
            assert self._stream is not None
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return shutil.get_terminal_size()
        return size if size.columns and size.lines else shutil.get_terminal_size()

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def ranked(trials: Iterable[Any], study: Any) -> list[Any]:
    """Those that run first, then the best."""
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    order = {"RUNNING": 0, "COMPLETE": 1, "PRUNED": 2, "FAIL": 3, "WAITING": 4}

    def key(trial: Any) -> Any:
        value = trial.value if trial.state.name == "COMPLETE" else 0
        return (order[trial.state.name], sign * value, trial.number)

    return sorted(trials, key=key)


def table(trials: list[Any], metric: str, height: int = 1 << 30) -> list[str]:
    """With its header."""
    names = sorted({name for trial in trials for name in trial.params})
    rows = [["trial", "state", printable(metric), "step", "time", *names]]
    for trial in trials[: height - 1]:
        value = trial.value if trial.value is not None else trial.intermediate_values.get(trial.last_step)
        rows.append([str(trial.number), trial.state.name.lower(), short(value), "" if trial.last_step is None else str(trial.last_step),
                     _took(trial), *(short(trial.params.get(name, "")) for name in names)])
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths)).rstrip() for row in rows]
    if len(trials) >= height:
        lines.append(f"and {len(trials) - height + 1} more")
    return lines


def line_of(trial: Any, metric: str) -> str:
    params = " ".join(f"{name}={short(value)}" for name, value in trial.params.items())
    value = trial.value if trial.value is not None else trial.intermediate_values.get(trial.last_step)
    why = trial.user_attrs.get("hvdray:why", "")
    if "hvdray:again" in trial.user_attrs:
        state = "cut short"
    else:
        state = {"COMPLETE": "", "FAIL": "failed"}.get(trial.state.name, trial.state.name.lower())
    told = [text for text in (f"{metric} {short(value)}" if value is not None else "", state, why) if text]
    return f"trial {trial.number}: {params}: {', '.join(told)} ({_took(trial)})"


def short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def printable(text: str) -> str:
    """On one line, and without orders to a terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _width(text: str) -> int:
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(text: str, width: int) -> str:
    while _width(text) > width:
        text = text[:-1]
    return text


def _took(trial: Any) -> str:
    if trial.datetime_start is None:
        return ""
    import datetime

    end = trial.datetime_complete or datetime.datetime.now()
    return f"{(end - trial.datetime_start).total_seconds():.1f} s"


def best_of(study: Any) -> Optional[Any]:
    """None: no trial has a value."""
    complete = [trial for trial in ranked(study.get_trials(deepcopy=False), study) if trial.state.name == "COMPLETE"]
    return complete[0] if complete else None


def again_line(study: Any, trial: Any) -> str:
    """What runs a trial again, without the search. Empty: the study is of another program."""
    how = study.user_attrs.get(HOW)
    if how is None:
        return ""
    attempt = Attempt(trial.number, trial.user_attrs.get("hvdray:directory", ""), dict(trial.params))
    if not how["command"]:
        return f"hvdray.run({how['func'].replace(':', '.')}, ({dict(trial.params)!r},), np={how['np']})"
    words = ["hvdray", "run", "-np", str(how["np"])]
    for key, value in how["run"].items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [word for entry in value for word in (flag, text_of(entry))]
        elif value is not False:
            words += [flag, text_of(value)]
    if how["by_variable"] or how.get("reports"):  # report() and config() want it
        words += ["--env", f"HVDRAY_TRIAL_CONFIG={json.dumps(attempt.values)}"]
    return shlex.join([*words, "--", *argv_of(how["command"], how["by_variable"], placeholders(attempt))])


def best_lines(study: Any, best: Any) -> str:
    again = again_line(study, best)
    metric = study.user_attrs.get(HOW, {}).get("metric", "value")
    return f"best: trial {best.number}, {metric} {best.value:.6g}\n" + (f"to run it again: {again}\n" if again else "")


def document(study: Any) -> dict[str, Any]:
    """Of --json."""
    best = best_of(study)
    return {
        "schema": "hvdray.tune/1",
        "study": study.study_name,
        "direction": study.direction.name.lower(),
        "best": best.number if best is not None else None,
        "run_again": again_line(study, best) if best is not None else "",
        "trials": [_entry(trial) for trial in study.get_trials(deepcopy=False)],
    }


def _entry(trial: Any) -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "value": _plain(trial.value),
        "params": trial.params,
        "reports": [[step, _plain(value)] for step, value in sorted(trial.intermediate_values.items())],
        **{name[len(HIDDEN) :]: value for name, value in trial.user_attrs.items() if name.startswith(HIDDEN)},
    }


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def print_json(tree: Any) -> None:
    json.dump(tree, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
