# SPDX-License-Identifier: Apache-2.0
"""`--cluster FILE` of a cluster whose head runs Ray with its dashboard on loopback, as Ray has it by
default: the job goes through a tunnel, or by SSH where there is no Ray."""

import os
import signal

import pytest
from ray import HEAD, HIDDEN_SPARE

from hosts_processes import wait_until


@pytest.fixture
def file(hidden_ray, tmp_path):
    def write(head=HEAD, workers=("h2",), more=""):
        path = tmp_path / f"{head}.yaml"
        addresses = ", ".join(hidden_ray.address(name) for name in workers)
        path.write_text(f"cluster_name: t\nprovider:\n    type: local\n"
                        f"    head_ip: {hidden_ray.address(head)}\n    worker_ips: [{addresses}]\n"
                        f"auth:\n    ssh_user: root\nhvdray:\n    slots_per_host: 2\n{more}")
        return path
    return write


def tunnels(ray):
    return [pid for alive in ray.hosts.leftovers("launcher").values()
            for pid, line in alive.items() if "HVDRAY-TUNNEL" in line]


ONE_LINE = ("sh", "-c", "echo ${RAY_JOB_ID:-none} $HOROVOD_SIZE $HOROVOD_HOSTNAME")


def test_the_job_goes_to_the_ray_on_the_head(hvdray_at_hidden_ray, hidden_ray, file):
    result = hvdray_at_hidden_ray.go("--cluster", file(), "--", *ONE_LINE)
    assert result.code == 0, result.errors
    assert "reaching its hosts over SSH" not in result.errors
    ids = {entry["node_id"] for _, entry in hidden_ray.node_table()}
    lines = result.text.splitlines()
    assert len(lines) == 4, "all slots of the file"
    assert {line.split()[-1] for line in lines} <= ids, "nodes are named as Ray names them"
    assert not tunnels(hidden_ray)


def test_backend_ssh_does_not_ask_ray(hvdray_at_hidden_ray, hidden_ray, file):
    result = hvdray_at_hidden_ray.go("--cluster", file(), "--backend", "ssh", "--", *ONE_LINE)
    assert result.code == 0, result.errors
    assert {line.split()[-1] for line in result.text.splitlines()} == {
        hidden_ray.address(HEAD), hidden_ray.address("h2")}


def test_without_ray_the_hosts_are_reached_by_ssh_and_that_is_said(hvdray_at_hidden_ray, hidden_ray, file):
    result = hvdray_at_hidden_ray.go("--cluster", file(head=HIDDEN_SPARE, workers=()), "--", *ONE_LINE)
    assert result.code == 0, result.errors
    assert f"no Ray answers on {hidden_ray.address(HIDDEN_SPARE)}" in result.errors
    assert "reaching its hosts over SSH" in result.errors
    assert len(result.text.splitlines()) == 2


def test_backend_ray_without_ray_is_told_before_anything_starts(hvdray_at_hidden_ray, hidden_ray, file):
    path = file(head=HIDDEN_SPARE, workers=(), more="    run: {backend: ray}\n")
    result = hvdray_at_hidden_ray.go("--cluster", path, "--", *ONE_LINE)
    assert result.code == 2 and result.text == "", result.errors
    assert "[HVD-E0216]" in result.errors and hidden_ray.address(HIDDEN_SPARE) in result.errors


def test_a_client_that_is_killed_leaves_no_tunnel(hvdray_at_hidden_ray, hidden_ray, file):
    job = hvdray_at_hidden_ray.job("--cluster", file(), "-np", 1, "--", "sh", "-c", "echo up; sleep 10")
    wait_until(lambda: tunnels(hidden_ray), "a tunnel", 120)
    wait_until(hidden_ray.jobs, "the job", 120)
    os.kill(job.pid, signal.SIGKILL)
    job.wait(60)
    wait_until(lambda: not tunnels(hidden_ray), "the tunnel's end")
    wait_until(lambda: not hidden_ray.jobs(), "the job's own end", 120)
