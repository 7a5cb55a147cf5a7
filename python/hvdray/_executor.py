# SPDX-License-Identifier: Apache-2.0
"""Workers that stay, and calls on all of them or one. docs/python.md, "Executor"."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import sys
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterable, Iterator, Mapping, Optional, Sequence, Union

from ._calls import Call, Limits, Log, died, limits_of
from ._elastic import (
    DISCOVER_HOSTS_FREQUENCY_SECS,
    Discovery,
    ElasticCall,
    ElasticHosts,
    Place,
    call_of,
    local_hosts,
    settle_limits,
)
from ._errors import HvdrayError, StateLost
from ._kit import BOOTSTRAP, driver_place, kit
from ._launcher import MAX_BLOB, PARAMETERS, Gang, Launcher, Ranks
from ._output import OUTPUTS, OnChunk
from ._memory import place
from ._payload import Payload, dumps
from ._scatter import Scattered
from ._tasks import Tasks
from ._ray_job import check_no_job

if TYPE_CHECKING:
    from ._pool import Pool

GRACE_S = 5.0
NOT_EXECUTED = "HVD-E0301"
PYTHON_OF_RAY = "@python"  # of hvdray serve: that of the node's Ray
CALL = ["fn", "args", "kwargs"]
DEFAULTS: dict[str, Any] = {"num_workers_per_host": 1, "cpus_per_worker": 1, "use_gpu": False, "output": "auto"}  # others: None

Callbacks = Sequence[Callable[[Any], Any]]
Hosts = Union[str, Sequence[str], Mapping[str, int]]


class Executor:
    """Threads: any; calls wait for each other. Not for forked children."""

    _min_workers: Optional[int]  # of elastic calls
    _discovery: Optional[Discovery]

    def __init__(
        self,
        num_workers: Optional[int] = None,
        *,
        num_hosts: Optional[int] = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[int] = None,
        min_workers: Optional[int] = None,
        max_workers: Optional[int] = None,
        hosts: Optional[Union[Hosts, Discovery]] = None,
        backend: str = "auto",
        python: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        working_dir: Optional[str] = None,
        options: Optional[Mapping[str, Any]] = None,
        output: Union[str, OnChunk] = "auto",
        results: str = "pickle",
        pool: Optional["Pool"] = None,
    ):
        """`min_workers`: calls are elastic jobs, whose workers come and go. `hosts`: "a:4,b:4", a list of such, or slots by
        host; of elastic calls also an object with find_available_hosts_and_slots(). `backend`: "local", "ssh" (with hosts),
        "ray", or "auto": ray where this program has called ray.init(). Those of hosts, CPUs and GPUs say what is asked of Ray.
        `options`: long options of `hvdray run`, with '_' for '-'. `output`: see Output. `results`: "json" reads no
        pickles from workers. `pool`: where the workers come from; what else is given must be as the pool has it. Raises
        ValueError and TypeError for what does not fit together."""
        _check_choice("backend", backend, ("auto", "local", "ssh", "ray"))
        if not callable(output):
            _check_choice("output", output, OUTPUTS)
        _check_choice("results", results, ("pickle", "json"))
        for name, number in (
            ("num_workers", num_workers),
            ("num_hosts", num_hosts),
            ("min_workers", min_workers),
            ("max_workers", max_workers),
        ):
            check_number(name, number)
        check_mapping("options", options)
        check_pool(pool)
        if working_dir is not None and not isinstance(working_dir, (str, os.PathLike)):
            raise TypeError(f"working_dir must be a path, not {type(working_dir).__name__}")
        check_no_job(options or {}, "an executor")
        self._init_state(pool, env, results)
        given: dict[str, Any] = {
            "num_workers": num_workers,
            "num_hosts": num_hosts,
            "num_workers_per_host": num_workers_per_host,
            "cpus_per_worker": cpus_per_worker,
            "use_gpu": use_gpu,
            "gpus_per_worker": gpus_per_worker,
            "hosts": hosts,
            "python": python,
            "working_dir": working_dir,
            "output": output,
        }
        if pool is not None:
            if min_workers is not None or max_workers is not None:
                raise ValueError("elastic calls take no pool: their workers and hosts come and go")
            return self._join(pool, given, backend, dict(options or {}))
        self._given = given
        self._options = dict(options or {})
        self._is_on_ray = backend == "ray" or (backend == "auto" and _has_ray())
        self._uses_current_group = True
        asked = _asked_of_ray(num_workers, num_hosts, num_workers_per_host, cpus_per_worker, use_gpu, gpus_per_worker)
        if asked and not self._is_on_ray:
            raise ValueError(f"{next(iter(asked)).replace('per_slot', 'per_worker')} is asked of Ray, and this is not for Ray: call ray.init(), or say backend=\"ray\"")
        for name, value in asked.items():
            _check_once(name, value, {name} & set(self._options))
            self._options[name] = value
        self._min_workers = min_workers
        named = {"hosts", "hostfile", "cluster", "host_discovery_script"} & set(self._options)
        settle_limits(self._options, num_workers, min_workers, max_workers)
        _check_once("hosts", hosts, sorted(named))
        _check_once("num_workers", num_workers, {"np", "num_proc"} & set(self._options))
        _check_once("working_dir", working_dir, {"cwd"} & set(self._options))
        has_hosts = hosts is not None or bool(named)
        if self._is_on_ray and {"hostfile", "cluster", "ray", "ray_address"} & set(self._options):
            raise ValueError("the hosts of an executor on Ray are those of this program's Ray")
        if backend == "ssh" and not has_hosts:
            raise ValueError('backend="ssh" needs hosts')
        if backend == "local" and has_hosts:
            raise ValueError('backend="local" takes no hosts')
        if (
            num_workers is None
            and num_hosts is None
            and min_workers is None
            and not has_hosts
            and not {"np", "num_proc"} & set(self._options)
        ):
            raise ValueError("num_workers is not given; nor are hosts, whose slots it would be")
        if hasattr(hosts, "find_available_hosts_and_slots"):
            if min_workers is None:
                raise ValueError("hosts that are discovered need min_workers")
            self._discovery = hosts
        elif hosts is not None:
            self._options["hosts"] = _hosts_text(hosts)
        if num_workers is not None:
            self._options["np"] = num_workers
        if not has_hosts and not self._is_on_ray:
            self._options["hosts"] = local_hosts(self._options)  # not those of a batch system around us
        if working_dir is not None:
            self._options["cwd"] = working_dir
        self._python = os.path.expanduser(python) if python else (PYTHON_OF_RAY if self._is_on_ray else sys.executable)
        if not self._python:
            raise ValueError("this program's Python has no sys.executable: name the workers' Python with python=")
        self._output = output
        _living.add(self)

    def _init_state(self, pool: "Optional[Pool]", env: Optional[Mapping[str, str]], results: str) -> None:
        self._pool = pool
        self._env = checked_env(env)
        self._results = results
        self._parameters: Mapping[str, str] = PARAMETERS  # of whoever made us, by option
        self._pid = os.getpid()
        self._turn = threading.RLock()  # of calls
        self._is_calling = False  # under it
        self._launcher: Optional[Launcher] = None
        self._gang: Optional[Gang] = None
        self._kit = 0
        self._size = 0  # of the last gang
        self._tasks = Tasks(self)
        self._call: Optional[Call] = None
        self._calls = 0
        self._on_train: Optional[Callable[[Any, Any], None]] = None  # what a loop tells hvdray.train, blob
        self._told: dict[int, tuple[Launcher, int]] = {}  # by rank: the object of the last answer to its loop
        self._executable: Optional[tuple[Any, tuple[Any, ...], dict[str, Any]]] = None
        self._has_started = False
        self._is_over = False
        self._np: Optional[int] = None  # workers of a gang of the pool; None: all
        self._modules: dict[int, Any] = {}  # by rank: what a worker of the pool has imported
        self._min_workers = None
        self._discovery = None
        self._discovery_interval: Callable[[], float] = lambda: DISCOVER_HOSTS_FREQUENCY_SECS
        self._elastic_hosts: Optional[ElasticHosts] = None
        self._elastic_call: Optional[ElasticCall] = None

    def _join(self, pool: "Pool", given: dict[str, Any], backend: str, options: dict[str, Any]) -> None:
        base = pool.base
        self._is_on_ray = base._is_on_ray
        if backend != "auto" and (backend == "ray") != base._is_on_ray:
            raise ValueError(f"backend={backend!r}, and the pool is {'' if base._is_on_ray else 'not '}on Ray")
        most = base._given["num_workers"]
        self._np = given.pop("num_workers")
        if self._np is not None and most is not None and self._np > most:
            raise ValueError(f"num_workers={self._np}, and the pool has {most}")
        for name, value in given.items():
            if value not in (DEFAULTS.get(name), base._given[name]):
                raise ValueError(f"{name}={value!r}, and the pool has {base._given[name]!r}: what a pool has is given to Pool()")
        for name, value in options.items():
            if name not in base._options or base._options[name] != value:
                raise ValueError(f"options[{name!r}] is not the pool's: options are given to Pool()")
        self._options = base._options
        self._output = base._output
        self._env = {**base._env, **self._env}
        _living.add(self)

    @property
    def env(self) -> dict[str, str]:
        return self._env

    @property
    def is_on_ray(self) -> bool:
        return self._is_on_ray

    # ---- life

    def start(
        self,
        executable_cls: Optional[type] = None,
        executable_args: Optional[Sequence[Any]] = None,
        executable_kwargs: Optional[Mapping[str, Any]] = None,
        extra_env_vars: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Starts the workers, and makes the object on each, for execute(). Without it, the first call starts them. If that
        fails, nothing is left."""
        self._check_process()
        with self._turn:
            self._check_over()
            if self._has_started:
                is_bare = executable_cls is not None and self._executable is None
                hint = "start() comes before the first call: make another executor" if is_bare else "restart() begins anew"
                raise HvdrayError("the executor has been started already", hint=hint)
            self._env.update(checked_env(extra_env_vars))
            if executable_cls is not None:
                names = ("executable_cls", "executable_args", "executable_kwargs")
                self._executable = checked_call(executable_cls, executable_args, executable_kwargs, names)
            self._start_now(None)

    def _start_now(self, deadline: Optional[float]) -> None:
        _living.add(self)
        try:
            self._begin(deadline)
        except BaseException:
            self._end()
            raise
        self._has_started = True

    def restart(self) -> None:
        """Ends the workers, if they live, and starts new ones, with a new object each."""
        self._check_process()
        with self._turn:
            if self._is_over or not self._has_started:
                self._need_start()
                return
            if self._elastic_hosts is not None:
                self._elastic_hosts.close()
            self._end_gang()
            self._begin(None)

    def shutdown(self) -> None:
        """Ends workers and hosts; returns when nothing is left. Also after a failed start, and twice."""
        if os.getpid() != self._pid:
            return
        self._is_over = True
        # A call on another thread, of run_remote() for example, ends with its workers.
        while not self._turn.acquire(timeout=0.1):
            launcher, gang, elastic, call = self._launcher, self._gang, self._elastic_call, self._call
            if elastic is not None:
                elastic.stop(HvdrayError("the executor has been shut down"))
            elif launcher is not None and gang is None and call is not None:
                with launcher.condition:  # It waits for hosts.
                    call.interrupt(HvdrayError("the executor has been shut down"))
                    launcher.condition.notify_all()
            if launcher is not None and gang is not None and launcher.lost is None:
                launcher.stop(gang, self._grace())
        try:
            self._end()
        finally:
            self._turn.release()

    def _end(self) -> None:
        """Leaves nothing. After a failed start, another one may follow."""
        _living.discard(self)
        if self._elastic_hosts is not None:
            self._elastic_hosts.close()
        launcher, self._launcher = self._launcher, None
        try:
            if launcher is not None and launcher.lost is None:
                self._end_gang(launcher)
        finally:
            if self._pool is not None:
                self._tell_pool()
                self._pool.release(self)
            elif launcher is not None:
                launcher.close()

    def __enter__(self) -> "Executor":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        try:
            if kind is None:
                self._tasks.wait()
        finally:
            self.shutdown()

    @property
    def num_workers(self) -> Optional[int]:
        """None: as many as there will be slots."""
        if self._size or self._np:
            return self._size or self._np
        options = self._options
        if options.get("num_hosts") is not None:
            return int(options["num_hosts"] * options["num_slots"])
        return next((int(options[name]) for name in ("np", "num_proc", "min_np") if options.get(name) is not None), None)

    @property
    def is_over(self) -> bool:
        return self._is_over

    def place_text(self) -> str:
        """How many workers, and where."""
        number = len(self.workers) or self.num_workers
        count = "workers of all slots" if number is None else f"{number} worker{'s' * (number != 1)}"
        hosts = ", ".join(dict.fromkeys(worker["host"] for worker in self.workers)) or ("Ray" if self._is_on_ray else self._options.get("hosts", ""))
        return f"{count} on {hosts}" if hosts else count

    def __repr__(self) -> str:
        if self._is_over:
            state = "shut down"
        elif self._is_calling:
            state = "in a call"
        else:
            state = "idle" if self.workers else "workers gone" if self._size else "not started"
        return f"<hvdray.{type(self).__name__}: {self.place_text()}, {state}>"

    @property
    def workers(self) -> list[dict[str, Any]]:
        """By rank: `rank`, `host`, `local_rank`, `pid`, `python`. Empty while no workers live."""
        elastic = self._elastic_call
        if elastic is not None:
            return elastic.workers
        return [dict(worker) for worker in self._gang.workers] if self._gang is not None and self._is_alive() else []

    # ---- calls

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Mapping[str, Any]] = None,
        callbacks: Optional[Callbacks] = None,
        *,
        per_rank: Optional[Sequence[Any]] = None,
        timeout: Optional[float] = None,
    ) -> list[Any]:
        """fn(*args, **kwargs) on all workers; the values by rank. Each of `callbacks` is called here, by the thread that
        waits, with each value that a worker logs (hvdray.ray.ray_logger). `per_rank`: for each rank, what comes behind `args`: a tuple
        of arguments, or one that is no tuple."""
        what: Any = checked_call(fn, args, kwargs)
        if per_rank is not None:
            if isinstance(per_rank, (str, bytes)) or not isinstance(per_rank, Collection):
                raise TypeError(f"per_rank must be a list with the arguments of each rank, not {type(per_rank).__name__}")
            if self._min_workers is not None:
                raise NotImplementedError("elastic calls have no arguments per rank: ranks come and go")
            if self.num_workers not in (None, len(per_rank)):
                raise ValueError(f"per_rank has arguments for {len(per_rank)} ranks, and there are {self.num_workers} workers")
            rows = [one if isinstance(one, tuple) else (one,) for one in per_rank]
            what = [dumps((what[0], (*what[1], *row), what[2]), ["fn", f"(*args, *per_rank[{rank}])", "kwargs"]) for rank, row in enumerate(rows)]
        return self._run_call("run", what, None, self._limits(timeout), callbacks=callbacks)

    def _run_once(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Optional[Mapping[str, Any]], timeout: Optional[float]
    ) -> list[Any]:
        """The only call: a failure need not leave workers that can be used."""
        what = checked_call(fn, args, kwargs)
        return self._run_call("run", what, None, self._limits(timeout)._replace(is_ended_at_once=True))

    def execute(
        self, fn: Callable[[Any], Any], callbacks: Optional[Callbacks] = None, *, timeout: Optional[float] = None
    ) -> list[Any]:
        """fn(object made by start()) on all workers; the values by rank. `callbacks`: as for run()."""
        fn = checked_call(fn)[0]
        return self._run_call("execute", fn, None, self._limits(timeout), callbacks=callbacks)

    def execute_single(self, fn: Callable[[Any], Any], *, timeout: Optional[float] = None) -> Any:
        """The same on rank 0; its value."""
        if self._min_workers is not None:
            raise NotImplementedError("Elastic mode does not support execute_single. Please use the execute method instead")
        return self._run_call("execute", checked_call(fn)[0], [0], self._limits(timeout))[0]

    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Mapping[str, Any]] = None,
    ) -> list["concurrent.futures.Future[Any]"]:
        """As run(), but returns at once, with a future for each rank, which has its value as soon as that is there."""
        if self._min_workers is not None:
            raise NotImplementedError("ObjectRefs cannot be returned from Elastic runs as the workers are ephemeral")
        self._check_process()
        self._check_over()
        if not self._has_started:
            with self._turn:
                self._need_start()
        futures: list[concurrent.futures.Future[Any]] = [concurrent.futures.Future() for _ in range(self._size)]
        what = checked_call(fn, args, kwargs)
        payload = dumps(what, CALL)  # Now: the caller may change them.

        def go() -> None:
            try:
                with self._turn:  # Until then they can be cancelled.
                    if any([future.set_running_or_notify_cancel() for future in futures]):
                        self._run_call("run", payload, None, self._limits(None), on_value)
            except BaseException as error:
                for future in futures:
                    if not future.done():
                        future.set_exception(error)

        def on_value(rank: int, value: Any) -> None:
            if not futures[rank].cancelled():
                futures[rank].set_result(value)

        threading.Thread(target=go, name="hvdray run_remote", daemon=True).start()
        return futures

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        """fn(*args, **kwargs) on one worker, the next that is free, as a concurrent.futures.Executor does. Other calls wait until all
        that is submitted has ended. A worker that dies fails all of it."""
        self._check_tasks()
        return self._tasks.submit(*checked_call(fn, args, kwargs))

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: int = 1) -> Iterator[Any]:
        """As of a concurrent.futures.Executor: the values of fn for each, in order, from as many workers as there are."""
        self._check_tasks()
        return self._tasks.map(checked_call(fn)[0], iterables, timeout, chunksize)

    def scatter(self, value: Any) -> Scattered:
        """For several calls that use a large value: as an argument, or in a closure, it is the value on workers, and goes to each
        host once."""
        return Scattered(dumps(value, ["value"]))

    def _check_tasks(self) -> None:
        if self._min_workers is not None:
            raise NotImplementedError("elastic workers take one call at a time, all of them")
        self._check_process()
        self._check_over()

    def interrupt(self) -> None:
        """From another thread: the call that waits ends as with Ctrl-C."""
        self._tasks.interrupt()
        launcher, call, elastic = self._launcher, self._call, self._elastic_call
        if elastic is not None:
            elastic.interrupt(KeyboardInterrupt())
        elif launcher is not None and call is not None:
            with launcher.condition:
                call.interrupt(KeyboardInterrupt())
                launcher.condition.notify_all()

    # ---- how

    def _limits(self, timeout: Optional[float]) -> Limits:
        return limits_of(self._grace(), timeout)

    def _grace(self) -> float:
        return seconds(self._options.get("grace", GRACE_S), GRACE_S)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("an executor belongs to the process that made it, not to a forked child")

    def _check_over(self) -> None:
        if self._is_over:
            raise HvdrayError("the executor has been shut down", hint="make a new one")

    def _need_start(self, deadline: Optional[float] = None) -> None:
        self._check_over()
        if not self._has_started:
            self._start_now(deadline)

    def _begin(self, deadline: Optional[float]) -> None:
        """Starts a gang, and makes its objects."""
        if self._min_workers is not None:
            return  # Each call has its own job.
        made = None if self._executable is None else dumps(self._executable, ["executable_cls", "executable_args", "executable_kwargs"])
        if self._pool is not None:
            self._tell_pool()
            self._launcher, self._kit = self._pool.take(self, deadline)
        elif self._launcher is not None and not self._launcher.is_usable:
            launcher, self._launcher = self._launcher, None
            launcher.close()
        if self._launcher is None:
            self._launcher = self._launch()
            self._kit = self._launcher.next_object()
            self._launcher.put(self._kit, [kit()])
        call = self._next_call([])
        begin = {
            "call": call.number,
            "do": "begin",
            **driver_place(self._is_on_ray),
            "results": self._results,
            "sees": place(),
        }
        launcher = self._launcher

        def wait() -> None:
            if call.interrupted_by is not None:
                raise call.interrupted_by
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("not all workers have started in time")
            launcher.condition.wait(left)

        try:
            gang = launcher.start(self._env, [self._kit], begin, call.on_data, wait, self._np)
        except BaseException:
            self._abandon(launcher)
            raise
        self._gang = gang
        call.ranks = [worker["rank"] for worker in gang.workers]
        self._size = len(call.ranks) or self._size
        if gang.has_ended:
            if gang.why is not None:
                # Hosts that are lost do not come back to it.
                self._launcher = None
                self._close(launcher)
                raise gang.why
            raise self._not_begun(gang)
        try:
            call.wait(launcher, gang, self._limits(None))
            self._settle(call, launcher, gang)
            if made is not None:
                self._perform("build", made, None, self._limits(None))
        except BaseException:
            self._end_gang()  # Without their objects they are of no use.
            raise

    def _not_begun(self, gang: Gang) -> HvdrayError:
        error = died(gang, list(gang.exited))
        if error.code == NOT_EXECUTED and self._python != PYTHON_OF_RAY:
            error.hint = f"the Python of the workers is {self._python}; python= of an Executor, executable= of hvdray.run names another"
        return error

    def _launch(self, words: Sequence[str] = ()) -> Launcher:
        broker = None
        if self._is_on_ray:
            from ._ray_broker import RayBroker, check_room, current_group, variables

            if not (self._uses_current_group and current_group()):
                check_room(self._options)
            broker = RayBroker(self._uses_current_group)
            self._env.update({name: value for name, value in variables().items() if name not in self._env})
        return Launcher(self._options, [self._python, "-c", BOOTSTRAP], self._output, words, broker, self._parameters)

    def _place(self) -> Place:
        """Of elastic calls."""
        assert self._min_workers is not None
        return Place(
            self._launch,
            self._min_workers,
            self._env,
            self._results,
            self._grace,
            self._discovery,
            self._discovery_interval,
            self._is_on_ray,
        )

    def _abandon(self, launcher: Launcher) -> None:
        """Interrupted, or lost: this launcher is of no use any more."""
        self._launcher = self._gang = None
        self._close(launcher)

    def _close(self, launcher: Launcher) -> None:
        if self._pool is not None:
            self._pool.discard(launcher)
        else:
            launcher.close()

    def _tell_pool(self) -> None:
        """What the workers of a gang that has ended had imported."""
        modules, self._modules = self._modules, {}
        if self._pool is not None and modules:
            self._pool.learn(modules, self._env)

    def _next_number(self) -> int:
        self._calls += 1
        return self._calls

    def _next_call(self, ranks: Sequence[int]) -> Call:
        self._call = Call(self._next_number(), ranks, wants_json=self._results == "json")
        self._call.on_train = self._on_train
        return self._call

    def _run_call(
        self,
        do: str,
        what: Any,
        ranks: Optional[Sequence[int]],
        limits: Limits,
        on_value: Optional[Callable[[int, Any], None]] = None,
        callbacks: Optional[Callbacks] = None,
    ) -> list[Any]:
        self._check_process()
        check_callbacks(callbacks)
        with self._own_turn(limits):
            deadline = limits.deadline
            self._need_start(deadline)
            if self._min_workers is not None:
                if self._elastic_hosts is None:
                    self._elastic_hosts = ElasticHosts(self._place())
                self._elastic_call = ElasticCall(self._elastic_hosts, call_of(do, what, self._executable), Log(callbacks))
                self._elastic_call.on_train = self._on_train
                try:
                    return self._elastic_call.run(limits)
                finally:
                    self._elastic_call = None
            payload = what if isinstance(what, (Payload, list)) else dumps(what, CALL if do == "run" else CALL[:1])
            self._need_gang(deadline)
            return self._perform(do, payload, ranks, limits, on_value, callbacks)

    def _need_gang(self, deadline: Optional[float]) -> None:
        if self._launcher is not None and self._gang is not None and self._gang.is_given_up:
            self._wait_for_end(self._launcher, self._gang)
        if not self._is_alive():
            if self._executable is not None:
                raise StateLost("the workers and their objects are gone", hint="restart() makes new ones")
            self._begin(deadline)

    @contextlib.contextmanager
    def _gang_for_tasks(self) -> Iterator[tuple[Launcher, Gang]]:
        with self._own_turn(self._limits(None)):
            self._need_start()
            self._need_gang(None)
            assert self._launcher is not None and self._gang is not None
            yield self._launcher, self._gang

    @contextlib.contextmanager
    def _own_turn(self, limits: Limits) -> Iterator[None]:
        """Calls of several threads wait for each other. Raises TimeoutError."""
        left = -1 if limits.deadline is None else max(limits.deadline - time.monotonic(), 0)
        if not self._turn.acquire(timeout=left):
            raise TimeoutError(f"another call has had the workers for {limits.timeout_s:g} s")
        try:
            if self._is_calling:
                raise RuntimeError("a call is under way on this thread: its callbacks, and signal handlers, can't make another one")
            self._is_calling = True
            try:
                yield
            finally:
                self._is_calling = False
        finally:
            self._turn.release()

    def _answer_loop(self, rank: int, data: dict[str, Any], content: bytes) -> None:
        """To a loop that waits for it, from any thread. Lost with its worker."""
        elastic = self._elastic_call
        launcher, gang = (self._launcher, self._gang) if elastic is None else elastic.place
        if launcher is None or gang is None or gang.has_ended:
            return
        before, number = self._told.pop(rank, (None, 0))
        if before is launcher:  # It has asked again, so it has it.
            launcher.drop(number)
        if len(content) <= MAX_BLOB:
            return launcher.send(gang, [rank], [], data, [content] if content else [])
        number = launcher.next_object()
        launcher.put(number, [content])
        launcher.send(gang, [rank], [number], {**data, "object": number}, [])
        self._told[rank] = launcher, number

    def _is_alive(self) -> bool:
        launcher, gang = self._launcher, self._gang
        return launcher is not None and launcher.lost is None and gang is not None and not gang.has_ended

    def _perform(
        self,
        do: str,
        payload: Union[Payload, list[Payload]],
        ranks: Optional[Sequence[int]],
        limits: Limits,
        on_value: Optional[Callable[[int, Any], None]] = None,
        callbacks: Optional[Callbacks] = None,
    ) -> list[Any]:
        launcher, gang = self._launcher, self._gang
        assert launcher is not None and gang is not None
        call = self._next_call(ranks if ranks is not None else range(len(gang.workers)))
        with launcher.condition:
            gang.on_data = call.on_data
        head: dict[str, Any] = {"call": call.number, "do": do, "logs": bool(callbacks)}
        if self._pool is not None and self._pool.wants_modules:
            head["modules"] = True
        call.log = Log(callbacks)
        call.on_value = on_value
        posts: list[tuple[Ranks, Payload]] = [("all" if ranks is None else list(ranks), payload)] if isinstance(payload, Payload) else []
        if isinstance(payload, list):
            if len(payload) != len(gang.workers):
                raise ValueError(f"per_rank has arguments for {len(payload)} ranks, and there are {len(gang.workers)} workers")
            posts = [([rank], part) for rank, part in enumerate(payload)]
        try:
            shared = self._post(launcher, gang, posts, head, call.interrupt)
        except BaseException:
            self._call = None  # No worker knows of it.
            raise
        call.wait(launcher, gang, limits)
        for number in shared if launcher.lost is None else ():
            launcher.drop(number)
        return self._settle(call, launcher, gang)

    def _post(
        self,
        launcher: Launcher,
        gang: Gang,
        posts: Sequence[tuple[Ranks, Payload]],
        head: dict[str, Any],
        on_interrupt: Callable[[BaseException], None],
    ) -> list[int]:
        """Sends one call to some ranks each. Returns the objects that it needs."""
        objects = [launcher.next_object() if payload.total > MAX_BLOB else 0 for _, payload in posts]
        shared = list(filter(None, objects))
        ranks = [list(range(len(gang.workers))) if isinstance(to, str) else list(to) for to, _ in posts]
        scattered = []
        try:
            for number, to, (_, payload) in zip(objects, ranks, posts):
                scattered.append([handle.on(launcher, gang, to) for handle in payload.scattered])
                if number:
                    launcher.put(number, payload.parts)
        except BaseException:
            # The bytes are still on their way, and then of no use.
            threading.Thread(target=lambda: list(map(launcher.drop, shared)), name="hvdray drop", daemon=True).start()
            raise
        for number, members, (asked, payload), values in zip(objects, ranks, posts, scattered):
            own: dict[str, Any] = {**head, "sizes": payload.sizes}
            if number:
                own["object"] = number
            if values:
                own["scattered"] = [told for told, _ in values]
            needed = [lacking for _, lacks in values for lacking in lacks]
            try:
                launcher.send(gang, asked, [*needed, number] if number else needed, own, [] if number else payload.parts)
                for handle in payload.scattered:
                    handle.note_sent(gang, members)
            except KeyboardInterrupt as why:
                on_interrupt(why)
        return shared

    def _settle(self, call: Call, launcher: Launcher, gang: Gang) -> list[Any]:
        try:
            launcher.show_output()  # What workers printed before they answered is there, too.
        finally:
            self._call = None
        if call.killed or (call.failed is not None and call.pending()):
            self._wait_for_end(launcher, gang)
        self._modules.update({rank: answer.head["modules"] for rank, answer in call.answers.items() if "modules" in answer.head})
        return call.outcome(gang)

    def _wait_for_end(self, launcher: Launcher, gang: Gang, timeout: Optional[float] = None) -> bool:
        with launcher.condition:
            return launcher.condition.wait_for(lambda: gang.has_ended or launcher.lost is not None, timeout)

    def _end_gang(self, launcher: Optional[Launcher] = None) -> None:
        """Workers that are not in a call end by themselves, in good order; else they are told to."""
        launcher, gang = launcher or self._launcher, self._gang
        self._gang = None
        if launcher is None or gang is None or gang.has_ended:
            return
        launcher.send(gang, "all", [], {"call": 0, "do": "quit"}, [])
        if not self._wait_for_end(launcher, gang, self._grace()):
            launcher.stop(gang, self._grace())
            self._wait_for_end(launcher, gang)


