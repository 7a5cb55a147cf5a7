# SPDX-License-Identifier: Apache-2.0
"""The test hosts are what they claim: real sshd, own names and links, real faults, no traces."""

import glob
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from hosts import BEHIND, JUMP, OTHER_INTERFACE, SLOW, SLOW_MS

from make_hosts import Hosts, HostsError, sweep
from hosts_processes import pids_inside, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE_HOSTS = str(ROOT / "tools/make_hosts.py")

# Prints what became of a connection to argv[1]:22, and the milliseconds that it took.
CONNECT = """
import socket, sys, time
started = time.monotonic()
try:
    link = socket.create_connection((sys.argv[1], 22), timeout=float(sys.argv[2]))
    connected = time.monotonic()
    what = "banner" if link.recv(64).startswith(b"SSH-2.0-") else "closed"
except ConnectionRefusedError:
    what = "refused"
except (TimeoutError, socket.timeout):
    what = "silent" if "connected" in globals() else "no answer"
except OSError as error:
    what = error.strerror
print(what, (globals().get("connected", time.monotonic()) - started) * 1000)
"""


def connect(hosts, name, timeout=60.0, on="launcher"):
    done = hosts.run([sys.executable, "-c", CONNECT, name, timeout], on=on, check=True)
    what, milliseconds = done.stdout.rsplit(maxsplit=1)
    return what, float(milliseconds)


def fastest_connect(hosts, name, enough, within=60.0):
    """Milliseconds. A busy machine can only add to them, so one good try proves the link."""
    deadline = time.monotonic() + within
    tries = [connect(hosts, name)[1] for _ in range(3)]
    while min(tries) >= enough and time.monotonic() < deadline:
        tries.append(connect(hosts, name)[1])
    return min(tries)


def ssh(hosts, name, command, on="launcher", **kwargs):
    return hosts.run(["ssh", name, command], on=on, timeout=60, **kwargs)


