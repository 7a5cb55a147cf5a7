# SPDX-License-Identifier: Apache-2.0
"""Jobs on other hosts through real sshd: what runs there, what goes wrong there, what is left."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest
from conftest import rest
from hosts import BEHIND, OTHER_INTERFACE

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def remote(hvdray, hosts, tmp_path):
    """Runs hvdray at the launcher's place: remote(*words) -> subprocess.CompletedProcess."""

    def run(*words, timeout=60, env=None, **kwargs):
        kwargs.setdefault("cwd", str(tmp_path))
        return hosts.run([hvdray.binary, "run", *words], timeout=timeout, env=env, **kwargs)

    run.start = lambda *words, **kwargs: hosts.popen(
        [hvdray.binary, "run", *words], cwd=str(tmp_path), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, **kwargs)
    return run


def lines_of(result):
    return sorted(re.sub(r"^\[\d+\]<stdout>:", "", line) for line in result.stdout.splitlines())


def home_of(hosts, name):
    return hosts.folder(name) / "home"


def staged(hosts, name):
    return list(home_of(hosts, name).glob(".cache/hvdray/agents-0/*"))


def test_workers_run_on_their_hosts_with_their_place(remote):
    result = remote("-H", "h1:2,h2:1", "--", "sh", "-c",
                    "echo $(hostname) $HOROVOD_HOSTNAME $HOROVOD_RANK $HOROVOD_LOCAL_RANK "
                    "$HOROVOD_CROSS_RANK $HOROVOD_GLOO_IFACE")
    assert result.returncode == 0, result.stderr
    assert lines_of(result) == ["h1 h1 0 0 0 eth0", "h1 h1 1 1 0 eth0", "h2 h2 2 0 1 eth0"]


def test_interfaces_are_chosen_host_by_host(remote):
    other = OTHER_INTERFACE[0]
    result = remote("-H", f"h1:1,{other}:1", "--", "sh", "-c",
                    "echo $HOROVOD_HOSTNAME $HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME")
    assert lines_of(result) == ["h1 eth0 eth0", f"{other} ens5 ens5"], result.stderr


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_both_ways_of_speaking_ssh_do_the_same(remote, hosts, transport):
    for path in staged(hosts, "h6"):
        path.unlink()
    result = remote("-H", "h6:2", "--ssh-transport", transport, "--", "sh", "-c",
                    "hostname; exit 3")
    assert result.returncode == 3, result.stderr
    assert set(lines_of(result)) == {"h6"}
    assert len(staged(hosts, "h6")) == 1


def test_a_host_behind_another_is_reached_through_it(remote):
    result = remote("-H", f"{BEHIND}:1", "--", "hostname")
    assert lines_of(result) == [BEHIND], result.stderr


def test_a_gang_spans_hosts_of_both_ways(remote, hosts):
    """One is behind a jump host and has ssh's connection, the others the library's."""
    result = remote("-H", hosts.host_list(), "--", "sh", "-c", "echo $(hostname) $HOROVOD_RANK")
    assert result.returncode == 0, result.stderr
    assert lines_of(result) == [f"{name} {rank}" for rank, name in enumerate(sorted(hosts.hosts))]


def test_the_agent_is_copied_once_and_found_again(remote, hosts):
    for _ in range(2):
        assert remote("-H", "h1:1", "--", "true").returncode == 0
    files = staged(hosts, "h1")
    assert len(files) == 1 and files[0].name.startswith("agent-")
    assert files[0].stat().st_mode & 0o777 == 0o700


def test_an_agent_that_is_used_does_not_grow_old(remote, hosts):
    assert remote("-H", "h1:1", "--", "true").returncode == 0
    [agent] = staged(hosts, "h1")
    os.utime(agent, (1_000_000_000, 1_000_000_000))
    assert remote("-H", "h1:1", "--", "true").returncode == 0
    assert staged(hosts, "h1") == [agent]
    assert agent.stat().st_mtime > 1_000_000_000, "it would be removed as unused"


def test_several_jobs_that_copy_at_the_same_time_do_not_meet(remote, hosts):
    for path in staged(hosts, "h6"):
        path.unlink()
    jobs = [remote.start("-H", "h6:1", "--", "hostname") for _ in range(4)]
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert (job.returncode, out) == (0, "[0]<stdout>:h6\n"), err
    assert len(staged(hosts, "h6")) == 1


def test_nothing_of_the_environment_is_on_a_command_line(remote, hosts):
    env = dict(os.environ, MY_SECRET="swordfish-1", DISPLAY=":7")
    job = remote.start("-H", "h1:1,h2:1", "--", "sh", "-c",
                       "echo up $MY_SECRET ${DISPLAY-none}; exec sleep 600", env=env)
    assert "up swordfish-1 none" in job.stdout.readline()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"swordfish" not in path.read_bytes(), path
        except (FileNotFoundError, ProcessLookupError):
            continue
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)
    assert job.returncode == 143