_living: "weakref.WeakSet[Executor]" = weakref.WeakSet()


@atexit.register
def _shut_down_all() -> None:
    for executor in list(_living):
        executor.shutdown()


def seconds(value: Any, otherwise: float) -> float:
    """As hvdray reads a time: 20, "20s", "0.5m"; what it would refuse is left to it. At most an hour, as for `stop`."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    text = str(value).strip()
    number = text.rstrip("usmhd")
    try:
        seconds = float(number) * units[text[len(number) :] or "s"]
    except (ValueError, KeyError):
        return otherwise
    return min(max(seconds, 0.0), 3600.0)


def _check_once(name: str, value: Any, options: Iterable[str]) -> None:
    for option in options:
        if value is not None:
            raise ValueError(f"{name} and options[{option!r}] are both given")


def check_mapping(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {type(value).__name__}")


def check_pool(value: Any) -> None:
    if value is not None and not isinstance(getattr(value, "base", None), Executor):  # as only a Pool has it
        raise TypeError(f"pool must be a Pool, not {type(value).__name__}")


def check_callbacks(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection) or not all(map(callable, value)):
        raise TypeError("callbacks must be a list of functions")


def check_number(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value is not None and value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")


def checked_call(
    fn: Any, args: Any = None, kwargs: Any = None, names: Sequence[str] = ("fn", "args", "kwargs")
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Raises TypeError for what each worker would raise it for, with the name of the parameter."""
    if not callable(fn):
        raise TypeError(f"{names[0]} must be callable, not {type(fn).__name__}: workers call it")
    if isinstance(args, (str, bytes)) or not isinstance(args, (Iterable, type(None))):
        raise TypeError(f"{names[1]} must be a list or tuple of arguments, not {type(args).__name__}")
    if not isinstance(kwargs, (Mapping, type(None))):
        raise TypeError(f"{names[2]} must be a dict of arguments, not {type(kwargs).__name__}")
    return fn, () if args is None else tuple(args), {} if kwargs is None else dict(kwargs)


