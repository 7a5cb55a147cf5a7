# SPDX-License-Identifier: Apache-2.0
"""Workers of unmodified Horovod 0.28.1 that die within hvd.init(): until all have met, they are started again."""

import os
import random
import signal
import time

import pytest
from elastic import HANG_S, NAMES, check_training, seeds

AGAIN = "before all workers had arrived; restarting it"
# So that nobody gets on by waiting for it; nothing else takes as long as MUCH_S, on a busy machine either.
ENV = {**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "300"}
MUCH_S = 150


def number_of(job, pid):
    return job.wait_for(lambda: job.events("worker_started", pid=pid), "its start")[0]["worker"]


def replace_killed(job, host):
    """Kills the newest worker of that host while it waits in hvd.init(); returns when another one is started."""
    pid = job.wait_for(lambda: job.log("init", host=host), "it is on its way")[-1]["pid"]
    number = number_of(job, pid)
    job.wait_for(lambda: job.events("worker_met", worker=number), "it waits for the others")
    os.kill(pid, signal.SIGKILL)
    job.wait_for(lambda: job.events("worker_replaced", worker=number), "another one takes its place")


def stop_on_the_way(job, pid):
    """SIGSTOP for one that has asked for its next rank."""
    number = number_of(job, pid)
    job.wait_for(lambda: job.events("rank_asked", worker=number), "it asks for its rank")
    os.kill(pid, signal.SIGSTOP)


def ended(job, size):
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, size)
    return result


@pytest.mark.parametrize("size, victim", [(2, 0), (2, 1), (4, 0), (4, 2)])
def test_a_worker_that_dies_while_it_waits_for_the_first_meeting_is_started_again(elastic, size, victim):
    late = size - 1 if victim != size - 1 else 0
    job = elastic(faults=[{"at": "init", "host": NAMES[late], "how": "until:go"}])
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", size, "--events", job.folder / "events", env=ENV)
    replace_killed(job, NAMES[victim])
    (job.folder / "go").touch()
    job.wait_steps(size)
    result = ended(job, size)
    assert AGAIN in result.errors and "generation 2" not in result.errors, result.errors


def test_a_worker_that_dies_on_its_way_to_the_first_meeting_is_started_again(elastic):
    job = elastic(faults=[{"at": "imported", "host": NAMES[1], "how": "sleep:2"},
                          {"at": "init", "host": NAMES[1], "how": "exit:3"}])
    job.hosts(*NAMES[:3])
    job.start("-np", 3, "--min-np", 1, env=ENV)
    job.wait_steps(3)
    result = ended(job, 3)
    assert "exited with code 3 " + AGAIN in result.errors, result.errors


def test_a_program_that_fails_again_ends_the_job_with_its_code_and_at_once(elastic):
    job = elastic(faults=[{"at": "imported", "host": NAMES[1], "how": "sleep:2", "times": 2},
                          {"at": "init", "host": NAMES[1], "how": "exit:3", "times": 2}])
    job.hosts(*NAMES[:3])
    began = time.monotonic()
    result = job.start("-np", 3, "--min-np", 1, env=ENV).wait()
    assert result.code == 3 and AGAIN in result.errors, result.errors
    assert time.monotonic() - began < MUCH_S, "Gloo's timeout was waited for"


def test_slow_imports_do_not_run_into_the_timeout_of_gloo(elastic):
    job = elastic(faults=[{"at": "init", "host": NAMES[1], "how": "sleep:12"}])
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 2, env={**ENV, "HOROVOD_GLOO_TIMEOUT_SECONDS": "8"})
    job.wait_steps(2)
    ended(job, 2)


def stopped_in_the_second_meeting(elastic, size):
    """All but the last host are released into generation 2; that on NAMES[1] is stopped in front of it, so
    that the others wait there. Returns the job and the pids by host."""
    job = elastic(faults=[{"at": "step", "host": NAMES[size - 1], "size": size, "step": 12, "how": "SIGKILL"},
                          {"at": "interrupted", "host": NAMES[0], "entry": 1, "how": "until:go"}])
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", 1, "--events", job.folder / "events", env=ENV)
    job.wait_for(lambda: len(job.log("interrupted")) == size - 1, "the survivors on their way")
    pids = {entry["host"]: entry["pid"] for entry in job.log("interrupted")}
    stop_on_the_way(job, pids[NAMES[1]])
    (job.folder / "go").touch()
    others = [pids[name] for name in (NAMES[0], *NAMES[2:size - 1])]
    for number in (number_of(job, pid) for pid in others):
        job.wait_for(lambda n=number: len(job.events("worker_met", worker=n)) == 2, "the others wait for it")
    return job, pids


