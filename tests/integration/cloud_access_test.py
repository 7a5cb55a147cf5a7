# SPDX-License-Identifier: Apache-2.0
"""The commands on a running cluster whose machines are AWS's: moto says which there are, and each is a host with a real
sshd. One test has a real Ray on two of them."""

import json
import os
import re
import signal

import pytest

from conftest import Hvdray, checked
from hosts_processes import send, wait_until

INIT = "RAY_enable_worker_prestart=0 RAY_prestart_worker_first_driver=0 RAY_AUTH_MODE=disabled"


@pytest.fixture
def tool(request, cloud_hosts):
    """hvdray at the launcher, with the account in its environment."""
    made = Hvdray(request.config.getoption("--bin-dir"), cloud_hosts.hosts)
    made.environment = cloud_hosts.environment()
    made.patience = 180
    yield from checked(made)


@pytest.fixture
def write_file(tmp_path):
    """write_file(provider lines, auth lines) -> path of a file of cluster t."""

    def write(provider="", auth=""):
        path = tmp_path / "cloud.yaml"
        machine = "{InstanceType: m5.large, KeyName: made}" if "private_key" in auth else "{InstanceType: m5.large}"
        path.write_text(
            "cluster_name: t\nmax_workers: 3\n"
            f"provider: {{type: aws, region: us-west-2{provider}}}\n"
            f"auth: {{ssh_user: root{auth}}}\nhead_node_type: head\navailable_node_types:\n"
            f"    head: {{resources: {{CPU: 2}}, node_config: {machine}}}\n"
            f"    worker: {{resources: {{CPU: 2}}, max_workers: 3, node_config: {machine}}}\n")
        return path
    return write


@pytest.fixture
def file(write_file):
    return write_file()


@pytest.fixture
def cluster(cloud_hosts):
    """The ids of a head at h1 and workers at h2 and h3, which the key pair `made` logs in to."""
    cloud_hosts.save_key("made")
    return [cloud_hosts.run_instance("t", kind, "made") for kind in ("head", "worker", "worker")]


def test_without_a_head_each_command_says_how_to_make_one(tool, cloud_hosts, file):
    for words in (["get-head-ip"], ["get-worker-ips"], ["exec", "true"], ["dashboard"], ["rsync-down", "a", "b"],
                  ["status"], ["logs", "head"]):
        result = tool.run(words[0], file, *words[1:])
        assert result.code == 125 and result.text == "", (words, result.errors)
        assert "cluster t has no head" in result.errors and f"hvdray up {file}" in result.errors, result.errors
        assert len(result.errors.splitlines()) == 2
    cloud_hosts.run_instance("other", "head")
    assert tool.run("get-head-ip", file).code == 125


def test_two_heads_are_named(tool, cloud_hosts, file):
    heads = [cloud_hosts.run_instance("t", "head") for _ in range(2)]
    result = tool.run("exec", file, "true")
    assert result.code == 125 and all(head in result.errors for head in heads), result.errors


def test_what_the_cloud_refuses_is_told(tool, cloud_hosts, file):
    environment = cloud_hosts.environment(AWS_SECRET_ACCESS_KEY="wrong-one")
    result = tool.run("get-head-ip", file, env=environment)
    assert result.code == 2 and "SignatureDoesNotMatch" in result.errors, result.errors
    assert "wrong-one" not in result.errors
    result = tool.run("exec", file, "true", env=cloud_hosts.environment(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""))
    assert result.code == 2 and "no AWS credentials found" in result.errors, result.errors


@pytest.mark.usefixtures("cluster")
def test_addresses_are_those_that_the_file_asks_for(tool, cloud_hosts, write_file):
    def addresses(provider):
        file = write_file(provider, ", ssh_private_key: /no/such/key")  # nobody logs in
        return (tool.run("get-head-ip", file).text.split(), tool.run("get-worker-ips", file).text.split())

    public, private = ({name: of(name) for name in ("h1", "h2", "h3")}
                       for of in (cloud_hosts.public, cloud_hosts.private))
    head, workers = addresses("")
    assert head == [public["h1"]] and sorted(workers) == [public["h2"], public["h3"]]
    head, workers = addresses(", use_internal_ips: true")
    assert head == [private["h1"]] and sorted(workers) == [private["h2"], private["h3"]]
    head, workers = addresses(", use_internal_ips: true, use_external_head_ip: true")
    assert head == [public["h1"]] and sorted(workers) == [private["h2"], private["h3"]]


