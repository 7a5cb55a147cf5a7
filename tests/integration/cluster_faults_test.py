# SPDX-License-Identifier: Apache-2.0
"""What `hvdray up` and `hvdray exec` say on two sshd hosts when something is wrong there, here or with the key: one line for
each, the right code, and no Ray started.

Not tested here: faults of the file and of a step (cluster_up_test.py), of a cloud (cluster_cloud_test.py)."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

from at_terminal import Screen, Terminal
from hosts_processes import wait_until
from make_hosts import LAUNCHER, Hosts

# A ray of some other tool, and no python3.
PRETEND_RAY = """mkdir -p ~/bin
printf '#!/bin/sh\\nexit 0\\n' >~/bin/ray
printf '#!/bin/sh\\necho python3: not found >&2\\nexit 127\\n' >~/bin/python3
chmod +x ~/bin/*
export PATH=~/bin:$PATH
"""


class Cluster:
    def __init__(self, hosts, binary, folder):
        self.hosts, self.binary, self.folder = hosts, binary, folder
        self.head, self.worker = (hosts[name].address for name in ("h1", "h2"))

    def write(self, **replaced):
        """The file with these lines, by key, instead of the usual ones."""
        lines = {"cluster_name": "faults",
                 "provider": f"{{type: local, head_ip: {self.head}, worker_ips: [{self.worker}]}}",
                 "auth": "{ssh_user: root}",
                 "head_start_ray_commands": "[ray start --head]",
                 "worker_start_ray_commands": "['ray start --address=$RAY_HEAD_IP:6379']", **replaced}
        (self.folder / "cluster.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))

    def up(self, *words, code=125, **replaced):
        self.write(**replaced)
        result = self.hosts.run([self.binary, "up", "--yes", *words, "cluster.yaml"], cwd=str(self.folder), timeout=240)
        assert result.returncode == code, result.stdout + result.stderr
        return result

    def call(self, command, *words, **how):
        self.write()
        return self.hosts.run([self.binary, command, *words], cwd=str(self.folder), timeout=60, **how)

    def at_terminal(self, *words):
        self.write()
        return Terminal(lambda **io: self.hosts.popen([self.binary, *words], env={**os.environ, "TERM": "xterm"},
                                                      cwd=str(self.folder), **io))

    def running(self, name, text):
        return [pid for pid, line in self.hosts.processes(name).items() if line.strip() == text]

    def up_at_terminal(self, rows, columns, **replaced):
        self.write(**replaced)
        env = {**os.environ, "TERM": "xterm", "CI": ""}
        return Terminal(lambda **io: self.hosts.popen([self.binary, "up", "--yes", "cluster.yaml"], env=env,
                                                      cwd=str(self.folder), **io), rows, columns)


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("hosts need root: network namespaces, mounts, sshd")
    binary = os.path.abspath(os.path.join(request.config.getoption("--bin-dir"), "hvdray"))
    with Hosts(count=2) as hosts:
        yield Cluster(hosts, binary, tmp_path_factory.mktemp("faults"))


def test_hosts_without_ray_or_python_are_named(cluster):
    said = cluster.up().stderr
    assert said.count("HVD-E0220") == 2
    assert f"{cluster.head}: no Ray" in said and f"{cluster.worker}: no Ray" in said
    for name in ("h1", "h2"):
        (cluster.hosts.folder(name) / "home/.bashrc").write_text(PRETEND_RAY)
    try:
        said = cluster.up().stderr
    finally:
        for name in ("h1", "h2"):
            (cluster.hosts.folder(name) / "home/.bashrc").unlink()
    assert said.count("HVD-E0220") == 2
    assert "python3" in said


def test_a_key_that_is_missing_or_open_to_others_is_told_before_anything(cluster):
    key = cluster.folder / "key"
    auth = f"{{ssh_user: root, ssh_private_key: {key}}}"
    result = cluster.up(auth=auth, code=2)
    assert "HVD-E0104" in result.stderr and "cluster.yaml" in result.stderr
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    key.chmod(0o644)
    result = cluster.up(auth=auth, code=2)
    assert "0644" in result.stderr and f"chmod 600 {key}" in result.stderr


def test_a_wrong_user_is_final(cluster):
    result = cluster.up("--start-timeout", "60", auth="{ssh_user: nobodyhere}")
    assert result.stderr.count("HVD-E0213") == 2
    assert "waiting for SSH" not in result.stdout


def test_a_full_disk_in_a_file_mount_names_host_and_mount(cluster):
    (cluster.folder / "big").mkdir()
    (cluster.folder / "big/file").write_bytes(os.urandom(1_000_000))
    made = cluster.hosts.run(["sh", "-c", "mkdir ~/small && mount -t tmpfs -o size=64k tmpfs ~/small"], on="h2")
    assert made.returncode == 0, made.stderr
    result = cluster.up(file_mounts=f"{{'~/small/big': {cluster.folder}/big}}")
    assert f"{cluster.worker}: file mounts" in result.stderr
    assert "No space left on device [HVD-E0003]" in result.stderr


def test_an_unreachable_host_is_told_while_it_is_waited_for(cluster):
    result = cluster.up("--start-timeout", "8",
                        provider=f"{{type: local, head_ip: {cluster.head}, worker_ips: [10.99.99.99]}}")
    assert "10.99.99.99: waiting for SSH (unreachable)" in result.stdout
    assert "10.99.99.99: no log-in within 8 s" in result.stderr


def both(cluster, what):
    """A pattern for the nodes' two lines as they are drawn, one below the other, and all before and just behind."""
    return rf".*{cluster.head}  head  +{what}[^\r]*\r\n\x1b\[K{cluster.worker}  worker  +{what}.*?\x1b\[J"


def block_of(cluster, screen):
    """The nodes' lines on the screen."""
    return [line for line in screen.lines if line.startswith((f"{cluster.head} ", f"{cluster.worker} "))]


def test_a_terminal_shows_one_line_for_each_node_below_what_is_printed(cluster):
    def let_go(file):
        for name in ("h1", "h2"):
            (cluster.hosts.folder(name) / "home" / file).touch()

    wait = "until [ -e ~/{} ]; do sleep 0.1; done"
    setup = rf'''["printf '10\\r'; {wait.format('go1')}; echo 20", "{wait.format('go2')}"]'''
    window = cluster.up_at_terminal(12, 100, setup_commands=setup)
    shown = window.wait_for(r".*\] 10\r\n.*?\x1b\[J").group()
    let_go("go1")
    shown += window.wait_for(both(cluster, r"\d+ s  setup 2/2: ")).group()
    screen = Screen(12, 100).feed(shown)
    assert screen.lines[-3:-1] == block_of(cluster, screen) and screen.is_sane, screen.lines
    step = rf"  +\d+ s  setup 2/2: {re.escape(wait.format('go2'))}"
    expected = (rf"{cluster.head}  head{step}", rf"{cluster.worker}  worker{step}")
    assert all(map(re.fullmatch, expected, block_of(cluster, screen))), screen.lines
    # A line of a progress bar is not taken for a whole one, nor lost.
    assert "] 10\r\n" in re.sub(r"\x1b\[\??\d*[A-Za-z]", "", shown.decode())
    assert {f"[{cluster.head}] 20", f"[{cluster.worker}] 20"} < set(screen.lines), screen.lines
    shown += window.wait_for(both(cluster, r"[1-9]\d* s  setup 2/2: ")).group()
    assert len(block_of(cluster, Screen(12, 100).feed(shown))) == 2
    window.resize(3, 100)
    shown += window.wait_for(r".*2 more: 2 setting up.*?\x1b\[J").group()
    assert not block_of(cluster, Screen(12, 100).feed(shown))
    window.resize(12, 100)
    let_go("go2")
    assert window.code() == 125
    screen = Screen(12, 100).feed(shown + window.shown)
    table = block_of(cluster, screen)
    assert len(table) == 2 and all("failed: no Ray" in line for line in table) and screen.is_sane, screen.lines
    assert "setup 2/2" not in "".join(screen.lines), "the board is taken away"


def test_a_pause_and_ctrl_c_take_the_board_away(cluster):
    window = cluster.up_at_terminal(12, 100, setup_commands='["sleep 100"]')

    def wait_for_board():
        return window.wait_for(both(cluster, r"\d+ s  setup: sleep 100")).group()

    shown = wait_for_board()
    window.type("\x1a")
    wait_until(lambda: pathlib.Path(f"/proc/{window.process.pid}/stat").read_text().split()[2] == "T", "the pause")
    shown += window.wait_for(r".*\x1b\[2A\x1b\[J").group()
    screen = Screen(12, 100).feed(shown)
    assert not block_of(cluster, screen) and screen.is_sane, screen.lines
    window.process.send_signal(signal.SIGCONT)
    shown += wait_for_board()
    assert len(block_of(cluster, Screen(12, 100).feed(shown))) == 2
    window.type("\x03")
    assert window.code() == 130
    screen = Screen(12, 100).feed(shown + window.shown)
    assert all("setting up" in line for line in block_of(cluster, screen)), "of the table alone"
    assert screen.is_sane, screen.lines
    assert "interrupted" in "".join(screen.lines)


@pytest.mark.parametrize("where, why, command", [("/dev/full", "No space left on device", "head -c 3000000 /dev/zero"),
                                                 (None, "it is closed", "echo little")])
def test_output_of_exec_that_is_not_written_whole_is_an_error(cluster, where, why, command):
    """ssh says nothing of it, and ends with the command's code, or with 141 where that had more to say."""
    def close():
        os.close(1)

    with open(where or os.devnull, "wb") as stdout:
        result = cluster.call("exec", "cluster.yaml", command, stdout=stdout, stderr=subprocess.PIPE,
                              preexec_fn=None if where else close)
    assert result.returncode == 125, (result.returncode, result.stderr)
    assert result.stderr.startswith(f"hvdray exec: write to stdout: {why} [HVD-E0305]"), result.stderr


def test_output_of_exec_in_a_file_is_whole(cluster):
    with open(cluster.folder / "out", "wb") as stdout:
        result = cluster.call("exec", "cluster.yaml", "head -c 3000000 /dev/zero; exit 5", stdout=stdout, stderr=subprocess.PIPE)
    assert result.returncode == 5 and (cluster.folder / "out").read_bytes() == bytes(3000000), result.stderr


def test_a_connection_that_breaks_is_no_exit_code_of_the_command(cluster):
    result = cluster.call("exec", "cluster.yaml", "exit 255")
    assert (result.returncode, result.stderr) == (255, "")
    job = cluster.hosts.popen([cluster.binary, "exec", "cluster.yaml", "sleep 4731"], cwd=str(cluster.folder),
                              stderr=subprocess.PIPE, text=True)
    wait_until(lambda: cluster.running("h1", "sleep 4731"), "the command runs")
    for pid, line in cluster.hosts.processes("h1").items():
        if line.startswith("sshd: root"):
            os.kill(pid, signal.SIGKILL)
    errors = job.communicate(timeout=60)[1]
    assert job.returncode == 125, errors
    assert f"{cluster.head}: the connection broke before the command had ended [HVD-" in errors, errors
    wait_until(lambda: not cluster.running("h1", "sleep 4731"), "its end")


def test_a_start_up_file_that_ends_the_shell_is_told_instead_of_a_success(cluster):
    profile = cluster.hosts.folder("h1") / "home/.bashrc"
    try:
        for line in ("exec true", "exit 0", "exit 3"):
            profile.write_text(f'case $- in *i*) ;; *) return ;; esac\n{line}\n')
            result = cluster.call("exec", "cluster.yaml", "echo ran")
            assert (result.returncode, result.stdout) == (125, ""), result.stderr
            assert "hvdray: h1: a start-up file of bash ended it" in result.stderr and "~/.bashrc" in result.stderr
    finally:
        profile.unlink()


@pytest.mark.parametrize("head", ["h1", "here"])
def test_ctrl_z_does_not_end_a_command(cluster, head):
    if head == "here":
        cluster.write = lambda: Cluster.write(cluster, provider="{type: local, head_ip: 127.0.0.1, worker_ips: []}")
    try:
        name = LAUNCHER if head == "here" else head
        window = cluster.at_terminal("exec", "cluster.yaml", "sleep 4732; echo over")
        wait_until(lambda: cluster.running(name, "sleep 4732"), "the command runs")
        window.type("\x1a")
        window.wait_for(r"\^Z")
        for pid in cluster.running(name, "sleep 4732"):
            assert "T" not in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]
            os.kill(pid, signal.SIGKILL)
        window.wait_for("over\r\n")
        assert window.code() == 0
    finally:
        vars(cluster).pop("write", None)


def test_a_port_that_is_taken_and_words_that_are_empty_are_named(cluster):
    keeper = cluster.hosts.popen(["python3", "-c", "import socket\nwith socket.socket() as s:\n s.bind(('127.0.0.1', 9731))\n"
                                  " s.listen()\n print(flush=True)\n input()"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        keeper.stdout.readline()
        result = cluster.call("exec", "-p", "9731:22", "cluster.yaml", "true")
    finally:
        keeper.communicate(b"\n")
    assert result.returncode == 125 and "bind [127.0.0.1]:9731: Address already in use" in result.stderr, result.stderr
    assert "--port-forward LOCAL:REMOTE" in result.stderr
    (cluster.folder / "mine").write_text("")
    for words, name in ((("rsync-down", "cluster.yaml", "", "."), "SOURCE"), (("rsync-up", "cluster.yaml", "mine", ""), "TARGET"),
                        (("exec", "cluster.yaml", "--node-ip", "", "true"), "--node-ip")):
        result = cluster.call(*words)
        assert result.returncode == 2 and f"{name} must not be empty" in result.stderr, result.stderr
    assert not (cluster.folder / ".ssh").exists()


def test_names_that_ssh_or_a_path_would_take_for_something_else_have_their_place_named(cluster):
    cluster.write(auth="{ssh_user: -lroot}")
    result = cluster.hosts.run([cluster.binary, "exec", "cluster.yaml", "true"], cwd=str(cluster.folder))
    assert result.returncode == 2 and "cluster.yaml:3:18: auth.ssh_user '-lroot' is not a user name" in result.stderr
    result = cluster.call("exec", "-n", "../x", "cluster.yaml", "true")
    assert result.returncode == 2 and "'../x' is not a name" in result.stderr and "yaml:" not in result.stderr


def test_a_command_in_a_hint_can_be_typed(cluster):
    cluster.write()
    (cluster.folder / "a b.yaml").write_text((cluster.folder / "cluster.yaml").read_text())
    result = cluster.call("attach", "-n", "other", "a b.yaml")
    assert "hint: hvdray exec 'a b.yaml' -n other COMMAND" in result.stderr, result.stderr
    (cluster.hosts.folder("h2") / "home/.bashrc").write_text("tmux() { :; }\n")
    result = cluster.call("exec", "a b.yaml", "--tmux", "--node-ip", cluster.worker, "true")
    (cluster.hosts.folder("h2") / "home/.bashrc").unlink()
    assert f"hvdray attach 'a b.yaml' --node-ip {cluster.worker} --tmux shows it" in result.stderr, result.stderr


def test_paths_on_a_head_that_is_this_machine_are_below_the_home_directory_too(cluster):
    home = cluster.hosts.folder(LAUNCHER) / "home"
    mount = cluster.folder / "mounted"
    mount.write_text("mounted")
    cluster.write(provider="{type: local, head_ip: 127.0.0.1, worker_ips: []}", file_mounts=f"{{'~/m/n': {mount}}}")
    for words in (("mounted", "~/tilde"), ("mounted", "relative"), (), ):
        result = cluster.hosts.run([cluster.binary, "rsync-up", "cluster.yaml", *words], cwd=str(cluster.folder))
        assert result.returncode == 0, result.stderr
    for words in (("~/tilde", "down1"), ("relative", "down2")):
        result = cluster.hosts.run([cluster.binary, "rsync-down", "cluster.yaml", *words], cwd=str(cluster.folder))
        assert result.returncode == 0, result.stderr
    for place in (home / "tilde", home / "relative", home / "m/n", cluster.folder / "down1", cluster.folder / "down2"):
        assert place.read_text() == "mounted"
    assert not (cluster.folder / "~").exists() and not (cluster.folder / "relative").exists()


def test_a_host_that_is_away_does_not_keep_files_from_the_others(cluster):
    (cluster.folder / "mine").write_text("mine")
    cluster.hosts.stop_sshd("h1")
    try:
        result = cluster.call("rsync-up", "-A", "cluster.yaml", "mine", "arrived")
    finally:
        cluster.hosts.start_sshd("h1")
    assert result.returncode == 125 and f"hvdray rsync-up: {cluster.head}: " in result.stderr, result.stderr
    assert "Connection refused" in result.stderr and result.stderr.count("[HVD-") == 1
    assert (cluster.hosts.folder("h2") / "home/arrived").read_text() == "mine"


def test_a_script_that_does_not_arrive_leaves_nothing(cluster):
    (cluster.folder / "large.py").write_bytes(b"#" * 1_000_000)
    jobs = "~/.cache/hvdray/jobs"
    made = cluster.hosts.run(["sh", "-c", f"mkdir -p {jobs} && mount -t tmpfs -o size=64k tmpfs {jobs}"], on="h1")
    assert made.returncode == 0, made.stderr
    try:
        result = cluster.call("submit", "cluster.yaml", "large.py")
        assert result.returncode == 125 and "No space left on device" in result.stderr, result.stderr
        assert cluster.hosts.run(["sh", "-c", f"ls -A {jobs}"], on="h1").stdout == ""
    finally:
        cluster.hosts.run(["sh", "-c", f"umount {jobs}"], on="h1")
