# SPDX-License-Identifier: Apache-2.0
"""The last release and today's hvdray on a real Ray cluster. A job brings its driver and agents along, so what meets there is a
client of one version and a job of the other (docs/compatibility.md)."""

import subprocess

import pytest
from conftest import Hvdray, checked
from hosts_processes import wait_until

SCRIPT = "echo up $HOROVOD_RANK of $HOROVOD_SIZE; exit $((7 * HOROVOD_RANK))"


def at(cluster, folder):
    tool = Hvdray(folder, cluster.hosts)
    tool.environment = cluster.client_environment()
    tool.patience = 180
    return tool


@pytest.fixture
def clients(release, today, ray_cluster):
    tools = {"old": at(ray_cluster, release), "new": at(ray_cluster, today)}
    checks = [checked(tool) for tool in tools.values()]
    for each in checks:
        next(each)
    yield tools
    for each in checks:
        next(each, None)


@pytest.mark.parametrize("submits, follows", [("old", "new"), ("new", "old")])
def test_a_job_of_the_one_is_followed_by_the_other(clients, ray_cluster, submits, follows):
    url = ("--ray-address", ray_cluster.url)
    result = clients[submits].go(*url, "-np", 2, "--detach", "-q", "--", "sh", "-c", SCRIPT)
    assert result.code == 0, result.errors
    name = result.text.strip()
    result = clients[follows].run("follow", name, *url)
    assert result.code == 7, result.errors
    assert {f"[{rank}]<stdout>:up {rank} of 2" for rank in range(2)} <= set(result.text.splitlines()), result.errors


def test_jobs_of_the_last_release_are_listed_and_stopped(clients, ray_cluster):
    url = ("--ray-address", ray_cluster.url)
    result = clients["old"].go(*url, "-np", 1, "--detach", "-q", "--", "sleep", 600)
    assert result.code == 0, result.errors
    name = result.text.strip()
    wait_until(lambda: "RUNNING" in clients["new"].run("status", name, *url).text.upper(), "a running job", 120)
    assert name in clients["new"].run("jobs", *url).text
    result = clients["new"].run("stop", name, *url)
    assert result.code == 0, result.errors


def test_a_driver_of_another_version_is_one_line(clients, mixed, ray_cluster):
    """HVDRAY_AGENT_PATH, or a mixed installation, makes one."""
    tool = at(ray_cluster, mixed)
    result = tool.go("--ray-address", ray_cluster.url, "-np", 1, "--", "true")
    assert result.code == 125 and result.text == "", result
    driver = subprocess.run([mixed / "hvdray-agent", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    assert "its driver" in result.errors and f"'{driver}' reads" in result.errors and "HVD-E0218" in result.errors, result.errors
