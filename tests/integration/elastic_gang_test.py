# SPDX-License-Identifier: Apache-2.0
"""--elastic-mode gang: every change stops all workers and starts them anew; no Horovod."""

import json
import os
import re
import signal
import sys

import pytest
from conftest import rest
from elastic import NAMES, ROOT
from hosts_processes import wait_until


@pytest.fixture
def gang(elastic):
    """Makes jobs of a plain script."""
    def make(**plan):
        return elastic(python=sys.executable, worker="elastic_gang_worker.py", **plan)
    return make


def started(job, size, *options, min_np=1):
    job.hosts(*NAMES[:size])
    job.start("--elastic-mode", "gang", "-np", size, "--min-np", min_np, *options)
    wait_running(job, size, 0)
    return job


def running(job, restart):
    """rank: entry, for the workers of that start which live."""
    return {e["rank"]: e for e in job.log("start", restart=restart) if os.path.exists(f"/proc/{e['pid']}")}


def wait_running(job, size, restart, port=None):
    def all_there():
        found = running(job, restart)
        good = sorted(found) == list(range(size)) and {e["size"] for e in found.values()} == {size}
        return found if good and all(
            e["environment"]["MASTER_PORT"] != port for e in found.values()) else None

    return job.wait_for(all_there, f"{size} workers of restart {restart}")


def port_of(found):
    ports = {e["environment"]["MASTER_PORT"] for e in found.values()}
    assert len(ports) == 1, ports
    return ports.pop()


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_killed_worker_restarts_all_with_torchruns_variables(gang, rank):
    job = started(gang(), 3, "--max-restarts", 2, min_np=3)
    before = running(job, 0)
    agents = job.agents()
    os.kill(before[rank]["pid"], signal.SIGKILL)
    after = wait_running(job, 3, 1)
    assert not set(e["pid"] for e in before.values()) & set(e["pid"] for e in after.values())
    assert port_of(before) != port_of(after), "two generations must not meet"
    assert job.agents() == agents, "agents stay up"
    for number, entry in after.items():
        environment = entry["environment"]
        assert environment["TORCHELASTIC_RESTART_COUNT"] == "1"
        assert environment["TORCHELASTIC_MAX_RESTARTS"] == "2"
        assert environment["RANK"] == environment["HOROVOD_RANK"] == str(number)
        assert environment["WORLD_SIZE"] == "3"
    result = job.end()
    assert result.code == 0, result.errors
    assert "restart 1 of 2" in result.errors


def test_no_more_restarts_than_allowed(gang):
    job = gang(faults=[{"at": "step", "rank": 1, "how": "exit:9", "times": 9}])
    job.hosts(*NAMES[:2])
    result = job.start("--elastic-mode", "gang", "-np", 2, "--min-np", 2, "--max-restarts", 2).wait()
    assert result.code == 9, result.errors
    assert len(job.log("fault")) == 3


def test_a_change_of_hosts_restarts_all_and_counts_as_no_failure(gang):
    job = started(gang(), 2)
    port = port_of(running(job, 0))
    job.hosts(*NAMES[:4])
    found = wait_running(job, 4, 0, port)
    job.hosts(*NAMES[1:4])
    wait_running(job, 3, 0, port_of(found))
    result = job.end()
    assert result.code == 0, result.errors


def test_a_lost_agent_restarts_the_others(gang):
    job = started(gang(), 3, "--max-restarts", 1)
    os.kill(job.agents()[NAMES[2]], signal.SIGKILL)
    job.wait_for(lambda: {e["size"] for e in job.log("start")} == {2, 3}, "two workers")
    result = job.end()
    assert result.code == 0, result.errors


def test_a_preempted_host_leaves_the_gang(gang):
    job = started(gang(), 3)
    os.kill(job.agents()[NAMES[1]], signal.SIGTERM)
    job.wait_for(lambda: {e["size"] for e in job.log("start")} == {2, 3}, "two workers")
    result = job.end()
    assert result.code == 0, result.errors


def with_script(hvdray, script, tmp_path, body, *options):
    """A gang of one plain worker per slot, which ends once `body` has run 20 times."""
    find = script("find", f"#!/bin/sh\necho x >> {tmp_path}/calls; n=$(wc -l < {tmp_path}/calls)\n{body}\n")
    job = hvdray.job("-np", "1", "--min-np", "1", "--elastic-mode", "gang", "--discovery-interval", "0.1", *options,
                     "--host-discovery-script", find, "--", "sh", "-c",
                     f"echo begun; until [ -e {tmp_path}/end ]; do sleep 0.1; done")
    calls = tmp_path / "calls"
    wait_until(lambda: job.process.poll() is not None or calls.exists() and len(calls.read_text()) >= 40,
               what="20 runs of the script")
    (tmp_path / "end").touch()
    return job.wait()


