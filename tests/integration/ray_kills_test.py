# SPDX-License-Identifier: Apache-2.0
"""Programs that use Ray whose parts are killed at random moments, in the middle of everything: no process, file, shared
memory, placement group or actor is left.

Not here: what the caller is told (ray_executors_test, ray_elastic_calls_test).
"""

import os
import re
import signal

import pytest
from kills import Place, kill_at_random, program_around
from ray_program import programs_on

from hosts_processes import wait_until

ROUNDS = {
    "static": """
def one_round():
    executor = RayExecutor(settings(), num_workers=3)
    try:
        executor.start(dict)
        assert executor.execute(len) == [0, 0, 0]
        assert executor.run(busy, [BIG]) == [len(BIG)] * 3
    finally:
        executor.shutdown()
""",
    "elastic": """
from hvdray.ray import ElasticRayExecutor
def one_round():
    asked = ElasticRayExecutor.create_settings(min_num_proc=1, max_num_proc=3, elastic_timeout=30, timeout_s=60)
    executor = ElasticRayExecutor(asked)
    try:
        executor.start()
        for _ in range(2):
            assert set(executor.run(lambda: busy(BIG))) == {len(BIG)}
    finally:
        executor.shutdown()
""",
    "pool": """
def one_round():
    with hvdray.Pool(3, backend="ray", preload=["wave"]) as pool:
        for _ in range(3):
            with RayExecutor(settings(), num_workers=3, pool=pool) as executor:
                executor.start()
                assert executor.run(busy, [BIG]) == [len(BIG)] * 3
            pool.wait_warm(20)
""",
}

# As a program that begins afterwards sees the cluster.
NOTHING_LEFT = """
until(lambda: not living() and ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"])
assert all(group["state"] == "REMOVED" for group in ray.util.placement_group_table().values())
"""


AGENT = re.compile("hvdray-agent-[0-9a-f]+")  # stays on a node as long as its Ray


class RayNodes(Place):
    def __init__(self, ray):
        super().__init__()
        self.ray = ray

    def _processes(self, job):
        return {pid: line for alive in self.ray.foreign_processes().values() for pid, line in alive.items()}

    def _more(self):
        yield from (f"placement group {group['placement_group_id']}: {group['state']}" for group in self.ray.groups())
        dead = "filter_keys=state&filter_predicates=%21%3D&filter_values=DEAD"
        for actor in self.ray.call("GET", f"/api/v0/actors?limit=1000&{dead}")["data"]["result"]["result"]:
            yield f"actor {actor['class_name']} {actor['actor_id']}: {actor['state']}"
        for name, host in self.ray.hosts.hosts.items():
            yield from (f"{name}: {entry}" for entry in os.listdir(f"/proc/{host.holder}/root/dev/shm"))
            yield from (str(path) for path in self.ray.folder(name).glob("session_2*/*hvdray*") if not AGENT.fullmatch(path.name))


@pytest.fixture
def programs(request, ray_cluster, tmp_path):
    yield from programs_on(request, ray_cluster, tmp_path)


@pytest.mark.parametrize("mode", list(ROUNDS))
def test_nothing_is_left(programs, ray_cluster, tmp_path, mode):
    victims = ["program", "serve", "agent", "worker", "keeper", "front", "actor", *["fork_server"] * (mode == "pool")]

    def start(**streams):
        return programs.start(program_around(ROUNDS[mode]), **streams)

    kill_at_random(victims, RayNodes(ray_cluster), start, tmp_path / "said", kills=2)
    programs.run(NOTHING_LEFT)


def test_an_agent_that_was_not_yet_whole_is_not_left(programs, ray_cluster):
    """The program has its bytes; it is killed while nodes fetch them, which happens once a session of Ray."""
    def files():
        return [path for name in ray_cluster.hosts.hosts for path in ray_cluster.folder(name).glob("session_2*/hvdray-agent-*")]

    for path in files():
        path.unlink()
    job = programs.start("RayExecutor(settings(), num_workers=4).start()")
    wait_until(files, "the file of a node", within=120)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    wait_until(lambda: not any(ray_cluster.foreign_processes().values()), "the end of all")
    assert not [path for path in files() if path.suffix]
