# SPDX-License-Identifier: Apache-2.0
"""The clusters of the Ray tests are what they claim: real Ray, own nodes, real faults, no traces."""

import glob
import os
import pathlib
import signal
import subprocess

import pytest
from ray import CPUS, GPUS, HEAD, NODES, SPARE, left_in

from hosts_processes import HostsError, process_state, wait_until
from make_ray import RayCluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_RAY = str(ROOT / "tools/make_ray.py")


def test_nodes_have_the_resources_that_tests_count_on(ray_cluster):
    table = dict(ray_cluster.node_table())
    assert sorted(table) == sorted(NODES)
    for name, entry in table.items():
        assert entry["resources_total"]["CPU"] == CPUS
        assert entry["resources_total"].get("GPU", 0) == GPUS.get(name, 0)
        assert entry["is_head_node"] == (name == HEAD)


def test_the_dashboard_wants_the_token(ray_cluster):
    assert ray_cluster.call("GET", "/api/authentication_mode") == {"authentication_mode": "token"}
    assert ray_cluster.request("GET", "/api/version")[0] == 200
    assert ray_cluster.request("GET", "/api/version", token="")[0] == 401
    assert ray_cluster.request("GET", "/api/version", token="0" * 64)[0] == 403


def test_a_cluster_without_tokens_takes_everybody(open_ray_cluster):
    assert open_ray_cluster.token == ""
    assert open_ray_cluster.call("GET", "/api/authentication_mode") == {
        "authentication_mode": "disabled"}
    job = open_ray_cluster.wait_for_job(open_ray_cluster.submit("true"))
    assert job["status"] == "SUCCEEDED", job


def test_jobs_run_on_the_head_whose_path_has_no_ray(ray_cluster):
    job_id = ray_cluster.submit("hostname; python3 -c 'import ray' || echo none importable")
    assert ray_cluster.wait_for_job(job_id)["status"] == "SUCCEEDED"
    text = ray_cluster.call("GET", f"/api/jobs/{job_id}/logs")["logs"]
    assert "\nh1\n" in text and "none importable" in text
    assert (ray_cluster.logs() / f"job-driver-{job_id}.log").read_text() == text


def test_what_a_job_leaves_is_found(ray_cluster):
    job_id = ray_cluster.submit("setsid sleep 321 </dev/null >/dev/null 2>&1 & sleep 654")
    wait_until(lambda: len(ray_cluster.foreign_processes().get(HEAD, {})) >= 2, "both sleep")
    assert job_id in left_in(ray_cluster)["jobs"]
    ray_cluster.call("POST", f"/api/jobs/{job_id}/stop")
    assert ray_cluster.wait_for_job(job_id)["status"] == "STOPPED"
    for pid, line in ray_cluster.foreign_processes().get(HEAD, {}).items():
        if "sleep 321" in line:
            os.kill(pid, signal.SIGKILL)


def test_a_machine_becomes_a_node_and_goes_again(ray_cluster):
    ray_cluster.start_node(SPARE)
    assert SPARE in dict(ray_cluster.node_table())
    ray_cluster.remove_node(SPARE)
    wait_until(lambda: SPARE not in dict(ray_cluster.node_table()), "news of its end")
    assert not ray_cluster.ray_processes(SPARE)


def test_a_node_that_was_killed_is_there_again(ray_cluster):
    former = ray_cluster.node_id("h2")
    ray_cluster.kill_raylet("h2")
    wait_until(lambda: ray_cluster.raylet("h2") is None, "death of the raylet")
    ray_cluster.heal(NODES)
    assert ray_cluster.node_id("h2") != former


def test_a_head_that_was_killed_is_there_again_with_its_nodes(ray_cluster):
    former = [entry["node_id"] for _, entry in ray_cluster.node_table()]
    os.kill(ray_cluster.gcs_server(), signal.SIGKILL)
    wait_until(lambda: ray_cluster.gcs_server() is None, "death of the head")
    ray_cluster.heal(NODES)
    assert not [entry for _, entry in ray_cluster.node_table() if entry["node_id"] in former]


def test_a_node_that_ray_gave_up_is_there_again(open_ray_cluster):
    former, nodes = open_ray_cluster.node_id("h2"), open_ray_cluster.nodes
    open_ray_cluster.hosts.cut("h2")
    wait_until(lambda: "h2" not in dict(open_ray_cluster.node_table()), "Ray to give it up", 180)
    open_ray_cluster.heal(nodes)
    assert open_ray_cluster.node_id("h2") != former


def test_no_token_no_folder_no_process_and_no_namespace_stays(ray_venv, tmp_path):
    state = tmp_path / "ray"
    subprocess.run([MAKE_RAY, "up", "--nodes", "1", "--state", state, "--ray-venv", ray_venv],
                   check=True, timeout=300)
    ray = RayCluster.attach(state)
    said = subprocess.run([MAKE_RAY, "exec", "--state", state, "--on", "h2", "--", "hostname"],
                          check=True, timeout=60, capture_output=True, text=True).stdout
    assert said == "h2\n"
    pids = [pid for name in ray.nodes for pid in ray.ray_processes(name)]
    prefix = ray.hosts.prefix
    assert len(pids) > 4
    subprocess.run([MAKE_RAY, "down", "--state", state], check=True, timeout=120)
    assert not [pid for pid in pids if process_state(pid) not in "ZX"]
    assert not state.exists() and not glob.glob(f"/run/netns/{prefix}-*")


def test_a_folder_without_ray_is_refused(tmp_path):
    with pytest.raises(HostsError, match="no Ray there; tools/ray_env.sh"):
        RayCluster(tmp_path).up()


def test_the_older_ray_knows_no_tokens(old_ray_cluster):
    version = old_ray_cluster.call("GET", "/api/version")
    assert version["ray_version"] == "2.40.0"
    assert old_ray_cluster.request("GET", "/api/authentication_mode")[0] == 404
    job = old_ray_cluster.wait_for_job(old_ray_cluster.submit("true"))
    assert job["status"] == "SUCCEEDED", job
