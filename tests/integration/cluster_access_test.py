# SPDX-License-Identifier: Apache-2.0
"""The commands on a cluster that runs already, from a machine with its file and nothing else: no Ray, no token,
the dashboard behind SSH."""

import contextlib
import json
import os
import pathlib
import re
import signal
import time
import urllib.request

import pytest
from ray import HEAD, SPARE, WORKERS

from at_terminal import Terminal
from conftest import Hvdray, checked, rest
from hosts_processes import send, wait_until
from make_hosts import LAUNCHER
from make_ray import inside_network_of


@pytest.fixture
def tool(request, ray_cluster):
    """hvdray at the launcher, which knows no token."""
    made = Hvdray(request.config.getoption("--bin-dir"), ray_cluster.hosts)
    environment = ray_cluster.client_environment()
    del environment["RAY_AUTH_TOKEN"]
    made.environment = {**environment, "TERM": "xterm"}
    made.patience = 180
    yield from checked(made)


@pytest.fixture
def write_file(ray_cluster, tmp_path):
    """write_file(head, workers) -> path of a cluster file."""

    def write(head=HEAD, workers=(*WORKERS, SPARE), more=""):
        path = tmp_path / f"{head}.yaml"
        addresses = ", ".join(ray_cluster.address(name) for name in workers)
        path.write_text(f"cluster_name: t\nprovider:\n    type: local\n"
                        f"    head_ip: {ray_cluster.address(head)}\n    worker_ips: [{addresses}]\n"
                        f"auth:\n    ssh_user: root\n{more}")
        return path
    return write


@pytest.fixture
def file(write_file):
    return write_file()


def at_terminal(tool, *words, **size):
    return Terminal(lambda **io: tool.start(*words, **io).process, **size)


def at_launcher(ray, function):
    return inside_network_of(ray.hosts[LAUNCHER].holder, function)


def processes_with(ray, name, needle):
    return [pid for pid, line in ray.hosts.processes(name).items() if needle in line]


def test_addresses_are_plain_lines(tool, ray_cluster, write_file, tmp_path):
    file = write_file(workers=("h2", "h3"))
    assert tool.run("get-head-ip", file).text == ray_cluster.address(HEAD) + "\n"
    result = tool.run("get-worker-ips", "-n", "other", file)
    assert result.text.splitlines() == [ray_cluster.address("h2"), ray_cluster.address("h3")]
    missing = tool.run("get-head-ip", tmp_path / "none.yaml")
    assert missing.code == 2 and missing.text == "" and "none.yaml" in missing.errors
    other = tmp_path / "aws.yaml"
    other.write_text("cluster_name: t\nprovider: {type: gcp}\nauth: {ssh_user: a}\n"
                     "head_node_type: a\navailable_node_types: {a: {node_config: {}, resources: {}}}\n")
    refused = tool.run("status", other)
    assert refused.code == 2 and "only provider gcp knows its machines" in refused.errors
    for words in (["exec", "true"], ["get-head-ip"], ["monitor"], ["dashboard"], ["rsync-down", "a", "b"],
                  ["submit", "a.py"]):
        refused = tool.run(words[0], other, *words[1:])
        assert refused.code == 2 and "no ray on PATH" in refused.errors, refused.errors
        assert 'pip install "ray[default]"' in refused.errors
    refused = tool.run("monitor", other, "--json")
    assert refused.code == 2 and "--json" in refused.errors


def test_exec_is_the_command_and_nothing_else(tool, file):
    result = tool.run("exec", file, "printf 'a\\0b\\n'; echo error >&2; exit 3")
    assert (result.code, result.out, result.errors) == (3, b"a\0b\n", "error\n")
    assert tool.run("exec", file, "--", "printf", "%s|", "a b", "it's $HOME").text == "a b|it's $HOME|"
    assert tool.run("exec", file, "exit 255").code == 255
    assert tool.run("exec", file, "no-such-program").code == 127
    large = os.urandom(1 << 20)
    job = tool.start("exec", file, "cat", stdin=-1)
    out, _ = job.process.communicate(large, timeout=60)
    assert out == large and job.process.returncode == 0


