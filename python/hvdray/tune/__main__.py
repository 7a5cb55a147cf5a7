# SPDX-License-Identifier: Apache-2.0
"""What `hvdray tune` becomes."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from typing import Optional, Sequence

from .._errors import HvdrayError
from .._output import fill_standard_streams
from .._trust import distrust_of
from ._errors import SpecError
from ._spec import read


def main(words: Optional[Sequence[str]] = None) -> int:
    """Returns an exit code of docs/errors.md."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))  # hvdray has blocked it.
    fill_standard_streams()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # was closed
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        getattr(sys, name).reconfigure(errors="backslashreplace")
    logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL)  # Of a database that goes away we say one line.
    arguments = _parsed(list(sys.argv[1:] if words is None else words))
    try:
        code = _do(arguments)
        sys.stdout.flush()
        return code
    except SpecError as error:
        return _said(error, 2)
    except HvdrayError as error:
        return _said(error, 125)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:  # Nobody reads what we print, or there is no room for it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return 128 + signal.SIGPIPE
        return _said(HvdrayError(str(error) if error.filename else f"can't write: {error.strerror}", code="HVD-E0305"), 125)


def _end_at_once(number: int, _frame: object) -> None:
    """While nothing has begun: what an import does with a KeyboardInterrupt is its own affair."""
    os._exit(128 + number)


def _do(arguments: argparse.Namespace) -> int:
    if arguments.words[0] != "show":
        return _search(arguments)
    from ._show import show

    return show(arguments.words[1], arguments.study, arguments.plot, arguments.json)


def _parsed(words: list[str]) -> argparse.Namespace:
    """hvdray has checked them."""
    parser = argparse.ArgumentParser(prog="hvdray tune", add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="+")
    for flag in ("--resume", "--json"):
        parser.add_argument(flag, action="store_true")
    for option in ("--study", "--plot"):
        parser.add_argument(option)
    arguments = parser.parse_intermixed_args(words)
    is_show = arguments.words[0] == "show"
    if len(arguments.words) != (2 if is_show else 1):
        parser.error("one file, or show and a storage")
    for name in ("resume",) if is_show else ("study", "plot"):
        if getattr(arguments, name):
            parser.error(f"--{name} is {'not ' if is_show else ''}for show")
    return arguments


def _search(arguments: argparse.Namespace) -> int:
    search = read(arguments.words[0], {})
    if not search.command:
        _import_from(os.getcwd())
    from ._run import go  # needs Optuna: what is wrong with the file comes first
    from ._shown import View, best_lines, best_of, document, is_terminal, print_json, printable

    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    stream = sys.stderr if arguments.json else sys.stdout
    study = go(search, arguments.resume, View(stream, is_terminal(stream), arguments.words[0]))
    best = best_of(study)
    if arguments.json:
        print_json(document(study))
    elif best is not None:
        print(best_lines(study, best), end="")
    if best is None:
        first = next((trial for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get("hvdray:why")), None)
        why = f"; the first: {printable(first.user_attrs['hvdray:why'])}" if first is not None else ""
        print(f"hvdray tune: no trial has a result{why}", file=sys.stderr)
        return 1
    return 0


def _import_from(folder: str) -> None:
    """Where `func` is looked for. Raises SpecError if others can put modules there."""
    distrust = distrust_of(folder)
    if distrust:
        raise SpecError(f"func: nothing is imported from the current directory: {distrust}")
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _said(error: HvdrayError, code: int) -> int:
    from ._shown import printable

    lines = [printable(line) for line in f"hvdray tune: {error}".split("\n")]
    try:
        print(*lines, sep="\n", file=sys.stderr)
    except OSError:
        pass  # There is nobody left to tell.
    return code


if __name__ == "__main__":
    sys.exit(main())