def test_down_needs_no_private_key(tool, cloud_hosts, write_file):
    cloud_hosts.run_instance("t", "head")
    file = write_file(auth=", ssh_private_key: /no/such/key")
    result = tool.run("down", "--yes", file)
    assert result.code == 0 and "/no/such/key" in result.errors, result.text + result.errors
    assert tool.run("get-head-ip", file).code == 125, "it runs on, and costs"


def test_commands_run_on_head_and_workers_with_the_instances_key(tool, cloud_hosts, cluster, file, tmp_path):
    assert tool.run("exec", file, "hostname; exit 3").text == "h1\n"
    assert tool.run("exec", file, "exit 3").code == 3
    assert len(cloud_hosts.cloud.calls("DescribeInstances")) == 2
    for word, name in ((cluster[1], "h2"), (cloud_hosts.public("h3"), "h3"), (cloud_hosts.private("h2"), "h2")):
        result = tool.run("exec", file, "--node-ip", word, "hostname")
        assert result.text == f"{name}\n", result.errors
    result = tool.run("exec", file, "--node-ip", "192.0.2.1", "hostname")
    assert result.code == 2 and "no machine 192.0.2.1" in result.errors
    script = tmp_path / "show.py"
    script.write_text("import socket, sys\nprint(socket.gethostname(), sys.argv[1:])\nsys.exit(7)\n")
    result = tool.run("submit", file, script, "a b")
    assert (result.code, result.text) == (7, "h1 ['a b']\n"), result.errors
    result = tool.run("rsync-up", "-A", file, script, "~/copied.py")
    assert result.code == 0, result.errors
    for name in ("h1", "h2", "h3"):
        assert (cloud_hosts.hosts.folder(name) / "home/copied.py").exists(), name
    (cloud_hosts.home / ".ssh/made.pem").unlink()
    result = tool.run("exec", file, "true")
    assert result.code == 125 and "HVD-E0213" in result.errors, "nothing else logs in: " + result.errors


def test_host_keys_go_by_the_instance(tool, cloud_hosts, cluster, file):
    assert tool.run("exec", file, "hostname").text == "h1\n"
    known = (cloud_hosts.home / ".ssh/known_hosts").read_text()
    assert known.split()[0] == cluster[0] and cloud_hosts.public("h1") not in known
    try:
        cloud_hosts.hosts.change_host_key("h1")
        result = tool.run("exec", file, "hostname")
        assert result.code == 125 and f"ssh-keygen -R {cluster[0]}" in result.errors, "the same instance, another key"
        cloud_hosts.cloud.boto(f'result = ec2.terminate_instances(InstanceIds=["{cluster[0]}"])')
        head = cloud_hosts.run_instance("t", "head", "made")
        assert tool.run("get-head-ip", file).text.strip() == cloud_hosts.public("h1"), "the address came back"
        assert tool.run("exec", file, "hostname").text == "h1\n", "another machine has another key"
        assert (cloud_hosts.home / ".ssh/known_hosts").read_text().split("\n")[-2].split()[0] == head
    finally:
        cloud_hosts.hosts.trust_host_keys()


def test_a_proxy_may_want_the_instances_id(tool, cloud_hosts, cluster, write_file, script, tmp_path):
    proxy = script("proxy", f"#!/bin/bash\necho $1 >>{tmp_path}/asked\n"
                   f"exec 3<>/dev/tcp/{cloud_hosts.private('h1')}/$2\ncat <&3 &\ncat >&3\nkill $!\n")
    file = write_file(auth=f', ssh_proxy_command: "{proxy} %h %p", ssh_proxy_use_node_id: true')
    result = tool.run("exec", file, "hostname")
    assert result.text == "h1\n", result.errors
    assert (tmp_path / "asked").read_text().split() == [cluster[0]]
    assert tool.run("get-head-ip", file).text.strip() == cloud_hosts.public("h1")


