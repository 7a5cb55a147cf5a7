# SPDX-License-Identifier: Apache-2.0
"""What `hvdray tune` becomes."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Optional, Sequence

from .._errors import HvdrayError
from ._spec import SpecError


def main(words: Optional[Sequence[str]] = None) -> int:
    """Returns an exit code of docs/errors.md."""
    arguments = _parsed(list(sys.argv[1:] if words is None else words))
    try:
        return _search(arguments)
    except SpecError as error:
        return _said(error, 2)
    except HvdrayError as error:
        return _said(error, 125)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hvdray tune", add_help=False, allow_abbrev=False)
    parser.add_argument("file")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def _search(arguments: argparse.Namespace) -> int:
    from ._run import go, read
    from ._shown import View, again_line, best_of, document, is_terminal, print_json

    search = read(arguments.file, {})
    stream = sys.stderr if arguments.json else sys.stdout
    view = View(stream, is_terminal(stream), arguments.file)
    study = go(search, arguments.resume, view)
    best = best_of(study)
    if arguments.json:
        print_json(document(study, search))
    elif best is not None:
        print(f"best: trial {best.number}, {search.metric} {best.value:.6g}\nto run it again: {again_line(search, best)}")
    if best is None:
        first = next((trial for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get("hvdray:why")), None)
        why = f"; the first: {first.user_attrs['hvdray:why']}" if first is not None else ""
        print(f"hvdray tune: no trial has a result{why}", file=sys.stderr)
        return 1
    return 0


def _said(error: HvdrayError, code: int) -> int:
    print(f"hvdray tune: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
