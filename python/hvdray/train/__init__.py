# SPDX-License-Identifier: Apache-2.0
"""Trains a loop on workers, with reports, checkpoints and restarts, without Ray. docs/train.md.

The names and shapes are those of ray.train: a loop moves by its import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Checkpoint": "_checkpoint",
    "CheckpointConfig": "_config",
    "FailureConfig": "_config",
    "Result": "_result",
    "RunConfig": "_config",
    "Trainer": "_trainer",
    "TrainingFailedError": "_result",
    "get_checkpoint": "_session",
    "get_context": "_session",
    "get_dataset_shard": "_session",
    "report": "_session",
}

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

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint as Checkpoint
    from ._config import CheckpointConfig as CheckpointConfig
    from ._config import FailureConfig as FailureConfig
    from ._config import RunConfig as RunConfig
    from ._result import Result as Result
    from ._result import TrainingFailedError as TrainingFailedError
    from ._session import get_checkpoint as get_checkpoint
    from ._session import get_context as get_context
    from ._session import get_dataset_shard as get_dataset_shard
    from ._session import report as report
    from ._trainer import Trainer as Trainer


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
