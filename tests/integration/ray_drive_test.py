"""Static jobs on a real Ray cluster from their driver's side: Horovod over its nodes, nodes that go."""

import os
import pathlib
import re
import time

import pytest
from ray import GPUS, HEAD

from hosts_processes import wait_until

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


@pytest.mark.parametrize("fault,limit", [("raylet", 5), ("cut", 12)])
def test_a_lost_node_ends_the_job_before_ray_knows(hvdray_at_ray, ray_cluster, fault, limit):
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-np", 8, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray_cluster)) == 8, "eight workers", 60)
    began = time.monotonic()
    if fault == "cut":
        ray_cluster.hosts.cut("h3")
    else:
        ray_cluster.kill_raylet("h3")
    result = job.wait(60)
    assert result.code == 125, result.errors
    address = ray_cluster.address("h3")
    assert address in result.errors, result.errors
    assert time.monotonic() - began < limit + 8, "the client looks at the job each second"
    others = {name: alive for name, alive in ray_cluster.foreign_processes().items()
              if name != "h3"}
    assert not any(line.startswith("of-the-test") for alive in others.values()
                   for line in alive.values())


def test_a_killed_driver_leaves_nobody(hvdray_at_ray, ray_cluster):
    job = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-np", 4, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray_cluster)) == 4, "four workers", 60)
    driver = next(pid for pid, line in ray_cluster.foreign_processes()[HEAD].items()
                  if "hvdray-agent drive" in line)
    os.kill(driver, 9)
    result = job.wait(60)
    assert result.code == 125, result.errors
    wait_until(lambda: not sleepers(ray_cluster), "nobody is left", 15)