def test_the_working_folder_is_ours_and_nothing_starts_where_it_is_missing(remote, tmp_path, hosts):
    assert lines_of(remote("-H", "h1:1", "--", "pwd")) == [str(tmp_path)]
    hosts.run(["mkdir", "-p", "/run/only-here"], on="launcher", check=True)  # /run is each host's own
    result = remote("-H", "h1:1", "--", "pwd", cwd="/run/only-here")
    assert result.returncode == 125 and not lines_of(result)
    assert "/run/only-here could not be entered as working directory: No such file" in result.stderr
    assert "hint: copy your directory to the hosts: --sync ." in result.stderr
    result = remote("-H", "h1:1", "--cwd", "/no/such/folder", "--", "pwd")
    assert result.returncode != 0 and "/no/such/folder" in result.stderr


@pytest.mark.parametrize("plant, said", [
    ("install -d -o 65534 /run/job", "another user owns /run/job"),
    ("install -d -m 777 /run/job", "other users may write to /run/job"),
    ("install -d -g 65534 -m 775 /run/job", "other users may write to /run/job"),
])
@pytest.mark.parametrize("words", [[], ["--cwd", "/run/job"]])
def test_workers_do_not_start_in_a_folder_that_others_can_fill(remote, hosts, plant, said, words):
    hosts.run(["mkdir", "-p", "/run/job"], on="launcher", check=True)
    hosts.run(["sh", "-ec", f"rm -rf /run/job; {plant}; echo 'echo taken' >/run/job/train.sh"], on="h1", check=True)
    try:
        result = remote("-H", "h1:1", *words, "--", "sh", "train.sh", cwd="/run/job")
    finally:
        hosts.run(["rm", "-rf", "/run/job"], on="h1", check=True)
    assert result.returncode == 125 and not lines_of(result)
    assert said in result.stderr and "hint: start where nobody else can write" in result.stderr


def test_a_groups_folder_that_is_a_groups_here_too_is_fine(remote, hosts):
    """As on a file system that a team shares: who could change the job's files on the hosts could do so here."""
    for place in ("launcher", "h1"):
        hosts.run(["install", "-d", "-o", "65533", "-g", "65534", "-m", "2775", "/run/team"], on=place, check=True)
    try:
        result = remote("-H", "h1:1", "--", "pwd", cwd="/run/team")
    finally:
        for place in ("launcher", "h1"):
            hosts.run(["rm", "-rf", "/run/team"], on=place, check=True)
    assert lines_of(result) == ["/run/team"], result.stderr


def test_the_first_failure_on_another_host_gives_its_code(remote):
    result = remote("-H", "h1:1,h2:1,h5:1", "--", "sh", "-c",
                    "[ $HOROVOD_RANK = 1 ] && { echo why >&2; exit 7; }; sleep 60")
    assert result.returncode == 7
    assert "rank 1 on host h2 exited with code 7" in result.stderr
    assert "  | why" in result.stderr