def test_exec_on_another_machine_of_the_file_and_on_no_other(tool, ray_cluster, file):
    address = ray_cluster.address("h3")
    assert tool.run("exec", file, "--node-ip", address, "hostname").text == "h3\n"
    result = tool.run("exec", file, "--node-ip", "192.0.2.1", "hostname")
    assert result.code == 2 and "no machine 192.0.2.1" in result.errors


def test_a_head_that_is_not_reached_is_told_in_a_line(tool, ray_cluster, write_file):
    ray_cluster.hosts.stop_sshd(SPARE)
    try:
        for words in (["exec", "true"], ["rsync-down", "a", "b"]):
            file = write_file(head=SPARE, workers=())
            result = tool.run(words[0], file, *words[1:])
            assert result.code == 125 and "Connection refused" in result.errors, result.errors
            assert len(result.errors.splitlines()) == 2
        result = tool.run("status", file)
        assert result.code == 125 and f"hvdray up {file}" in result.errors, result.errors
    finally:
        ray_cluster.hosts.start_sshd(SPARE)


def sleeping(ray, seconds):
    return [line for line in ray.hosts.processes(HEAD).values() if line.strip() == f"sleep {seconds}"]


def test_a_command_ends_with_its_client(tool, ray_cluster, file):
    signals = {4711: signal.SIGINT, 4718: signal.SIGKILL}
    jobs = {seconds: tool.start("exec", file, f"sleep {seconds}") for seconds in signals}
    for seconds, signo in signals.items():
        wait_until(lambda at=seconds: sleeping(ray_cluster, at), "the command runs")
        os.kill(jobs[seconds].pid, signo)
        assert jobs[seconds].wait().code == (130 if signo == signal.SIGINT else -signo)
        wait_until(lambda at=seconds: not sleeping(ray_cluster, at), "its end")


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_command_on_this_machine_ends_with_its_client(hvdray, tmp_path, signo):
    file = tmp_path / "here.yaml"
    file.write_text("cluster_name: here\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n")
    job = hvdray.start("exec", file, "sleep 4721; echo went on")
    job.wait_for(lambda: "sleep 4721 " in job.processes().values(), what="the command runs")
    os.kill(job.pid, signo)
    result = job.wait()
    assert result.code == (-signo if signo == signal.SIGKILL else 128 + signo)
    assert (result.text, result.errors) == ("", "")
    assert not job.survivors()
    refused = hvdray.run("exec", "-p", "19123:18123", file, "true")
    assert refused.code == 2 and "nothing to forward" in refused.errors, refused.errors


def test_attach_is_a_terminal_with_its_size_and_its_keys(tool, ray_cluster, file):
    shell = at_terminal(tool, "attach", file, rows=31, columns=97)
    shell.type("PS1='$ '; echo size $(stty size)\n")
    shell.wait_for(r"[\r\n]size 31 97\r")
    shell.resize(20, 60)
    shell.type("echo size $(stty size)\n")
    shell.wait_for(r"[\r\n]size 20 60\r")
    shell.type("sleep 4712\n")
    wait_until(lambda: "sleep 4712" in map(str.strip, ray_cluster.hosts.processes(HEAD).values()), "the command runs")
    shell.type("\x03")
    shell.wait_for(r"\^C\r\n.*\$ ")
    shell.type("exit 5\n")
    assert shell.code() == 5


def test_a_command_at_a_terminal_ends_with_its_keys_and_with_the_terminal(tool, ray_cluster, file):
    shell = at_terminal(tool, "exec", file, "sleep 4716")
    wait_until(lambda: sleeping(ray_cluster, 4716), "the command runs")
    shell.type("\x03")
    assert shell.code() == 130
    shell = at_terminal(tool, "exec", file, "sleep 4717")
    wait_until(lambda: sleeping(ray_cluster, 4717), "the command runs")
    os.close(shell.master)  # hvdray leads the terminal's session: the kernel tells it alone
    wait_until(lambda: not sleeping(ray_cluster, 4717), "end of the command")
    assert shell.process.wait(60) in (129, -signal.SIGHUP)


