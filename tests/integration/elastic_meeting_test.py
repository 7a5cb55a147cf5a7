"""Workers of unmodified Horovod 0.28.1 that die within hvd.init(): until all have met, they are started again."""

import os
import random
import signal
import time

import pytest
from elastic import NAMES, check_training

AGAIN = "before all had met: it is started again"
ENV = {**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}  # so that nobody gets on by waiting for it


def ended(job, size):
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, size)
    return result


@pytest.mark.parametrize("size, victim", [(2, 0), (2, 1), (4, 0), (4, 2)])
def test_a_worker_that_dies_while_it_waits_for_the_first_meeting_is_started_again(elastic, size, victim):
    late = size - 1 if victim != size - 1 else 0
    job = elastic(faults=[{"at": "init", "host": NAMES[late], "how": "sleep:3"},
                          {"at": "init", "host": NAMES[victim], "how": "SIGKILL", "delay_ms": 1000}])
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", size, env=ENV)
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
    assert time.monotonic() - began < 40, "Gloo's timeout was waited for"


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
                          {"at": "interrupted", "host": NAMES[0], "entry": 1, "how": "sleep:3"}])
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", 1, env=ENV)
    job.wait_for(lambda: len(job.log("interrupted")) == size - 1, "the survivors on their way")
    pids = {entry["host"]: entry["pid"] for entry in job.log("interrupted")}
    time.sleep(1)
    os.kill(pids[NAMES[1]], signal.SIGSTOP)
    time.sleep(3)
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
    time.sleep(1)
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
    assert time.monotonic() - began < 20, "Gloo's timeout was waited for"
    check_training(job, ended=False)


@pytest.mark.parametrize("seed", range(6))
def test_a_death_at_any_moment_of_the_meeting_hangs_nobody(elastic, seed):
    delay_ms = random.Random(seed).randrange(120)
    job = elastic(faults=[{"at": "step", "rank": 3, "size": 4, "step": 12, "how": "SIGKILL"},
                          {"at": "interrupted", "host": NAMES[1], "entry": 1, "how": "SIGKILL",
                           "delay_ms": delay_ms}], steps=60)
    job.hosts(*NAMES[:4])
    env = {**ENV, "HOROVOD_GLOO_TIMEOUT_SECONDS": "6"}
    result = job.start("-np", 4, "--min-np", 1, env=env).wait()
    print(f"killed after {delay_ms} ms: code {result.code}, {AGAIN in result.errors}")
    assert result.code in (0, 134, 137), result.errors
    check_training(job, ended=result.code == 0)