@pytest.mark.parametrize("size", [3, 4])
def test_a_survivor_that_dies_before_it_said_where_it_is_is_started_again(elastic, size):
    job, pids = stopped_in_the_second_meeting(elastic, size)
    os.kill(pids[NAMES[1]], signal.SIGKILL)
    job.wait_steps(size - 1)
    result = ended(job, size - 1)
    assert AGAIN in result.errors and f"generation 2: {size - 1} workers" in result.errors, result.errors
    assert "generation 3" not in result.errors, result.errors


def test_a_survivor_that_dies_when_it_has_said_where_it_is_is_started_again(elastic):
    job, pids = stopped_in_the_second_meeting(elastic, 4)
    os.kill(pids[NAMES[2]], signal.SIGKILL)
    job.wait_for(lambda: job.events("worker_replaced"), "another one takes its place")
    os.kill(pids[NAMES[1]], signal.SIGCONT)
    job.wait_steps(3)
    result = ended(job, 3)
    assert AGAIN in result.errors and "generation 3" not in result.errors, result.errors


def test_who_has_the_state_is_not_replaced(elastic):
    """Rank 0 broadcasts it: a new process there would begin at step 0 and take all others with it."""
    job, pids = stopped_in_the_second_meeting(elastic, 4)
    began = time.monotonic()
    os.kill(pids[NAMES[0]], signal.SIGKILL)
    result = job.wait()
    assert result.code == 137 and AGAIN not in result.errors, result.errors
    assert time.monotonic() - began < MUCH_S, "Gloo's timeout was waited for"
    check_training(job, ended=False)


def kill_while_they_connect(job, generation, rank, delay_ms):
    """Kills the worker of that rank so long after all of the generation were given their addresses. Returns
    its host, and when that was."""
    deadline = time.monotonic() + HANG_S
    while not job.events("meeting_opened", generation=generation):
        if time.monotonic() > deadline or job.job.process.poll() is not None:
            job.wait_for(lambda: False, "the meeting is opened", within=0)  # tells what everybody did
        time.sleep(0.001)
    place = job.events("generation", generation=generation)[0]["ranks"][rank]
    pid = job.events("worker_started", worker=place["worker"])[0]["pid"]
    time.sleep(delay_ms / 1000)
    os.kill(pid, signal.SIGKILL)
    return place["host"], time.monotonic()


def fell_apart(job, generation, size):
    """Whether the death came before all of the generation had connected, as the job was told."""
    dead = job.events("worker_exited", signal="SIGKILL")[-1]["time"]
    opened = job.events("meeting_opened", generation=generation)[0]["time"]
    connected = [e for e in job.events("worker_connected") if opened < e["time"] < dead]
    return len(connected) < size


def fell_apart_when_told(job, generation, size):
    job.wait_for(lambda: job.events("worker_exited", signal="SIGKILL"), "the death is known")
    return fell_apart(job, generation, size)


@pytest.mark.parametrize("seed", seeds(6))
def test_a_death_while_the_first_gang_connects_costs_another_start(elastic, seed):
    """Whoever came out of hvd.init() goes on; where nobody did, nobody has a state, and all begin again."""
    size = 2 + seed % 3
    dice = random.Random(seed)
    delay_ms, rank = dice.randrange(120), dice.randrange(size)
    job = elastic()
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", 1, "--events", job.folder / "events", env=ENV)
    host, _ = kill_while_they_connect(job, 1, rank, delay_ms)
    left = size if fell_apart_when_told(job, 1, size) else size - 1
    job.wait_steps(left)
    took = job.events("generation", generation=2)[0]["time"] - job.events("worker_exited")[0]["time"]
    result = ended(job, left)
    print(f"rank {rank} of {size} killed after {delay_ms} ms: {left} begin {took:.2f} s later")
    assert took < MUCH_S, "Gloo's timeout was waited for"
    assert f"rank {rank} on host {host} was killed by SIGKILL" in result.errors, result.errors
    if left == size:
        assert "no state to keep yet" in result.errors, result.errors


def test_a_gang_begins_again_once(elastic):
    for _ in range(5):
        job = elastic()
        job.hosts(*NAMES[:3])
        job.start("-np", 3, "--min-np", 1, "--events", job.folder / "events", env=ENV)
        kill_while_they_connect(job, 1, 2, 5)
        host, killed = kill_while_they_connect(job, 2, 1, 5)
        job.let_end()  # On a busy machine, a gang may have connected before we kill: then once more.
        result = job.wait()
        if result.code == 137 and "no state to keep yet" in result.errors:
            break
    assert result.code == 137 and time.monotonic() - killed < MUCH_S, result.errors
    check_end_of_a_gang(result, 1, host)