def test_a_host_that_flaps_does_not_restart_the_gang(hvdray, script, tmp_path):
    result = with_script(hvdray, script, tmp_path, "echo localhost:1; [ $((n % 2)) = 1 ] || echo 127.0.0.1:1", "--settle", 60)
    assert result.code == 0, result.errors
    assert result.text.count("begun") == 1, result.errors


def test_a_host_that_flaps_reaches_the_reset_limit(hvdray, script, tmp_path):
    result = with_script(hvdray, script, tmp_path, "echo localhost:1; [ $((n / 4 % 2)) = 0 ] || echo 127.0.0.1:1",
                         "--settle", 0, "--reset-limit", 1)
    assert result.code == 1 and "HVD-E0309" in result.errors, result.errors


def test_each_reason_why_discovery_fails_is_told(hvdray, script, tmp_path):
    result = with_script(hvdray, script, tmp_path, "[ $n = 1 ] && echo localhost:1 && exit 0; exit $((n % 2 + 3))")
    assert result.code == 0, result.errors
    for code in 3, 4:
        assert result.errors.count(f"exited with code {code}") == 1, result.errors


def test_max_restarts_is_not_for_horovods_way(hvdray):
    result = hvdray.go("--min-np", 1, "-np", 1, "-H", "localhost:1", "--elastic-mode", "sideways", "true")
    assert result.code == 2, result.errors


@pytest.mark.parametrize("with_script", [True, *rest(False)])
def test_the_torch_example_goes_on_from_its_checkpoint(elastic, horovod_python, tmp_path, with_script):
    job = elastic()
    checkpoint = tmp_path / "checkpoint.pt"
    command = [horovod_python, ROOT / "examples/elastic_torch.py", "--checkpoint", checkpoint,
               "--step-s", "0.03", "--steps", "300"]
    job.hosts("localhost:2", "127.0.0.1:1")
    source = [] if with_script else ["-H", "localhost:2,127.0.0.1:1"]
    job.start("--elastic-mode", "gang", "-np", 3, "--min-np", 2, "--max-restarts", 1, *source,
              command=command, script=with_script)
    job.wait_for(checkpoint.exists, "a checkpoint")
    worker = next(pid for pid in job.job.find("elastic_torch.py") if "python" in
                  os.readlink(f"/proc/{pid}/exe"))
    os.kill(worker, signal.SIGKILL)
    result = job.wait()
    assert result.code == 0, result.errors
    steps = [int(step) for step in re.findall(r"goes on at step (\d+)", result.text)]
    assert steps[:3] == [0, 0, 0] and len(steps) == 6 and min(steps[3:]) == max(steps[3:]) >= 10, steps
    done = re.findall(r"done: rank (\d) of 3, step 300, model (\w+)", result.text)
    assert sorted(rank for rank, _ in done) == ["0", "1", "2"] and len({m for _, m in done}) == 1, done


def test_hosts_that_are_lost_leave_no_descriptor_behind(gang):
    job = started(gang(), 2, "--blacklist-cooldown-range", 1, 2)
    folder = f"/proc/{job.job.pid}/fd"
    before = min(len(os.listdir(folder)) for _ in range(200))  # a discovery script comes and goes
    for number in range(1, 4):
        os.kill(job.agents()[NAMES[1]], signal.SIGKILL)
        # By its new worker: an orphan of the lost agent has the keeper as its parent for a moment.
        job.wait_for(lambda least=number: sum(e["host"] == NAMES[1] for e in job.log("start")) > least, "a new agent")
    job.wait_for(lambda: len(os.listdir(folder)) <= before, "as few descriptors as before")
    assert job.end().code == 0


def test_np_of_the_report_is_what_was_asked_for(hvdray, tmp_path):
    """Not what the last generation had: two slots take two workers here."""
    report = tmp_path / "report.json"
    result = hvdray.go("-np", "1", "--min-np", "1", "--max-np", "2", "-H", "localhost:2",
                       "--elastic-mode", "gang", "--report", report, "--", "true")
    assert result.code == 0, result.errors
    page = json.loads(report.read_text())
    assert (page["np"], len(page["workers"])) == (1, 2)
