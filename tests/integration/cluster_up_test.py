# SPDX-License-Identifier: Apache-2.0
"""`hvdray up` and `hvdray down` on four sshd hosts with real Ray: what comes up, what stays, what is left.

The tests share one cluster and build on each other in this order, those marked `rest` among themselves; each brings up what it needs.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from documents_flow import monitor_submit_attach
from hosts_processes import send, wait_until
from make_hosts import Hosts

NODES = ("h1", "h2", "h3", "h4")
RAY = "--object-store-memory=80000000 --num-cpus=1"
FORGET = "rm -f /run/ray/ray_current_cluster /tmp/ray/ray_current_cluster"
# Hosts share a process table, and `up` knows its processes by cluster and address: another run must not be taken for ours.
NAME = f"up-test-{os.getpid()}"


class Cluster:
    """The hosts, a cluster file for them, and hvdray at the launcher's place."""

    def __init__(self, hosts, binary, venv, folder):
        self.hosts, self.binary, self.venv, self.folder = hosts, binary, venv, folder
        self.address = {name: host.address for name, host in hosts.hosts.items()}
        for name in NODES:
            self.use_ray(name, venv)
        (folder / "code").mkdir()
        (folder / "code/a.py").write_text("a\n")
        (folder / "settings.txt").write_text("first\n")
        self.write()

    def home(self, name):
        return self.hosts.folder(name) / "home"

    def use_ray(self, name, venv):
        """Ray is on the PATH of a login shell alone, as with conda."""
        (self.home(name) / ".bashrc").write_text(
            f"export PATH={venv}/bin:$PATH\n"
            "export RAY_enable_worker_prestart=0 RAY_prestart_worker_first_driver=0\n")

    def write(self, setup=("echo one >>~/log", "echo two >>~/log"), name="cluster.yaml", workers=NODES[1:],
              **replaced):
        """The file with these setup commands; replaced: lines by key, instead of the usual ones."""
        head = self.address["h1"]
        lines = {
            "cluster_name": NAME,
            "provider": f"{{type: local, head_ip: {head}, worker_ips: "
                        f"[{', '.join(self.address[worker] for worker in workers)}]}}",
            "auth": "{ssh_user: root}",
            "file_mounts": f'{{"~/code": {self.folder}/code, "~/conf.txt": {self.folder}/settings.txt}}',
            "setup_commands": "[" + ", ".join(f'"{command}"' for command in setup) + "]",
            # `ray start --head` refuses the address of the former head while a raylet of any process that it sees names it, and the
            # cluster that all tests share is on hosts with these addresses.
            "head_start_ray_commands": f'["ray stop", "{FORGET}; ray start --head --port=6379 --node-ip-address={head} '
                                       f'--temp-dir=/run/ray {RAY}"]',
            "worker_start_ray_commands": f'["ray stop", "ray start --address=$RAY_HEAD_IP:6379 {RAY}"]',
            **replaced}
        path = self.folder / name
        path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
        return path

    def go(self, *words, timeout=300, code=None, **kwargs):
        """code: what it has to end with."""
        for _ in range(4):
            result = self.hosts.run([self.binary, *words], cwd=str(self.folder), timeout=timeout, **kwargs)
            # `ray start` reads the command lines of all processes, and so those of the other hosts here: one that still stops
            # its former Ray, or is of a cluster with these addresses, looks as if this head ran.
            if "is already running at" not in result.stdout:
                break
            time.sleep(1)
        assert code in (None, result.returncode), result.stdout + result.stderr
        return result

    def up(self, *words, code=0, file="cluster.yaml"):
        return self.go("up", "--yes", file, *words, code=code)

    def told(self, command, *words, code=0):
        """The result, and what --events and --report say."""
        result = self.go(command, "--yes", "cluster.yaml", "--events", "events", "--report", "report", *words, code=code)
        events = self.folder / "events"
        lines = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
        return result, lines, json.loads((self.folder / "report").read_text())

    def down(self, *words, code=0, file="cluster.yaml"):
        return self.go("down", "--yes", file, *words, code=code)

    def start(self, *words, **io):
        """hvdray that runs; its output is to be read."""
        io = io or {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return self.hosts.popen([self.binary, *words], cwd=str(self.folder), **io)

    def start_up(self, *words):
        return self.start("up", "--yes", "cluster.yaml", *words)

    def raylet(self, name):
        return next((pid for pid, line in self.hosts.processes(name).items()
                     if line.split(" ", 1)[0].endswith("/raylet/raylet")), None)

    def raylets(self):
        return {name: self.raylet(name) for name in NODES}

    def log(self, name):
        path = self.home(name) / "log"
        return path.read_text().split() if path.exists() else []

    def clear_logs(self):
        for name in NODES:
            (self.home(name) / "log").unlink(missing_ok=True)

    def submit_job(self, line):
        token = (self.home("h1") / f".hvdray/clusters/{NAME}/token").read_text()
        code = ("import json, sys, urllib.request; urllib.request.urlopen(urllib.request.Request("
                "'http://127.0.0.1:8265/api/jobs/', json.dumps({'entrypoint': sys.argv[1]}).encode(), "
                "{'Authorization': 'Bearer ' + sys.stdin.read(), 'Content-Type': 'application/json'})).read()")
        result = self.hosts.run([f"{self.venv}/bin/python", "-c", code, line], on="h1", timeout=120, input=token)
        assert result.returncode == 0, result.stderr

    def alive(self):
        """The nodes that Ray itself lists as alive, asked as a user on the head would."""
        code = ("import ray; ray.init(address='auto', logging_level='error'); "
                "print(*sorted(n['NodeManagerAddress'] for n in ray.nodes() if n['Alive']))")
        result = self.hosts.run([f"{self.venv}/bin/python", "-P", "-c", code], on="h1", timeout=120,
                                env={**os.environ, "RAY_AUTH_MODE": "token",
                                     "RAY_ADDRESS": f"{self.address['h1']}:6379"})
        assert result.returncode == 0, result.stderr
        return result.stdout.split()


def read_until(process, words):
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return
    raise AssertionError(f"ended before '{words}':\n{said}")


@pytest.fixture(scope="module")
def cluster(request, ray_venv, tmp_path_factory):  # noqa: F811
    if os.geteuid() != 0:
        pytest.skip("hosts need root: network namespaces, mounts, sshd")
    binary = os.path.abspath(os.path.join(request.config.getoption("--bin-dir"), "hvdray"))
    with Hosts(count=len(NODES)) as hosts:
        yield Cluster(hosts, binary, ray_venv, tmp_path_factory.mktemp("cluster"))


def test_bad_input_is_refused_before_any_host_is_asked(cluster):
    def refused(*words, code=2):
        result = cluster.go(*words)
        assert result.returncode == code, result.stdout + result.stderr
        assert result.stdout == ""
        return result.stderr

    assert "--yes" in refused("up", "cluster.yaml"), "there is no terminal to ask at"
    assert "--yes" in refused("down", "cluster.yaml")
    assert "exclude each other" in refused("up", "-y", "cluster.yaml", "--restart-only", "--no-restart")
    assert "no cluster file" in refused("up")
    assert "nowhere.yaml" in refused("up", "-y", "nowhere.yaml")
    cluster.write(name="bad.yaml", cluster_name='"../x"')
    assert "cluster_name" in refused("up", "-y", "bad.yaml")
    assert "flag -n: 'a b' is not a name" in refused("up", "-y", "cluster.yaml", "-n", "a b")
    cluster.write(name="bad.yaml", auth="{ssh_user: root, ssh_private_key: /nowhere/key}")
    assert "/nowhere/key" in refused("up", "-y", "bad.yaml")
    cluster.write(name="bad.yaml", file_mounts='{"~/x": /nowhere/code}')
    assert "/nowhere/code" in refused("up", "-y", "bad.yaml")
    cluster.write(name="bad.yaml", provider="{type: gcp}")
    assert "gcp" in refused("up", "-y", "bad.yaml")
    cluster.write(name="bad.yaml", docker='{image: x, container_name: "y; z"}')
    assert "container_name" in refused("up", "-y", "bad.yaml")
    for option in ("--events", "--report"):
        for command in ("up", "down"):
            assert "[HVD-E0105]" in refused(command, "-y", "cluster.yaml", option, "/nowhere/file")
    assert "same file" in refused("up", "-y", "cluster.yaml", "--events", "x", "--report", "x")


def test_a_dry_run_changes_nothing(cluster):
    result = cluster.go("up", "--dry-run", "cluster.yaml")
    assert result.returncode == 0, result.stderr
    assert f"{cluster.address['h1']}: create (head); 3 steps" in result.stdout
    assert result.stdout.count("start Ray") == 4
    assert not (cluster.home("h1") / ".hvdray").exists()


def test_a_failing_step_is_told_and_the_next_run_goes_on_there(cluster):
    cluster.write(setup=("echo one >>~/log", "echo why it failed; echo two >>~/log; exit 7"))
    result, events, report = cluster.told("up", code=125)
    for name in NODES:
        assert cluster.log(name) == ["one", "two"], "no node waits for another"
        node = report["nodes"][NODES.index(name)]
        assert (node["address"], node["state"], node["need"]) == (cluster.address[name], "failed", "create")
        assert node["error"]["code"] == "HVD-E0220"
        assert [(step["kind"], step["exit_code"]) for step in node["steps"]] == [
            ("file_mounts", 0), ("setup", 0), ("setup", 7)]
        assert node["copied"]["files"] == 2 and node["copied"]["bytes"] == 8
        assert node["log_in_s"] > 0 and node["join_s"] is None and node["boot_s"] is None
        mine = [event["event"] for event in events if event.get("node") == cluster.address[name]]
        assert mine == ["node_logging_in", "node_logged_in"] + 3 * ["step_started", "step_done"] + ["node_failed"]
        assert re.search(rf"^{cluster.address[name]} .* failed: ", result.stdout, re.M), "in the table"
    assert (events[0]["event"], events[-1]["event"]) == ("cluster", "end")
    for exit_code in (events[-1]["exit"], report["exit"]):
        assert (exit_code["code"], exit_code["error"]["code"]) == (125, "HVD-E0220")
    for name in NODES:
        assert re.search(rf"{cluster.address[name]}: setup 2/2: .*: exit code 7 \[HVD-E0220\]", result.stderr)
        assert f"{cluster.address[name]}:   | why it failed" in result.stdout
        assert f"[{cluster.address[name]}] why it failed" in result.stdout
    assert set(cluster.raylets().values()) == {None}
    # The first step is done; the mended one and the file of the next test follow.
    cluster.write()


def test_file_mounts_arrive_as_rsync_would_bring_them(cluster):
    source = cluster.folder / "mounted"
    for name in (".git/HEAD", "data/x", "sub/logs/a.log", "sub/logs/b.txt", "keep/.rules", "keep/c.tmp"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("*.tmp\n")
    excludes = ["data/**", "logs/*.log"]
    copy = cluster.folder / "copy"
    subprocess.run(["rsync", "-a", *[f"--exclude={pattern}" for pattern in excludes], "--filter=dir-merge,- .rules",
                    f"{source}/", copy], check=True)
    wanted = sorted(path.relative_to(copy) for path in copy.rglob("*"))
    home = cluster.home("h1")
    (home / "lib").mkdir()
    cluster.write(name="mounts.yaml", cluster_name=f"{NAME}-mounts", setup=("exit 7",), workers=(), rsync_exclude=json.dumps(excludes), rsync_filter="[.rules]",
                  file_mounts=json.dumps({"~/all": str(source), "~/lib": str(cluster.folder / "settings.txt"),
                                          "~/new/": str(cluster.folder / "settings.txt")}))
    result = cluster.up(file="mounts.yaml", code=125)
    assert "exit 7" in result.stdout, result.stdout + result.stderr
    assert sorted(path.relative_to(home / "all") for path in (home / "all").rglob("*")) == wanted
    for folder in ("lib", "new"):
        assert (home / folder / "settings.txt").read_text() == "first\n"


def test_up_starts_ray_on_every_node(cluster):
    cluster.clear_logs()
    result, events, report = cluster.told("up")
    assert [event["event"] for event in events].count("node_joined") == 4
    for node in report["nodes"]:
        assert (node["state"], node["error"], node["ray"]) == ("up", None, "2.60.0")
        assert node["set_up_s"] > 0 and node["join_s"] > 0
    for name in NODES:
        assert cluster.log(name) == ["two"], "only what failed and what follows"
        assert (cluster.home(name) / "code/a.py").read_text() == "a\n"
        assert (cluster.home(name) / "conf.txt").read_text() == "first\n"
        token = cluster.home(name) / f".hvdray/clusters/{NAME}/token"
        assert token.stat().st_mode & 0o777 == 0o600
        assert token.read_text() == (cluster.home("h1") / ".ray/auth_token").read_text()
        assert token.read_text() not in result.stdout + result.stderr
        assert re.search(rf"^{cluster.address[name]} .*  up$", result.stdout, re.M)
        assert not any(token.read_text() in line for line in cluster.hosts.processes(name).values())
    assert cluster.alive() == sorted(cluster.address.values())
    for line in cluster.hosts.processes("h1").values():
        assert "autoscaling-config" not in line
        assert "--dashboard-host=0.0.0.0" not in line


def test_the_flow_of_the_documents(cluster):
    monitor_submit_attach(cluster, len(NODES))


def test_a_second_up_changes_nothing(cluster):
    before = cluster.raylets()
    cluster.clear_logs()
    result = cluster.go("up", "cluster.yaml", "--yes")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(": keep") == 4
    assert cluster.raylets() == before
    assert not any(cluster.log(name) for name in NODES)


def test_a_file_that_cannot_be_written_whole_is_told_once(cluster):
    result, _, report = cluster.told("up", "--events", "/dev/full", code=125)
    assert result.stderr.count("[HVD-E0305]") == 1
    assert {node["state"] for node in report["nodes"]} == {"up"}
    assert {node["need"] for node in report["nodes"]} == {"keep"}
    assert report["exit"]["error"]["code"] == "HVD-E0305"
    assert re.search(rf"^{cluster.address['h1']} .* up$", result.stdout, re.M), "the cluster is there"


def test_a_node_whose_ray_died_is_the_only_one_restored(cluster):
    before = cluster.raylets()
    send([before["h3"]], signal.SIGKILL)
    wait_until(lambda: cluster.raylet("h3") is None, "death of a raylet")
    result = cluster.up()
    after = cluster.raylets()
    assert {name for name in NODES if after[name] != before[name]} == {"h3"}
    assert result.stdout.count(": keep") == 3
    assert result.stdout.count("has joined") == 1


def test_a_changed_command_or_file_runs_exactly_what_follows(cluster):
    before = cluster.raylets()
    cluster.clear_logs()
    cluster.write(setup=("echo one >>~/log", "echo changed >>~/log", "echo three >>~/log"))
    cluster.up("--no-restart")
    assert [cluster.log(name) for name in NODES] == [["changed", "three"]] * 4
    cluster.clear_logs()
    (cluster.folder / "code/b.py").write_text("b\n")
    result = cluster.up("--no-restart")
    assert [cluster.log(name) for name in NODES] == [["one", "changed", "three"]] * 4
    assert result.stdout.count("copied 1 file,") == 4, "only the new one"
    assert (cluster.home("h4") / "code/b.py").exists()
    cluster.clear_logs()
    cluster.up("--no-restart")
    assert not any(cluster.log(name) for name in NODES)
    assert cluster.raylets() == before


@pytest.mark.parametrize("line", ["setup 1/3", "setup 2/3", "setup 3/3"])
def test_up_that_is_killed_at_a_step_is_finished_by_the_next(cluster, line):
    cluster.clear_logs()
    steps = [f"echo {line.replace(' ', '-')} {n}; echo {n} >>~/log; sleep 0.3; echo {n}-end >>~/log"
             for n in range(3)]
    cluster.write(setup=steps)
    with cluster.start_up("--no-restart") as process:
        read_until(process, line)
        process.kill()
    cluster.up("--no-restart")
    for name in NODES:
        # A step that ended in the moment of the kill is not recorded yet, and runs once more.
        ends = [word for word in cluster.log(name) if word.endswith("-end")]
        assert list(dict.fromkeys(ends)) == ["0-end", "1-end", "2-end"] and len(ends) <= 4, ends
    before = [cluster.log(name) for name in NODES]
    cluster.up("--no-restart")
    assert [cluster.log(name) for name in NODES] == before, "all is recorded"


def test_ctrl_c_says_how_to_go_on(cluster):
    cluster.write(setup=("sleep 60",))
    with cluster.start_up("--no-restart") as process:
        read_until(process, "setup: sleep")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130, rest
    assert "goes on from there" in rest
    wait_until(lambda: not any("sleep 60" in line for name in NODES
                               for line in cluster.hosts.processes(name).values()), "end of the commands")
    cluster.write()


@pytest.mark.rest
def test_a_worker_with_another_ray_is_refused_and_a_foreign_one_left_alone(cluster, request):
    old = request.config.getoption("--old-ray-venv")
    if not old:
        pytest.skip("needs --old-ray-venv")
    cluster.up()
    send([cluster.raylet("h4")], signal.SIGKILL)
    cluster.use_ray("h4", old)
    result = cluster.up(code=125)
    assert f"{cluster.address['h4']}: has Ray 2.40.0" in result.stderr
    assert "the head has Ray 2.60.0" in result.stderr
    (cluster.home("h4") / ".bashrc").write_text("")
    assert "no Ray" in cluster.up(code=125).stderr
    cluster.use_ray("h4", cluster.venv)
    # h2 as the head of another cluster of this name.
    cluster.write(name="other.yaml", workers=(), provider=f"{{type: local, head_ip: {cluster.address['h2']}, "
                                                          "worker_ips: []}")
    before = cluster.raylet("h2")
    assert f"it belongs to the head {cluster.address['h1']}" in cluster.up(code=125, file="other.yaml").stderr
    assert "belongs to another cluster" in cluster.down(code=125, file="other.yaml").stderr
    assert cluster.raylet("h2") == before


def test_down_names_an_unreachable_host_and_does_the_others(cluster):
    cluster.hosts.stop_sshd("h3")
    try:
        result = cluster.down("--workers-only", "--start-timeout", "10", code=125)
    finally:
        cluster.hosts.start_sshd("h3")
    assert f"{cluster.address['h3']}" in result.stderr
    assert "refused" in result.stdout, "why, and how long it is tried"
    assert "remain" not in result.stdout
    assert {name for name in NODES if cluster.raylet(name)} == {"h1", "h3"}


def test_down_leaves_nothing_and_twice_is_fine(cluster):
    stranger = cluster.hosts.popen(["env", "HVDRAY_NODE=other/x", "sleep", "300"], on="h2")
    started, ended = cluster.folder / "job_started", cluster.folder / "job_ended"
    try:
        assert cluster.down("--workers-only").stdout.endswith("\nOnly what was to stay remains.\n")
        assert {name for name in NODES if cluster.raylet(name)} == {"h1"}
        cluster.submit_job(f"trap 'echo >{ended}; exit' TERM; echo >{started}; sleep 300 & wait")
        wait_until(started.exists, "start of the job")
        result, events, report = cluster.told("down")
        assert "No nodes remaining." in result.stdout
        assert f"{cluster.address['h1']}: stopped 1 job\n" in result.stdout
        assert ended.exists(), "jobs end in order"
        head = report["nodes"][0]
        assert (head["need"], head["state"], head["role"]) == ("end", "ended", "head")
        assert head["processes"] > 0 and head["end_s"] > 0
        assert {node["need"] for node in report["nodes"][1:]} == {"keep"}
        assert [event["event"] for event in events if "node" in event][-2:] == ["ray_stopped", "node_ended"]
        assert stranger.poll() is None, "another cluster's"
    finally:
        stranger.kill()
        stranger.wait()
    assert not cluster.hosts.leftovers(*NODES, within=30)
    began = time.monotonic()
    assert cluster.down().stdout == "No nodes remaining.\n"
    assert time.monotonic() - began < 60


# ---- with a lease: on h1 and h2


def leads_session(pid):
    """As a watcher does; what it forks has its command line for a moment, too."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


class Lease:
    """A cluster of two whose leases are looked at from outside."""

    NODES = ("h1", "h2")

    def __init__(self, cluster):
        self.cluster = cluster
        cluster.write(name="lease.yaml", workers=self.NODES[1:], cluster_name="lease-test")

    def up(self, *words):
        return self.cluster.up(*words, file="lease.yaml")

    def file(self, name):
        return self.cluster.home(name) / f".hvdray/clusters/lease-test/{self.cluster.address[name]}/lease"

    def ends(self):
        return {int(self.file(name).read_text().split()[0]) if self.file(name).exists() else 0
                for name in self.NODES}

    def watchers(self):
        return {name: [pid for pid, line in self.cluster.hosts.processes(name).items()
                       if "/lease-watch" in line and leads_session(pid)] for name in self.NODES}


@pytest.fixture(scope="module")
def lease(cluster):
    cluster.down()  # if the tests above, which end with that, were not all run
    return Lease(cluster)


@pytest.mark.rest
def test_a_second_up_leaves_the_first_alone(lease):
    cluster = lease.cluster
    cluster.write(name="lease.yaml", workers=lease.NODES[1:], cluster_name="lease-test",
                  setup=("touch ~/at-work; until [ -f ~/go ]; do sleep 0.1; done; rm ~/go",))
    homes = [cluster.home(name) for name in lease.NODES]
    with cluster.start("up", "--yes", "--lease", "2h", "lease.yaml") as first:
        try:
            wait_until(lambda: all((home / "at-work").exists() for home in homes), "work of the first one")
            second = cluster.go("up", "--yes", "lease.yaml", code=125)
            assert second.stderr.count("another hvdray up is already running on this node: ") == 2
            assert f"pid {first.pid}" in second.stderr
            down = cluster.go("down", "--yes", "lease.yaml", code=125)
            assert down.stderr.count("an hvdray up is still running on this node: ") == 2 and "No nodes" not in down.stdout
            for home in homes:
                (home / "go").touch()
            read_until(first, "Ray is up")
        finally:
            first.kill()


@pytest.mark.rest
def test_up_that_is_killed_while_ray_starts_is_finished_by_the_next(lease):
    lease.up()
    assert lease.cluster.alive() == sorted(lease.cluster.address[name] for name in lease.NODES)
    assert lease.up().stdout.count(": keep") == 2


@pytest.mark.rest
def test_a_lease_is_set_renewed_kept_and_taken_back(lease):
    began = time.time()
    result = lease.up("--lease", "1h")
    (end,) = lease.ends()
    assert int(began) + 3600 <= end <= time.time() + 3601
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    assert f"lease until {text}\n" in result.stdout
    assert f"ends at {text}" in result.stdout
    watchers = lease.watchers()
    assert [len(found) for found in watchers.values()] == [1, 1]
    result = lease.up()
    assert f"lease until {text}, as before" in result.stdout
    assert (lease.ends(), lease.watchers()) == ({end}, watchers)
    before = lease.cluster.raylets()
    assert lease.up("--lease", "2h").stdout.count(": keep") == 2
    (renewed,) = lease.ends()
    assert renewed > end + 3000
    wait_until(lambda: [len(found) for found in lease.watchers().values()] == [1, 1], "watchers that are replaced, not doubled")
    result = lease.cluster.down("--expired", file="lease.yaml")
    assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(renewed)) in result.stdout
    lease.up("--lease", "0")
    assert lease.ends() == {0}
    wait_until(lambda: not any(lease.watchers().values()), "end of the watchers")
    assert "no node has a lease" in lease.cluster.down("--expired", file="lease.yaml").stdout
    assert lease.cluster.raylets() == before
    assert lease.cluster.go("down", "-y", "lease.yaml", "--expired", "--workers-only").returncode == 2
    assert lease.cluster.go("up", "-y", "lease.yaml", "--lease", "soon").returncode == 2


@pytest.mark.rest
def test_at_the_end_of_its_lease_a_cluster_ends_itself(lease):
    lease.up("--lease", "5s")  # it must not end before the slower host has its own
    wait_until(lambda: not lease.cluster.hosts.leftovers(*NODES), "end of Ray and of the watchers", within=120)
    assert lease.ends() == {0}
    assert lease.cluster.down(file="lease.yaml").stdout == "No nodes remaining.\n"


@pytest.mark.rest
def test_a_lease_that_ends_during_the_set_up_starts_nothing(lease):
    lease.cluster.write(name="lease.yaml", workers=lease.NODES[1:], cluster_name="lease-test", setup=(
        # The file goes when the lease ends, which may be before this command begins.
        "while at=$(cut -c1-10 ~/.hvdray/clusters/lease-test/*/lease) && [ $(date +%s) -le $at ]; do sleep 0.1; done",))
    result = lease.cluster.up("--lease", "1s", file="lease.yaml", code=125)
    assert "its lease has ended meanwhile: nothing was started" in result.stdout, result.stdout
    assert not lease.cluster.hosts.leftovers(*NODES, within=30)
    lease.cluster.write(name="lease.yaml", workers=lease.NODES[1:], cluster_name="lease-test")


@pytest.mark.rest
def test_expired_ends_what_a_dead_watcher_left(lease):
    lease.up("--lease", "1h")
    for name, (watcher,) in lease.watchers().items():
        send([watcher], signal.SIGKILL)
        lease.file(name).write_text("1 stay\n")
    assert "No nodes remaining." in lease.cluster.down("--expired", file="lease.yaml").stdout
    assert lease.ends() == {0}
    assert not lease.cluster.hosts.leftovers(*NODES, within=30)


# ---- in containers: on h1 and h2, whose docker is pretend_docker.py

BOXED = ("h1", "h2")


class Boxes:
    """A cluster file with a container, and the engine on its hosts."""

    def __init__(self, cluster):
        self.cluster = cluster
        tools = cluster.folder / "tools"
        tools.mkdir()
        shutil.copy(pathlib.Path(__file__).parent / "pretend_docker.py", tools / "docker")
        (tools / "docker").chmod(0o755)
        (tools / "images.json").write_text(json.dumps({"ray:1": ["HOME=/home/box"], "ray:2": ["HOME=/home/box"]}))
        for name in BOXED:
            assert cluster.hosts.run(["mount", "--bind", str(tools), "/usr/local/bin"], on=name).returncode == 0
            (cluster.home(name) / ".bashrc").write_text("")  # Ray is on the PATH in the container alone

    def write(self, setup=(), **replaced):
        head = self.cluster.address["h1"]
        profile = (f"echo 'export PATH={self.cluster.venv}/bin:$PATH RAY_enable_worker_prestart=0 "
                   "RAY_prestart_worker_first_driver=0' >~/.bashrc")
        lines = {"cluster_name": "box-test",
                 "docker": "{image: 'ray:1', container_name: box, run_options: ['-v $HOME/data:/data', '-e IN=box']}",
                 "initialization_commands": '["mkdir -p ~/data; echo init-${IN-host} >>~/data/log"]',
                 "head_start_ray_commands": f'["ray stop", "{FORGET}; ray start --head --port=6379 --node-ip-address={head} '
                                            f'{RAY}"]', **replaced}
        return self.cluster.write(name="box.yaml", workers=BOXED[1:],
                                  setup=("echo setup-${IN-host} >>/data/log", profile, *setup), **lines)

    def docker(self, name, *words):
        return self.cluster.hosts.run(["docker", *words], on=name)

    def ids(self):
        return [self.docker(name, "ps", "-aq").stdout.split() for name in BOXED]

    def log(self, name):
        return (self.cluster.home(name) / "data/log").read_text().split()

    def clear_logs(self):
        for name in BOXED:
            (self.cluster.home(name) / "data/log").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def boxes(cluster):
    made = Boxes(cluster)
    made.write()
    return made


def test_with_docker_ray_and_its_set_up_run_in_a_container(boxes):
    cluster = boxes.cluster
    result = cluster.up(file="box.yaml")
    assert result.stdout.count("container: box from ray:1") == 2
    for name in BOXED:
        assert boxes.log(name) == ["init-host", "setup-box"]
        inside = boxes.docker(name, "exec", "box", "sh", "-c", "cat ~/code/a.py ~/conf.txt; pgrep -c -x raylet")
        assert inside.stdout == "a\nfirst\n1\n", inside.stderr
        assert cluster.raylet(name), "a process of the host, too"
    code = boxes.docker("h1", "exec", "box", "bash", "-ic",
                        "RAY_AUTH_MODE=token ray list nodes --format json 2>/dev/null")
    assert {node["node_ip"] for node in json.loads(code.stdout)} == {cluster.address[name] for name in BOXED}


def test_a_second_up_keeps_the_container_and_its_ray(boxes):
    before = boxes.cluster.raylets(), boxes.ids()
    boxes.clear_logs()
    assert boxes.cluster.up(file="box.yaml").stdout.count(": keep") == 2
    assert (boxes.cluster.raylets(), boxes.ids()) == before
    # Changed files are in the container that runs, and nowhere else: links at names that could be foreseen lead nowhere.
    for name in BOXED:
        boxes.docker(name, "exec", "box", "sh", "-c",
                     'for i in $(seq $$ $(($$ + 3000))); do ln -s /home/box/led "/tmp/.hvdray.$i"; done')
    (boxes.cluster.folder / "settings.txt").write_text("second\n")
    boxes.cluster.up("--no-restart", file="box.yaml")
    assert (boxes.cluster.raylets(), boxes.ids()) == before
    for name in BOXED:
        assert boxes.docker(name, "exec", "box", "cat", "/home/box/conf.txt").stdout == "second\n"
        look = "test ! -e /home/box/led && rm /tmp/.hvdray.* && echo well"
        assert boxes.docker(name, "exec", "box", "sh", "-c", look).stdout == "well\n"
        assert boxes.log(name) == ["init-host", "setup-box"]


@pytest.mark.rest
def test_a_container_that_is_gone_is_set_up_anew_and_no_other(boxes):
    boxes.cluster.up(file="box.yaml")
    _, (other,) = boxes.ids()
    boxes.clear_logs()
    boxes.docker("h2", "kill", "box")
    boxes.cluster.up("--no-restart", file="box.yaml")
    (head,), (worker,) = boxes.ids()
    assert worker != other
    assert boxes.log("h2") == ["setup-box"]
    assert not (boxes.cluster.home("h1") / "data/log").exists()
    assert boxes.cluster.raylet("h2")
    # Another image means another container, even with --restart-only.
    boxes.write(docker="{image: 'ray:2', container_name: box, run_options: ['-v $HOME/data:/data']}")
    boxes.cluster.up("--restart-only", file="box.yaml")
    assert not {head, worker} & {ident for ids in boxes.ids() for ident in ids}
    assert boxes.log("h1") == ["setup-host"]


@pytest.mark.rest
def test_at_the_end_of_a_lease_the_container_ends_too(boxes):
    boxes.cluster.up("--lease", "1h", file="box.yaml")
    boxes.cluster.up("--lease", "5s", file="box.yaml")
    wait_until(lambda: not boxes.cluster.hosts.leftovers(*NODES), "end of all", within=120)
    assert boxes.ids() == [[], []]
    assert boxes.cluster.down(file="box.yaml").stdout == "No nodes remaining.\n"


@pytest.mark.rest
def test_an_image_that_nobody_has_fails_the_step_and_is_told(boxes):
    boxes.write(docker="{image: 'nowhere:1', container_name: box}")
    result = boxes.cluster.up(code=125, file="box.yaml")
    assert re.search(rf"{boxes.cluster.address['h2']}: container: box from nowhere:1: exit code 1 \[HVD-E0220\]",
                     result.stderr)
    assert "manifest for nowhere:1 not found" in result.stdout


@pytest.mark.rest
def test_a_killed_up_leaves_no_command_running_in_the_container(boxes):
    boxes.write(setup=("sleep 987",))
    with boxes.cluster.hosts.popen([boxes.cluster.binary, "up", "--yes", "box.yaml"], cwd=str(boxes.cluster.folder),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        read_until(process, "setup 3/3: sleep 987")
        wait_until(lambda: "sleep 987" in boxes.cluster.hosts.processes("h1").values(), "the command")
        process.kill()
    wait_until(lambda: not any("sleep 987" in line for name in BOXED
                               for line in boxes.cluster.hosts.processes(name).values()), "end of the commands")

    result = boxes.cluster.down(file="box.yaml")
    assert result.stdout.count("and the container; none is left") == 2
    assert boxes.ids() == [[], []]