def test_attach_needs_a_terminal(tool, file):
    result = tool.run("attach", file)
    assert result.code == 2 and "attach needs a terminal" in result.errors
    result = tool.run("attach", "--new", file)
    assert result.code == 2 and "--new needs --tmux or --screen" in result.errors


@pytest.mark.parametrize("keeper", ["tmux", *rest("screen")])
def test_what_runs_in_a_keeper_stays_and_is_shown(tool, ray_cluster, file, keeper, tmp_path):
    profile = ray_cluster.hosts.folder(HEAD) / "home/.bashrc"
    profile.write_text(f"export TMUX_TMPDIR={tmp_path} SCREENDIR={tmp_path}\n")  # hosts share /tmp
    result = tool.run("exec", file, f"--{keeper}", "echo kept $((40 + 2)); touch ~/kept")
    assert result.code == 0 and f"attach {file} --{keeper}" in result.errors, result.errors
    home = ray_cluster.hosts.folder(HEAD) / "home"
    wait_until(lambda: (home / "kept").exists(), "it runs")
    try:
        window = at_terminal(tool, "attach", file, f"--{keeper}")
        window.wait_for("kept 42")
        window.type("exit\n")
        assert window.code() == 0
    finally:
        profile.unlink()
        (home / "kept").unlink()
        for pid in processes_with(ray_cluster, HEAD, keeper):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_port_is_forwarded_while_the_command_runs(tool, ray_cluster, file):
    job = tool.start("exec", file, "-p", "9123:8123", "exec python3 -m http.server -b 127.0.0.1 8123 2>/dev/null")

    def page():
        with contextlib.suppress(OSError):
            return at_launcher(ray_cluster, lambda: urllib.request.urlopen(
                "http://127.0.0.1:9123/", timeout=30).status)
        return None

    wait_until(lambda: page() == 200, "the page")
    job.process.terminate()
    assert job.wait().code == 143


SCRIPT = "import os, sys\nprint(sys.argv[1:], os.path.basename(sys.argv[0]))\nsys.exit(3)\n"


def test_submit_keeps_each_argument_and_the_exit_code(tool, ray_cluster, file, tmp_path):
    script = tmp_path / "it's.py"
    script.write_text(SCRIPT)
    result = tool.run("submit", file, script, "a b", "--np=7", "it's", "$HOME", "")
    assert result.code == 3, result.errors
    assert result.text == "['a b', '--np=7', \"it's\", '$HOME', ''] it's.py\n"
    assert tool.run("submit", file, script, "--", "-x").text == "['-x'] it's.py\n"
    assert tool.run("submit", file, tmp_path / "none.py").code == 2
    result = tool.run("submit", file, "-np", 2, script)
    assert result.code == 2 and "-np needs --gang" in result.errors


def test_submit_replaces_no_file_of_the_same_name_and_no_job_finds_another_ones_script(tool, ray_cluster, file, tmp_path):
    home = ray_cluster.hosts.folder(HEAD) / "home"
    mine = {"train.py": "unrelated\n", "beside.py": "name = 'a module of the home directory'\n"}
    for name, text in mine.items():
        (home / name).write_text(text)
    script = tmp_path / "train.py"
    script.write_text("import os, beside\nprint(os.getcwd() == os.path.expanduser('~'), beside.name, __file__)\n"
                      "import stat\nprint(oct(os.stat(os.path.dirname(__file__)).st_mode))\n")
    try:
        places = set()
        for _ in range(2):
            result = tool.run("submit", file, script)
            assert result.code == 0, result.errors
            where, mode = result.text.splitlines()
            assert where.startswith("True a module of the home directory ") and mode == "0o40700"
            places.add(where.split()[-1])
        assert len(places) == 2 and all("/.cache/hvdray/jobs/" in place for place in places), places
        assert {name: (home / name).read_text() for name in mine} == mine
    finally:
        for name in mine:
            (home / name).unlink()


