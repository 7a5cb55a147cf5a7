# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs of unmodified Horovod 0.28.1 over real sshd: hosts that fail, freeze, vanish and return."""

import json
import os
import signal
import time

import pytest
from elastic import Elastic, check_held, check_training, waited

PATIENT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}


@pytest.fixture
def remote(hvdray_at_launcher, horovod_python, tmp_path):
    """Makes elastic jobs at the launcher's place: remote(**plan)."""
    def make(**plan):
        return Elastic(hvdray_at_launcher.job, horovod_python, tmp_path / "elastic", **plan)
    return make


def started(job, names, *options, min_np=1, env=None):
    job.hosts(*names)
    size = sum(int(name.partition(":")[2] or 1) for name in names)
    job.start("-np", size, "--min-np", min_np, *options, env={**os.environ, **PATIENT, **(env or {})})
    job.wait_steps(size)
    return job


def ended(job, size, code=0):
    result = job.end()
    assert result.code == code, result.errors
    check_training(job, size)
    return result


def said(result, *words):
    for word in words:
        assert word in result.errors, result.errors


def agent_of(hosts, name):
    """The agent's process on a host: the parent of the workers there."""
    workers = [pid for pid, line in hosts.processes(name).items() if "elastic_worker.py" in line]
    with open(f"/proc/{workers[0]}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def ours(hosts, name):
    """Agent and workers on a host."""
    return {pid: line for pid, line in hosts.processes(name).items()
            if "hvdray-agent" in line or "elastic_worker.py" in line}


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_a_killed_worker_on_another_host(remote, hosts, victim):
    names = ["h1", "h2", "h3", "h6"]
    job = started(remote(), names)
    died = job.kill(victim)
    job.wait_steps(3)
    print(f"4 -> 3: paused for {job.standstill(died):.3f} s")
    result = ended(job, 3)
    assert not waited(result)
    said(result, f"host {names[victim]} left with 1", "SIGKILL")


def test_two_workers_a_host(remote):
    job = started(remote(), ["h1:2", "h2:2"])
    job.kill(2)
    job.wait_steps(2)
    result = ended(job, 2)
    said(result, "host h2 left with 2")


def test_a_killed_agent_takes_only_its_host(remote, hosts):
    job = started(remote(), ["h1", "h2", "h6"])
    at = time.monotonic()
    os.kill(agent_of(hosts, "h2"), signal.SIGKILL)
    job.wait_steps(2)
    print(f"3 -> 2: paused for {job.standstill(at):.3f} s")
    assert hosts.leftovers("h2", within=30) == {}
    result = ended(job, 2)
    said(result, "host h2 left with 1")


def test_a_host_that_is_cut_off_is_given_up(remote, hosts):
    job = started(remote(), ["h1", "h2", "h6"], "--heartbeat-timeout", 8)
    at = time.monotonic()
    hosts.cut("h2")
    job.wait_steps(2)
    print(f"3 -> 2, cut off: paused for {job.standstill(at):.3f} s")
    # It cannot be told, and ends its workers by itself. (Its sshd hears of nothing.)
    deadline = time.monotonic() + 60
    while ours(hosts, "h2") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not ours(hosts, "h2")
    result = ended(job, 2)
    assert not waited(result)
    said(result, "host h2")


def test_a_frozen_host_is_given_up_and_clears_itself_when_it_thaws(remote, hosts):
    job = started(remote(), ["h1", "h2", "h3", "h6"], "--heartbeat-timeout", 8)
    at = time.monotonic()
    hosts.freeze("h2")
    job.wait_steps(3)
    print(f"4 -> 3, frozen: paused for {job.standstill(at):.3f} s")
    hosts.thaw("h2")
    assert hosts.leftovers("h2", within=30) == {}
    ended(job, 3)


def test_a_host_returns_after_its_cooldown_although_all_are_needed(remote, hosts):
    job = started(remote(), ["h1", "h2"], "--blacklist-cooldown-range", 1, 2, min_np=2)
    os.kill(agent_of(hosts, "h2"), signal.SIGKILL)
    job.wait_for(lambda: len({e["gang"] for e in job.log("enter")}) == 2, "a second gang")
    job.wait_steps(2)
    ended(job, 2)


def test_hosts_are_added_and_dropped_by_the_script(remote, hosts):
    job = started(remote(), ["h1", "h2"])
    job.hosts("h1", "h2", "h3:2")
    job.wait_steps(4)
    job.hosts("h2", "h3:2")
    job.wait_steps(3)
    assert hosts.leftovers("h1", within=60) == {}
    result = ended(job, 3)
    said(result, "host h3 joined with 2", "host h1 left with 1: discovery no longer lists it")


def test_a_host_that_cannot_be_reached_costs_nothing_and_joins_when_it_can(remote, hosts):
    hosts.stop_sshd("h6")
    job = remote()
    started(job, ["h1", "h2"], "--blacklist-cooldown-range", 1, 1, "--events", job.folder / "events")
    job.hosts("h1", "h2", "h6")
    job.wait_for(lambda: len(job.events("host_lost", host="h6")) == 2, "two tries")
    job.wait_steps(2)
    assert len({e["gang"] for e in job.log("enter")}) == 1
    hosts.start_sshd("h6")
    job.wait_steps(3)
    result = ended(job, 3)
    said(result, "h6")


def test_what_the_workers_hold_between_hosts_is_left_alone(remote):
    job = started(remote(hold="all"), ["h1", "h2", "h3", "h6"])
    job.kill(1)
    job.wait_steps(3, count=10)
    ended(job, 3)
    assert [entry["echoes"] for entry in check_held(job)] == [2, 2, 2]


def test_a_preempted_host_leaves_with_notice(remote, hosts):
    job = started(remote(), ["h1", "h2", "h6"])
    os.kill(agent_of(hosts, "h2"), signal.SIGTERM)
    job.wait_steps(2)
    assert hosts.leftovers("h2", within=60) == {}
    result = ended(job, 2)
    said(result, "host h2 left with 1: it was told to leave")
    assert max(e["step"] for e in job.log("step", size=3)) + 1 == min(
        e["step"] for e in job.log("step", size=2)), "training was lost"


def test_a_remote_host_that_joins_workers_bound_to_lo(remote):
    """Who listens at lo is not reached from elsewhere: no worker may be started to find that out."""
    job = remote()
    started(job, ["localhost"], "--network-interfaces", "lo", "--events", job.folder / "events")
    job.hosts("localhost", "h1")
    job.wait_for(lambda: job.events("host_lost", host="h1"), "h1 is left out")
    job.wait_steps(1)
    said(ended(job, 1), "h1")
    assert len(check_training(job)) == 1


def test_a_remote_host_joins_a_job_that_began_at_home(remote):
    """Without a word about interfaces the job begins on lo, and has to get on with what comes."""
    job = started(remote(), ["localhost"])
    job.hosts("localhost", "h1")
    job.wait_steps(2)
    said(ended(job, 2), "host h1 joined with 1")


def test_a_killed_launcher_leaves_nothing_on_any_host(remote, hosts):
    job = started(remote(), ["h1", "h2", "h3"])
    os.kill(job.job.pid, signal.SIGKILL)
    job.job.process.wait(60)
    assert hosts.leftovers(within=60) == {}


def test_the_report_tells_of_each_generation(remote, tmp_path):
    report, events = tmp_path / "report.json", tmp_path / "events"
    job = started(remote(), ["h1", "h2", "h6"], "--report", report, "--events", events)
    job.kill(2)
    job.wait_steps(2)
    job.hosts("h1", "h2", "h3", "h6")
    job.wait_steps(3)
    ended(job, 3)
    told = json.loads(report.read_text())
    assert told["exit"]["code"] == 0
    first, loss, *_, last = told["memberships"]
    assert (first["size"], loss["size"], last["size"]) == (3, 2, 3)
    assert loss["changes"][0]["host"] == "h6" and "SIGKILL" in loss["changes"][0]["why"]
    # Of three, both survivors are neighbours of the dead one: they may have closed all by themselves.
    assert loss["connections_refused"] == 0
    assert 0 < loss["stood_still_s"] <= told["stood_still_s"]
    assert {"host": "h3", "workers": 1, "why": ""} in last["changes"]
    written = [json.loads(line) for line in events.read_text().splitlines()]
    sizes = [line["size"] for line in written if line["event"] == "membership"]
    assert sizes == [entry["size"] for entry in told["memberships"]]
