# SPDX-License-Identifier: Apache-2.0
"""Clusters from a file on four sshd hosts with a pretended Ray: machines that Ray knows under other addresses than the
file, dashboards that are elsewhere or nowhere, and start commands of all kinds."""

import json
import os
import signal
import subprocess

import pytest
from conftest import rest

import pretend_ray_command
from make_hosts import Hosts

NODES = ("h1", "h2", "h3")


class Cluster:
    """The hosts, a cluster file for them, and hvdray at the launcher's place."""

    def __init__(self, hosts, binary, folder):
        self.hosts, self.binary, self.folder = hosts, binary, folder
        self.bin = pretend_ray_command.install(folder / "ray")
        self.name = f"names-{os.getpid()}"
        self.address = {name: host.address for name, host in hosts.hosts.items()}
        self.ip = {name: f"10.99.0.{number}" for number, name in enumerate(NODES, 1)}
        for name in NODES:
            self.use_ray(name)
            result = hosts.run(["ip", "address", "add", f"{self.ip[name]}/32", "dev", "lo"], on=name)
            assert result.returncode == 0, result.stderr

    def home(self, name):
        return self.hosts.folder(name) / "home"

    def use_ray(self, name, is_on_path=True, ip=None):
        """ip: what Ray calls the machine; not what the file does."""
        path = f"export PATH={self.bin}:$PATH\n" if is_on_path else ""
        (self.home(name) / ".bashrc").write_text(
            f"{path}export PYTHONPATH={self.bin}/../lib PRETENDED_IP={ip or self.ip[name]}\n")

    def write(self, head="h1", workers=("h2", "h3"), **replaced):
        lines = {
            "cluster_name": self.name,
            "provider": f"{{type: local, head_ip: {head}, worker_ips: [{', '.join(workers)}]}}",
            "auth": "{ssh_user: root}",
            "head_start_ray_commands": "[ray stop, ray start --head]",
            "worker_start_ray_commands": "[ray stop, 'ray start --address=$RAY_HEAD_IP:6379']", **replaced}
        (self.folder / "cluster.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))

    def go(self, *words, code=0):
        result = self.hosts.run([self.binary, *words], cwd=str(self.folder), timeout=300)
        assert result.returncode == code, result.stdout + result.stderr
        return result

    def up(self, *words, code=0):
        return self.go("up", "--yes", "cluster.yaml", *words, code=code)

    def machines(self):
        """Address -> state, by `status`."""
        view = json.loads(self.go("status", "cluster.yaml", "--json").stdout)
        return {machine["address"]: machine["state"] for machine in view["machines"]}

    def calls(self, name):
        path = self.home(name) / "ray-calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def made(request, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("hosts need root: network namespaces, mounts, sshd")
    binary = os.path.abspath(os.path.join(request.config.getoption("--bin-dir"), "hvdray"))
    with Hosts(count=len(NODES)) as hosts:
        yield Cluster(hosts, binary, tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def cluster(made):
    """Without Ray on it, before and after."""
    yield made
    made.hosts.run([made.binary, "down", "--yes", "cluster.yaml"], cwd=str(made.folder), timeout=300)
    leftovers = made.hosts.leftovers(within=30)
    made.hosts.kill_leftovers()
    for name in NODES:
        made.use_ray(name)
        (made.home(name) / "ray-calls").unlink(missing_ok=True)
        subprocess.run(["rm", "-rf", made.home(name) / ".hvdray"], check=True)
    assert not leftovers, f"left running: {leftovers}"


def test_a_machine_is_the_node_that_runs_on_it_whatever_ray_calls_it(cluster):
    cluster.write()
    cluster.up()
    assert cluster.machines() == {"h1": "alive", "h2": "alive", "h3": "alive"}
    view = json.loads(cluster.go("status", "cluster.yaml", "--json").stdout)
    node = next(machine["node_id"] for machine in view["machines"] if machine["address"] == "h2")
    for word in ("h2", cluster.ip["h2"], node, node[:8]):
        assert cluster.go("logs", "cluster.yaml", word).stdout == f"log-of-{node}\n"
        said = cluster.go("exec", "--node-ip", word, "cluster.yaml", "hostname").stdout
        assert said == "h2\n"
    assert "no machine 10.99.0.9" in cluster.go("exec", "--node-ip", "10.99.0.9", "cluster.yaml", "true", code=2).stderr
    raylet = next(pid for pid, line in cluster.hosts.processes("h2").items() if "--node_id=" in line)
    os.kill(raylet, signal.SIGKILL)
    while cluster.machines()["h2"] == "alive":
        pass
    assert cluster.machines() == {"h1": "alive", "h2": "dead", "h3": "alive"}
    assert "node h2 is dead" in cluster.go("logs", "cluster.yaml", "h2", code=125).stderr


def test_where_nobody_has_asked_a_name_is_the_addresses_that_it_has_here(cluster):
    for name in NODES:
        cluster.use_ray(name, ip=cluster.address[name])
    cluster.write()
    cluster.up()
    (members,) = cluster.home("h1").glob(".hvdray/clusters/*/*/members")
    members.unlink()
    assert cluster.machines() == {"h1": "alive", "h2": "alive", "h3": "alive"}
    assert cluster.go("exec", "--node-ip", cluster.address["h3"], "cluster.yaml", "hostname").stdout == "h3\n"
    cluster.up()
    assert len(members.read_text().splitlines()) == 3, "noted by an up that had nothing else to do"


@pytest.mark.parametrize("line", ["export PATH={bin}:$PATH; ray {what}", *rest(
    "{bin}/ray {what}", "source ~/ml && ray {what}", "start_ray() {{ {bin}/ray {what}; }}; start_ray")])
def test_the_commands_of_the_file_decide_whether_there_is_a_ray(cluster, line):
    for name in NODES:
        cluster.use_ray(name, is_on_path=False)
        (cluster.home(name) / "ml").write_text(f"export PATH={cluster.bin}:$PATH\n")
    starts = [line.format(bin=cluster.bin, what=what)
              for what in ("start --head", "start --address=$RAY_HEAD_IP:6379")]
    cluster.write(head_start_ray_commands=json.dumps(starts[:1]), worker_start_ray_commands=json.dumps(starts[1:]))
    cluster.up()
    assert set(cluster.machines().values()) == {"alive"}


def test_a_ray_that_is_not_there_is_named_as_the_file_names_it(cluster):
    cluster.write(head_start_ray_commands="[/nowhere/ray start --head]")
    assert "/nowhere/ray" in cluster.up(code=125).stderr


def test_no_command_of_the_file_stops_the_rays_of_others(cluster):
    cluster.write(setup_commands='["true && ray stop"]',
                  head_start_ray_commands='["cd ~ && ray stop; ray start --head"]',
                  worker_start_ray_commands=f'["{cluster.bin}/ray stop --force || true", "ray start --address=$RAY_HEAD_IP:6379"]')
    cluster.up()
    for name in NODES:
        assert [call for call in cluster.calls(name) if call.startswith("stop")] == []


def test_a_command_for_a_cluster_has_the_addresses_of_its_own_ray(cluster):
    """Ray's own programs take the one that was started last, otherwise."""
    show = "echo $RAY_ADDRESS $RAY_API_SERVER_ADDRESS"
    (cluster.folder / "show.py").write_text(
        "import os; print(os.environ.get('RAY_ADDRESS'), os.environ.get('RAY_API_SERVER_ADDRESS'))\n")
    cluster.write()
    cluster.up()
    first = "127.0.0.1:6379 http://127.0.0.1:8265\n"
    assert cluster.go("exec", "cluster.yaml", show).stdout == first
    cluster.write(workers=(), cluster_name=f"{cluster.name}-b",
                  head_start_ray_commands="[ray start --head --port=6390 --dashboard-port=8301]")
    cluster.up()
    try:
        assert cluster.go("exec", "cluster.yaml", show).stdout == "127.0.0.1:6390 http://127.0.0.1:8301\n"
        cluster.write()
        assert cluster.go("exec", "cluster.yaml", show).stdout == first
        assert cluster.go("submit", "cluster.yaml", "show.py").stdout == first
        on_worker = cluster.go("exec", "--node-ip", "h2", "cluster.yaml", show).stdout
        assert on_worker == "h1:6379\n", "which has no dashboard"
        # The other cluster's is at the usual place, and yet nobody takes it for this one's.
        cluster.write(workers=(), cluster_name=f"{cluster.name}-b")
        cluster.go("down", "--yes", "cluster.yaml")
        for words, code in ((["status"], 125), (["slots", "--cluster"], 2), (["jobs", "--cluster"], 2)):
            assert f"no Ray of cluster {cluster.name}-b runs on h1" in cluster.go(*words, "cluster.yaml", code=code).stderr
        assert "no Ray of cluster" in cluster.go("exec", "cluster.yaml", show).stderr
        cluster.write()
        with open(cluster.home("h1") / ".bashrc", "a", encoding="ascii") as bashrc:
            bashrc.write("export RAY_ADDRESS=mine\n")
        assert cluster.go("exec", "cluster.yaml", show).stdout == "mine\n"
    finally:
        cluster.go("down", "--yes", "cluster.yaml", "-n", f"{cluster.name}-b")


@pytest.mark.rest
def test_commands_may_leave_ray_starting_behind_them(cluster):
    cluster.write(head_start_ray_commands='["nohup sh -c \'sleep 2; ray start --head; sleep 1000\' &"]',
                  worker_start_ray_commands='["(sleep 2; ray start --address=$RAY_HEAD_IP:6379) &"]')
    cluster.up()
    assert set(cluster.machines().values()) == {"alive"}


def test_commands_that_leave_nothing_behind_them_are_told_at_once(cluster):
    cluster.write(head_start_ray_commands='["true # ray start"]')
    assert "no Ray runs" in cluster.up(code=125).stderr


@pytest.mark.parametrize("options, sentence", [
    ("", "at port 8265 of the head alone"),
    ("--dashboard-host={ip} --dashboard-port=8302 --port=7001", "at {ip} port 8302, to other machines, too"),
    *rest(("--dashboard-port=8301", "at port 8301 of the head alone"),
          ("--dashboard-host=0.0.0.0", "at port 8265 of the head, to other machines, too"))])
def test_the_dashboard_is_where_the_running_head_has_it(cluster, options, sentence):
    options, sentence = options.format(ip=cluster.ip["h1"]), sentence.format(ip=cluster.ip["h1"])
    gcs = 7001 if "7001" in options else 6379
    cluster.write(head_start_ray_commands=f"['ray start --head {options}']",
                  worker_start_ray_commands=f"['ray start --address=$RAY_HEAD_IP:{gcs}']")
    said = cluster.up()
    assert sentence in said.stdout
    assert set(cluster.machines().values()) == {"alive"}
    assert sentence in cluster.up().stdout, "kept"
    process = cluster.hosts.popen([cluster.binary, "dashboard", "cluster.yaml", "-p", "8400"], cwd=str(cluster.folder),
                                  stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "http://127.0.0.1:8400\n"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.rest
def test_a_ray_without_a_dashboard_comes_up_and_says_so(cluster):
    cluster.write(head_start_ray_commands="['ray start --head --include-dashboard=False']")
    said = cluster.up()
    assert "no dashboard" in said.stdout
    assert "listens" not in said.stdout
    for words in (["status", "cluster.yaml"], ["logs", "cluster.yaml", "head"], ["dashboard", "cluster.yaml"]):
        said = cluster.go(*words, code=125).stderr
        assert "without a dashboard" in said and "--include-dashboard=False" in said, said
    assert cluster.go("exec", "cluster.yaml", "hostname").stdout == "h1\n"