def test_submit_of_a_gang_is_a_job_on_the_clusters_ray(tool, ray_cluster, file, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "helper.py").write_text("WORD = 'helped'\n")
    (folder / "train.py").write_text(
        "import os, sys, helper\nprint(os.environ['HOROVOD_RANK'], helper.WORD, sys.argv[1])\n"
        "sys.exit(4 if os.environ['HOROVOD_RANK'] == '2' else 0)\n")
    result = tool.run("submit", file, "--gang", "-np", 3, "--tag-output", "none", folder / "train.py", "a b",
                      timeout=240)
    assert result.code == 4, result.errors
    assert {"0 helped a b", "1 helped a b", "2 helped a b"} <= set(result.text.splitlines()), result.text
    assert ray_cluster.token not in result.text + result.errors
    elastic = tool.run("submit", file, "--gang", "--min-np", 2, "--max-np", 2, "--elastic-mode", "gang",
                       "--dry-run", folder / "train.py", "x")
    assert elastic.code == 0, elastic.errors


def look(tool, file):
    result = tool.run("status", file, "--json")
    assert (result.code, result.errors) == (0, ""), result.errors
    return json.loads(result.text)


def test_status_shows_every_machine_of_the_file(tool, ray_cluster, file):
    page = look(tool, file)
    assert page["schema"] == "hvdray.cluster/1" and page["name"] == "t"
    states = {machine["address"]: machine["state"] for machine in page["machines"]}
    assert states == {**{ray_cluster.address(name): "alive" for name in (HEAD, *WORKERS)},
                      ray_cluster.address(SPARE): "absent"}
    text = tool.run("status", file).text
    assert text.startswith(f"t ({file}): Ray 2.60.0, 4 of 5 nodes alive"), text
    assert re.search(rf"{ray_cluster.address(SPARE)}\s+worker\s+absent\s+has not joined Ray", text), text
    assert ray_cluster.token not in text
    assert tool.run("status", "job-1").code == 2


@pytest.mark.rest
def test_monitor_tells_changes_and_ends_with_a_signal(tool, ray_cluster, file, tmp_path):
    with open(tmp_path / "said", "wb") as said:
        job = tool.start("monitor", file, "--interval", "200ms", stdout=said)
    address = ray_cluster.address("h4")

    def lines():
        return (tmp_path / "said").read_text().splitlines()

    def has(pattern):
        return any(re.search(pattern, line) for line in lines())

    wait_until(lambda: has(rf"Z node {address}: alive: "), "the first look", 60)
    blocked = ray_cluster.submit("true", entrypoint_num_cpus=64)
    wait_until(lambda: has(rf"Z job {blocked}: pending"), "the job that waits")
    ray_cluster.remove_node("h4")
    wait_until(lambda: has(rf"Z node {address}: dead: .*termination"), "the node's death", 60)
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130
    result = tool.run("status", file)
    assert re.search(rf"{address}\s+worker\s+dead\s+.*termination.* ago", result.text), result.text
    dead = tool.run("logs", file, address, "raylet.out")
    assert dead.code == 125 and "is dead" in dead.errors, dead.errors
    ray_cluster.restart((HEAD, *WORKERS))  # Ray does not stop a pending job


def test_monitor_draws_in_place_and_gives_the_screen_back(tool, ray_cluster, file):
    screen = at_terminal(tool, "monitor", file, "--interval", "200ms", rows=8, columns=40)
    screen.wait_for(r"\x1b\[\?1049h")
    first = screen.wait_for(r"\x1b\[H(.*?)\x1b\[J").group(1).decode()
    lines = [line.replace("\x1b[K", "") for line in first.split("\r\n")]
    assert len(lines) <= 8 and all(len(line) <= 40 for line in lines), lines
    assert any(ray_cluster.address(HEAD) in line for line in lines)
    screen.wait_for(r"\x1b\[H.*?\x1b\[J")
    screen.type("\x03")
    screen.wait_for(r"\x1b\[\?1049l")
    assert screen.code() == 130


