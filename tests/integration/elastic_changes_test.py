# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs of unmodified Horovod 0.28.1 whose hosts come, go and return."""

import os
import random
import re
import signal
import time

import pytest
from elastic import NAMES, ROOT, check_training

PATIENT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}


def started(job, size, *options, min_np=1, env=None, **kwargs):
    job.hosts(*NAMES[:size])
    job.start("-np", size, "--min-np", min_np, *options, env={**os.environ, **PATIENT, **(env or {})},
              **kwargs)
    job.wait_steps(size)
    return job


def ended(job, size, code=0):
    result = job.end()
    assert result.code == code, result.errors
    check_training(job, size)
    return result


def said(result, *all_words):
    for words in all_words:
        assert words in result.errors, result.errors


# ---- joins

@pytest.mark.parametrize("join", ["warm", "together"])
def test_a_host_that_the_script_adds_joins_while_the_job_trains(elastic, join):
    job = started(elastic(), 2, "--join", join)
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    last = [e["t"] for e in job.log("step", size=2)][-1]
    print(f"2 -> 3, {join}: paused for {job.standstill(last):.3f} s")
    result = ended(job, 3)
    said(result, f"host {NAMES[2]} joined with 1")


def test_the_old_gang_works_on_while_a_newcomer_imports(elastic):
    job = started(elastic(import_s=4), 2)
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    newcomer = job.log("imported", host=NAMES[2])[0]["t"]
    worked = [e for e in job.log("step", size=2) if newcomer < e["t"] < newcomer + 3]
    # Of 150 where nobody else needs the processor; 0 where they wait.
    assert len(worked) > 10, f"{len(worked)} steps in 3 s of its import"
    ended(job, 3)


@pytest.mark.parametrize("at", ["start", "imported"])
def test_a_newcomer_that_dies_on_its_way_is_no_event_for_the_others(elastic, at):
    job = started(elastic(faults=[{"at": at, "host": NAMES[2], "how": "SIGKILL"}]), 2)
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    result = ended(job, 3)
    said(result, "; restarting it")
    assert len(check_training(job)) == 2, "one change, not two"


def test_a_newcomer_that_dies_each_time_is_left_out_and_nobody_notices(elastic):
    job = started(elastic(faults=[{"at": "imported", "host": NAMES[2], "how": "exit:3", "times": 9}]), 2)
    job.hosts(*NAMES[:3])
    job.wait_for(lambda: len(job.log("fault")) == 2, "two tries")
    job.wait_steps(2, count=50)
    result = ended(job, 2)
    said(result, "excluding host")
    assert len(check_training(job)) == 1
    assert len(job.log("fault")) == 2


def test_more_slots_of_the_same_host_are_used(elastic):
    job = elastic()
    job.hosts("localhost:1", "127.0.0.1:1")
    job.start("-np", 2, "--min-np", 1)
    job.wait_steps(2)
    job.hosts("localhost:2", "127.0.0.1:1")
    job.wait_steps(3)
    ended(job, 3)
    assert {e["local_rank"] for e in job.log("start", host="localhost")} == {"0", "1"}


def test_max_np_is_never_passed_and_a_spare_host_takes_over(elastic):
    job = started(elastic(), 2, "--max-np", 2)
    job.hosts(*NAMES[:3])
    job.wait_steps(2, count=100)
    assert not job.log("start", host=NAMES[2])
    job.kill(1)
    job.wait_for(lambda: job.log("step", host=NAMES[2]), "a step of the spare host")
    result = ended(job, 2)
    said(result, NAMES[2])
    assert max(e["size"] for e in job.log("enter")) == 2


# ---- leaves and returns

@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_host_that_the_script_drops_leaves_without_being_a_failure(elastic, gone):
    job = started(elastic(), 3)
    job.hosts(*[name for n, name in enumerate(NAMES[:3]) if n != gone])
    job.wait_steps(2)
    result = ended(job, 2)
    said(result, f"host {NAMES[gone]} left with 1: discovery no longer lists it")


