# SPDX-License-Identifier: Apache-2.0
"""Object references for values that arrive here: run_remote() of a RayExecutor."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from typing import Any


class Results:
    """An actor without CPUs that answers once it has been given the value."""

    def __init__(self) -> None:
        import ray  # type: ignore[import]

        from .. import _errors

        # Nodes have no hvdray: errors go by value, and are again of our classes when they come back. So does the actor.
        ray.cloudpickle.register_pickle_by_value(_errors)

        class Held:
            def __init__(self) -> None:
                self.futures: dict[int, Any] = {}

            def future(self, key: int) -> Any:
                import asyncio

                return self.futures.setdefault(key, asyncio.get_running_loop().create_future())

            async def give(self, key: int, value: Any) -> None:
                self.future(key).set_result(value)

            async def fail(self, key: int, error: BaseException) -> None:
                self.future(key).set_exception(error)

            async def value(self, key: int) -> Any:
                try:
                    return await self.future(key)
                finally:
                    del self.futures[key]

        self._ray = ray
        self._keys = itertools.count()
        # "DEFAULT": not within a placement group that this process may be in.
        options = {"num_cpus": 0, "max_concurrency": 1 << 16, "scheduling_strategy": "DEFAULT"}
        self._actor = ray.remote(Held).options(**options).remote()

    def ref_of(self, future: "Future[Any]") -> Any:
        key = next(self._keys)
        ref = self._actor.value.remote(key)

        def tell(done: "Future[Any]") -> None:
            error = done.exception()
            if error is None:
                self._actor.give.remote(key, done.result())
            else:
                self._actor.fail.remote(key, error)

        future.add_done_callback(tell)
        return ref

    def close(self) -> None:
        self._ray.kill(self._actor)