@pytest.mark.rest
def test_monitor_prints_objects_and_survives_a_head_that_is_away(tool, ray_cluster, file, tmp_path):
    with open(tmp_path / "said", "wb") as said:
        job = tool.start("monitor", file, "--json", "--interval", "200ms", "--timeout", "10", stdout=said)

    def objects():
        text = (tmp_path / "said").read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    wait_until(lambda: objects() and len(objects()[-1]["machines"]) == 5, "the first look", 60)
    ray_cluster.hosts.freeze(HEAD)
    wait_until(lambda: "error" in objects()[-1], "the head is missed", 60)
    ray_cluster.hosts.thaw(HEAD)
    wait_until(lambda: "machines" in objects()[-1], "the head is back", 60)
    job.process.terminate()
    assert job.wait().code == 143


def test_files_go_up_and_come_down(tool, ray_cluster, write_file, tmp_path):
    source = tmp_path / "data"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a b").write_text("1")
    (source / "left.o").write_text("2")
    file = write_file(workers=("h2",), more=f"rsync_exclude: ['*.o']\nfile_mounts: {{'~/m/n': '{source}'}}\n")
    home = ray_cluster.hosts.folder(HEAD) / "home"
    result = tool.run("rsync-up", "-A", file, source, "~/up")
    assert result.code == 0, result.errors
    assert (home / "up/data/sub/a b").read_text() == "1" and not (home / "up/data/left.o").exists()
    assert (ray_cluster.hosts.folder("h2") / "home/up/data/sub/a b").read_text() == "1"
    assert tool.run("rsync-up", file).code == 0
    assert (home / "m/n/sub/a b").read_text() == "1"
    assert tool.run("rsync-down", file, "~/up/data/", tmp_path / "down").code == 0
    assert (tmp_path / "down/sub/a b").read_text() == "1"
    result = tool.run("rsync-down", file, "~/none", tmp_path / "down")
    assert result.code == 125 and "none" in result.errors, result.errors


def test_without_rsync_files_and_directories_still_go_up(tool, ray_cluster, file, tmp_path):
    source = tmp_path / "data"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a").write_text("1")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ssh", "sh"):
        (programs / name).symlink_to(f"/usr/bin/{name}")

    def up(*words):
        return tool.run(f"PATH={programs}", tool.binary, *words, binary="/usr/bin/env")

    home = ray_cluster.hosts.folder(HEAD) / "home"
    result = up("rsync-up", file, source, "~/plain")
    assert result.code == 0 and "rsync is not installed here" in result.errors, result.errors
    assert (home / "plain/data/sub/a").read_text() == "1"
    assert up("rsync-up", file, source / "sub/a", "~/plain/").code == 0
    assert (home / "plain/a").read_text() == "1"
    assert up("rsync-up", file, source / "sub/a", "~/plain/data").code == 0
    assert (home / "plain/data/a").read_text() == "1", "a file onto a directory goes into it"
    (source / ".git").mkdir()
    for name in (".git/HEAD", "sub/x.log", ".gitignore"):
        (source / name).write_text("*\n")
    patterns = tmp_path / "patterns.yaml"
    patterns.write_text(pathlib.Path(file).read_text() + "rsync_exclude: ['sub/*.log']\n")
    assert up("rsync-up", patterns, source, "~/again").code == 0
    assert sorted(str(path.relative_to(home / "again/data")) for path in (home / "again").rglob("*") if path.is_file()) == [
        ".git/HEAD", ".gitignore", "sub/a"]
    result = up("rsync-down", file, "~/plain", tmp_path)
    assert result.code == 2 and "needs rsync" in result.errors, result.errors


def test_the_dashboard_is_at_our_port_until_a_signal(tool, ray_cluster, file):
    job = tool.start("dashboard", file, "-p", "9265")
    assert job.process.stdout.readline() == b"http://127.0.0.1:9265\n"

    def mode():
        with urllib.request.urlopen("http://127.0.0.1:9265/api/authentication_mode", timeout=60) as answer:
            return json.load(answer)

    assert at_launcher(ray_cluster, mode) == {"authentication_mode": "token"}
    taken = tool.run("dashboard", file, "-p", "9265")
    assert taken.code == 125 and "port 9265 of this machine is in use" in taken.errors, taken.errors
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130