def _has_ray() -> bool:
    """This program uses Ray."""
    from sys import modules

    ray = modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _asked_of_ray(
    num_workers: Optional[int],
    num_hosts: Optional[int],
    num_workers_per_host: int,
    cpus_per_worker: float,
    use_gpu: bool,
    gpus_per_worker: Optional[int],
) -> dict[str, Any]:
    """As options of `hvdray run --ray`; without its defaults. Raises ValueError."""
    if num_workers is not None and num_hosts is not None:
        raise ValueError("num_workers and num_hosts are both given: hosts have num_workers_per_host each")
    if gpus_per_worker and not use_gpu:
        raise ValueError("gpus_per_worker is set, but use_gpu is False. use_gpu must be True if gpus_per_worker is set. ")
    if use_gpu and gpus_per_worker is not None and gpus_per_worker < 1:
        raise ValueError(f"gpus_per_worker must be >= 1: Got {gpus_per_worker}.")
    asked: dict[str, Any] = {}
    if num_hosts is not None:
        asked.update(num_hosts=num_hosts, num_slots=num_workers_per_host)
    if cpus_per_worker != 1:
        asked["cpus_per_slot"] = cpus_per_worker
    if use_gpu:
        asked["use_gpu"] = True
    if gpus_per_worker:
        asked["gpus_per_slot"] = gpus_per_worker
    return asked


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def checked_env(env: Optional[Mapping[str, str]]) -> dict[str, str]:
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env must be a mapping of texts, not {type(env).__name__}")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name or any(char.isspace() for char in name):
            raise ValueError(f"not the name of a variable: {name!r}")
        if not isinstance(value, str) or "\0" in value:
            raise TypeError(f"the value of the variable {name} must be a text without NUL, not {type(value).__name__}")
        if any("\ud800" <= char <= "\udfff" for char in name + value):
            raise ValueError(f"the variable {name!r} is not UTF-8")
    return dict(env or {})


def _hosts_text(hosts: Hosts) -> str:
    if isinstance(hosts, str):
        return hosts
    if isinstance(hosts, Mapping):
        return ",".join(f"{host}:{slots}" for host, slots in hosts.items())
    if not isinstance(hosts, (list, tuple)) or not all(isinstance(host, str) for host in hosts):
        raise TypeError(f'hosts must be "a:4,b:4", ["a:4", "b:4"] or {{"a": 4, "b": 4}}, not {hosts!r}')
    return ",".join(hosts)
