# SPDX-License-Identifier: Apache-2.0
"""An actor for programs that make Horovod's workers themselves. Executors do not use it: their workers are no actors."""

from __future__ import annotations

import os
import socket
from typing import Any, Callable, Mapping, Optional, Sequence


class BaseHorovodWorker:
    """For `ray.remote(BaseHorovodWorker)`, as horovod.ray's."""

    executable: Any = None

    def __init__(self, world_rank: int = 0, world_size: int = 1):
        self.update_env_vars({"HOROVOD_HOSTNAME": self.node_id(), "HOROVOD_RANK": world_rank, "HOROVOD_SIZE": world_size})

    def node_id(self) -> str:
        """Of Ray, in hexadecimal digits."""
        return str(_ray().get_runtime_context().get_node_id())

    def hostname(self) -> str:
        return socket.gethostname()

    def get_gpu_ids(self) -> list[Any]:
        return list(_ray().get_gpu_ids())

    def update_env_vars(self, env_vars: Mapping[str, Any]) -> None:
        """Values of any type, as texts."""
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> dict[str, str]:
        return dict(os.environ)

    def start_executable(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[Sequence[Any]] = None,
        executable_kwargs: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if executable_cls is not None:
            self.executable = executable_cls(*(executable_args or ()), **(executable_kwargs or {}))

    def execute(self, func: Callable[[Any], Any]) -> Any:
        return func(self.executable)


def _ray() -> Any:
    import ray  # type: ignore[import]

    return ray