def test_logs_are_listed_printed_and_followed(tool, ray_cluster, file):
    names = tool.run("logs", file, "head").text.splitlines()
    assert {"gcs_server.out", "raylet.out"} <= set(names), names
    path = ray_cluster.logs("h2") / "hvdray_access.out"
    path.write_text("".join(f"line {n}\n" for n in range(100)))
    address = ray_cluster.address("h2")
    assert tool.run("logs", file, address, path.name, "--lines", 2).text == "line 98\nline 99\n"
    assert len(tool.run("logs", file, ray_cluster.node_id("h2")[:12], path.name).text.splitlines()) == 100
    job = tool.start("logs", file, address, path.name, "-f")
    with open(path, "a", encoding="ascii") as log:
        log.write("more\n")
    assert any(line == b"more\n" for line in iter(job.process.stdout.readline, b""))
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130
    path.unlink()
    nobody = tool.run("logs", file, "192.0.2.1")
    assert nobody.code == 2 and "no node 192.0.2.1" in nobody.errors


def test_a_jobs_log_and_state_are_shown_whoever_submitted_it(tool, ray_cluster, tmp_path):
    gate = tmp_path / "gate"
    job = ray_cluster.submit("sh -c '" + r'printf "first \\377\\nsecond\\n"' +
                             f"; until [ -e {gate} ]; do sleep 0.1; done; echo third; exit 3'")
    url = ["--ray-address", ray_cluster.url]
    environment = {"env": {**tool.environment, "RAY_AUTH_TOKEN": ray_cluster.token}}
    following = tool.start("logs", job, "-f", *url, **environment)
    left = tool.start("logs", job, "-f", *url, **environment)
    for follower in following, left:
        assert any(line == b"second\n" for line in iter(follower.process.stdout.readline, b""))
    left.process.send_signal(signal.SIGINT)
    assert left.wait().code == 130
    assert "second" in tool.run("logs", job, *url, **environment).text
    look = json.loads(tool.run("status", job, "--json", *url, **environment).text)["job"]
    assert (look["id"], look["status"], look["exit_code"]) == (job, "RUNNING", None)
    assert look["driver_address"] in [ray_cluster.address(host) for host in ("h1", "h2")], look
    gate.touch()
    rest = following.process.stdout.read().decode().splitlines()
    assert rest.count("third") == 1 and "second" not in rest, rest
    assert following.wait().code == 0
    assert tool.run("logs", job, "--lines", 1, *url, **environment).text == "third\n"
    look = json.loads(tool.run("status", job, "--json", *url, **environment).text)["job"]
    assert (look["status"], look["exit_code"]) == ("FAILED", 3)
    shown = tool.run("status", job, *url, **environment)
    assert shown.code == 0 and "FAILED, exit code 3" in shown.text.splitlines()[0], shown.text
    for command in "logs", "status":
        unknown = tool.run(command, "no-such-job", *url, **environment)
        assert unknown.code == 2 and "no job no-such-job" in unknown.errors, unknown.errors


def running(ray_cluster):
    return {job["submission_id"] for job in ray_cluster.jobs() if job["submission_id"]}


def test_stop_ends_a_named_job_and_waits_for_its_end(tool, ray_cluster, file):
    one, other = (ray_cluster.submit("exec sleep 4713") for _ in range(2))
    result = tool.run("stop", file, one)
    assert result.code == 0, result.errors
    assert running(ray_cluster) == {other}
    assert result.text.splitlines()[-1] == f"job {one}: stopped", result.text
    again = tool.run("stop", file, one)
    assert again.code == 0 and one in again.text, "it is over already"
    result = tool.run("stop", file, other, "no-such-job")
    assert result.code == 2 and "no job no-such-job" in result.errors, result.errors
    assert running(ray_cluster) == {other}, "nothing was stopped"
    url = {"env": {**tool.environment, "RAY_AUTH_TOKEN": ray_cluster.token}}
    result = tool.run("stop", other, "--ray-address", ray_cluster.url, **url)
    assert result.code == 0 and running(ray_cluster) == set(), result.errors
    assert tool.run("stop", "--ray-address", ray_cluster.url, **url).code == 0, "none runs"
    assert tool.run("stop").code == 2
    refused = tool.run("stop", file, "--ray-address", ray_cluster.url)
    assert refused.code == 2 and "--ray-address" in refused.errors


