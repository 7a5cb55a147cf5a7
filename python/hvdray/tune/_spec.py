# SPDX-License-Identifier: Apache-2.0
"""What a search is: the file of `hvdray tune`, read strictly. Does not know Optuna."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import re
import shlex
import sys
from typing import Any, Callable, Iterator, Mapping, NoReturn, Optional, Sequence

from .._errors import nearest
from ._errors import INSTALL, Path, Places, SpecError, TuneError

KEYS = (
    "command func config run space metric direction trials sampler pruner storage study output report_from max_concurrent "
    "max_failures fail_fast trial_timeout"
).split()
OF_REPORTS = ("step", "checkpoint")  # beside the metrics
OWN_NAMES = ("trial_id", "trial_dir", "config")  # placeholders that are no parameters
# Of `hvdray run`: what a trial has by other means, or what belongs to one job.
REFUSED = {
    "command": "the command is a key of its own",
    "timeout": "trial_timeout limits a trial",
    "tag_output": "the lines of rank 0 are found by their tag",
    "prefix_output_with_timestamp": "the lines of rank 0 are found by their tag",
    "output_filename": "each trial's output is in its directory",
    "channel": "trials have a channel",
    "stdin": "trials have no standard input",
    "max_restarts": "max_failures restarts a trial",
    "ray": "on Ray, hvdray.ray.tune makes trials for Ray's Tuner",
    "ray_address": "on Ray, hvdray.ray.tune makes trials for Ray's Tuner",
    **dict.fromkeys(("report", "events", "junit", "trace", "record", "dry_run", "print_plan", "print_config", "detach"),
                    "it belongs to one job, and a search has many"),
    **dict.fromkeys(("min_np", "max_np", "min_num_proc", "max_num_proc", "host_discovery_script", "elastic_mode"),
                    "trials have a fixed number of workers"),
}
MOST_EXACT = 1 << 53  # of a float, as which Optuna keeps what it has sampled
GROUP = "value"  # of report_from, for the metric: names of groups are identifiers
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """`kind`: float, int, choice or grid. The first two have low and high, the others values."""

    name: str
    kind: str
    low: float = 0
    high: float = 0
    log: bool = False
    step: Optional[float] = None
    values: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Search:
    command: tuple[str, ...]  # empty: a function
    func: Any  # "module:function", or a function
    by_variable: bool  # the command has no placeholders
    run: dict[str, Any]
    np: int  # workers of a trial
    num_hosts: Optional[int]  # of a trial, with as many workers each; None: any
    space: tuple[Parameter, ...]
    metric: str
    direction: str
    trials: int
    sampler: tuple[str, dict[str, Any]]
    pruner: tuple[str, dict[str, Any]]
    storage: str
    study: str
    output: str
    report_from: Optional["re.Pattern[str]"]
    max_concurrent: Optional[int]
    max_failures: int
    fail_fast: bool
    trial_timeout: Optional[float]
    places: Places = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def placing(self) -> Iterator[None]:
        """What is found to be wrong once the file has been read is said with its place, too."""
        try:
            yield
        except SpecError as error:
            if error.path is None:
                raise
            raise _placed(self.places, error.path, error.message, error.hint, error.code) from error.__cause__

    def grid(self) -> list[dict[str, Any]]:
        """The points of the grid that are tried, in the order written: the last parameter varies fastest. Empty: there is no grid."""
        axes = [parameter for parameter in self.space if parameter.kind == "grid"]
        if not axes:
            return []
        points = itertools.islice(itertools.product(*(axis.values for axis in axes)), self.trials)  # There may be billions of them.
        return [dict(zip([axis.name for axis in axes], point)) for point in points]

    def how(self) -> dict[str, Any]:
        """What it takes to run a trial again, as JSON. Of variables only their names."""
        name = self.func if isinstance(self.func, str) or self.func is None else getattr(self.func, "__qualname__", "function")
        run = {key: ([str(entry).partition("=")[0] for entry in ([value] if isinstance(value, str) else value)] if key == "env" else value) for key, value in self.run.items()}
        return {"command": list(self.command), "func": name, "by_variable": self.by_variable, "run": run, "np": self.np, "metric": self.metric,
                "reports": bool(self.command) and self.report_from is None}


def argv_of(command: Sequence[str], by_variable: bool, values: Mapping[str, str]) -> list[str]:
    """`values`: by placeholder."""
    if by_variable:
        return list(command)
    return [_PLACE.sub(lambda place: values[place[1]] if place[1] else place[0][0], word) for word in command]


def read(spec: Any, keys: Mapping[str, Any]) -> Search:
    """Raises SpecError."""
    if callable(spec):
        return read_search(dict(keys), getattr(spec, "__name__", "search").strip("<>"), None, spec)
    if isinstance(spec, Mapping):
        return read_search({**spec, **keys}, "search")
    if not isinstance(spec, (str, os.PathLike)):
        raise TypeError(f"a search is a path, a mapping or a function, not {type(spec).__name__}")
    try:
        from ._yaml import read_yaml
    except ImportError:
        raise TuneError("neither Optuna nor PyYAML, which comes with it, is installed here", hint=INSTALL) from None
    tree, places = read_yaml(os.fspath(spec))
    if keys and isinstance(tree, dict):
        tree.update(keys)
    return read_search(tree, os.path.splitext(os.path.basename(os.fspath(spec)))[0], places)


def read_search(tree: Any, name: str, places: Optional[Places] = None, func: Any = None) -> Search:
    """`name`: of the study and the directory, where `tree` has none. `func`: instead of the key. Raises SpecError."""
    return _Reader(places or {}).search(tree, name, func)


def text_of(value: Any) -> str:
    """As a command line has it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value) if isinstance(value, float) else str(value)


