# SPDX-License-Identifier: Apache-2.0
"""The dashboard's client on real Ray: what `hvdray status` and `hvdray slots` say, and each call of
jobs, packages and logs, from a machine without Ray."""

import hashlib
import json
import os
import tempfile
import time
import uuid

import pytest
from ray import CPUS, GPUS, HEAD, NODES

from conftest import Hvdray, checked
from hosts_processes import wait_until


@pytest.fixture
def look(hvdray_at_ray, ray_cluster):
    """look("slots", "--use-gpu") -> its JSON."""

    def run(command, *words):
        result = hvdray_at_ray.run(command, "--ray-address", ray_cluster.url, "--json", *words)
        assert (result.code, result.errors) == (0, ""), result.errors
        return json.loads(result.text)

    return run


def caller(tool, url):
    """call("has", NAME) -> Result: one call of the client that no command makes alone."""
    return lambda *words, **kwargs: tool.run(url, *words, binary=tool.bin_dir / "ray_call", **kwargs)


def settled_page(tool, ray):
    """status, once every node has made its first report, and no report still counts an earlier test's job."""
    seen = []

    def has_reported():
        seen.append(json.loads(tool.run("status", "--ray-address", ray.url, "--json").text))
        nodes = [node["resources"].get("object_store_memory", {}).get("free") for node in seen[-1]["nodes"]]
        cpus = [node["resources"].get("CPU", {}) for node in seen[-1]["nodes"]]
        is_idle = all(cpu.get("free") == cpu.get("total") for cpu in cpus)
        return seen[-1]["autoscaler"] is not None and all(nodes) and is_idle

    wait_until(has_reported, "reports of the autoscaler and of idle nodes")
    return seen[-1]


@pytest.fixture
def call(hvdray_at_ray, ray_cluster):
    return caller(hvdray_at_ray, ray_cluster.url)


def test_every_node_is_shown_with_what_it_has(hvdray_at_ray, ray_cluster):
    page = settled_page(hvdray_at_ray, ray_cluster)
    assert page["ray_version"] == "2.60.0" and page["jobs_api"] == 4
    assert [node["is_head"] for node in page["nodes"]] == [True, False, False, False]
    by_address = {ray_cluster.address(name): name for name in NODES}
    for node in page["nodes"]:
        name = by_address.pop(node["address"])
        assert node["resources"]["CPU"]["total"] == CPUS
        assert node["resources"].get("GPU", {"total": 0})["total"] == GPUS.get(name, 0)
        assert node["resources"]["object_store_memory"]["free"] > 0
    assert not by_address and page["autoscaler"]["adds_nodes"] is False
    text = hvdray_at_ray.run("status", "--ray-address", ray_cluster.url).text
    assert f"Ray 2.60.0 at {ray_cluster.url}: 4 nodes, in use 0/8 CPU, 0/6 GPU" in text


def test_slots_are_what_is_free_and_not_what_is_there(look, ray_cluster):
    def slots(*words):
        return {host["address"]: host["slots"] for host in look("slots", *words)["hosts"]}

    wait_until(lambda: sum(slots().values()) == len(NODES) * CPUS, "all nodes have told")
    assert look("slots", "--use-gpu", "--cpus-per-slot", "0.25")["slots"] == sum(GPUS.values())
    where = {"ray.io/node-id": ray_cluster.node_id("h3")}
    job = ray_cluster.submit("sleep 600", entrypoint_num_cpus=1, entrypoint_num_gpus=2,
                             entrypoint_label_selector=where)
    address = ray_cluster.address("h3")
    wait_until(lambda: slots()[address] == CPUS - 1, "the job's CPU is not free")
    assert slots("--use-gpu")[address] == 0
    named = f"ray.io/node-id={where['ray.io/node-id']}"
    assert sum(slots("--label-selector", named).values()) == CPUS - 1
    ray_cluster.call("POST", f"/api/jobs/{job}/stop")
    ray_cluster.wait_for_job(job)
    wait_until(lambda: slots("--use-gpu")[address] == 2, "all is free again")


