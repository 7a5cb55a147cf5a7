"""Jobs whose slots come and go on a real Ray cluster: nodes that are added, killed, cut off."""

import re
import time

import pytest
from ray import CPUS, HEAD, SPARE

from hosts_processes import wait_until

SCRIPT = ("echo up $HOROVOD_RANK of $HOROVOD_SIZE on $HOROVOD_HOSTNAME; "
          "exec -a of-the-test sleep 600")


class Gang:
    """An elastic job of plain sleepers: every change starts all of them anew."""

    def __init__(self, hvdray_at_ray, ray, *options):
        self.ray = ray
        self.job = hvdray_at_ray.job(
            "--ray-address", ray.url, "--elastic-mode", "gang", "--max-restarts", 50, *options,
            "--", "/bin/bash", "-c", SCRIPT, stdout=open(ray.folder_of_test / "out", "wb"),
            stderr=open(ray.folder_of_test / "err", "wb"))

    def said(self):
        return (self.ray.folder_of_test / "out").read_text(errors="replace")

    def workers(self):
        return [pid for alive in self.ray.foreign_processes().values()
                for pid, line in alive.items() if line.startswith("of-the-test")]

    def gangs(self):
        """Sizes of the gangs that were whole, in order."""
        sizes = []
        seen = set()
        for rank, size in re.findall(r"up (\d+) of (\d+) on", self.said()):
            seen.add(int(rank))
            if seen == set(range(int(size))):
                sizes.append(int(size))
                seen = set()
        return sizes

    def wait_size(self, size, gangs, within=60):
        def is_there():
            assert self.job.process.poll() is None, self.everything()
            return (len(self.gangs()) >= gangs and self.gangs()[-1] == size
                    and len(self.workers()) == size)
        try:
            wait_until(is_there, f"{size} workers", within)
        except Exception as late:
            raise AssertionError(f"{late}: {self.everything()}") from late

    def everything(self):
        return self.said() + (self.ray.folder_of_test / "err").read_text(errors="replace")

    def stop(self):
        self.job.process.send_signal(2)
        assert self.job.process.wait(60) == 130, self.everything()


@pytest.fixture
def gang(hvdray_at_ray, ray_cluster, tmp_path):
    ray_cluster.folder_of_test = tmp_path
    return lambda *options: Gang(hvdray_at_ray, ray_cluster, *options)


def test_a_node_that_comes_is_used_and_one_that_is_killed_is_missed_soon(gang, ray_cluster):
    job = gang("-np", 4, "--min-np", 2, "--max-np", 10, "--cpus-per-slot", 1)
    whole = CPUS * len(ray_cluster.nodes)
    job.wait_size(whole, 1)
    ray_cluster.start_node(SPARE)
    job.wait_size(whole + CPUS, 2)
    killed = time.monotonic()
    ray_cluster.kill_raylet("h3")
    job.wait_size(whole, 3, within=30)
    assert time.monotonic() - killed < 20
    job.stop()


def test_no_more_than_max_np_and_a_spare_node_for_one_that_is_lost(gang, ray_cluster):
    job = gang("-np", 4, "--min-np", 2, "--max-np", 4)
    job.wait_size(4, 1)
    used = {name for name, alive in ray_cluster.foreign_processes().items()
            if any(line.startswith("of-the-test") for line in alive.values())}
    assert len(used) == 2
    lost = next(name for name in sorted(used) if name != HEAD)
    ray_cluster.kill_raylet(lost)
    job.wait_size(4, 2, within=60)
    job.stop()


def test_a_node_that_is_cut_off_is_missed_by_our_own_heartbeat(gang, ray_cluster):
    job = gang("-np", 8, "--min-np", 2, "--max-np", 8)
    job.wait_size(8, 1)
    cut = time.monotonic()
    ray_cluster.hosts.cut("h4")
    wait_until(lambda: len(job.gangs()) >= 2, "a smaller gang", 40)
    assert time.monotonic() - cut < 20
    job.stop()


def test_room_that_another_job_gives_back_is_used_beside_what_is_held(gang, hvdray_at_ray, ray_cluster):
    whole = CPUS * len(ray_cluster.nodes)
    other = hvdray_at_ray.job("--ray-address", ray_cluster.url, "-H", ray_cluster.address("h3") + ":1",
                              "--", "sleep", "600")
    wait_until(lambda: any(line.startswith("sleep") for alive in ray_cluster.foreign_processes().values()
                           for line in alive.values()), "the other job's worker")
    job = gang("-np", 4, "--min-np", 2, "--max-np", whole)
    job.wait_size(whole - 1, 1)
    other.process.send_signal(2)
    assert other.process.wait(60) == 130
    job.wait_size(whole, 2)
    assert f"host {ray_cluster.address('h3')}-2 joined with 1" in job.everything()
    job.stop()