def _placed(places: Places, path: Path, message: str, hint: str, code: str = "") -> SpecError:
    where = next((places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in places), "")
    return SpecError(f"{where}: {message}" if where else message, code=code or ("HVD-E0102" if where else ""), hint=hint)


class _Reader:
    def __init__(self, places: Places):
        self._places = places

    def fail(self, path: Path, message: str, hint: str = "") -> NoReturn:
        raise _placed(self._places, path, message, hint)

    def mapping(self, value: Any, path: Path, keys: Optional[Sequence[str]] = None) -> dict[str, Any]:
        what = ".".join(map(str, path)) or "a search"
        if not isinstance(value, Mapping):
            self.fail(path, f"{what} must be a mapping, not {_kind(value)}")
        for key in value:
            if not isinstance(key, str):
                self.fail((*path, key), f"{what}: a key must be a text, not {key!r}")
            if keys is not None and key not in keys:
                self.fail((*path, key), f"unknown key {key!r}{nearest(key, keys)}", f"keys of {what}: {', '.join(keys)}")
        return dict(value)

    def text(self, tree: Mapping[str, Any], key: str, otherwise: str) -> str:
        value = tree.get(key, otherwise)
        if not isinstance(value, str) or not _is_text(value):
            self.fail((key,), f"{key} must be a text, not {ascii(value) if isinstance(value, str) and value else _kind(value)}")
        return value

    def number(self, tree: Mapping[str, Any], key: str, least: float, otherwise: Any, is_whole: bool = True) -> Any:
        value = tree.get(key)
        if value is None:
            return otherwise
        if not _is_number(value) or (is_whole and not isinstance(value, int)) or not least <= value < math.inf:
            self.fail((key,), f"{key} must be a {'whole ' if is_whole else ''}number, at least {least:g}, not {value!r}")
        return value

    def search(self, tree: Any, name: str, func: Any) -> Search:
        tree = self.mapping(tree, (), KEYS)
        for key, value in tree.items():
            if value is None:
                self.fail((key,), f"{key} has no value")
        space = self.space(tree)
        command, by_variable = self.command(tree, space, func)
        run, workers, hosts = self.run(tree)
        metric = self.text(tree, "metric", "") if "metric" in tree else self.fail((), "metric is missing", "metric: loss")
        if metric in OF_REPORTS:
            self.fail(("metric",), f"the metric can't be named {metric}: reports have that name for something else")
        direction = self.text(tree, "direction", "minimize")
        if direction not in ("minimize", "maximize"):
            self.fail(("direction",), f"direction must be minimize or maximize, not {direction!r}{nearest(direction, ['minimize', 'maximize'])}")
        points = math.prod(len(axis.values) for axis in space if axis.kind == "grid")
        trials = self.number(tree, "trials", 1, points if any(axis.kind == "grid" for axis in space) else None)
        if trials is None:
            self.fail((), "trials is missing: how many there are to be", "trials: 20")
        if "fail_fast" in tree and not isinstance(tree["fail_fast"], bool):
            self.fail(("fail_fast",), f"fail_fast must be true or false, not {tree['fail_fast']!r}")
        return Search(
            command=command,
            func=func if func is not None else tree.get("func"),
            by_variable=by_variable,
            run=run,
            np=workers,
            num_hosts=hosts,
            space=space,
            metric=metric,
            direction=direction,
            trials=trials,
            sampler=self.one_of(tree, "sampler", "tpe"),
            pruner=self.one_of(tree, "pruner", "nop"),
            storage=self.storage(tree),
            study=self.text(tree, "study", name),
            output=os.path.expanduser(self.text(tree, "output", f"{name}.tune")),
            report_from=self.pattern(tree, metric, func if func is not None else tree.get("func")),
            max_concurrent=self.number(tree, "max_concurrent", 1, None),
            max_failures=self.number(tree, "max_failures", 0, 0),
            fail_fast=tree.get("fail_fast", False),
            trial_timeout=self.number(tree, "trial_timeout", 0.001, None, is_whole=False),
            places=self._places,
        )

    def storage(self, tree: Mapping[str, Any]) -> str:
        url = self.text(tree, "storage", "sqlite:///study.db")
        if "://" not in url or url.startswith("journal"):
            self.fail(("storage",), f"storage must be the URL of a database, not {url!r}", "sqlite:///study.db")
        return url

    def one_of(self, tree: Mapping[str, Any], key: str, otherwise: str) -> tuple[str, dict[str, Any]]:
        """`tpe`, or `{tpe: {seed: 1}}`."""
        value = tree.get(key, otherwise)
        if isinstance(value, str):
            return value, {}
        if not isinstance(value, Mapping) or len(value) != 1:
            self.fail((key,), f"{key} must be a name, or one name with its arguments", f"{key}: {{{otherwise}: {{}}}}")
        ((name, arguments),) = value.items()
        return str(name), self.mapping({} if arguments is None else arguments, (key, name))

    def command(self, tree: Mapping[str, Any], space: Sequence[Parameter], func: Any) -> tuple[tuple[str, ...], bool]:
        if ("command" in tree) + ("func" in tree) + (func is not None) != 1:
            self.fail((), "a search has either a command or a func", 'command: [python, train.py, --lr, "{lr}"]')
        if "config" in tree and tree["config"] not in ("argv", "variable"):
            self.fail(("config",), f"config must be argv or variable, not {tree['config']!r}")
        if "func" in tree and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", self.text(tree, "func", "")):
            self.fail(("func",), f"func must be module:function, not {tree['func']!r}")
        if "command" not in tree:
            return (), False
        command = tree["command"]
        if isinstance(command, str):
            try:
                command = shlex.split(command)
            except ValueError as error:
                self.fail(("command",), f"command: {error}")
        if not isinstance(command, (list, tuple)) or not command:
            self.fail(("command",), "command must be a list of words")
        for at, word in enumerate(command):
            if isinstance(word, (list, Mapping)) or word is None or "\0" in str(word):
                self.fail(("command", at), f"not a word: {word!r}", 'quote it: "{lr}"' if isinstance(word, Mapping) else "")
        words = tuple(word if isinstance(word, str) else text_of(word) for word in command)
        if tree.get("config") == "variable":
            return words, True
        names = [parameter.name for parameter in space]
        used = set()
        for at, word in enumerate(words):
            for place in _PLACE.finditer(word):
                if place[1] and place[1] not in (*names, *OWN_NAMES):
                    self.fail(("command", at), f"{{{place[1]}}} is not in space{nearest(place[1], names)}",
                              f"{{{{{place[1]}}}}} stands for {{{place[1]}}} itself")
                used.add(place[1])
        for name in names:
            if name not in used and "config" not in used:
                self.fail(("space", name), f"{{{name}}} is not in the command: the program would not get it",
                          f'write "{{{name}}}" there, or say config: variable if the program reads HVDRAY_TRIAL_CONFIG')
        return words, False

    def run(self, tree: Mapping[str, Any]) -> tuple[dict[str, Any], int, Optional[int]]:
        run = {key.replace("-", "_"): value for key, value in self.mapping(tree.get("run", {}), ("run",)).items()}
        places = {path: where for path, where in self._places.items() if path[:1] == ("run",) and len(path) == 2}
        self._places = {**self._places, **{("run", str(path[1]).replace("-", "_")): where for path, where in places.items()}}
        for key in run:
            if key in REFUSED:
                self.fail(("run", key), f"run.{key} is not for trials: {REFUSED[key]}")
        shape = {}
        for key in ("np", "num_proc", "num_hosts", "num_slots"):
            if key in run:
                value = run.pop(key)
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    self.fail(("run", key), f"run.{key} must be a whole number, at least 1, not {value!r}")
                shape[key] = value
        if len(shape) > 1 and set(shape) != {"num_hosts", "num_slots"}:
            self.fail(("run",), f"run: {' and '.join(shape)} are both given")
        return run, math.prod(shape.values()), shape.get("num_hosts")

    def pattern(self, tree: Mapping[str, Any], metric: str, func: Any) -> Optional["re.Pattern[str]"]:
        if "report_from" not in tree:
            return None
        if func is not None:
            self.fail(("report_from",), "report_from is for commands: a function calls hvdray.tune.report()")
        try:
            pattern = re.compile(self.text(tree, "report_from", ""))
        except re.error as error:
            self.fail(("report_from",), f"report_from is not a valid regular expression: {error}")
        name = metric if metric.isidentifier() else GROUP
        groups = (GROUP if GROUP in pattern.groupindex else name, "the metric"), ("step", "the number of the step")
        for group, what in groups:
            if group not in pattern.groupindex:
                self.fail(("report_from",), f"report_from has no group {group!r}, {what}{nearest(group, list(pattern.groupindex))}",
                          rf"'epoch (?P<step>\d+) .*{metric} (?P<{name}>\S+)'")
        return pattern

    def space(self, tree: Mapping[str, Any]) -> tuple[Parameter, ...]:
        if not tree.get("space"):
            self.fail(("space",), "space is empty: a search needs parameters", "space: {lr: {float: [1e-4, 1e-1], log: true}}")
        return tuple(self.parameter(name, value) for name, value in self.mapping(tree["space"], ("space",)).items())

    def parameter(self, name: str, value: Any) -> Parameter:
        path: Path = ("space", name)
        if not _NAME.fullmatch(name) or name in OWN_NAMES:
            self.fail(path, f"{name!r} can't be the name of a parameter")
        kinds = ("float", "int", "choice", "grid")
        value = self.mapping(value, path, (*kinds, "log", "step"))
        kind = [key for key in value if key in kinds]
        if len(kind) != 1:
            self.fail(path, f"space.{name} must have one kind of {', '.join(kinds)}", f"{name}: {{float: [0.1, 0.9]}}")
        if kind[0] in ("choice", "grid"):
            for key in ("log", "step"):
                if key in value:
                    self.fail((*path, key), f"{key} is for float and int, not for {kind[0]}")
            return Parameter(name, kind[0], values=self.values(value[kind[0]], (*path, kind[0])))
        return self.range(name, kind[0], value, path)

    def values(self, values: Any, path: Path) -> tuple[Any, ...]:
        if not isinstance(values, (list, tuple)) or not values:
            self.fail(path, f"{'.'.join(map(str, path))} must be a list of values, and not empty")
        for at, value in enumerate(values):
            if not (value is None or isinstance(value, (str, int, float))):
                self.fail((*path, at), f"not a number, text, boolean or null: {value!r}")
            if isinstance(value, str) and value and not _is_text(value):
                self.fail((*path, at), f"not a text that a program can get: {ascii(value)}")
            if isinstance(value, float) and not math.isfinite(value):
                self.fail((*path, at), f"not a number that JSON has: {value!r}", 'quote it: ".inf"')
            if value in values[:at]:  # the storage holds 1, 1.0 and true for one
                self.fail((*path, at), f"{value!r} is there twice")
        return tuple(values)

    def range(self, name: str, kind: str, value: Mapping[str, Any], path: Path) -> Parameter:
        ends, log, step = value[kind], value.get("log", False), value.get("step")
        path = (*path, kind)
        is_right: Callable[[Any], bool] = _is_number if kind == "float" else lambda x: _is_number(x) and isinstance(x, int)
        what = "two numbers" if kind == "float" else "two whole numbers"
        if not isinstance(ends, (list, tuple)) or len(ends) != 2 or not all(map(is_right, ends)):
            self.fail(path, f"space.{name}.{kind} must be {what}: [low, high], not {ends!r}")
        low, high = ends
        if low >= high:
            self.fail(path, f"space.{name}: low ({low:g}) must be below high ({high:g})")
        if kind == "int" and max(abs(low), abs(high)) > MOST_EXACT:
            self.fail(path, f"space.{name}: a study keeps whole numbers up to 2^53 exactly, not {ends!r}")
        if not math.isfinite(float(high) - float(low)):
            self.fail(path, f"space.{name}: high - low is no longer a number: [{low:g}, {high:g}]")
        if not isinstance(log, bool):
            self.fail((*path[:-1], "log"), f"log must be true or false, not {log!r}")
        if log and low < (1 if kind == "int" else math.ulp(0.0)):
            self.fail(path, f"space.{name}: log needs low above 0, not {low:g}")
        if step is not None and (not is_right(step) or step <= 0):
            self.fail((*path[:-1], "step"), f"step must be a {'whole ' if kind == 'int' else ''}number above 0, not {step!r}")
        if step is not None and log:
            self.fail((*path[:-1], "step"), "log and step don't go together")
        if step is not None and step > high - low:
            self.fail((*path[:-1], "step"), f"step ({step:g}) must not be above high - low ({high - low:g}): only {low:g} would be left")
        return Parameter(name, kind, low, high, log, step)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_text(value: str) -> bool:
    """That a program can get, and a storage keep: without NUL and halves of characters."""
    return bool(value) and not re.search("[\0\ud800-\udfff]", value)


def _kind(value: Any) -> str:
    return "nothing" if value is None or value == "" else type(value).__name__