def check_end_of_a_gang(result, rank, host):
    """That one is blamed, with the reason why all ended, and not those that Horovod aborted."""
    assert f"rank {rank} on host {host} was killed by SIGKILL (signal 9)" in result.errors, result.errors
    assert "Horovod can't recover from a loss while its workers connect" in result.errors, result.errors
    assert result.code == 137, result.errors
    assert "stopped because of it" in result.errors, result.errors


@pytest.mark.parametrize("seed", seeds(10, take=3))
def test_a_death_while_a_later_gang_connects_ends_it_at_once_and_plainly(elastic, seed):
    dice = random.Random(100 + seed)
    delay_ms, rank = dice.randrange(120), dice.randrange(3)
    job = elastic(faults=[{"at": "step", "rank": 3, "size": 4, "step": 12, "how": "SIGKILL"}], steps=60)
    job.hosts(*NAMES[:4])
    job.start("-np", 4, "--min-np", 1, "--events", job.folder / "events", env=ENV)
    host, killed = kill_while_they_connect(job, 2, rank, delay_ms)
    check_death_in_a_later_meeting(job, rank, host, killed, size=3)


def check_death_in_a_later_meeting(job, rank, host, killed, size):
    result = job.wait()
    took = time.monotonic() - killed
    print(f"rank {rank} killed: code {result.code} after {took:.2f} s, events "
          f"{len(job.events('worker_connected'))} connected")
    check_training(job, ended=result.code == 0)
    assert took < MUCH_S, "Gloo's timeout was waited for"
    if not fell_apart(job, 2, size):
        assert result.code in (0, 137), result.errors
        return
    assert result.code == 137, result.errors
    check_end_of_a_gang(result, rank, host)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_death_while_an_enlarged_gang_connects(elastic, seed):
    """The newcomer, at first; then any of them."""
    dice = random.Random(200 + seed)
    delay_ms, rank = dice.randrange(120), 2 if seed < 2 else dice.randrange(3)
    job = elastic()
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 1, "--max-np", 3, "--events", job.folder / "events", env=ENV)
    job.wait_steps(2)
    job.hosts(*NAMES[:3])
    host, killed = kill_while_they_connect(job, 2, rank, delay_ms)
    job.let_end()
    check_death_in_a_later_meeting(job, rank, host, killed, size=3)


def test_a_newcomer_that_dies_before_the_enlarged_gang_has_met_is_started_again(elastic):
    job = elastic(faults=[{"at": "interrupted", "host": NAMES[0], "entry": 1, "how": "until:go"}])
    job.hosts(*NAMES[:3])
    job.start("-np", 3, "--min-np", 1, "--max-np", 4, "--events", job.folder / "events", env=ENV)
    job.wait_steps(3)
    job.hosts(*NAMES[:4])
    job.wait_for(lambda: len(job.log("interrupted")) == 3, "the old ones are on their way")
    pids = {entry["host"]: entry["pid"] for entry in job.log("interrupted")}
    stop_on_the_way(job, pids[NAMES[1]])
    (job.folder / "go").touch()
    replace_killed(job, NAMES[3])
    os.kill(pids[NAMES[1]], signal.SIGCONT)
    job.wait_steps(4)
    result = ended(job, 4)
    assert AGAIN in result.errors and "generation 3" not in result.errors, result.errors
    assert len(job.events("worker_connected")) == 3 + 4


@pytest.mark.parametrize("seed", seeds(6))
def test_a_death_at_any_moment_of_the_meeting_hangs_nobody(elastic, seed):
    delay_ms = random.Random(seed).randrange(120)
    job = elastic(faults=[{"at": "step", "rank": 3, "size": 4, "step": 12, "how": "SIGKILL"},
                          {"at": "interrupted", "host": NAMES[1], "entry": 1, "how": "SIGKILL",
                           "delay_ms": delay_ms}], steps=60)
    job.hosts(*NAMES[:4])
    began = time.monotonic()
    result = job.start("-np", 4, "--min-np", 1, env=ENV).wait()
    print(f"killed after {delay_ms} ms: code {result.code}, {AGAIN in result.errors}")
    assert result.code in (0, 137), result.errors
    assert time.monotonic() - began < MUCH_S, "Gloo's timeout was waited for"
    check_training(job, ended=result.code == 0)
