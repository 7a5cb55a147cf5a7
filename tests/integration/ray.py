# SPDX-License-Identifier: Apache-2.0
"""The Ray clusters that tests share: made once a session, whole again and empty after each test."""

import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from hosts_processes import send  # noqa: E402  pylint: disable=wrong-import-position
from make_ray import RayCluster  # noqa: E402  pylint: disable=wrong-import-position

HEAD, WORKERS, SPARE = "h1", ("h2", "h3", "h4"), "h5"
NODES = (HEAD, *WORKERS)
HIDDEN_SPARE = "h3"  # of the hidden cluster: a machine without Ray
CPUS = 2  # of each node
GPUS = {"h3": 2, "h4": 4}  # not real ones


def missing(what):
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and CI skips nothing")
    pytest.skip(what)


def venv_of(request, option, how):
    if os.geteuid() != 0:
        missing("not root: Ray's nodes are network namespaces")
    venv = request.config.getoption(option)
    if not venv:
        missing(f"no {option}: run {how} and pass it")
    return venv


@pytest.fixture(scope="session")
def ray_venv(request):
    return venv_of(request, "--ray-venv", "tools/ray_env.sh")


def shared_cluster(venv, state=None):
    """Token mode; a head, three nodes of two CPUs, and a machine that may become a node. Not made yet."""
    return RayCluster(venv, workers=len(WORKERS), spares=1, state=state, cpus=CPUS, gpus=GPUS)


@pytest.fixture(scope="session")
def ray_set(request, ray_venv):
    """The one of the whole ctest run where there is one (shared_ray.py); else one of this session."""
    state = request.config.getoption("--ray-state")
    if state and (pathlib.Path(state) / "ray.json").exists():
        yield RayCluster.attach(state)
        return
    with shared_cluster(ray_venv) as ray:
        yield ray


@pytest.fixture(scope="session")
def open_ray_set(ray_venv):
    # Ray gives up a node that says nothing for a minute, unless told otherwise.
    quick = {"RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
             "RAY_health_check_timeout_ms": "5000", "RAY_health_check_failure_threshold": "3"}
    with RayCluster(ray_venv, workers=1, cpus=CPUS, token=False, environment=quick) as ray:
        yield ray


@pytest.fixture(scope="session")
def ray_v2_set(ray_venv):
    with RayCluster(ray_venv, workers=1, cpus=CPUS, gpus={"h2": 2}, token=False,
                    environment={"RAY_enable_autoscaler_v2": "1"}) as ray:
        yield ray


@pytest.fixture(scope="session")
def hidden_ray_set(ray_venv):
    with RayCluster(ray_venv, workers=1, spares=1, dashboard_host="127.0.0.1") as ray:
        yield ray


@pytest.fixture(scope="session")
def old_ray_set(request):
    venv = venv_of(request, "--old-ray-venv", "tools/ray_env.sh 2.40.0")
    with RayCluster(venv, workers=2, cpus=CPUS, gpus={"h3": 2}, token=False) as ray:
        yield ray


def left_in(ray):
    """What a job should have taken with it; {} when nothing is left."""
    left = {"processes": ray.foreign_processes()}
    if ray.gcs_server() is not None and ray.raylet(HEAD) is not None:
        left["jobs"] = [job["submission_id"] for job in ray.jobs() if job["submission_id"]]
        left["groups"] = [(group["name"], group["state"]) for group in ray.groups()]
    return {kind: found for kind, found in left.items() if found}


def lent(ray, within=90.0):
    """Lends the cluster to a test. What it broke is mended, and what it left behind fails it."""
    nodes = ray.nodes
    yield ray
    for name in ray.hosts.hosts:
        ray.hosts.thaw(name)
    ray.hosts.mend()
    deadline = time.monotonic() + within
    while (left := left_in(ray)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        for alive in left.get("processes", {}).values():
            send(alive, 9)
        ray.restart(nodes)
    else:
        ray.heal(nodes)
    assert not left, f"left behind: {left}"


@pytest.fixture
def ray_cluster(ray_set):
    """The shared cluster, see NODES, CPUS, GPUS. Token mode."""
    yield from lent(ray_set)


@pytest.fixture
def open_ray_cluster(open_ray_set):
    """Two nodes without authentication. Ray gives up a silent one after some 20 s."""
    yield from lent(open_ray_set)


@pytest.fixture
def ray_v2_cluster(ray_v2_set):
    """Two nodes, the last with two GPUs, and autoscaler v2, which `ray up` starts since Ray 2.50."""
    yield from lent(ray_v2_set)


@pytest.fixture
def hidden_ray(hidden_ray_set):
    """Two nodes whose dashboard listens on the head's loopback alone, and HIDDEN_SPARE. Token mode."""
    yield from lent(hidden_ray_set)


@pytest.fixture
def old_ray_cluster(old_ray_set):
    """Ray 2.40.0, which knows no tokens: three nodes, the last with two GPUs."""
    yield from lent(old_ray_set)
