# SPDX-License-Identifier: Apache-2.0
"""Calls functions on workers that `hvdray` starts: on this machine or on other hosts. docs/python.md.

Python decides nothing: the program `hvdray serve` starts, supervises and ends the workers (docs/serve.md). This package
turns calls into messages for it, and answers into results and exceptions. Importing it imports next to nothing.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# What older ones say of the other modules is that their syntax is wrong. A host may have one.
if sys.version_info < (3, 9):
    raise ImportError(f"hvdray needs Python 3.9 or later, and {sys.executable} is {sys.version.split()[0]}")

_HOMES = {
    "run": "_run",
    "Executor": "_executor",
    "Pool": "_pool",
    "ship": "_payload",
    "HvdrayError": "_errors",
    "LauncherLost": "_errors",
    "PlacementTimeout": "_errors",
    "SerializationError": "_errors",
    "StateLost": "_errors",
    "WorkerDied": "_errors",
    "WorkerError": "_errors",
}

__all__ = [
    "Executor",
    "HvdrayError",
    "LauncherLost",
    "PlacementTimeout",
    "Pool",
    "SerializationError",
    "StateLost",
    "WorkerDied",
    "WorkerError",
    "run",
    "ship",
]

if TYPE_CHECKING:
    from ._errors import HvdrayError as HvdrayError
    from ._errors import LauncherLost as LauncherLost
    from ._errors import PlacementTimeout as PlacementTimeout
    from ._errors import SerializationError as SerializationError
    from ._errors import StateLost as StateLost
    from ._errors import WorkerDied as WorkerDied
    from ._errors import WorkerError as WorkerError
    from ._executor import Executor as Executor
    from ._payload import ship as ship
    from ._pool import Pool as Pool
    from ._run import run as run


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