def test_autoscaler_v2_hides_nothing(request, ray_v2_cluster):
    ray = ray_v2_cluster
    tool = Hvdray(request.config.getoption("--bin-dir"), ray.hosts)
    tool.environment = ray.client_environment()
    tool.patience = 180

    def look(command, *words):
        result = tool.run(command, "--ray-address", ray.url, "--json", *words)
        assert (result.code, result.errors) == (0, ""), result.errors
        return json.loads(result.text)

    for made in checked(tool):
        assert ray.call("GET", "/api/cluster_status")["data"]["clusterStatus"] is None
        wait_until(lambda: look("slots")["slots"] == 2 * CPUS, "all nodes have told")
        job = made.start("run", "--ray-address", ray.url, "-np", 3, "--", "sleep", "600")
        wait_until(lambda: look("slots")["slots"] == 2 * CPUS - 3, "what it has is not free", 60)
        # Of the two GPUs of the last node; none while all its CPUs are taken.
        free = {host["address"]: host["slots"] for host in look("slots")["hosts"]}
        usable = 2 if free.get(ray.address("h2")) else 0
        assert look("slots", "--use-gpu", "--cpus-per-slot", "0.25")["slots"] == usable
        result = made.run("run", "--ray-address", ray.url, "-np", 9, "--", "true")
        assert result.code == 2 and "[HVD-E0219]" in result.errors, result.errors
        waiting = made.start("run", "--ray-address", ray.url, "-np", 4, "--", "true")
        wait_until(lambda: look("status")["waiting"], "the second one waits", 60)
        assert look("status")["waiting"][0] == {
            "strategy": None, "count": 4, "bundles": [{"resources": {"CPU": 1.0}, "count": 1}]}
        job.process.terminate()
        assert job.wait().code == 143
        assert waiting.wait(120).code == 0


def test_what_waits_for_room_is_shown(look, hvdray_at_ray, ray_cluster):
    first = ray_cluster.submit("sleep 600", entrypoint_num_gpus=3)
    wait_until(lambda: ray_cluster.jobs("RUNNING"), "the first one runs", 60)
    second = ray_cluster.submit("true", entrypoint_num_gpus=4)
    wait_until(lambda: look("status")["waiting"], "the second one waits")
    waiting = look("status")["waiting"]
    assert any(bundle["resources"].get("GPU") == 4.0 for demand in waiting
               for bundle in demand["bundles"]), waiting
    text = hvdray_at_ray.run("status", "--ray-address", ray_cluster.url).text
    assert "\nWaiting for room:\n" in text and "4 GPU" in text
    ray_cluster.call("POST", f"/api/jobs/{first}/stop")
    assert ray_cluster.wait_for_job(second, within=120)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("command", ["status", "slots"])
def test_who_has_no_token_or_a_wrong_one_is_told_in_a_line(hvdray_at_ray, ray_cluster, command):
    environment = dict(ray_cluster.client_environment())
    del environment["RAY_AUTH_TOKEN"]
    result = hvdray_at_ray.run(command, "--ray-address", ray_cluster.url, env=environment)
    assert result.code == 2 and "requires a token" in result.errors
    assert len(result.errors.splitlines()) == 2 and "[HVD-E0217]" in result.errors
    wrong = "0" * 64
    result = hvdray_at_ray.run(command, "--ray-address", ray_cluster.url,
                               env=dict(environment, RAY_AUTH_TOKEN=wrong))
    assert result.code == 2 and "rejects the token of RAY_AUTH_TOKEN" in result.errors
    assert wrong not in result.errors


def test_gcs_is_no_dashboard(hvdray_at_ray, ray_cluster):
    gcs = f"http://{ray_cluster.address(HEAD)}:6379"
    result = hvdray_at_ray.run("status", "--ray-address", gcs)
    assert result.code == 2 and f"no Ray dashboard answers at {gcs}" in result.errors


