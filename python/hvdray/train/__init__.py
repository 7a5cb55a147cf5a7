# SPDX-License-Identifier: Apache-2.0
"""Trains a loop on workers, with reports, checkpoints and restarts, without Ray. docs/train.md.

The names and shapes are those of ray.train: a loop moves by its import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint
    from ._config import CheckpointConfig, FailureConfig, RunConfig
    from ._result import Result, TrainingFailedError
    from ._session import get_checkpoint, get_context, get_dataset_shard, report
    from ._trainer import Trainer

__all__ = [
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "Trainer",
    "TrainingFailedError",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "report",
]

# Workers import only what a loop uses.
_HOMES = {"Checkpoint": "_checkpoint", "Trainer": "_trainer", "Result": "_result", "TrainingFailedError": "_result"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "_config" if name.endswith("Config") else "_session")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
