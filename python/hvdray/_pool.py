# SPDX-License-Identifier: Apache-2.0
"""Hosts that stay connected and interpreters that have done their imports, for executors one after the other.
docs/python.md, "Pool"."""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

from ._calls import limits_of
from ._errors import HvdrayError
from ._executor import Executor, Hosts
from ._kit import STANDARD_IMPORTS, kit
from ._launcher import Launcher
from ._output import OnChunk

MAX_MODULES = 256  # of the message `warm`
_NAME = re.compile(r"[A-Za-z0-9_]{1,256}(\.[A-Za-z0-9_]+)*")


class Pool:
    """Threads: any. Not for forked children."""

    def __init__(
        self,
        num_workers: Optional[int] = None,
        *,
        preload: Union[str, Sequence[str]] = "auto",
        num_hosts: Optional[int] = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[int] = None,
        hosts: Optional[Hosts] = None,
        backend: str = "auto",
        python: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        working_dir: Optional[str] = None,
        options: Optional[Mapping[str, Any]] = None,
        output: Union[str, OnChunk] = "auto",
    ):
        """`preload`: modules that hosts import at once; "auto": those that the workers of the first executor with calls have
        imported. The rest as Executor. Raises ValueError, TypeError and HvdrayError."""
        self._modules = _checked_modules(preload)  # empty: not known yet
        self._is_learnt = preload == "auto"
        if "preload" in (options or {}):
            raise ValueError("preload is a parameter of the pool, and no option")
        self.base = Executor(
            num_workers,
            num_hosts=num_hosts,
            num_workers_per_host=num_workers_per_host,
            cpus_per_worker=cpus_per_worker,
            use_gpu=use_gpu,
            gpus_per_worker=gpus_per_worker,
            hosts=hosts,
            backend=backend,
            python=python,
            env=env,
            working_dir=working_dir,
            options=options,
            output=output,
        )  # Never started: what the executors of the pool have in common.
        self._env = dict(self.base.env)  # of the gangs that the hosts are warm for
        self._lock = threading.RLock()
        self._user: Optional[Executor] = None
        self._own: Optional[Executor] = None  # of submit() and map()
        self._launcher: Optional[Launcher] = None
        self._kit = 0
        self._is_over = False
        self._pid = os.getpid()
        _living.add(self)
        self._connect()

    # ---- for the program

    def wait_warm(self, timeout: Optional[float] = None) -> bool:
        """Waits until all hosts have done the imports. False: a host can't, and has said why; or it is not known yet what to
        import. Raises TimeoutError, and LauncherLost."""
        deadline = limits_of(0, timeout).deadline
        with self._lock:
            self._check_over()
            launcher = self._launcher if self._modules else None
        if launcher is None:
            return False
        with launcher.condition:
            while launcher.is_warm is None:
                launcher.check()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"not all hosts are warm after {timeout:g} s")
                launcher.condition.wait(left)
            return launcher.is_warm

    @property
    def preload(self) -> list[str]:
        """What hosts import. Empty: not known yet."""
        return list(self._modules)

    def close(self) -> None:
        """Shuts its executor down, and ends the hosts; returns when nothing is left. May be called again."""
        if os.getpid() != self._pid:
            return
        self._is_over = True
        user = self._user
        if user is not None:
            user.shutdown()
        with self._lock:
            _living.discard(self)
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        try:
            if kind is None and self._own is not None:
                self._own._tasks.wait()
        finally:
            self.close()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """As of an Executor, on all workers of the pool, which keeps them for the next one until another executor wants them."""
        return self._executor().submit(fn, *args, **kwargs)

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: int = 1) -> Iterator[Any]:
        return self._executor().map(fn, *iterables, timeout=timeout, chunksize=chunksize)

    def _executor(self) -> Executor:
        with self._lock:
            self._check_over()
            if self._own is None or self._own.is_over:
                self._own = Executor(pool=self)
            return self._own

    @property
    def num_workers(self) -> Optional[int]:
        """None: as many as there will be slots."""
        return self.base.num_workers

    def __repr__(self) -> str:
        imports = f", with {', '.join(self._modules[:3])}{', …' * (len(self._modules) > 3)} imported" if self._modules else ""
        state = "closed" if self._is_over else "in use" if self._user is not None else "free"
        return f"<hvdray.Pool: {self.base.place_text()}{imports}, {state}>"

    @property
    def is_on_ray(self) -> bool:
        return self.base.is_on_ray

    # ---- for its executors

    def take(self, user: Executor, deadline: Optional[float] = None) -> tuple[Launcher, int]:
        """The launcher, and the number of the kit there. Again, for a further gang of that executor. Waits for the pool's own tasks.
        Raises HvdrayError, and TimeoutError."""
        own = self._own
        if own is not None and self._user is own is not user and not own._tasks.wait(deadline) and deadline is not None:
            raise TimeoutError("the pool's own tasks, of submit() and map(), still run")
        with self._lock:
            self._check_over()
            if self._own is not None and self._user is self._own is not user and not self._own._tasks.are_there:
                self._own.shutdown()
            if self._user not in (None, user):
                raise HvdrayError("the pool is in use by another executor", hint="shutdown() that one first, or make another Pool")
            self._connect()
            assert self._launcher is not None
            if not self._kit:
                self._kit = self._launcher.next_object()
                self._launcher.put(self._kit, [kit()])
            self._user = user
            return self._launcher, self._kit

    def release(self, user: Executor) -> None:
        """Its gang has ended, or shall end now. May be called again."""
        with self._lock:
            if self._user is not user:
                return
            self._user = None
            launcher = self._launcher
            if launcher is not None and (launcher.is_busy or not launcher.is_usable):
                self.discard(launcher)

    def discard(self, launcher: Launcher) -> None:
        """It is of no use any more; the next executor gets another one."""
        with self._lock:
            if self._launcher is launcher:
                self._launcher = None
        launcher.close()

    @property
    def wants_modules(self) -> bool:
        return not self._modules

    def learn(self, modules: Mapping[int, Any], env: Mapping[str, str]) -> None:
        """`modules`: by rank, what a worker has imported, if it is to be believed. `env`: of its gang, which has ended."""
        names = common_modules(list(modules.values()))
        with self._lock:
            if self._modules or not names or self._is_over:
                return
            self._modules = names
            self._env = dict(env)
            if self._launcher is not None and self._launcher.is_usable:
                self._warm(self._launcher)

    def add(self, modules: Sequence[str]) -> None:
        """Hosts import these, too, where that can be, before the gangs that follow; nothing else is learnt then."""
        with self._lock:
            self._modules = list(dict.fromkeys([*self._modules, *filter(_is_name, modules)]))[:MAX_MODULES]
            if self._launcher is not None and self._launcher.is_usable:
                self._warm(self._launcher)

    def _connect(self) -> None:
        if self._launcher is not None and not self._launcher.is_usable:
            self.discard(self._launcher)
        if self._launcher is None:
            self._launcher, self._kit = self.base._launch(), 0
            self._env = {**self.base.env, **self._env}  # On Ray, more variables.
            if self._modules:
                self._warm(self._launcher)

    def _warm(self, launcher: Launcher) -> None:
        # One that needs a rank, for example, is left to the workers.
        modules = [f"?{name}" for name in self._modules] if self._is_learnt else self._modules
        besides = [f"?{name}" for name in STANDARD_IMPORTS if name not in self._modules]
        launcher.warm([*modules, *besides][:MAX_MODULES], self._env)

    def _check_over(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a pool belongs to the process that made it, not to a forked child")
        if self._is_over:
            raise HvdrayError("the pool has been closed", hint="make a new one")


_living: "weakref.WeakSet[Pool]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for pool in list(_living):
        pool.close()


def common_modules(told: Sequence[Any]) -> list[str]:
    """`told`: by worker, what it has imported, if it is to be believed. In the order of the first."""
    lists = [[name for name in names if _is_name(name)] for names in told if isinstance(names, list)]
    common = set(lists[0]).intersection(*lists[1:]) if lists else set()
    return [name for name in lists[0] if name in common][:MAX_MODULES] if lists else []


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and len(name) < 256 and name != "auto"


def _checked_modules(preload: Union[str, Sequence[str]]) -> list[str]:
    if preload == "auto":
        return []
    if isinstance(preload, str):
        raise ValueError(f'preload must be "auto" or a list of modules, not {preload!r}')
    modules = list(dict.fromkeys(preload))
    for name in modules:
        if not _is_name(name):
            raise ValueError(f"preload: not the name of a module: {name!r}")
    if not 1 <= len(modules) <= MAX_MODULES:
        raise ValueError(f"preload must name 1 to {MAX_MODULES} modules, not {len(modules)}")
    return modules
