# SPDX-License-Identifier: Apache-2.0
"""Searches for hyperparameters: our slots, Optuna's search, pruning and storage.

What a trial calls (config, report, get_checkpoint) needs no Optuna: it runs on hosts that have only an interpreter.
"""

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "TuneError": "_errors",
    "config": "_trial",
    "get_checkpoint": "_trial",
    "report": "_trial",
    "run": "_run",
    "trial_dir": "_trial",
    "trial_id": "_trial",
}

__all__ = ["TuneError", "config", "get_checkpoint", "report", "run", "trial_dir", "trial_id"]

if TYPE_CHECKING:
    from ._errors import TuneError as TuneError
    from ._run import run as run
    from ._trial import config as config
    from ._trial import get_checkpoint as get_checkpoint
    from ._trial import report as report
    from ._trial import trial_dir as trial_dir
    from ._trial import trial_id as trial_id


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
