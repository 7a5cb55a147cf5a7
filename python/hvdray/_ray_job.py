# SPDX-License-Identifier: Apache-2.0
"""`hvdray.run` on a Ray cluster from a machine that has no Ray: one call, which travels in a job of Ray's Jobs API.

`hvdray serve --ray-address` submits the job and follows it (docs/serve.md, "As a job on Ray"). The call is the start of its
only gang, as it is in elastic calls.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Optional, Sequence

from ._calls import Limits, Log
from ._elastic import DISCOVER_HOSTS_FREQUENCY_SECS, ElasticCall, ElasticHosts, Place, call_of
from ._kit import BOOTSTRAP
from ._launcher import Gang, Launcher

OPTIONS = ("ray", "ray_address")
SLOTS = ("np", "num_proc", "num_hosts", "num_slots", "hosts")  # say how many workers


def asks_for_job(options: Mapping[str, Any]) -> Optional[str]:
    """The option that does."""
    return next((name for name in OPTIONS if options.get(name)), None)


def check_no_job(options: Mapping[str, Any], what: str) -> None:
    """Raises ValueError."""
    name = asks_for_job(options)
    if name is not None:
        raise ValueError(
            f"options[{name!r}] is of hvdray.run: {what} has workers that stay, and a job on Ray is one call. "
            f"Use hvdray.run(…, options={{{name!r}: …}}), or run this program on the cluster"
        )


def run_as_job(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Optional[Mapping[str, Any]],
    python: Optional[str],
    env: dict[str, str],
    options: dict[str, Any],
    min_workers: Optional[int],
    limits: Limits,
    parameters: Mapping[str, str],
) -> list[Any]:
    """Values by rank; of an elastic call, those of its last generation. Raises what docs/python.md says."""

    def launch(words: Sequence[str]) -> Launcher:
        return Launcher(options, [os.path.expanduser(python) if python else "@python", "-c", BOOTSTRAP], "auto", words, None, parameters)

    env = {"RAY_ADDRESS": "auto", **env}  # A function that uses Ray joins the node's, and starts none of its own.
    if min_workers is None and not any(name in options for name in SLOTS):
        options = {**options, "np": 1}
    place = Place(launch, min_workers or 1, env, "pickle", lambda: limits.grace_s, None, lambda: DISCOVER_HOSTS_FREQUENCY_SECS, is_on_ray=False)
    what = call_of("run", (func, tuple(args), dict(kwargs or {})), None)
    hosts = ElasticHosts(place)
    kind = FixedCall if min_workers is None else ElasticCall
    try:
        return kind(hosts, what, Log()).run(limits)
    finally:
        hosts.close()


class FixedCall(ElasticCall):
    """Of a gang whose workers keep their ranks: they have no other numbers."""

    def _answer_of(self, gang: Gang, row: dict[str, Any]) -> Any:
        return self._answers.get(row["rank"])

    def _place_of(self, number: int) -> tuple[int, str]:
        return next(((number, worker["host"]) for worker in self.workers if worker["rank"] == number), (number, "unknown"))


def check_alone(pool: Any, hosts_of: Mapping[str, Any]) -> None:
    """What a job on Ray can't have. Raises ValueError."""
    if pool is not None:
        raise ValueError("a job on Ray takes no pool: its workers are its own")
    for name in ("hostfile", "cluster", "host_discovery_script"):
        if hosts_of.get(name):
            raise ValueError(f"{name} is not for a job on Ray, which chooses the nodes; hosts= names some by address")


