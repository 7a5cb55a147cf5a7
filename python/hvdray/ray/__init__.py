# SPDX-License-Identifier: Apache-2.0
"""What horovod.ray offers, at its paths, on hvdray: change the import, `horovod.ray` to `hvdray.ray`. docs/python.md."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .elastic import ElasticRayExecutor as ElasticRayExecutor
    from .runner import RayExecutor as RayExecutor
    from .worker import BaseHorovodWorker as BaseHorovodWorker

_HOMES = {"BaseHorovodWorker": "worker", "ElasticRayExecutor": "elastic", "RayExecutor": "runner"}
_MODULES = ("elastic", "elastic_v2", "ray_logger", "runner", "strategy", "worker")

__all__ = ["BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"]


def __getattr__(name: str) -> Any:
    # Workers of a trial need none of them, and each trial has new ones.
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__, *_MODULES})
