# SPDX-License-Identifier: Apache-2.0
"""The driver's path on a worker's host: which of its directories are there and may be trusted, and where they go."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _trust

STANDARD = os.path.dirname(os.__file__)
OWN = (STANDARD, os.path.join(STANDARD, "lib-dynload"))
added: list[str] = []  # to sys.path
left_out: list[str] = []  # others may write there


def add(call: dict[str, Any]) -> None:
    """To sys.path, behind the kit, which is its first, and the standard library: no module there may take the place of one of
    Python's. What the driver has behind its installed packages stays behind them. From another machine, by their real names, so that no link leads elsewhere later."""
    kit, *own = sys.path
    added.clear()
    left_out.clear()
    # What the driver imports from, its workers on the same machine may. Ray's driver names no machine.
    is_here = "machine" not in call or (call["machine"] and call["machine"] == _trust.machine())
    for entry, trustees in zip(call["path"], call.get("trustees", [_trust.NOBODY] * len(call["path"]))):
        if entry in own or not os.path.exists(entry):
            continue
        if is_here:
            added.append(entry)
        elif _is_trusted(entry, trustees):
            added.append(os.path.realpath(entry))
        else:
            left_out.append(entry)
    fresh = [entry for entry in added if entry not in own]
    behind: list[str] = call.get("behind", [])
    late = {*behind, *(os.path.realpath(entry) for entry in behind)}
    at = max((i + 1 for i, entry in enumerate(own) if entry in OWN), default=0)
    sys.path[:] = [kit, *own[:at], *(e for e in fresh if e not in late), *own[at:], *(e for e in fresh if e in late)]


def _is_trusted(entry: str, trustees: _trust.Trustees) -> bool:
    try:
        fault = _trust.distrust_of(entry, trustees)
    except OSError as error:
        fault = str(error)
    if fault and os.environ.get("HOROVOD_LOCAL_RANK", "0") == "0":
        text = f"hvdray: not importing from {entry}: {fault}"
        print(text.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    return not fault


def left_out_with(module: str) -> str:
    """A directory that was left out, and that has this module; empty: none."""
    name = module.partition(".")[0]
    places = ((folder, os.path.join(folder, name)) for folder in left_out)
    return next((folder for folder, path in places if os.path.exists(path) or os.path.exists(path + ".py")), "")
