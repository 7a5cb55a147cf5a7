# SPDX-License-Identifier: Apache-2.0
"""Operations that meet by name, in processes under `hvdray run`: async_program.py does the work through the C interface."""

import json
import os
import pathlib
import re
import signal
import sys

import pytest

from collective_ranks import NOTICED_MS

PROGRAM = pathlib.Path(__file__).with_name("async_program.py")


def library_of(hvdray):
    return hvdray.bin_dir.parent / "collective" / "libhvdray.so.0"


def assert_all_name_the_dead(result, size, victim):
    """What `die` says of each survivor."""
    for rank in set(range(size)) - {victim}:
        line = re.search(rf"rank {rank}: after (\d+) ms: (\d+): (.*)", result)
        assert line, result
        assert int(line[1]) < NOTICED_MS, line[0]
        assert line[2] == "401", line[0]
        assert f"rank {victim} of {size} has died" in line[3], line[0]


def words_of(hvdray, np, *words, options=(), **variables):
    options = [*options, *(word for name, value in variables.items() for word in ("-x", f"{name}={value}"))]
    return ["-np", np, *options, "--", sys.executable, PROGRAM, library_of(hvdray), *words]


def go(hvdray, *words, **options):
    return hvdray.go(*words_of(hvdray, *words, **options), timeout=120)


@pytest.mark.parametrize("backend,np", [("auto", 1), ("auto", 2), ("auto", 4), ("gloo", 3), ("hierarchical", 3)])
def test_operations_meet_by_name_in_any_order(hvdray, backend, np):
    result = go(hvdray, np, "values", HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    assert result.text.count("values are right") == np


def test_a_full_dev_shm_is_not_needed(hvdray):
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    full = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && ! cat /dev/zero > /dev/shm/full 2> /dev/null && exec "$@"'
    result = hvdray.run("--mount", "--propagation", "private", "sh", "-c", full, "sh", hvdray.binary, "run", *words_of(hvdray, 2, "values"),
                        binary="unshare", timeout=120)
    assert result.code == 0, result.errors
    assert result.text.count("values are right") == 2


@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_a_process_has_one_life_after_the_other(hvdray, backend):
    result = go(hvdray, 3, "generations", 5, HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    assert result.text.count("all generations are over") == 3


@pytest.mark.parametrize("how", ["exception", "exit", signal.SIGTERM, signal.SIGKILL])
def test_the_timeline_is_whole_whatever_ends_the_process(hvdray, tmp_path, how):
    path = tmp_path / "timeline.json"
    result = go(hvdray, 2, "end", how if isinstance(how, str) else int(how), HOROVOD_TIMELINE=path)
    assert result.code != 0
    events = json.loads(path.read_text())
    assert {"seen", "waits"} <= {event.get("args", {}).get("name") for event in events}, events
    assert any(event.get("name") == "NEGOTIATE_ALLREDUCE" for event in events)


@pytest.mark.parametrize("ended_by", ["stall", "user"])
def test_a_rank_that_never_submits_is_in_the_verdict(hvdray, tmp_path, ended_by):
    shutdown = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": 2} if ended_by == "stall" else {}
    job = hvdray.start("run", *words_of(hvdray, 3, "stall", "never", options=["--report", tmp_path / "report.json"],
                                 HOROVOD_STALL_CHECK_TIME_SECONDS=1, **shutdown))
    if ended_by == "user":
        warnings = 0
        while warnings < 2:  # by the second one the rank knows, too
            warnings += b"Missing ranks: 2: [lonely]" in job.process.stderr.readline()
        os.kill(job.pid, signal.SIGTERM)
    result = job.wait(timeout=120)
    assert result.code == (1 if ended_by == "stall" else 143), result.errors
    said = "never submitted lonely, for which others waited"
    assert f"rank 2 on host localhost {said}" in result.errors
    assert "rank 0 on host" not in result.errors and "rank 1 on host" not in result.errors
    workers = json.loads((tmp_path / "report.json").read_text())["workers"]
    assert [said in worker["error"] for worker in workers] == [False, False, True]
    if ended_by == "stall":
        assert "lonely waited too long for rank 2, which never submitted it" in result.errors


@pytest.mark.parametrize("backend", ["auto", "gloo", "hierarchical"])
def test_a_slow_allocation_outlasts_the_timeout_of_the_meeting(hvdray, backend):
    result = go(hvdray, 3, "late", 7, options=["--gloo-timeout-seconds", "5"], HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.errors
    assert result.text.count("they waited") == 3


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("backend,method", [("gloo", "PUT"), ("gloo", "DELETE"), ("hierarchical", "DELETE"), ("auto", "DELETE")])
def test_a_rank_that_is_stopped_while_all_meet_is_not_waited_for_ever(hvdray, tmp_path, backend, method, victim):
    result = go(hvdray, 3, "stopped", method, options=["--gloo-timeout-seconds", "3"], VICTIM=victim, DEATH=tmp_path / "death",
                HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    for rank in {0, 1, 2} - {victim}:
        assert re.search(rf"rank {rank}: \d+: .*rank \d of 3 .*did not come (within 3 s|in time)", result.text), result.text


def test_a_rank_that_is_late_leaves_no_record(hvdray):
    result = go(hvdray, 2, "stall", "late", HOROVOD_STALL_CHECK_TIME_SECONDS=1)
    assert result.code == 0, result.errors
    assert result.text.count("it came") == 2


def test_the_time_limit_while_all_meet_is_that_of_each_wait(hvdray):
    result = go(hvdray, 3, "slow", options=["--gloo-timeout-seconds", "3"], VICTIM=0, HVDRAY_COLLECTIVE="gloo")
    assert result.code == 0, result.text + result.errors
    assert "rank 0 is late" in result.text


DEATHS = [
    ("before", "allreduce"), ("after", "allreduce"), ("allocated", "allgather"), ("joined", "allreduce"), ("after", "broadcast"),
    ("allocated", "alltoall"), ("allocated", "reducescatter"), ("before", "add"), ("after", "add"), ("meeting", "add")]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("phase,kind", DEATHS)
@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_a_peer_that_is_killed_ends_the_operations_of_all(hvdray, tmp_path, backend, phase, kind, victim):
    result = go(hvdray, 4, "die", phase, kind, VICTIM=victim, DEATH=tmp_path / "death", HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    assert_all_name_the_dead(result.text + result.errors, 4, victim)
