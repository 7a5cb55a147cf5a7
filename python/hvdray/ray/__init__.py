# SPDX-License-Identifier: Apache-2.0
"""What horovod.ray offers, at its paths, on hvdray: change the import, `horovod.ray` to `hvdray.ray`. docs/python.md."""

from __future__ import annotations

from .elastic import ElasticRayExecutor as ElasticRayExecutor
from .runner import RayExecutor as RayExecutor
from .worker import BaseHorovodWorker as BaseHorovodWorker

__all__ = ["BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"]