def test_fewer_slots_end_the_highest_local_ranks(elastic):
    job = elastic()
    job.hosts("localhost:2", "127.0.0.1:2")
    job.start("-np", 4, "--min-np", 1)
    job.wait_steps(4)
    pids = {e["rank"]: e["pid"] for e in job.living().values()}
    job.hosts("localhost:1", "127.0.0.1:2")
    job.wait_steps(3)
    assert {e["pid"] for e in job.living().values()} == {pids[0], pids[2], pids[3]}
    ended(job, 3)


def test_a_host_returns_after_its_cooldown_although_all_are_needed(elastic):
    job = started(elastic(), 2, "--blacklist-cooldown-range", 1, 2, min_np=2)
    job.kill(1)
    job.wait_for(lambda: len({e["gang"] for e in job.log("enter")}) == 2, "a second gang")
    job.wait_steps(2)
    result = ended(job, 2)
    said(result, "SIGKILL")


def test_a_failed_host_stays_out_without_a_cooldown(elastic):
    job = started(elastic(), 3)
    job.kill(2)
    job.wait_steps(2, count=100)
    ended(job, 2)
    assert len(job.log("start", host=NAMES[2])) == 1


def test_a_host_that_leaves_and_comes_back_joins_again(elastic):
    job = started(elastic(), 2)
    for _ in range(2):
        job.hosts(NAMES[0])
        job.wait_steps(1)
        job.hosts(*NAMES[:2])
        job.wait_steps(2)
    ended(job, 2)


def test_a_preempted_host_leaves_with_notice(elastic):
    job = started(elastic(), 3)
    os.kill(job.agents()[NAMES[1]], signal.SIGTERM)
    job.wait_steps(2)
    result = ended(job, 2)
    said(result, f"host {NAMES[1]} left with 1: it was told to leave")
    assert "SIGKILL" not in result.errors
    # Called at a commit: nothing of the training was lost.
    last_of_three = max(e["step"] for e in job.log("step", size=3))
    first_of_two = min(e["step"] for e in job.log("step", size=2))
    assert first_of_two == last_of_three + 1


