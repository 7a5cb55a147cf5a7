# SPDX-License-Identifier: Apache-2.0
"""Static jobs on a real Ray cluster from their driver's side: Horovod over its nodes, nodes that go."""

import contextlib
import os
import pathlib
import re
import signal
import time

import pytest
from ray import GPUS, HEAD

from hosts_processes import send, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = ROOT / "tests/integration/workers/horovod_collectives.py"
SLEEPER = ("/bin/bash", "-c", "echo up $HOROVOD_RANK; exec -a of-the-test sleep 600")


def sleepers(ray):
    return [pid for alive in ray.foreign_processes().values()
            for pid, line in alive.items() if line.startswith("of-the-test")]


def test_horovod_works_over_nodes_of_different_size(hvdray_at_ray, ray_cluster, horovod_python):
    result = hvdray_at_ray.go("--ray-address", ray_cluster.url, "-np", 5, "--", horovod_python,
                              COLLECTIVES, "basic", "process_sets", "reinit", timeout=180)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{rank}]<stdout>:ok" for rank in range(5)]


def test_ranks_know_their_node_and_its_gpus(hvdray_at_ray, ray_cluster):
    result = hvdray_at_ray.go(
        "--ray-address", ray_cluster.url, "-np", 4, "--use-gpu", "--strategy", "SPREAD", "--",
        "sh", "-c", "echo $HOROVOD_RANK $HOROVOD_LOCAL_RANK $HOROVOD_HOSTNAME $CUDA_VISIBLE_DEVICES")
    assert result.code == 0, result.errors
    names = {entry["node_id"]: name for name, entry in ray_cluster.node_table()}
    by_node = {}
    for line in sorted(result.text.splitlines()):
        rank, local, node, gpus = re.fullmatch(r"\[\d\]<stdout>:(\d) (\d) (\w+) ([\d,]+)",
                                               line).groups()
        by_node.setdefault(names[node], []).append((int(rank), int(local), gpus))
    assert set(by_node) <= set(GPUS)
    first = 0
    for ranks in sorted(by_node.values()):
        assert [rank for rank, _, _ in ranks] == list(range(first, first + len(ranks)))
        assert [local for _, local, _ in ranks] == list(range(len(ranks)))
        assert len({gpus for _, _, gpus in ranks}) == 1, "Horovod's rule: the same list for all"
        assert len(set(ranks[0][2].split(","))) == len(ranks)
        first += len(ranks)


def told_after(job, began, words, within):
    """What the client has written by the time that it has written `words`, and the seconds since."""
    os.set_blocking(job.process.stderr.fileno(), False)
    said = b""
    while words.encode() not in said:
        assert time.monotonic() - began < within, said
        with contextlib.suppress(BlockingIOError):
            said += os.read(job.process.stderr.fileno(), 65536)
        time.sleep(0.01)
    os.set_blocking(job.process.stderr.fileno(), True)
    return said.decode(), time.monotonic() - began


@pytest.mark.parametrize("fault", ["SIGKILL", "SIGTERM", "cut"])
def test_a_lost_node_is_named_at_once_and_ends_the_job_before_ray_knows(hvdray_at_ray, ray_cluster,
                                                                        fault):
    patience = ("--grace", 120) if fault == "cut" else ("--grace", 120, "--heartbeat-timeout", 120)
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-np", 8, *patience, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray_cluster)) == 8, "eight workers", 120)
    began = time.monotonic()
    if fault == "cut":
        ray_cluster.hosts.cut("h3")
    else:
        ray_cluster.kill_raylet("h3", getattr(signal, fault))
    said, named = told_after(job, began, f"hvdray: host {ray_cluster.address('h3')}: ", 90)
    result = job.wait(120)
    ended = time.monotonic() - began
    print(f"{fault}: named after {named:.2f} s, ended after {ended:.2f} s")
    assert result.code == 125, said + result.errors
    assert named < (45 if fault == "cut" else 60), "15 s of silence, or at once; the rest is for a busy machine"
    assert ended - named < 60, "nobody waits for the lost node's goodbye, which has two minutes"
    # A node that is cut off notices it by itself.
    wait_until(lambda: not sleepers(ray_cluster), "nobody is left, there either")


def test_a_node_that_dies_between_slots_and_workers_is_replaced(hvdray_at_ray, ray_cluster):
    names = {entry["node_id"]: name for name, entry in ray_cluster.node_table()}
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "--num-hosts", 3, "--num-slots", 2,
                            "--", "sh", "-c", "echo up $HOROVOD_HOSTNAME $HOROVOD_LOCAL_RANK")
    wait_until(lambda: any(group["state"] == "CREATED" for group in ray_cluster.groups()),
               "the group")
    used = [names[bundle["node_id"]] for bundle in ray_cluster.groups()[0]["bundles"]]
    lost = next(name for name in used if name != HEAD)
    ray_cluster.kill_raylet(lost)
    result = job.wait(180)
    assert result.code == 0, result.errors
    ran = sorted(re.findall(r"up (\w+) (\d)", result.text))
    others = {node for node, name in names.items() if name != lost}
    assert ran == sorted((node, local) for node in others for local in "01"), result.text
    assert "replace the slots" in result.errors


def test_a_killed_head_ends_the_client_and_leaves_nobody(hvdray_at_ray, ray_cluster):
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-np", 8, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray_cluster)) == 8, "eight workers", 120)
    killed = time.monotonic()
    send([*ray_cluster.ray_processes(HEAD), *ray_cluster.foreign_processes(HEAD).get(HEAD, ())], 9)
    wait_until(lambda: not sleepers(ray_cluster), "no worker is left on any node")
    result = job.wait(120)
    assert 25 < time.monotonic() - killed < 90, "it is asked for half a minute"
    assert result.code == 125, result.errors
    last = result.errors.strip().splitlines()[-2:]
    assert last[0].startswith(f"hvdray run: no Ray dashboard answers at {ray_cluster.url}: ")
    assert re.search(r"hvdray follow hvd-\S+ --ray-address " + ray_cluster.url, last[1]), last


def test_a_killed_driver_leaves_nobody(hvdray_at_ray, ray_cluster):
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-np", 4, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray_cluster)) == 4, "four workers", 120)
    driver = next(pid for pid, line in ray_cluster.foreign_processes()[HEAD].items()
                  if "hvdray-agent launch" in line)
    os.kill(driver, 9)
    result = job.wait(120)
    assert result.code == 125, result.errors
    wait_until(lambda: not sleepers(ray_cluster), "nobody is left")
