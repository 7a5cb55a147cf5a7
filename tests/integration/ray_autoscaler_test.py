# SPDX-License-Identifier: Apache-2.0
"""A Ray autoscaler that really adds nodes, both versions: it hears of what a job lacks, and when nobody lacks it."""

import json
import pathlib

import pytest
from conftest import Hvdray, checked
from ray import CPUS, HEAD, lent
from ray_elastic_test import Gang

from hosts_processes import wait_until
from make_ray import RayCluster

MACHINE = "h2"  # the only one that the cloud has
PERIOD_S = 1


class Cloud:
    """The owner of the machines that tests/integration/cloud/file_cloud.py hands out."""

    def __init__(self, ray, folder):
        self.ray = ray
        self.folder = folder

    def wanted(self):
        return {path.stem for path in self.folder.glob("*.machine")} - {HEAD}

    def start_what_is_wanted(self):
        wait_until(lambda: self.wanted() == {MACHINE}, "the autoscaler wants a machine", 120)
        self.ray.start_node(MACHINE)

    def wait_until_nothing_is_wanted(self):
        wait_until(lambda: not self.wanted(), "the autoscaler gives the machine back", 180)
        self.ray.heal([HEAD])


def autoscaling(folder, addresses):
    """What `ray up` writes to a head: every key that it fills in, as Ray's monitor asks for all."""
    commands = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
                "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude",
                "rsync_filter")
    one = {"node_config": {}, "resources": {"CPU": CPUS}, "labels": {}, "min_workers": 0}
    return {"cluster_name": "of-the-test", "max_workers": 1, "idle_timeout_minutes": 0.1, "upscaling_speed": 1.0,
            "provider": {"type": "external", "module": "file_cloud.FileCloud", "folder": str(folder),
                         "machines": addresses, "head": HEAD, "disable_node_updaters": True,
                         "disable_launch_config_check": True},
            "auth": {"ssh_user": "root"}, "docker": {}, "file_mounts": {}, "file_mounts_sync_continuously": False,
            "head_node_type": "head", "no_restart": False, **{name: [] for name in commands},
            "available_node_types": {"head": {**one, "max_workers": 0}, "worker": {**one, "max_workers": 1}}}


@pytest.fixture(scope="module", params=["v1", "v2"])
def growing_set(request, ray_venv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cloud")
    ray = RayCluster(ray_venv, workers=0, spares=1, cpus=CPUS, token=False,
                     environment={"RAY_enable_autoscaler_v2": str(int(request.param == "v2")),
                                  "AUTOSCALER_UPDATE_INTERVAL_S": str(PERIOD_S),
                                  "PYTHONPATH": str(pathlib.Path(__file__).parent / "cloud")},
                     autoscaling=lambda addresses: json.dumps(autoscaling(folder, addresses)))
    with ray:
        yield Cloud(ray, folder)


@pytest.fixture
def cloud(growing_set):
    for _ in lent(growing_set.ray):
        yield growing_set


@pytest.fixture
def hvdray_at_cloud(request, cloud):
    tool = Hvdray(request.config.getoption("--bin-dir"), cloud.ray.hosts)
    tool.environment = cloud.ray.client_environment()
    yield from checked(tool)


def test_what_an_elastic_job_lacks_is_added_and_goes_again(cloud, hvdray_at_cloud, tmp_path):
    cloud.ray.folder_of_test = tmp_path
    job = Gang(hvdray_at_cloud, cloud.ray, "-np", 2 * CPUS, "--min-np", 1, "--max-np", 2 * CPUS)
    cloud.start_what_is_wanted()
    job.wait_size(2 * CPUS, 1)
    wait_until(lambda: all(group["state"] == "CREATED" for group in cloud.ray.groups()),
               "nothing stands as demand any more")
    job.stop()
    cloud.wait_until_nothing_is_wanted()


def test_a_job_of_fixed_size_waits_for_the_node_that_it_lacks(cloud, hvdray_at_cloud):
    job = hvdray_at_cloud.job("--ray-address", cloud.ray.url, "-np", 2 * CPUS, "--", "sh", "-c",
                            "echo on $HOROVOD_HOSTNAME")
    cloud.start_what_is_wanted()
    ended = job.wait(240)
    assert ended.code == 0, ended.errors
    assert len({line.split()[-1] for line in ended.text.splitlines()}) == 2, ended.text
    cloud.wait_until_nothing_is_wanted()
