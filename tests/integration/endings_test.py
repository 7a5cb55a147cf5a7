# SPDX-License-Identifier: Apache-2.0
"""How jobs end: the right exit code, the right words, and nothing left running."""

import contextlib
import glob
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import pytest

from conftest import python_script
from hosts_processes import send, wait_until

# A worker that leaves a grandchild in a session of its own, and one that forked twice.
SPREAD = python_script("""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)
print("ready", flush=True)
time.sleep(600)
""")


CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def workers(job, needle):
    return [pid for pid, line in job.processes().items()
            if needle in line and pid != job.pid and "hvdray" not in line.split(" ")[0]]


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def agents(job):
    """(keeper, agent) pids: the agent is the keeper's child."""
    pids = [pid for pid, line in job.processes().items() if "hvdray-agent" in line.split(" ")[0]]  # "": it ends in this moment
    parents = {pid: parent_of(pid) for pid in pids}
    agent = next(pid for pid in pids if parents[pid] in pids)
    return parents[agent], agent


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def test_an_agent_that_was_executed_by_descriptor_bears_its_name(hvdray):
    with open(hvdray.agent, "rb") as program:
        path = f"/proc/self/fd/{program.fileno()}"
        # Waits for a launcher's first words on standard input.
        with subprocess.Popen(["agent"], executable=path, pass_fds=[program.fileno()], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as keeper:
            def names():
                found, pids = set(), [keeper.pid]
                while pids:
                    pid = pids.pop()
                    found.add(name_of(pid))
                    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                        pids += file.read().split()
                return found

            wait_until(lambda: names() == {"hvdray-keeper", "hvdray-agent"}, "names of keeper and agent")
            keeper.stdin.close()
            assert keeper.wait(60) != 0


def test_the_first_failure_stops_the_gang_and_gives_its_code(hvdray):
    result = hvdray.go("-np", "8", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 5 ] && { echo oh no >&2; exit 7; }; exec sleep 600")
    assert result.code == 7
    assert "rank 5" in result.errors and "code 7" in result.errors and "oh no" in result.errors


def told(result):
    """Our own lines; what is quoted of a worker, and its own lines, left out."""
    return [line for line in result.errors.splitlines() if line[:1] not in "[ "]


FAIL = "[ $HOROVOD_RANK = 1 ] && { echo no GPU here >&2; exit 7; }; exec sleep 60"


def test_one_failure_is_told_once(hvdray):
    result = hvdray.go("-np", "3", "--", "sh", "-c", FAIL)
    lines = result.errors.splitlines()
    assert len(lines) == 5, lines
    assert lines[0] == "[1]<stderr>:no GPU here"
    assert lines[1].startswith("hvdray: rank 1 on host localhost exited with code 7"), lines
    assert lines[2:4] == ["hvdray: last lines of its stderr:", "  | no GPU here"]
    assert "stopped because of it" in lines[4] and "ranks 0,2" in lines[4], lines


def test_horovods_sentences_are_for_who_calls_horovodrun(hvdray, tmp_path):
    link = tmp_path / "horovodrun"
    link.symlink_to(hvdray.binary)
    result = hvdray.start("-np", "2", "sh", "-c", FAIL, binary=link).wait()
    assert result.code == 7
    for words in ("Process 1 exit with status code 7.", "Horovod detected that one or more processes",
                  "Terminating remaining workers after failure of Process 1.", "Exit code: 7"):
        assert words in result.errors, result.errors
        assert words not in hvdray.go("-np", "2", "--", "sh", "-c", FAIL).errors


def test_each_restart_is_told_once(hvdray):
    result = hvdray.go("-np", "2", "--max-restarts", "2", "--", "sh", "-c", FAIL)
    assert [line for line in told(result) if "restart" in line] == [
        f"hvdray: restart {n} of 2: rank 1 on host localhost exited with code 7" for n in (1, 2)]


def test_an_error_on_stdout_is_quoted_too(hvdray, tmp_path):
    result = hvdray.go("-np", "1", "--report", tmp_path / "report", "--", "sh", "-c",
                       "echo epoch 1; echo cannot open data.bin; exit 3")
    assert ("hvdray: last lines of its stdout:\n  | epoch 1\n  | cannot open data.bin\n"
            in result.errors), result.errors
    failure = json.loads((tmp_path / "report").read_text())["first_failure"]
    assert failure["last_stdout"] == ["epoch 1", "cannot open data.bin"]
    assert failure["last_stderr"] == []


def test_death_by_signal_is_named(hvdray):
    result = hvdray.go("-np", "2", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 1 ] && kill -SEGV $$; exec sleep 60")
    assert result.code == 128 + signal.SIGSEGV
    assert "SIGSEGV" in result.errors


def test_an_early_success_ends_nothing(hvdray):
    result = hvdray.go("-np", "2", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 0 ] && exit 0; sleep 0.5; echo late")
    assert result.code == 0 and "late" in result.text


def test_workers_that_ignore_sigterm_are_killed_after_the_grace(hvdray):
    result = hvdray.go("-np", "2", "--grace", "0.3", "--", "sh", "-c",
                       "trap '' TERM; [ $HOROVOD_RANK = 0 ] && { sleep 0.3; exit 9; }; "
                       "while :; do sleep 1; done")
    assert result.code == 9


def test_sigterm_reaches_the_whole_group(hvdray, tmp_path):
    result = hvdray.go("-np", "2", "--grace", "30", "--", "sh", "-c",
                       f"[ $HOROVOD_RANK = 0 ] && {{ until [ -e {tmp_path}/up ]; do sleep 0.05; done; exit 4; }}; "
                       f"sh -c 'trap \"echo child >> {tmp_path}/seen; exit 0\" TERM; : > {tmp_path}/up; "
                       f"while :; do sleep 0.1; done' & wait")
    assert result.code == 4
    assert (tmp_path / "seen").read_text() == "child\n"


@pytest.mark.parametrize("signo,name,code", [
    (signal.SIGINT, "INT", 130), (signal.SIGTERM, "TERM", 143), (signal.SIGHUP, "TERM", 129),
    (signal.SIGQUIT, "TERM", 131)])
def test_a_signal_stops_gracefully(hvdray, tmp_path, signo, name, code):
    job = hvdray.job("-np", "2", "--grace", "30", "--", "sh", "-c",
                     f"trap 'echo bye >> {tmp_path}/seen; exit 0' {name}; echo up; "
                     "while :; do sleep 0.1; done")
    up(job, 2)
    os.kill(job.pid, signo)
    assert job.wait(60).code == code
    assert (tmp_path / "seen").read_text() == "bye\nbye\n"


SAVES = python_script("""
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("SIGTERM", flush=True))
def wait():
    # Python runs no handler of a signal that comes just before a sleep begins, until that ends.
    while True:
        time.sleep(0.1)
try:
    print("up", flush=True)
    wait()
except KeyboardInterrupt:
    print("saved", flush=True)
if len(sys.argv) > 1:
    wait()
""")


def up(job, count):
    """Reads until so many workers have said that they are up."""
    for line in iter(job.process.stdout.readline, b""):
        count -= line.endswith(b":up\n")
        if count == 0:
            return
    raise AssertionError("the job has ended")


ELASTIC = ["--min-np", "1", "--elastic-mode", "gang"]


@pytest.mark.parametrize("options", [[], ELASTIC], ids=["static", "elastic"])
def test_ctrl_c_is_a_keyboard_interrupt_in_the_workers(hvdray, script, options):
    job = hvdray.job("-np", "2", "--grace", "30", *options, "--", script("saves", SAVES))
    up(job, 2)
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(60)
    assert result.code == 130, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:saved", "[1]<stdout>:saved"]


@pytest.mark.parametrize("options", [[], ELASTIC], ids=["static", "elastic"])
def test_sigterm_and_sigkill_follow_each_after_the_grace(hvdray, script, options):
    job = hvdray.job("-np", "1", "--grace", "3", *options, "--", script("saves", SAVES), "stay")
    up(job, 1)
    asked = time.monotonic()
    os.kill(job.pid, signal.SIGINT)
    for word in (b"saved", b"SIGTERM"):
        assert job.process.stdout.readline() == b"[0]<stdout>:" + word + b"\n"
    assert time.monotonic() - asked >= 3
    assert job.wait(60).code == 130
    assert time.monotonic() - asked >= 6


@pytest.mark.parametrize("signo,name", [(signal.SIGUSR1, "USR1"), (signal.SIGUSR2, "USR2")])
def test_user_signals_go_on_to_the_workers(hvdray, tmp_path, signo, name):
    job = hvdray.job("-np", "2", "--", "sh", "-c",
                     # Another one may come before it exits: then it does the same again.
                     f"trap 'echo {name} >{tmp_path}/seen.$HOROVOD_RANK; exit 0' {name}; "
                     f"echo up >> {tmp_path}/up; while :; do sleep 0.1; done")
    up = tmp_path / "up"
    job.wait_for(lambda: up.exists() and up.read_text() == "up\nup\n", what="workers")
    # What comes before the launcher has heard of the workers is dropped.
    until = time.monotonic() + 60
    while job.process.poll() is None and time.monotonic() < until:
        os.kill(job.pid, signo)
        time.sleep(0.05)
    assert job.wait(60).code == 0, "hvdray itself is not ended by it"
    assert [(tmp_path / f"seen.{rank}").read_text() for rank in range(2)] == [f"{name}\n"] * 2


def test_a_second_signal_is_now(hvdray):
    job = hvdray.job("-np", "2", "--grace", "600", "--", "sh", "-c",
                     "trap '' TERM INT; echo up; while :; do sleep 0.1; done")
    up(job, 2)
    os.kill(job.pid, signal.SIGINT)
    assert b"SIGINT" in job.process.stderr.readline()
    assert job.process.poll() is None
    os.kill(job.pid, signal.SIGTERM)  # another SIGINT at once would be a copy of the first
    result = job.wait(60)
    assert result.code == 130
    assert "killed, because" not in result.errors, "the user wanted it"


@pytest.mark.parametrize("signo,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_hvdray_and_to_its_group_is_one(hvdray, script, signo, code):
    """As timeout(1) and many wrappers do it, and a terminal whose Ctrl-C a wrapper passes on, too."""
    saves = script("saves", python_script("""
import signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
for signo in signal.SIGINT, signal.SIGTERM:
    signal.signal(signo, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""))
    job = hvdray.job("-np", "4", "--", saves, start_new_session=True)
    up(job, 4)
    os.kill(job.pid, signo)
    os.killpg(job.pid, signo)
    result = job.wait()
    assert result.code == code, result.errors
    assert result.text.count("saved") == 4, result.errors
    assert "lost" not in result.errors and "kill" not in result.errors.split("repeat to kill", 1)[1], result.errors


def family(pid):
    """A process and all below it."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for child in children for other in family(int(child)))]


@pytest.mark.parametrize("options,signos", [([], [signal.SIGTERM]), ([], [signal.SIGINT]), (ELASTIC, [signal.SIGTERM, signal.SIGHUP])],
                         ids=["batch-system", "sigint", "systemd"])
def test_signals_to_all_processes_of_a_job_are_one_stop_in_good_order(hvdray, script, options, signos):
    """As systemd ends a session or a scope, and batch systems a job."""
    saves = script("saves", python_script("""
import signal, sys, time
def save(*_):
    for signo in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(signo, signal.SIG_IGN)
    time.sleep(3)  # longer than agents wait for their launcher
    print("saved", flush=True)
    sys.exit(0)
for signo in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    signal.signal(signo, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""))
    job = hvdray.job("-np", "2", *options, "--", saves)
    up(job, 2)
    processes = family(job.pid)
    assert len(processes) >= 5  # agent, keeper and workers, too
    for signo in signos:
        for pid in processes:
            os.kill(pid, signo)
    result = job.wait()
    assert result.code in [128 + signo for signo in signos], result.errors
    assert result.text.count("saved") == 2 and "lost" not in result.errors, result.errors


@pytest.mark.parametrize("options", [[], ELASTIC], ids=["static", "elastic"])
def test_who_had_to_be_killed_is_said(hvdray, options):
    job = hvdray.job("-np", "2", "--grace", "0.5", *options, "--", "sh", "-c",
                     "[ $HOROVOD_RANK = 1 ] && trap '' TERM; echo up; while :; do sleep 0.1; done")
    up(job, 2)
    os.kill(job.pid, signal.SIGTERM)
    result = job.wait()
    assert result.code == 143
    assert "killed, because it had not ended 500 ms after SIGTERM: rank 1" in result.errors
    assert "hint: raise --grace" in result.errors


def test_a_second_ctrl_c_does_not_wait_for_what_the_first_has_begun(hvdray, script):
    job = hvdray.job("-np", "2", "--grace", "600", "--", script("saves", SAVES), "stay")
    up(job, 2)
    os.kill(job.pid, signal.SIGINT)
    assert {job.process.stdout.readline() for _ in range(2)} == {
        b"[0]<stdout>:saved\n", b"[1]<stdout>:saved\n"}
    time.sleep(0.2)  # sooner, it would be a copy of the first
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(60)
    assert result.code == 130 and result.text == ""


def test_timeout(hvdray):
    result = hvdray.go("-np", "2", "--timeout", "0.5", "--", "sleep", "60")
    assert result.code == 124
    assert "timeout" in result.errors


def test_strays_of_a_good_job_are_swept(hvdray, script):
    spread = script("spread", SPREAD.replace('print("ready", flush=True)\ntime.sleep(600)', ""))
    result = hvdray.go("-np", "2", "--", spread)
    assert result.code == 0
    # the fixture counts what is left: 0


@pytest.mark.parametrize("victim", ["launcher", "agent", "keeper", "worker"])
def test_sigkill_leaves_nothing_behind(hvdray, script, victim):
    spread = script("spread", SPREAD)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for attempt in range(13):  # 52 in all over the four victims
        job = hvdray.job("-np", "3", "--grace", "1", "--", spread)
        # From a moment in the middle of the start to well after it.
        if attempt % 3:
            job.wait_for(lambda: len(workers(job, "spread")) >= 9, what="workers and grandchildren")
        else:
            job.wait_for(lambda: len(job.processes()) >= 3, what="agent")
        time.sleep(rng.random() * 0.05)
        try:
            keeper, agent = agents(job)
        except (StopIteration, FileNotFoundError, ProcessLookupError):
            keeper = agent = job.pid
        found = workers(job, "spread")
        pid = {"launcher": job.pid, "agent": agent, "keeper": keeper,
               "worker": rng.choice(found) if found else job.pid}[victim]
        try:
            descendant = victim == "worker" and parent_of(pid) != agent  # ranks may start late: not by pid
            os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if pid != job.pid and descendant:
            # A grandchild's death is no failure of the job.
            job.process.terminate()
        job.process.wait(60)
        assert job.survivors(within=30) == {}, (victim, attempt, seed)
        job.wait()


def test_agent_and_keeper_killed_together_leave_nothing_behind(hvdray, script):
    spread = script("spread", SPREAD)
    for _ in range(3):
        job = hvdray.job("-np", "2", "--", spread)
        job.wait_for(lambda: len(workers(job, "spread")) >= 6, what="workers and grandchildren")
        keeper, agent = agents(job)
        with open(f"/proc/{agent}/cgroup") as f:
            folders = [line.strip().split(":", 2)[2] for line in f if "hvdray-" in line]
        send([keeper, agent], signal.SIGKILL)  # as `pkill -9 hvdray-agent` does
        result = job.wait(60)
        assert result.code == 125 and "HVD-E0205" in result.errors, result.errors
        assert job.survivors(within=30) == {}
        for folder in folders:
            assert not any(os.path.exists(root + folder) for root in CGROUP_ROOTS), folder


def test_what_a_killed_agent_has_left_goes_with_the_next_job(hvdray, script):
    """Launcher, agent and keeper die together, as on a remote host whose launcher can't get there."""
    spread = script("spread", SPREAD)
    job = hvdray.job("-np", "2", "--", spread)
    job.wait_for(lambda: len(workers(job, "spread")) >= 6, what="workers and grandchildren")
    keeper, agent = agents(job)
    with open(f"/proc/{agent}/cgroup") as f:
        own = [line.strip().split(":", 2)[2] for line in f if line.startswith("0::")]
    groups = [group for root in CGROUP_ROOTS for place in own
              for group in glob.glob(f"{root}{place.rstrip('/')}/hvdray-*-{agent}")]
    if not groups:
        pytest.skip("this user may create no cgroups here")
    for signo in signal.SIGSTOP, signal.SIGKILL:  # none of them sees another one's end
        send([job.pid, keeper, agent], signo)
    job.process.wait(60)
    assert job.processes(), "grandchildren in sessions of their own"
    assert hvdray.go("-np", "1", "--", "true").code == 0
    assert job.survivors(within=30) == {}
    wait_until(lambda: not any(map(os.path.exists, groups)), what="the end of their groups")


def test_the_loss_of_an_agent_is_said(hvdray):
    job = hvdray.job("-np", "2", "--", "sleep", "600")
    job.wait_for(lambda: len(workers(job, "sleep 600")) >= 2, what="workers")
    os.kill(agents(job)[1], signal.SIGKILL)
    result = job.wait(60)
    assert result.code == 125
    assert "localhost" in result.errors and "HVD-E0205" in result.errors, result.errors


def state_of(pid):
    """A letter of proc(5): T is stopped."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def test_stopping_the_launcher_with_tstp_lets_the_gang_go_on(hvdray, tmp_path):
    job = hvdray.job("-np", "1", "--heartbeat-timeout", "4", "--", "sh", "-c",
                     f"sleep 8; echo done > {tmp_path}/done")
    job.wait_for(lambda: workers(job, "sleep 8"), what="worker")
    os.kill(job.pid, signal.SIGTSTP)
    job.wait_for(lambda: state_of(job.pid) == "T", what="stopped launcher")
    assert b"the workers continue on all hosts" in job.process.stderr.readline()
    deadline = time.monotonic() + 60
    while not (tmp_path / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "done").exists()
    os.kill(job.pid, signal.SIGCONT)
    assert job.wait(60).code == 0


def test_tstp_does_not_wait_for_an_agent_that_does_not_read(hvdray):
    job = hvdray.job("-np", "1", "--stdin", "0", "--heartbeat-timeout", "600", "--", "sleep", "600",
                     stdin=subprocess.PIPE)
    job.wait_for(lambda: workers(job, "sleep 600"), what="worker")
    agent = agents(job)[1]
    os.kill(agent, signal.SIGSTOP)
    try:
        stdin = job.process.stdin.fileno()
        os.set_blocking(stdin, False)
        idle = 0

        def is_full():  # the launcher has more for the agent than their pipe holds, and takes no more
            nonlocal idle
            idle += 1
            with contextlib.suppress(BlockingIOError):
                while os.write(stdin, bytes(65536)) > 0:
                    idle = 0
            return idle == 30

        job.wait_for(is_full, what="full pipes")
        os.kill(job.pid, signal.SIGTSTP)
        job.wait_for(lambda: state_of(job.pid) == "T", what="stopped launcher")
        os.kill(job.pid, signal.SIGCONT)
    finally:
        os.kill(agent, signal.SIGCONT)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(60).code == 143


def spent_on_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("words", [("-np", "2"), ("--min-np", "2", "--host-discovery-script", "echo localhost:2")])
def test_a_parent_that_ignores_sigchld_does_no_harm(hvdray, words):
    before = spent_on_children()
    result = hvdray.go(*words, "--", "sh", "-c", "exit 7",
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert result.code == 7, result.errors
    assert spent_on_children() - before < 3, "it waits for its children, it does not spin"


def test_a_parent_that_blocks_signals_does_no_harm(hvdray):
    job = hvdray.job("-np", "1", "--", "sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done",
                     preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG)))
    job.wait_for(lambda: workers(job, "while"), what="worker")
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(60).code == 143


def test_nohup_is_respected(hvdray, tmp_path):
    job = hvdray.job("-np", "1", "--", "sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo ok",
                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    job.wait_for(lambda: workers(job, "until"), what="worker")
    os.kill(job.pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    result = job.wait(60)
    assert result.code == 0 and "ok" in result.text