def machines(result):
    return {row["cloud"]["id"]: row for row in json.loads(result.text)["machines"]}


def test_status_shows_machines_before_and_after_they_join_ray(tool, cloud_hosts, file, ray_venv):
    cloud_hosts.save_key("made")
    head = cloud_hosts.run_instance("t", "head", "made", ray_node_status="setting-up")
    worker = cloud_hosts.run_instance("t", "worker", "made", ray_node_status="update-failed")
    stopped = cloud_hosts.run_instance("t", "worker", "made")
    cloud_hosts.cloud.boto(f'result = ec2.stop_instances(InstanceIds=["{stopped}"])')
    result = tool.run("status", file, "--json")
    assert result.code == 125, result.errors
    seen = machines(result)
    assert {name: (row["state"], row["cloud"]["state"], row["cloud"]["status"]) for name, row in seen.items()} == {
        head: ("unknown", "running", "setting-up"), worker: ("unknown", "running", "update-failed"),
        stopped: ("stopped", "stopped", "up-to-date")}
    assert "User" in seen[stopped]["cloud"]["reason"] and seen[head]["cloud"]["type"] == "m5.large"
    assert json.loads(result.text)["error"]["code"] == "HVD-E0201"

    def start(name, *words):
        started = cloud_hosts.hosts.run(
            ["env", *INIT.split(), f"{ray_venv}/bin/ray", "start", f"--node-ip-address={cloud_hosts.private(name)}",
             "--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats", *words], on=name, cwd="/",
            env={**os.environ, "RAY_AUTH_MODE": "disabled"})
        assert started.returncode == 0, started.stdout + started.stderr

    start("h1", "--head", "--port=6379", "--temp-dir=/run/ray", "--dashboard-host=127.0.0.1")
    result = tool.run("status", file, "--json")
    assert result.code == 0, result.errors
    assert [(machines(result)[name]["state"]) for name in (head, worker, stopped)] == ["alive", "absent", "stopped"]
    monitor = tool.start("monitor", file, "--interval", "0.5")
    lines = iter(monitor.process.stdout.readline, b"")
    assert any(f"{worker} m5.large, running, update-failed".encode() in line for line in lines)
    start("h2", f"--address={cloud_hosts.private('h1')}:6379")
    wanted = re.compile(rf"node {cloud_hosts.private('h2')}: alive: {worker} .*0/2 CPU".encode())
    assert any(wanted.search(line) for line in lines)
    cloud_hosts.cloud.boto(f'result = ec2.create_tags(Resources=["{worker}"], Tags=['
                           '{"Key": "ray-node-status", "Value": "up-to-date"}])')
    assert any(f"{worker} m5.large, running, up-to-date".encode() in line for line in lines)
    monitor.kill()
    text = tool.run("status", file).text
    assert re.search(rf"{cloud_hosts.private('h1')} +head +alive +{head} m5.large, running, setting-up; 0/2 CPU", text)
    result = tool.run("slots", "--cluster", file, "--json")
    assert result.code == 0 and json.loads(result.text)["slots"] == 4, result.text + result.errors
    result = tool.run("logs", file, cloud_hosts.public("h2"))
    assert "raylet.out" in result.text.splitlines(), result.errors
    result = tool.run("run", "--cluster", file, "-np", "2", "--", "sh", "-c", "echo on $(hostname)", timeout=240)
    assert result.code == 0 and result.text.count("on h") == 2, result.text + result.errors
    result = tool.run("run", "--cluster", file, "--backend", "ssh", "--", "sh", "-c", "echo on $(hostname)", timeout=240)
    assert result.code == 0, result.errors
    assert sorted(re.findall(r"on (h\d)", result.text)) == ["h1", "h1", "h2", "h2"], result.text
    for name in ("h1", "h2"):
        sshd = int((cloud_hosts.hosts.folder(name) / "sshd.pid").read_text())
        send([pid for pid in cloud_hosts.hosts.processes(name) if pid != sshd], signal.SIGKILL)
    wait_until(lambda: tool.run("status", file).code == 125, "the head's Ray is gone")