def test_a_machine_that_goes_away_is_said_with_its_time(elastic, hvdray, tmp_path):
    """By a user whose agents are of this job alone. All hosts are one machine here: all leave."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    job = started(elastic(), 2, env={"XDG_RUNTIME_DIR": str(run)})
    told = hvdray.run("--leave", 20, binary=hvdray.agent, env={**os.environ, "XDG_RUNTIME_DIR": str(run)})
    assert told.code == 0 and "notified 2 agents" in told.text, (told.text, told.errors)
    result = job.wait()
    assert result.code != 0, "nobody is left to go on"
    said(result, f"host {NAMES[0]} leaves in 20 s", f"host {NAMES[1]} leaves in 20 s")


def test_workers_registered_behind_a_proxy_setting_hear_of_changes(elastic):
    proxy = {name: "http://127.0.0.1:9" for name in ("http_proxy", "HTTP_PROXY", "all_proxy")}
    job = started(elastic(), 1, env=proxy)
    job.hosts(*NAMES[:2])
    job.wait_steps(2)
    ended(job, 2)


# ---- other sources of hosts

def test_a_hostfile_is_watched(elastic, tmp_path):
    file = tmp_path / "hostfile"
    job = elastic()

    def write(*names):
        (tmp_path / "new").write_text("".join(f"{name} slots=1\n" for name in names))
        (tmp_path / "new").rename(file)

    write(*NAMES[:2])
    job.start("--hostfile", file, "-np", 2, "--min-np", 1, script=False)
    job.wait_steps(2)
    write(*NAMES[:3])
    job.wait_steps(3)
    write(*NAMES[1:3])
    job.wait_steps(2)
    ended(job, 2)


def test_a_list_that_cannot_change_goes_on_with_what_is_left(elastic):
    job = elastic()
    job.start("-H", "localhost:1,127.0.0.1:1,127.1:1", "-np", 3, "--min-np", 2, script=False,
              env={**os.environ, **PATIENT})
    job.wait_steps(3)
    job.kill(1)
    job.wait_steps(2)
    job.kill(1)
    result = job.wait()
    assert result.code == 125, result.errors
    said(result, "no more can come")
    assert "waiting up to" not in result.errors


def test_a_recorded_job_is_replayed(elastic, hvdray, tmp_path):
    record = tmp_path / "record"
    job = started(elastic(), 3, "--record", record)
    job.kill(1)
    job.wait_steps(2)
    ended(job, 2)
    replayed = hvdray.run("replay", record)
    assert replayed.code == 0, replayed.errors
    assert "generation 2" in replayed.text


# ---- many

def test_twenty_changes(elastic):
    """Joins, leaves and deaths in a random order, one after the other as soon as it has been answered."""
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    job = started(elastic(step_s=0.01, commit_every=3), 3, "--blacklist-cooldown-range", 1, 1)
    listed = list(NAMES[:3])
    began, kills = time.monotonic(), 0
    for number in range(20):
        can = ["kill"] if len(listed) > 1 else []
        can += ["drop"] if len(listed) > 2 else []
        can += ["add"] if len(listed) < 4 else []
        what = rng.choice(can)
        print(f"seed {seed}: change {number}: {what}, {len(listed)} hosts", flush=True)
        gangs = len({e["gang"] for e in job.log("enter")})
        if what == "add":
            listed.append(next(name for name in NAMES[:4] if name not in listed))
            job.hosts(*listed)
        elif what == "drop":
            listed.remove(rng.choice(listed))
            job.hosts(*listed)
        else:
            kills += 1
            rank = rng.randrange(len(listed))
            job.wait_for(lambda: rank in job.living(), f"rank {rank}")
            job.kill(rank)
        job.wait_for(lambda: len({e["gang"] for e in job.log("enter")}) > gangs, "the next gang")
        job.wait_steps(len(listed))
    print(f"20 changes, {kills} of them deaths: {time.monotonic() - began:.1f} s")
    ended(job, len(listed))


# ---- the example

def test_the_digits_train_on_through_a_join_and_a_loss(elastic, horovod_python, tmp_path):
    job = elastic()
    command = [horovod_python, ROOT / "examples/elastic_digits_horovod.py", "--epochs", 12,
               "--step-s", "0.03"]  # long enough for a newcomer's imports on a busy machine
    job.hosts(*NAMES[:2])
    with open(tmp_path / "out", "wb") as out:
        job.start("-np", 2, "--min-np", 2, "--max-np", 3, command=command, stdout=out)

    def told(words):
        return lambda: re.search(words, (tmp_path / "out").read_text())

    job.wait_for(told("of 2 goes on at step 0"), "two workers")
    job.hosts(*NAMES[:3])
    job.wait_for(told(r"of 3 goes on at step \d"), "three workers")
    victim = max(pid for pid in job.job.find("elastic_digits_horovod.py")
                 if is_worker(pid))
    os.kill(victim, signal.SIGKILL)
    job.wait_for(told(r"of 2 goes on at step [1-9]"), "two workers again")
    result = job.wait()
    assert result.code == 0, result.errors
    text = (tmp_path / "out").read_text()
    done = re.findall(r"done: rank (\d) of 2, (step \d+, model \w+)", text)
    assert sorted(rank for rank, _ in done) == ["0", "1"] and len({end for _, end in done}) == 1, text
    assert float(re.search(r"test accuracy ([\d.]+) %", text)[1]) > 85, text


def is_worker(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return (b"HOROVOD_GLOO_RENDEZVOUS_PORT=" in f.read()
                and "python" in os.readlink(f"/proc/{pid}/exe"))