@pytest.mark.rest
def test_stop_of_a_file_ends_all_jobs_but_not_ray(tool, ray_cluster, file):
    nodes = [entry["node_id"] for _, entry in ray_cluster.node_table()]
    for _ in range(3):
        ray_cluster.submit("exec sleep 4714")
    wait_until(lambda: len(ray_cluster.jobs("RUNNING")) == 3, "they run", 60)
    result = tool.run("stop", file)
    assert result.code == 0 and running(ray_cluster) == set(), result.errors
    assert f"hvdray down {file}" in result.errors
    assert [entry["node_id"] for _, entry in ray_cluster.node_table()] == nodes


@pytest.mark.rest
def test_stop_waits_no_longer_than_it_may_and_a_second_interrupt_leaves(tool, ray_cluster, file):
    stubborn = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
                "time.sleep(4715)")
    job = ray_cluster.submit(f'exec python3 -c "{stubborn}"',
                             runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "120"}})

    def is_deaf():
        return b"deaf" in ray_cluster.request("GET", f"/api/jobs/{job}/logs")[1]

    wait_until(is_deaf, "it ignores SIGTERM", 60)
    result = tool.run("stop", file, job, "--timeout", "1")
    assert result.code == 125 and f"job {job} (running)" in result.errors, result.errors
    stopping = tool.start("stop", file, job)
    assert job.encode() in stopping.process.stdout.readline()
    stopping.process.send_signal(signal.SIGINT)
    assert job.encode() in stopping.process.stderr.readline()
    time.sleep(0.2)  # sooner, it would be a copy of the first
    stopping.process.send_signal(signal.SIGINT)
    assert stopping.wait().code == 130
    for name in (HEAD, *WORKERS):
        send(processes_with(ray_cluster, name, "sleep(4715)"), signal.SIGKILL)
    ray_cluster.wait_for_job(job)


@pytest.mark.rest
def test_start_and_stop_bring_the_cluster_up_and_down(tool, ray_cluster, ray_venv, write_file):
    start = (f"setup_commands: ['echo export PATH={ray_venv}/bin:$PATH >~/.bashrc']\n"
             f"head_start_ray_commands: ['RAY_enable_worker_prestart=0 ray start --head "
             f"--port=6379 --node-ip-address={ray_cluster.address(SPARE)} --temp-dir=/run/ray --num-cpus=1 "
             "--object-store-memory=80000000']\n")
    file = write_file(head=SPARE, workers=(), more=start)
    command = f"(: </dev/tcp/{ray_cluster.address(SPARE)}/6379) && echo on $(hostname); exit 3"
    try:
        result = tool.run("exec", file, "--start", "--stop", command, timeout=360)
        assert (result.code, result.text) == (3, "on h5\n"), result.errors
        assert ray_cluster.raylet(SPARE) is None, "down was called"
        write_file(head=SPARE, workers=(), more=start.replace("~/.bashrc'", "~/.bashrc; exit 5'"))
        result = tool.run("exec", file, "--start", command, timeout=360)
        assert (result.code, result.text) == (125, ""), "the command did not run"
    finally:
        (ray_cluster.hosts.folder(SPARE) / "home/.bashrc").unlink(missing_ok=True)
    refused = tool.run("exec", file, "--stop", "--tmux", "true")
    assert refused.code == 2 and "--stop" in refused.errors
    assert tool.run("exec", file, "--start").code == 2, "told before anything is started"
