# SPDX-License-Identifier: Apache-2.0
"""`hvdray.run`: one function on all workers of one job, with the parameters of horovod.run."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence

from ._calls import limits_of
from ._elastic import settle_limits
from ._errors import WorkerDied, WorkerError
from ._executor import GRACE_S, Executor, check_mapping, check_number, check_pool, checked_call, checked_env, seconds
from ._ray_job import asks_for_job, check_alone, run_as_job

if TYPE_CHECKING:
    from ._pool import Pool

PARAMETERS = {"np": "num_proc", "min_np": "min_num_proc", "max_np": "max_num_proc", "slots_per_host": "slots"}  # by option

# Scripts search for this sentence of Horovod's.
SENTENCE = (
    "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated. "
    "The first process to do so was:\nProcess name: {}\nExit code: {}\n"
)


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: Optional[int] = None,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Sequence[int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
    start_timeout: Optional[float] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    network_interfaces: Optional[Sequence[str]] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
    *,
    env: Optional[Mapping[str, str]] = None,
    options: Optional[Mapping[str, Any]] = None,
    pool: "Optional[Pool]" = None,
    timeout: Optional[float] = None,
) -> list[Any]:
    """Returns the function's values by rank. A failure ends all workers at once; see docs/python.md for what it raises.
    With `min_num_proc` or `host_discovery_script` it is an elastic job, and returns the values of the first `min_num_proc`
    ranks of its last generation. `pool`: where the workers come from, by default all of its workers; other parameters of hosts and
    workers must be as the pool has them. `timeout`: seconds, with the start of the workers; then TimeoutError. Needs no `if __name__ == "__main__"`."""
    if hosts and hostfile:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    if use_mpi or mpi_args:
        raise ValueError("hvdray starts workers itself: there is no use_mpi, and there are no mpi_args")
    num_proc = _renamed("np", np, "num_proc", num_proc)
    min_num_proc = _renamed("min_np", min_np, "min_num_proc", min_num_proc)
    max_num_proc = _renamed("max_np", max_np, "max_num_proc", max_num_proc)
    for name, number in (("num_proc", num_proc), ("min_num_proc", min_num_proc), ("max_num_proc", max_num_proc)):
        check_number(name, number)
    checked_call(func, args, kwargs, ("func", "args", "kwargs"))
    check_mapping("options", options)
    check_pool(pool)
    limits_of(0, timeout)
    is_elastic = min_num_proc is not None or bool(host_discovery_script)
    least = (min_num_proc if min_num_proc is not None else num_proc or 1) if is_elastic else None
    if network_interface:
        _warn_renamed("network_interface", "network_interfaces")
        if network_interfaces:
            raise ValueError("network_interface and network_interfaces are both given")
        network_interfaces = network_interface
    if isinstance(network_interfaces, str):
        network_interfaces = network_interfaces.split(",")
    if network_interfaces is not None and not all(isinstance(name, str) for name in _listed("network_interfaces", network_interfaces)):
        raise TypeError("network_interfaces must be a list of names")
    if cooldown_range is not None and (isinstance(cooldown_range, str) or len(_listed("cooldown_range", cooldown_range)) != 2):
        raise ValueError(f"cooldown_range must be two numbers, not {cooldown_range!r}")
    if min_num_proc is not None and max_num_proc is not None and min_num_proc > max_num_proc:
        raise ValueError(f"min_num_proc={min_num_proc} is above max_num_proc={max_num_proc}")
    given: dict[str, Any] = {
        "hostfile": hostfile,
        "host_discovery_script": host_discovery_script,
        "slots_per_host": slots,
        "blacklist_cooldown_range": list(cooldown_range) if cooldown_range else None,
        "start_timeout": start_timeout,
        "ssh_port": ssh_port,
        "ssh_identity_file": ssh_identity_file,
        "disable_cache": disable_cache,
        "output_filename": output_filename,
        "verbose": bool(verbose),
        "network_interfaces": ",".join(network_interfaces) if network_interfaces else None,
    }
    given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items() if value}
    if reset_limit is not None:
        given["reset_limit"] = reset_limit
    if is_elastic and num_proc is not None:
        given["np"] = num_proc
    for name in given:
        if name in (options or {}):
            raise ValueError(f"{name} and options[{name!r}] are both given")
    options = {**given, **(options or {})}
    if asks_for_job(options) is not None:
        check_alone(pool, options)
        settle_limits(options, None if is_elastic else num_proc, least, max_num_proc if is_elastic else None)
        for name, value in (("hosts", hosts), ("np", None if is_elastic else num_proc)):
            if value and name in options:
                raise ValueError(f"{name} and options[{name!r}] are both given")
            if value:
                options[name] = value
        grace_s = seconds(options.get("grace", GRACE_S), GRACE_S)
        with _horovods_words():
            return run_as_job(func, args, kwargs, executable, checked_env(env), options, least, limits_of(grace_s, timeout), PARAMETERS)[:least]
    has_hosts = bool(hosts) or bool({"hosts", "hostfile", "cluster", "host_discovery_script"} & set(options))
    default = 1 if pool is None and not {"np", "num_proc"} & set(options) else None
    executor = Executor(
        None if is_elastic else num_proc if num_proc is not None else default,
        min_workers=least,
        max_workers=max_num_proc if is_elastic else None,
        hosts=hosts or None,
        # Without a pool, as horovod.run, also in a program that uses Ray.
        backend="auto" if pool is not None else "ssh" if has_hosts else "local",
        python=executable,
        env=env,
        options=options,
        pool=pool,
    )
    executor._parameters = PARAMETERS
    try:
        with _horovods_words():
            return executor._run_once(func, args, kwargs, timeout)[:least]
    finally:
        executor.shutdown()


@contextlib.contextmanager
def _horovods_words() -> Iterator[None]:
    try:
        yield
    except WorkerError as error:
        sentence = SENTENCE.format(f"{error.rank}", error.exit_code if isinstance(error, WorkerDied) else 1)
        error.message = sentence + error.message
        raise


def _renamed(old: str, old_value: Optional[int], new: str, new_value: Optional[int]) -> Optional[int]:
    if old_value is None:
        return new_value
    _warn_renamed(old, new)
    if new_value is not None:
        raise ValueError(f"{old} and {new} are both given: they are one")
    return old_value


def _listed(name: str, value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{name} must be a sequence, not {type(value).__name__}") from None


def _warn_renamed(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=4)