def test_a_job_is_submitted_looked_at_and_stopped(call):
    name = f"hvdray_{uuid.uuid4().hex}"  # the cluster may have seen this test before
    assert call("job", name).text == "none\n"
    assert call("submit", "echo hello; sleep 600", name).text == f"{name}\n"
    again = call("submit", "true", name)
    assert again.code == 1 and "already exists. Please use a different submission_id." in again.errors
    assert len(again.errors.splitlines()) == 1
    wait_until(lambda: f"{name} RUNNING" in call("job", name).text, "it runs", 60)
    assert f"{name} RUNNING" in call("jobs").text
    assert call("stop", name).text == "true\n"
    wait_until(lambda: f"{name} STOPPED" in call("job", name).text, "it stops", 60)
    # "STOPPED" is written down before the job's supervisor has gone.
    wait_until(lambda: call("stop", name).text == "false\n", "there is nothing to stop")
    assert f"Job {name}x does not exist [HVD-E0218]" in call("stop", f"{name}x").errors


def test_a_package_is_there_once_it_was_sent_and_100_mib_is_all_that_goes(call, tmp_path):
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(100 << 20)
    name = f"hvdray_{uuid.uuid4().hex}.zip"
    assert call("has", name).text == "false\n"
    assert call("put", name, large).code == 0
    assert call("has", name).text == "true\n"
    with open(large, "ab") as file:
        file.write(b"x")
    refused = call("put", "hvdray_t3.zip", large)
    assert refused.code == 1 and "[HVD-E0108]" in refused.errors, refused.errors
    assert "Maximum request body size 104857600 exceeded." in refused.errors


def follow_a_growing_file(call, ray, name):
    """Random bytes come whole, from a file that is not there yet when they are asked for."""
    path = ray.logs(name) / "hvdray_t.stream"
    node = ray.node_id(name)
    bytes_ = hashlib.shake_256(b"t").digest(20 << 20)
    with tempfile.TemporaryFile() as said:
        following = call("follow", node, path.name, 0, len(bytes_), stderr=said)
        wait_until(lambda: os.fstat(said.fileno()).st_size > 0, "it is asked for in vain")
        with open(path, "ab", buffering=0) as file:
            for at in range(0, len(bytes_), 1 << 20):
                file.write(bytes_[at:at + (1 << 20)])
                time.sleep(0.05)
        result = following.wait(180)
        said.seek(0)
        errors = said.read().decode()
    assert result.code == 0 and result.out == bytes_, errors
    assert f"follow {path.name}: " in errors  # it had to be asked for again
    return path, node, bytes_


def test_a_file_is_followed_byte_by_byte_and_read_whole(call, hvdray_at_ray, ray_cluster):
    tool = hvdray_at_ray
    binary = tool.bin_dir / "ray_call"
    path, node, bytes_ = follow_a_growing_file(
        lambda *words, **io: tool.start(ray_cluster.url, *words, binary=binary, **io), ray_cluster, "h2")
    assert call("read", node, path.name).out == bytes_
    assert call("follow", node, path.name, len(bytes_) - 5, 5).out == bytes_[-5:]
    missing = call("read", node, "hvdray_none")
    assert missing.code == 1 and "read hvdray_none: " in missing.errors, missing.errors
    assert "doesn't exist" in call("read", "0" * 56, path.name).errors
    path.unlink()


def test_the_older_ray_is_looked_at_and_followed_the_same_way(request, old_ray_cluster):
    ray = old_ray_cluster
    tool = Hvdray(request.config.getoption("--bin-dir"), ray.hosts)
    tool.environment = ray.client_environment()
    tool.patience = 180
    for made in checked(tool):
        page = settled_page(made, ray)
        slots = json.loads(made.run("slots", "--ray-address", ray.url, "--json").text)
        assert slots["ray_version"] == "2.40.0" and slots["slots"] == 3 * CPUS
        assert len(page["nodes"]) == 3 and page["autoscaler"]["adds_nodes"] is False
        binary = made.bin_dir / "ray_call"
        path, node, bytes_ = follow_a_growing_file(
            lambda *words, **io: made.start(ray.url, *words, binary=binary, **io), ray, "h2")
        assert made.run(ray.url, "read", node, path.name, binary=binary).out == bytes_
        path.unlink()