def test_stdin_and_stdout_pass_unharmed(remote, tmp_path):
    data = os.urandom(8 << 20)
    (tmp_path / "in").write_bytes(data)
    with open(tmp_path / "in", "rb") as stdin, open(tmp_path / "out", "wb") as stdout:
        result = remote("-H", "h2:1", "--stdin", "0", "--tag-output", "none", "--", "cat",
                        stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out").read_bytes().rstrip(b"\n") == data.rstrip(b"\n")


def test_noisy_shell_files_do_no_harm(remote, hosts):
    profile = home_of(hosts, "h1") / ".bashrc"
    before = profile.read_text() if profile.exists() else None
    profile.write_text("echo Welcome to h1; printf 'no end'; echo oops >&2\n")
    try:
        result = remote("-H", "h1:1", "--", "echo", "fine")
    finally:
        profile.unlink() if before is None else profile.write_text(before)
    assert (result.returncode, lines_of(result)) == (0, ["fine"]), result.stderr


@pytest.fixture
def bashrc(hosts):
    """Writes ~/.bashrc of a host for one test: bashrc(name, text)."""
    before = {}

    def write(name, text):
        path = home_of(hosts, name) / ".bashrc"
        before.setdefault(path, path.read_text() if path.exists() else None)
        path.write_text(text)

    yield write
    for path, text in before.items():
        path.unlink() if text is None else path.write_text(text)


def test_late_words_of_a_start_up_file_are_quoted_with_their_cause(remote, hosts, bashrc):
    go = home_of(hosts, "h1") / "go"
    go.unlink(missing_ok=True)
    bashrc("h1", "(while [ ! -e ~/go ]; do sleep 0.05; done; echo late words of a job) &\n")
    result = remote("-H", "h1:1", "--", "sh", "-c", "touch ~/go; exec sleep 600")
    go.unlink()
    assert result.returncode == 125, result.stderr
    assert "'late words of a job'" in result.stderr and "HVD-E0207" in result.stderr
    assert "background" in result.stderr and ".bashrc" in result.stderr


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_a_start_up_file_that_leaves_no_path_does_no_harm(remote, hosts, bashrc, transport):
    bashrc("h6", "export PATH=/no/such/place\n")
    for path in staged(hosts, "h6"):
        path.unlink()
    result = remote("-H", "h6:1", "--ssh-transport", transport, "--", "hostname")
    assert (result.returncode, lines_of(result)) == (0, ["h6"]), result.stderr


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_words_of_a_start_up_file_are_no_refused_login(remote, bashrc, transport):
    bashrc("h1", "echo 'git@example.org: Permission denied (publickey).' >&2; exit 3\n")
    result = remote("-H", "h1:1", "--ssh-transport", transport, "--", "true")
    assert result.returncode == 125, result.stderr
    assert "HVD-E0203" in result.stderr and "code 3" in result.stderr, result.stderr
    assert "ssh-copy-id" not in result.stderr and "-i" not in result.stderr.split("hint")[1]


def test_a_current_directory_that_is_gone_is_told(hvdray, tmp_path):
    for words in (["run", "-np", "1", "--", "true"], ["run", "-f", "job.yaml"], ["up", "cluster.yaml"], ["replay", "record"],
                  ["serve", "-np", "1", "--control", "socket", "--", "true"]):
        result = subprocess.run(
            ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh", hvdray.binary, *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert result.returncode == 2, result.stderr
        assert "current directory has been removed" in result.stderr, result.stderr


def test_a_hardened_sshd_is_reached_without_being_asked_for(remote, hosts):
    config = hosts.folder("h6") / "sshd_config"
    before = config.read_text()
    config.write_text("Ciphers aes256-ctr\nMACs hmac-sha2-512-etm@openssh.com\n" + before)
    hosts.stop_sshd("h6")
    hosts.start_sshd("h6")
    try:
        result = remote("-H", "h1:1,h6:1", "--", "hostname")
    finally:
        config.write_text(before)
        hosts.stop_sshd("h6")
        hosts.start_sshd("h6")
    assert (result.returncode, lines_of(result)) == (0, ["h1", "h6"]), result.stderr


def test_shell_files_cannot_move_the_cursor(remote, hosts):
    profile = home_of(hosts, "h1") / ".bashrc"
    before = profile.read_text() if profile.exists() else None
    profile.write_text("printf '\\033[2Jclear \\2332J\\n'; printf 'oops \\033]0;title\\a\\n' >&2\n")
    try:
        noisy = remote("-H", "h1:1", "--verbose", "--", "printf", "\\033[1mbold\\n", text=False)
        failed = remote("-H", "h1:1", "--launch-agent", "ssh {host} false #", "--", "true",
                        text=False)
    finally:
        profile.unlink() if before is None else profile.write_text(before)
    assert noisy.returncode == 0, noisy.stderr
    assert b"\x1b[1mbold" in noisy.stdout, "a worker's output is its own"
    assert failed.returncode == 125 and b"oops" in failed.stderr, failed.stderr
    for said in (noisy.stderr, failed.stderr):
        assert b"\x1b" not in said and b"\x9b" not in said, said


def test_horovod_trains_across_hosts(remote, horovod_python):
    result = remote("-H", "h1:2,h3:2", "--", horovod_python, ROOT / "examples/digits_horovod.py", "--epochs", 5,
                    timeout=240)
    assert result.returncode == 0, result.stderr
    assert re.search(r"test accuracy 9\d\.\d % of 360 images, 4 workers", result.stdout)


def test_a_cluster_file_names_hosts_user_and_key(remote, hosts, tmp_path):
    (tmp_path / "cluster.yaml").write_text(f"""
cluster_name: here
provider: {{type: local, head_ip: h1, worker_ips: [h2]}}
auth: {{ssh_user: root, ssh_private_key: {hosts.key}}}
hvdray: {{slots_per_host: 2, run: {{command: [hostname]}}}}
""")
    result = remote("--cluster", "cluster.yaml")
    assert lines_of(result) == ["h1", "h1", "h2", "h2"], result.stderr


# ---- what goes wrong

@pytest.mark.parametrize("words, code, label, said", [
    (["-H", "nope:1"], 125, "HVD-E0209", "nope"),
    (["-H", "h2:1", "--ssh-port", "2"], 125, "HVD-E0202", "Connection refused"),
    (["-H", "h1:1,h2:1", "--network-interfaces", "eth7"], 125, "HVD-E0210", "eth7"),
    (["-H", "h1:1", "-i", "/no/such/key"], 2, "HVD-E0104", "/no/such/key"),
    (["-H", "h1:1", "--launch-agent", "rsh"], 2, "HVD-E0102", "{host}"),
])
def test_bad_input_is_one_line_with_the_place(remote, words, code, label, said):
    result = remote(*words, "--", "true")
    assert result.returncode == code, result.stderr
    assert label in result.stderr and said in result.stderr
    assert len(result.stderr.splitlines()) <= 4, result.stderr


def test_hosts_that_fail_alike_are_one_line_and_other_reasons_have_theirs(remote, hosts, tmp_path):
    report, events = tmp_path / "report.json", tmp_path / "events.jsonl"
    hosts.stop_sshd("h2")
    result = remote("-H", "h1:1,nope[01-04]:1,h2:1,nope07:1", "--report", report,
                    "--events", events, "--", "true")
    assert result.returncode == 125
    lines = [line for line in result.stderr.splitlines() if "[HVD-E" in line]
    assert len(lines) == 2, result.stderr
    alike = next(line for line in lines if "HVD-E0209" in line)
    assert alike.startswith("hvdray: hosts nope[01-04,07]: start agent on HOST: "), alike
    other = next(line for line in lines if line is not alike)
    assert "host h2: " in other and "Connection refused" in other
    end = json.loads(report.read_text())["exit"]
    told = [error["hosts"] for error in (end["error"], *end["more_errors"])]
    assert sorted(sorted(names) for names in told) == [
        ["h2"], ["nope01", "nope02", "nope03", "nope04", "nope07"]]
    written = [json.loads(line) for line in events.read_text().splitlines()]
    assert written[-1]["exit"] == end
    assert sum(line["event"] == "host_lost" for line in written) == 6


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_an_sshd_that_is_full_is_tried_again(remote, hosts, transport):
    config = hosts.folder("h6") / "sshd_config"
    before = config.read_text()
    config.write_text(before + "MaxStartups 1\n")
    hosts.stop_sshd("h6")
    hosts.start_sshd("h6")
    # A stranger that never logs in takes the only place, until we were sent away once.
    stranger = hosts.popen(
        ["bash", "-c", "exec 3<>/dev/tcp/h6/22; read -r <&3; echo; exec sleep 600"],
        stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout.readline() == "\n"
        job = remote.start("-H", "h6:1", "--ssh-transport", transport, "--verbose", "--", "hostname")
        said = ""
        while "busy, retry 1 of 3" not in said:
            said = job.stderr.readline()
            assert said, "it was not sent away"
        stranger.kill()
        out, err = job.communicate(timeout=60)
        assert (job.returncode, out) == (0, "[0]<stdout>:h6\n"), err
    finally:
        stranger.kill()
        stranger.communicate()
        config.write_text(before)
        hosts.stop_sshd("h6")


def test_a_key_that_others_can_read_is_refused(remote, tmp_path, hosts):
    key = tmp_path / "key"
    key.write_bytes(pathlib.Path(hosts.key).read_bytes())
    key.chmod(0o644)
    result = remote("-H", "h1:1", "-i", key, "--", "true")
    assert result.returncode == 2 and "chmod 600" in result.stderr


def test_a_changed_host_key_is_refused_and_named(remote, hosts):
    hosts.change_host_key("h6")
    try:
        for transport in ("libssh2", "openssh"):
            result = remote("-H", "h6:1", "--ssh-transport", transport, "--", "true")
            assert result.returncode == 125
            assert "HVD-E0212" in result.stderr and "h6" in result.stderr, result.stderr
            assert "known_hosts" in result.stderr or "ssh-keygen -R" in result.stderr
    finally:
        hosts.trust_host_keys()
    assert remote("-H", "h6:1", "--", "true").returncode == 0


@pytest.mark.parametrize("checking, code", [("accept-new", 0), ("yes", 125), ("ask", 0)])
def test_what_the_configuration_says_of_new_hosts_counts(remote, hosts, tmp_path, checking, code):
    for transport in ("libssh2", "openssh"):
        known = tmp_path / f"known-{transport}"
        config = ssh_config(hosts, tmp_path, f"UserKnownHostsFile {known}\n"
                            f"StrictHostKeyChecking {checking}\nBatchMode yes\n")
        mine = home_of(hosts, "launcher") / ".ssh/config"
        before = mine.read_text()
        mine.write_text(config.read_text())
        try:
            result = remote("-H", "h6:1", "--ssh-transport", transport, "--", "true")
        finally:
            mine.write_text(before)
        assert result.returncode == code, result.stderr
        assert code == 0 or "HVD-E0212" in result.stderr, result.stderr
        assert known.exists() == (code == 0)


def test_an_error_of_the_library_names_its_host_once_a_stage(remote, hosts):
    hosts.stop_sshd("h2")
    result = remote("-H", "h2:1", "--ssh-transport", "libssh2", "--", "true")
    assert "start agent on h2: " in result.stderr, result.stderr
    assert "h2: h2:" not in result.stderr


def test_hosts_that_had_not_answered_when_another_failed_are_named(remote, hosts):
    for name in ("h2", "h6"):
        hosts.cut(name)
    # Within two seconds after the failure a busy host that is well may be silent over SSH, too; this machine is not.
    result = remote("-H", "nope:1,localhost:1,h2:1,h6:1", "--", "true")
    assert result.returncode == 125 and "HVD-E0209" in result.stderr
    assert "no answer yet from 2 more: h[2,6]" in result.stderr, result.stderr


def test_a_host_that_is_down_is_named_in_time(remote, hosts):
    hosts.cut("h2")
    started = time.monotonic()
    result = remote("-H", "h1:1,h2:1", "--start-timeout", "4", "--", "true")
    assert result.returncode == 125 and "h2" in result.stderr, result.stderr
    assert time.monotonic() - started < 50


@pytest.mark.parametrize("signo, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_a_signal_ends_the_wait_for_a_host_that_is_down(hvdray_at_launcher, hosts, transport, signo, code):
    """Long before the host would be given up."""
    hosts.blackhole_one_way("h2")
    job = hvdray_at_launcher.job("-H", "h2:1", "--ssh-transport", transport, "--start-timeout", "600", "--", "true")

    def connects():
        sockets = hosts.run(["cat", "/proc/net/tcp"], check=True).stdout.splitlines()[1:]
        return any(line.split()[3] == "02" for line in sockets)  # SYN_SENT

    job.wait_for(connects, what="a connection that waits")
    os.kill(job.find("hvdray run")[0], signo)
    result = job.wait(60)
    assert result.code == code, result.errors
    assert not job.processes()


HANGING_SSH = {"deaf": "trap '' TERM; sleep 1000 & while :; do wait; done", "plain": "exec sleep 1000"}


@pytest.mark.parametrize("kind", HANGING_SSH)
@pytest.mark.parametrize("signos", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT], [signal.SIGKILL]],
                         ids=["int", "term", "int-int", "kill"])
def test_no_ssh_outlives_the_launcher(hvdray, tmp_path, kind, signos):
    """Not even one that does not notice that its stdin has ended."""
    if kind == "deaf" and signos == [signal.SIGKILL]:
        pytest.skip("nobody is left who could insist")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n: >{tmp_path}/runs.$$\n{HANGING_SSH[kind]}\n")
    ssh.chmod(0o755)
    job = hvdray.job("-H", "203.0.113.1:1,203.0.113.2:1", "--ssh-transport", "openssh", "--strict-host-key-checking", "no",
                     "--start-timeout", "600", "--", "true", env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    job.wait_for(lambda: len(list(tmp_path.glob("runs.*"))) == 2, what="two ssh")
    for signo in signos:
        job.process.send_signal(signo)
        time.sleep(0.1)  # a second one comes while the deaf ssh is waited for
    result = job.wait(60)
    assert result.code in (128 + signos[0], -signos[0]), result.errors
    if signos != [signal.SIGKILL]:
        own = {int(path.suffix[1:]) for path in tmp_path.glob("runs.*")}
        assert not own & job.processes().keys(), "they end before the launcher does"
    # What they have started is killed with them, but others than us wait for its end.
    assert not job.survivors(within=30)


@pytest.mark.parametrize("verdict, label, said", [
    ("reject with tcp reset", "HVD-E0202", "connection refused"),
    ("reject with icmp type host-unreachable", "HVD-E0201", "No route to host"),
    ("drop", "HVD-E0204", "timed out after 5 s"),
])
def test_hosts_that_do_not_reach_each_other_start_nothing(remote, hosts, verdict, label, said):
    wall = (f"table ip wall {{ chain in {{ type filter hook input priority 0; "
            f"ip saddr {hosts['h1'].address} tcp flags syn / syn,ack {verdict}; }}; }}")
    hosts.run(["nft", wall], on="h2", check=True)
    try:
        result = remote("-H", "h1:1,h2:1,h6:1", "--start-timeout", "20", "--", "echo", "started")
    finally:
        hosts.run(["nft", "delete table ip wall"], on="h2", check=True)
    assert result.returncode == 125 and label in result.stderr, result.stderr
    pair = rf"host h1 \(eth0 {hosts['h1'].address}\) cannot reach host h2 \({hosts['h2'].address}\)"
    assert re.search(rf"{pair}: .*{said}", result.stderr), result.stderr
    assert "--network-interfaces" in result.stderr and "started" not in result.stdout


def test_the_port_of_the_probe_is_closed_once_workers_run(remote, hosts):
    job = remote.start("-H", "h1:1,h2:1", "--", "sleep", "777")
    wait_for_sleepers(hosts, ("h1", "h2"))
    for name in ("h1", "h2"):
        listeners = hosts.run(["ss", "-Hltn"], on=name, check=True).stdout.splitlines()
        open_ports = [line for line in listeners if not line.split()[3].startswith("127.0.0.1:")]
        assert all(line.split()[3].endswith(":22") for line in open_ports), open_ports
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)


def test_a_full_disk_a_noexec_folder_and_a_missing_home_are_said(remote, hosts):
    for options, said in (("size=64k", "No space left on device"), ("noexec", "noexec")):
        with hosts.mounted("h6", "/mnt", options):
            result = remote("-H", "h6:1", "--remote-dir", "/mnt/agents", "--", "true")
        assert result.returncode == 125
        assert said in result.stderr and "h6" in result.stderr, result.stderr
        assert "--remote-dir" in result.stderr


def test_an_agent_that_somebody_planted_in_a_shared_folder_is_not_run(remote, hosts):
    """As root, with files of nobody's in a directory that everybody may write in."""
    with hosts.mounted("h6", "/mnt", "mode=1777"):
        remote("-H", "h6:1", "--remote-dir", "/mnt", "--", "true")
        plant = ("agent=$(cd /mnt/hvdray-agents-0 && echo agent-*); rm -r /mnt/hvdray-agents-0; "
                 "for place in /mnt /mnt/hvdray-agents-0; do mkdir -p $place; "
                 "printf '#!/bin/sh\\nid -u >/tmp/planted\\n' >$place/$agent; "
                 "chmod 755 $place $place/$agent; chown 65534 $place/$agent; done; chmod 1777 /mnt; "
                 "rm -f /tmp/planted; ")
        hosts.run(["sh", "-c", plant], on="h6", check=True)
        result = remote("-H", "h6:1", "--remote-dir", "/mnt", "--", "hostname")
        assert (result.returncode, lines_of(result)) == (0, ["h6"]), "staged anew: " + result.stderr
        hosts.run(["sh", "-c", plant + "chown 65534 /mnt/hvdray-agents-0"], on="h6", check=True)
        result = remote("-H", "h6:1", "--remote-dir", "/mnt", "--", "hostname")
        assert result.returncode == 125, result.stderr
        assert "/mnt/hvdray-agents-0 is not yours" in result.stderr, result.stderr
        assert hosts.run(["ls", "/tmp/planted"], on="h6").returncode != 0
        assert home_of(hosts, "h6").exists()


def test_another_architecture_names_both_sides(remote, hvdray, tmp_path):
    program = bytearray(hvdray.agent.read_bytes())
    program[18:20] = (183).to_bytes(2, "little")  # ELF: aarch64
    fake = tmp_path / "agent-arm"
    fake.write_bytes(program)
    fake.chmod(0o600)
    for path in ("/bin/no-agent", f"aarch64={fake},{fake}2"):
        result = remote("-H", "h1:1", "--", "true", env={**os.environ, "HVDRAY_AGENT_PATH": path})
        assert result.returncode == 2 and path.split(",")[-1] in result.stderr, result.stderr
        assert "HVD-E0104" in result.stderr, result.stderr
    result = remote("-H", "h1:1", "--", "true", env={**os.environ, "HVDRAY_AGENT_PATH": f"aarch64={fake}"})
    assert result.returncode != 0
    assert "aarch64" in result.stderr and "x86_64" in result.stderr, result.stderr


def wait_for_sleepers(hosts, names, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(any("sleep 777" in line for line in hosts.processes(n).values()) for n in names):
            return
        time.sleep(0.05)
    raise AssertionError("the workers did not start")


@pytest.mark.parametrize("names", [("h1", "h2"), ("h5", BEHIND)])
def test_sigkill_of_the_launcher_leaves_nothing_on_the_hosts(remote, hosts, names):
    job = remote.start("-H", ",".join(f"{n}:2" for n in names), "--", "sh", "-c",
                       "setsid sleep 777 & exec sleep 777")
    wait_for_sleepers(hosts, names)
    job.kill()
    job.communicate()
    assert hosts.leftovers(*names, within=30) == {}


def test_a_link_that_is_cut_ends_the_job_on_both_sides(remote, hosts):
    job = remote.start("-H", "h1:1,h2:1", "--heartbeat-timeout", "8", "--", "sleep", "777")
    wait_for_sleepers(hosts, ("h1", "h2"))
    hosts.cut("h2")
    out, err = job.communicate(timeout=90)
    assert job.returncode == 125, err
    assert "h2" in err and "HVD-E0205" in err
    # The agent there noticed by itself: nothing of ours is left once it has.
    deadline = time.monotonic() + 60
    while any("sleep 777" in line for line in hosts.processes("h2").values()):
        assert time.monotonic() < deadline, hosts.processes("h2")
        time.sleep(0.1)
    hosts.mend()


LONG_WORKER = """
import horovod.torch as hvd, torch, time
hvd.init()
while True:
    total = hvd.allreduce(torch.ones(1000), op=hvd.Sum)
    if hvd.rank() == 0: print("step", int(total[0]), flush=True)
    time.sleep(0.05)
"""


@pytest.mark.rest
@pytest.mark.parametrize("drop", ["from", "to"])
def test_a_one_way_black_hole_ends_the_job_on_both_sides(remote, hosts, horovod_python, tmp_path,
                                                         drop):
    script = tmp_path / "long_worker.py"
    script.write_text(LONG_WORKER)
    job = remote.start("-H", "h1:1,h2:1", "--heartbeat-timeout", "8", "--", horovod_python, script)
    assert job.stdout.readline() == "[0]<stdout>:step 2\n"
    hosts.blackhole_one_way("h2", drop)
    started = time.monotonic()
    _, err = job.communicate(timeout=90)
    assert job.returncode == 125, err
    assert "HVD-E0205" in err and "host h2" in err, err
    # The timeout, its granularity, and the grace that h1's worker has to end; much less than TCP takes.
    assert time.monotonic() - started < 70
    assert hosts.leftovers("h1", within=30) == {}
    # h2's agent notices by the same timeout; only its sshd may wait for a network that is gone.
    deadline = time.monotonic() + 60
    while any("long_worker" in line or "/agent-" in line.split()[0]
              for line in hosts.processes("h2").values() if line):
        assert time.monotonic() < deadline, hosts.processes("h2")
        time.sleep(0.1)
    hosts.mend("h2")


@pytest.mark.rest
def test_a_frozen_host_ends_the_job_in_time(remote, hosts):
    job = remote.start("-H", "h1:1,h2:1", "--heartbeat-timeout", "8", "--", "sleep", "777")
    wait_for_sleepers(hosts, ("h1", "h2"))
    hosts.freeze("h2")
    out, err = job.communicate(timeout=90)
    assert job.returncode == 125 and "h2" in err, err
    assert hosts.leftovers("h1", within=30) == {}
    hosts.thaw("h2")


def test_sigkill_of_an_agent_is_said_with_its_host(remote, hosts):
    job = remote.start("-H", "h1:1,h2:1", "--", "sleep", "777")
    wait_for_sleepers(hosts, ("h1", "h2"))
    agents = [pid for pid, line in hosts.processes("h2").items() if "/agent-" in line.split(" ")[0]]
    assert agents
    os.kill(max(agents), signal.SIGKILL)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 125 and "h2" in err, err
    assert hosts.leftovers("h1", "h2", within=30) == {}


# ---- what only a person knows

class Terminal:
    """Starts hvdray with a controlling terminal of its own, this test at the keyboard."""

    def __init__(self, hosts, argv, cwd):
        self.master, self.slave = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        # pylint: disable=subprocess-popen-preexec-fn
        self.job = hosts.popen(argv, cwd=str(cwd), env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0))
        self.shown = ""

    def expect(self, text, within=60):
        deadline = time.monotonic() + within
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, f"no {text!r} in {self.shown!r}"
            self.shown += os.read(self.master, 4096).decode()
        self.shown = self.shown.split(text, 1)[1]

    def type(self, text):
        os.write(self.master, text.encode())

    def is_echo_on(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def end(self):
        out, err = self.job.communicate(timeout=60)
        assert self.is_echo_on()
        while select.select([self.master], [], [], 0)[0]:
            self.shown += os.read(self.master, 4096).decode()
        os.close(self.master)
        os.close(self.slave)
        return self.job.returncode, out, err


@pytest.fixture
def at_terminal(hvdray, hosts, tmp_path):
    return lambda *words: Terminal(hosts, [hvdray.binary, "run", *words], tmp_path)


def ssh_config(hosts, folder, text):
    path = folder / "ssh_config"
    path.write_text(f"{text}User root\nIdentityFile {hosts.key}\nIdentitiesOnly yes\n"
                    f"UserKnownHostsFile {hosts.known_hosts}\nStrictHostKeyChecking yes\n")
    return path


@pytest.fixture
def locked_key(hosts, tmp_path):
    """A configuration whose only key has a passphrase."""
    key = tmp_path / "locked"
    key.write_bytes(pathlib.Path(hosts.key).read_bytes())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", key], check=True)
    config = tmp_path / "config"
    config.write_text(f"User root\nIdentityFile {key}\nIdentitiesOnly yes\n"
                      f"UserKnownHostsFile {hosts.known_hosts}\nStrictHostKeyChecking yes\n")
    return config


@pytest.mark.rest
def test_a_passphrase_is_asked_for_once_and_while_it_is_the_clock_stands_still(
        at_terminal, locked_key):
    terminal = at_terminal("-H", "h1:1,h2:1,h5:1", "--ssh-config", locked_key, "--start-timeout",
                           "15", "--", "hostname")
    terminal.expect("passphrase of ")
    assert not terminal.is_echo_on()
    terminal.type("wrong\n")
    terminal.expect("passphrase of ")
    time.sleep(16)  # longer than the start may take
    terminal.type("open sesame\n")
    code, out, err = terminal.end()
    assert code == 0, err
    assert sorted(line.split(":")[1] for line in out.splitlines()) == ["h1", "h2", "h5"]
    assert "passphrase of" not in terminal.shown and "sesame" not in terminal.shown + out + err


def test_control_c_at_a_question_ends_the_job_and_leaves_the_terminal_as_it_was(
        at_terminal, locked_key):
    terminal = at_terminal("-H", "h1:1,h2:1", "--ssh-config", locked_key, "--", "true")
    terminal.expect("passphrase of ")
    assert not terminal.is_echo_on()
    terminal.type("\x03")
    code, _, err = terminal.end()
    assert code == 130, err


def test_nobody_is_asked_in_ci_or_without_a_terminal(hvdray, hosts, locked_key, tmp_path):
    words = [hvdray.binary, "run", "-H", "h1:1", "--ssh-config", locked_key, "--", "true"]
    result = hosts.run(words, cwd=str(tmp_path), start_new_session=True, timeout=60)
    assert result.returncode == 125 and "HVD-E0213" in result.stderr, result.stderr
    assert "ssh-add" in result.stderr
    terminal = Terminal(hosts, ["env", "CI=true", *words], tmp_path)
    code, _, err = terminal.end()
    assert code == 125 and "HVD-E0213" in err, err


@pytest.fixture
def password_hosts(hosts, tmp_path):
    """h1 and h6 take root's password "right" and nothing else."""
    names = ("h1", "h6")
    before = {}
    for name in names:
        shadow, config = hosts.folder(name) / "etc/shadow", hosts.folder(name) / "sshd_config"
        before[name] = (shadow.read_text(), config.read_text())
        lines = shadow.read_text().splitlines()
        shadow.write_text("".join(
            (RIGHT if line.startswith("root:") else line) + "\n" for line in lines))
        config.write_text("PasswordAuthentication yes\nPermitRootLogin yes\n"
                          "PubkeyAuthentication no\n" + config.read_text())
        hosts.stop_sshd(name)
    hosts.start_sshd(*names)
    yield ssh_config(hosts, tmp_path, "")
    for name in names:
        shadow, config = before[name]
        (hosts.folder(name) / "etc/shadow").write_text(shadow)
        (hosts.folder(name) / "sshd_config").write_text(config)
        hosts.stop_sshd(name)
    hosts.start_sshd(*names)


RIGHT = ("root:$6$hvdraytest$OViSQjB4nu//AJxPiE/LH0xiKSZfjOmrsRLb6Bdl6QKHRJLhBhZ8J5Kic3oCZZCRGlz5"
         "ReAhOBT5TMHyDYR0F/:19000:0:99999:7:::")


def test_a_password_is_asked_for_once_for_all_hosts_of_a_user(at_terminal, password_hosts):
    terminal = at_terminal("-H", "h1:1,h6:1,h2:1", "--ssh-config", password_hosts, "--", "hostname")
    terminal.expect("'s password: ")
    terminal.type("wrong\n")
    terminal.expect("'s password: ")
    terminal.type("right\n")
    code, out, err = terminal.end()
    assert code == 0, err
    assert sorted(line.split(":")[1] for line in out.splitlines()) == ["h1", "h2", "h6"]
    assert "'s password" not in terminal.shown


# ---- many hosts, without ssh

@pytest.mark.parametrize("count", [65, *rest(63, 64, 66, 127, 128, 129, 130)])
def test_any_number_of_hosts_works(hvdray, tmp_path, count):
    hosts = ",".join(f"sim{i}:1" for i in range(count))
    result = hvdray.go("-H", hosts, "--launch-agent", ": {host}; sh -c", "--remote-dir", tmp_path,
                       "--network-interfaces", "lo", "--report", tmp_path / "report.json", "--start-timeout", "120",
                       "--", "sh", "-c", "echo $HOROVOD_HOSTNAME", timeout=240)
    assert result.code == 0, result.errors
    assert len(result.text.splitlines()) == count
    report = json.loads((tmp_path / "report.json").read_text())
    assert [host["ready"] for host in report["hosts"]] == [True] * count