def echo_session(hosts, name):
    """A remote `cat` that has answered once."""
    session = hosts.popen(["ssh", name, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.set_blocking(session.stdout.fileno(), False)
    assert answer(session, b"first\n", within=30) == b"first\n"
    return session


def answer(session, line, within):
    session.stdin.write(line)
    session.stdin.flush()
    return read_within(session, within)


def read_within(session, within):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        got = session.stdout.read()
        if got:
            return got
        time.sleep(0.005)
    return b""


def end(session):
    session.stdin.close()
    assert session.wait(timeout=60) == 0
    session.stdout.close()


def own_network():
    """What a run of hosts may not change."""
    return [subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
            for words in (["-o", "link"], ["-o", "addr"], ["route", "show", "table", "all"])]


def traces(state, prefix):
    """All that could be left of hosts."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        mounts = [line for line in f if prefix in line or str(state) in line]
    commands = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if str(state).encode() in line or prefix.encode() in line:
            commands[entry] = line
    return mounts + list(commands.items()) + glob.glob(f"/run/netns/{prefix}*") + glob.glob(
        f"/run/hvdray-hosts-{prefix}*") + [path for path in [str(state)] if os.path.exists(path)]


def test_each_host_answers_over_ssh_under_its_own_name_and_kernel_hostname(hosts):
    started = {name: hosts.popen(["ssh", name, "uname -n"], stdout=subprocess.PIPE)
               for name in hosts.hosts}
    answers = {name: process.communicate(timeout=60)[0].decode().strip()
               for name, process in started.items()}
    assert answers == {name: name for name in hosts.hosts}
    assert hosts.run(["uname", "-n"]).stdout == "launcher\n"
    assert socket.gethostname() not in [*hosts.hosts, "launcher"]


def test_all_names_resolve_alike_on_every_host_and_unknown_names_fail_at_once(hosts):
    names = ["launcher", *hosts.hosts]
    for on in names:
        got = hosts.run(["getent", "ahostsv4", *names], on=on).stdout.splitlines()
        assert [line.split()[0] for line in got if "STREAM" in line] == [
            hosts[name].address for name in names]
    started = time.monotonic()
    assert hosts.run(["getent", "hosts", "h99"]).returncode == 2
    assert time.monotonic() - started < 10, "a name server was waited for"


def test_interfaces_have_the_names_asked_for_and_sysfs_shows_the_same(hosts):
    for name in hosts.hosts:
        wanted = ["ens5" if name in OTHER_INTERFACE else "eth0", "lo"] + ["inner0"] * (name == JUMP)
        shown = os.listdir(f"/proc/{hosts[name].holder}/root/sys/class/net")
        assert sorted(shown) == sorted(wanted)
        shown = hosts.run(["ip", "-o", "-4", "addr", "show", "dev", hosts[name].interface], on=name)
        assert hosts[name].address in shown.stdout
        assert "<LOOPBACK,UP," in hosts.run(["ip", "link", "show", "lo"], on=name).stdout


def test_the_host_behind_is_reached_by_its_jump_host_and_from_hosts_but_not_directly(hosts):
    assert connect(hosts, BEHIND)[0] == "Network is unreachable"
    assert ssh(hosts, BEHIND, "echo $SSH_CONNECTION").stdout.split()[2] == hosts[BEHIND].address
    assert connect(hosts, BEHIND, on="h1")[0] == "banner"
    assert connect(hosts, "h1", on=BEHIND)[0] == "banner"


def test_the_slow_host_takes_its_delay_for_each_round_trip_and_the_others_do_not(hosts):
    assert SLOW_MS <= fastest_connect(hosts, SLOW, enough=2 * SLOW_MS) < 2 * SLOW_MS
    assert fastest_connect(hosts, "h1", enough=SLOW_MS / 2) < SLOW_MS / 2


def test_the_slow_link_loses_nothing(hosts):
    sent = os.urandom(8_000_000)
    got = hosts.run(["ssh", SLOW, "cat"], input=sent, text=False, timeout=60).stdout
    assert got == sent


def test_homes_have_one_path_and_contents_of_their_own(hosts):
    assert ssh(hosts, "h1", "echo $HOME; echo mark > ~/mark").stdout == f"{hosts.state}/home\n"
    assert ssh(hosts, "h2", "echo $HOME; cat ~/mark").stdout == f"{hosts.state}/home\n"
    assert (hosts.folder("h1") / "home/mark").read_text() == "mark\n"
    (hosts.folder("h1") / "home/mark").unlink()


def test_shared_memory_and_mounts_are_each_hosts_own(hosts):
    big = "head -c 1M /dev/zero > ~/big"
    with hosts.mounted("h1", f"{hosts.state}/home", "size=64k"):
        assert ssh(hosts, "h1", f"echo 1 > /dev/shm/mark; {big}").returncode != 0
        assert ssh(hosts, "h2", f"ls -A /dev/shm; {big} && rm ~/big").stdout == ""
        assert not os.path.exists("/dev/shm/mark")
    assert ssh(hosts, "h1", f"rm /dev/shm/mark && {big} && rm ~/big").returncode == 0


def test_a_job_of_hvdray_can_be_started_at_the_launcher(hvdray_at_launcher, tmp_path):
    result = hvdray_at_launcher.go("-np", 1, "sh", "-c", "uname -n; pwd", cwd=tmp_path)
    assert result.code == 0, result.errors
    assert "launcher" in result.text
    assert str(tmp_path) in result.text


def test_processes_of_a_host_are_seen_from_outside_until_they_end(hosts):
    assert hosts.leftovers(within=30) == {}
    # A session of its own, so that it outlives the connection: just what tests must find.
    assert ssh(hosts, "h2", "setsid sleep 4711 >/dev/null 2>&1 </dev/null &").returncode == 0

    def left():
        return [list(found.values()) for found in hosts.leftovers("h2", "h1", within=0.5).values()]

    wait_until(lambda: left() == [["sleep 4711"]], "the end of the connection, and not of the sleep")
    assert left() == [["sleep 4711"]]
    assert "sleep 4711" in hosts.processes("h2").values()
    hosts.kill_leftovers()
    assert hosts.leftovers() == {}
    assert any("sshd" in line for line in hosts.processes("h2").values())


def test_cut_silences_a_host_without_a_reset_and_mend_brings_all_back(hosts):
    session = echo_session(hosts, "h3")
    hosts.cut("h3")
    assert answer(session, b"lost?\n", within=0.7) == b""
    assert session.poll() is None
    assert connect(hosts, "h3", timeout=0.5)[0] == "no answer"
    assert connect(hosts, "h4")[0] == "banner"
    hosts.mend("h3")
    assert read_within(session, within=30) == b"lost?\n"
    end(session)


@pytest.mark.parametrize("drop, arrives", [("from", True), ("to", False)])
def test_a_one_way_black_hole_passes_the_other_direction(hosts, drop, arrives):
    session = echo_session(hosts, "h4")
    before = received(hosts, "h4")
    hosts.blackhole_one_way("h4", drop)
    assert answer(session, b"x" * 1000 + b"\n", within=0.7) == b""
    if arrives:
        wait_until(lambda: received(hosts, "h4") > before + 1000, "the line's way there")
    assert (received(hosts, "h4") > before + 1000) == arrives
    assert session.poll() is None
    hosts.mend()
    assert read_within(session, within=30) == b"x" * 1000 + b"\n"
    end(session)


def received(hosts, name):
    """Bytes that the host's interface took in."""
    path = f"/sys/class/net/{hosts[name].interface}/statistics/rx_bytes"
    return int(hosts.run(["cat", path], on=name).stdout)


def test_a_frozen_host_takes_connections_and_says_nothing_until_it_thaws(hosts):
    session = echo_session(hosts, "h1")
    hosts.freeze("h1")
    assert connect(hosts, "h1", timeout=0.4)[0] == "silent"
    assert answer(session, b"wake\n", within=0.4) == b""
    hosts.thaw("h1")
    assert read_within(session, within=30) == b"wake\n"
    end(session)
    assert connect(hosts, "h1")[0] == "banner"


def test_a_stopped_sshd_refuses_while_open_sessions_go_on(hosts):
    session = echo_session(hosts, "h6")
    hosts.stop_sshd("h6")
    assert connect(hosts, "h6")[0] == "refused"
    assert answer(session, b"still\n", within=30) == b"still\n"
    hosts.start_sshd("h6")
    assert connect(hosts, "h6")[0] == "banner"
    end(session)


def test_a_changed_host_key_is_refused_by_ssh_until_it_is_trusted(hosts):
    hosts.change_host_key("h2")
    refused = ssh(hosts, "h2", "true")
    assert refused.returncode == 255
    assert f"{hosts.known_hosts}:2" in refused.stderr
    hosts.trust_host_keys()
    assert ssh(hosts, "h2", "true").returncode == 0


def test_two_sets_side_by_side_do_not_meet_and_the_machine_is_as_before(hosts):
    before = own_network()
    with Hosts(count=2) as others:
        assert own_network() == before
        state, prefix = others.state, others.prefix
        assert others.folder("h1") != hosts.folder("h1")
        assert not set(others.processes("h1")) & set(hosts.processes("h1"))
        assert ssh(others, "h2", "uname -n").stdout == "h2\n"
        assert others.run(["getent", "hosts", "h3"]).returncode == 2
        # A working directory, an open file and a child that ignores SIGTERM hold nothing back.
        stubborn = others.popen(["ssh", "h1", "trap '' TERM HUP; cd ~; sleep 4712"])
        while "sleep 4712" not in others.processes("h1").values():
            assert stubborn.poll() is None
            time.sleep(0.01)
        assert traces(state, prefix)
    stubborn.wait(timeout=60)
    assert traces(state, prefix) == []
    assert own_network() == before


def make_and_wait(state, keep=False):
    """A process that makes hosts and then sleeps; returned when they are up.

    keep: also safe from the sweep of other tests that run just now.
    """
    maker = subprocess.Popen(
        [sys.executable, "-c", f"""
import sys, time
sys.path.insert(0, {str(ROOT / "tools")!r})
from make_hosts import Hosts
hosts = Hosts(count=2, state={str(state)!r}, delay_ms={{"h2": 2}})
hosts.up(keep={keep})
print(hosts.prefix, flush=True)
try:
    time.sleep(600)
finally:
    hosts.down()
"""], stdout=subprocess.PIPE, text=True)
    prefix = maker.stdout.readline().strip()
    assert prefix
    return maker, prefix


def kill(maker):
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()


def test_down_removes_the_hosts_of_a_killed_maker(tmp_path):
    state = tmp_path / "state"
    maker, prefix = make_and_wait(state, keep=True)
    kill(maker)
    assert pids_inside(glob.glob(f"/run/netns/{prefix}-*"))
    for _ in range(2):  # the second finds nothing, which is what it was asked for
        subprocess.run([MAKE_HOSTS, "down", "--state", state], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        assert traces(state, prefix) == []


def test_the_next_up_removes_what_a_killed_maker_left_and_spares_the_living(hosts, tmp_path):
    dead_state, live_state = tmp_path / "dead", tmp_path / "live"
    dead, dead_prefix = make_and_wait(dead_state)
    live, live_prefix = make_and_wait(live_state)
    kill(dead)
    with Hosts(count=1):
        assert traces(dead_state, dead_prefix) == []
        assert len(glob.glob(f"/run/netns/{live_prefix}-*")) == 4
    live.send_signal(signal.SIGINT)  # an ending that Python sees: the hosts go with it
    live.wait(timeout=60)
    live.stdout.close()
    assert traces(live_state, live_prefix) == []


@pytest.mark.parametrize("after", [0.08, 0.12, 0.16, 0.2, 0.25, 0.3])
def test_a_maker_killed_half_way_leaves_nothing_that_a_sweep_misses(tmp_path, after):
    state = tmp_path / "state"
    maker = subprocess.Popen([MAKE_HOSTS, "up", "--count", "3", "--state", state,
                              "--delay-ms", "h2=2"], stdout=subprocess.DEVNULL)
    time.sleep(after)  # at an arbitrary step, which is the point
    maker.kill()
    maker.wait()
    sweep()
    # Killed before or while it wrote its state, there may be nothing to take down: then it says so.
    subprocess.run([MAKE_HOSTS, "down", "--state", state], check=False, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while traces(state, f"hvt{maker.pid}x") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert traces(state, f"hvt{maker.pid}x") == []


def test_a_sweep_spares_the_hosts_of_another_pid_namespace(tmp_path):
    """Where two test runs have PID namespaces of their own, neither sees the other's makers."""
    state = tmp_path / "state"
    live, prefix = make_and_wait(state)
    subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c",
                    f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import make_hosts; make_hosts.sweep()"],
                   check=True)
    assert len(glob.glob(f"/run/netns/{prefix}-*")) == 4
    kill(live)
    assert prefix in sweep()
    assert traces(state, prefix) == []


def test_hosts_made_by_command_stay_until_they_are_taken_down(tmp_path):
    state = tmp_path / "state"
    subprocess.run([MAKE_HOSTS, "up", "--count", "2", "--state", state, "--behind", "h2=h1",
                    "--interface", "h1=ens9", "--unrouted"], check=True, stdout=subprocess.DEVNULL)
    try:
        prefix = Hosts.attach(state).prefix
        with Hosts(count=1):  # sweeps
            pass
        execute = [MAKE_HOSTS, "exec", "--state", state]
        through = subprocess.run([*execute, "--", "ssh", "h2", "uname -n"],
                                 check=True, capture_output=True, text=True)
        assert through.stdout == "h2\n"
        on = subprocess.run([*execute, "--on", "h1", "ls", "/sys/class/net"],
                            check=True, capture_output=True, text=True)
        assert on.stdout.split() == ["ens9", "inner0", "lo"]
    finally:
        subprocess.run([MAKE_HOSTS, "down", "--state", state], check=True)
    assert traces(state, prefix) == []


def test_what_cannot_be_made_is_said_and_leaves_nothing(tmp_path):
    before = sorted(glob.glob("/run/hvdray-hosts-*"))
    with pytest.raises(HostsError, match="no host h9"):
        Hosts(count=8, interfaces={"h9": "ens5"})
    with pytest.raises(HostsError, match="h2 behind h3"):
        Hosts(count=3, behind={"h2": "h3", "h3": "h1"})
    (tmp_path / "file").write_text("mine")
    with pytest.raises(HostsError, match="not empty"):
        Hosts(count=1, state=tmp_path).up()
    assert (tmp_path / "file").read_text() == "mine"
    # Fails late: namespaces and bridges are there by then.
    with pytest.raises(HostsError, match="a-name-that-is-too-long"):
        Hosts(count=2, interfaces={"h2": "a-name-that-is-too-long"}, state=tmp_path / "late").up()
    assert not (tmp_path / "late").exists()
    assert [link for link in glob.glob("/run/hvdray-hosts-*")
            if os.readlink(link).startswith(str(tmp_path))] == []
    assert len(glob.glob("/run/hvdray-hosts-*")) <= len(before) + 1
