# SPDX-License-Identifier: Apache-2.0
"""The collective library in processes under `hvdray run`: tests/tools/collective_probe.cc does the work."""

import re

import pytest

from collective_ranks import KINDS, NOTICED_MS, assert_all_are_told_what_differs, assert_all_name_the_dead, ends

# Far more than a test takes: an error that comes earlier has not come by the time limit.
TIMEOUT_S = 100


def go(hvdray, np, *words, backend="auto", limit=TIMEOUT_S, **variables):
    variables = {"HVDRAY_COLLECTIVE": backend, **variables}
    options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    return hvdray.go("-np", np, *options, "--gloo-timeout-seconds", limit, "--", hvdray.bin_dir / "collective_probe", *words, timeout=120)


@pytest.mark.parametrize("backend,np", [("auto", 1), ("shm", 2), ("auto", 5), ("gloo", 2), ("gloo", 3), ("gloo", 4)])
def test_every_collective_equals_its_reference(hvdray, backend, np):
    result = go(hvdray, np, "suite", backend=backend)
    assert result.code == 0, result.text + result.errors
    name = "single" if np == 1 else "shm" if backend == "auto" else backend
    for rank in range(np):
        assert f"all: {name} {rank} of {np}" in result.text
        assert f"next: {name} {rank} of {np}" in result.text
    # In the order that was asked for: the last rank is the first of it.
    assert f"[{np - 1}]<stdout>:every second: {name if np > 2 else 'single'} 0 of {(np + 1) // 2}\n" in result.text


@pytest.mark.parametrize("np", [5, 6, 7, 8, 9])
def test_any_number_of_ranks_will_do(hvdray, tmp_path, np):
    """Over the network, whose steps are between powers of two: doubling of small counts and halving of the largest, then rings."""
    short = [go(hvdray, np, "suite", 0, 1, 777, 7001, backend="gloo")]
    table = tmp_path / "table"
    table.write_text("network_doubling 0\nnetwork_ring 0\n")
    short.append(go(hvdray, np, "suite", 0, 1, 777, backend="gloo", HVDRAY_COLLECTIVE_TABLE=table))
    for result in short:
        assert result.code == 0, result.text + result.errors
        assert result.text.count(f" of {np}\n") == np


@pytest.mark.parametrize("backend", ["shm", "hierarchical"])
def test_nine_ranks_of_one_machine(hvdray, backend):
    result = go(hvdray, 9, "suite", 0, 1, 777, 7001, backend=backend)
    assert result.code == 0, result.text + result.errors
    assert result.text.count(f"all: {backend} ") == 9


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("backend", ["shm", "gloo", "hierarchical"])
def test_a_peer_that_is_killed_ends_the_calls_of_all(hvdray, backend, victim):
    """In the middle of each kind of call, of a new communicator each time; the root of those that have one, and another."""
    result = go(hvdray, 4, "until-end", *KINDS, backend=backend, VICTIM=victim)
    assert result.code == 0, result.text + result.errors
    assert_all_name_the_dead(result.text, 4, victim)


def assert_all_name_who_did_not_join(result, np, victim):
    assert result.code == 0, result.text + result.errors
    for line in ends(result.text, np, victim, "join").values():
        said = line.split(": ", 3)[3].replace(f"of {np}", "")
        assert re.search(rf"rank \d  could not join: .*rank {victim}\b.*\[HVD-E", said), line


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("backend", ["shm", "hierarchical", "gloo"])
def test_a_rank_that_is_killed_before_it_joins_is_named_by_all(hvdray, backend, victim):
    result = go(hvdray, 3, "join", "nothing", backend=backend, limit=2, VICTIM=victim)
    assert_all_name_who_did_not_join(result, 3, victim)


@pytest.mark.parametrize("backend,victim,late,key", [
    ("shm", 0, 1, "place-0"), ("shm", 1, 2, "place-1"), ("hierarchical", 0, 1, "place-0"), ("hierarchical", 1, 2, "place-1")])
def test_a_rank_that_is_killed_while_it_joins_is_named_by_all(hvdray, backend, victim, late, key):
    """It has published where it is; the late one comes only then."""
    result = go(hvdray, 3, "join", key, backend=backend, limit=2, VICTIM=victim, LATE=late)
    assert_all_name_who_did_not_join(result, 3, victim)


@pytest.mark.parametrize("backend", ["shm", "hierarchical", "gloo"])
def test_ranks_that_leave_together_do_not_wait_for_each_other(hvdray, backend):
    result = go(hvdray, 3, "generations", 60, backend=backend)
    assert result.code == 0, result.text + result.errors
    for rank in range(3):
        assert int(re.search(rf"rank {rank}: left within (\d+) ms", result.text)[1]) < NOTICED_MS, result.text


@pytest.mark.parametrize("backend", ["shm", "hierarchical"])
def test_too_little_memory_to_share_is_an_error_and_no_signal(hvdray, backend):
    """The limit is of files, shared memory among them: beyond it the kernel sends SIGXFSZ."""
    command = f"ulimit -f 100; exec {hvdray.bin_dir}/collective_probe suite 1"
    result = hvdray.go("-np", 2, "-x", f"HVDRAY_COLLECTIVE={backend}", "--", "bash", "-c", command)
    assert result.code == 1 and "SIGXFSZ" not in result.errors, result.errors
    rank_0, rank_1 = (re.findall(rf"\[{rank}\]<stdout>:(.*)", result.text) for rank in (0, 1))
    why = r"\d+ KiB of shared memory: ulimit -f: File too large \[HVD-E"
    assert re.match(rf"all: rank 0 of 2 could not join: {why}0003\]", rank_0[0]), rank_0
    assert rank_0[1].startswith("  hint: the limits are those of memory (ulimit -f, the cgroup)"), rank_0
    assert re.match(rf"all: rank 1 of 2 could not join: rank 1 asks rank 0 for shared memory: {why}0401\]", rank_1[0]), rank_1


@pytest.mark.parametrize("backend", ["shm", "gloo", "hierarchical"])
def test_the_checking_mode_tells_all_ranks_which_calls_differ(hvdray, backend):
    """And nothing has been begun, so they go on."""
    result = go(hvdray, 3, "differ", backend=backend, HVDRAY_CHECK_COLLECTIVES=1)
    assert result.code == 0, result.text + result.errors
    assert_all_are_told_what_differs(result.text, 3)


def test_the_checking_mode_finds_nothing_in_equal_calls(hvdray):
    result = go(hvdray, 2, "suite", HVDRAY_CHECK_COLLECTIVES=1)
    assert result.code == 0, result.text + result.errors


@pytest.mark.parametrize("name,value,text", [
    ("HVDRAY_COLLECTIVE", "mpi", "HVDRAY_COLLECTIVE must be auto, shm, gloo, hierarchical or nccl, not mpi"),
    ("HVDRAY_CHECK_COLLECTIVES", "yes", "HVDRAY_CHECK_COLLECTIVES=yes is not a number from 0 to 1"),
])
def test_a_wrong_variable_is_named(hvdray, name, value, text):
    result = go(hvdray, 1, "suite", **{name: value})
    assert result.code == 1
    assert text in result.text


@pytest.mark.parametrize("backend", ["shm", "gloo"])
@pytest.mark.parametrize("bytes_", [0, 1 << 40])
def test_the_table_of_rank_0_decides_which_algorithm_runs(hvdray, tmp_path, backend, bytes_):
    """Each algorithm is right for all sizes."""
    table = tmp_path / "table"
    names = ("shm_direct_of_two", "shm_direct", "network_doubling", "network_ring", "slices")
    table.write_text("".join(f"{name} {bytes_}\n" for name in names))
    result = go(hvdray, 3, "suite", backend=backend, HVDRAY_COLLECTIVE_TABLE=table)
    assert result.code == 0, result.text + result.errors


def test_a_table_that_is_none_is_refused(hvdray, tmp_path):
    table = tmp_path / "table"
    table.write_text("slices many\n")
    result = go(hvdray, 1, "suite", HVDRAY_COLLECTIVE_TABLE=table)
    assert result.code == 1
    assert f'HVDRAY_COLLECTIVE_TABLE: {table}: line 1: slices must be a number of bytes, not "many"' in result.text
    assert "No such file" in go(hvdray, 1, "suite", HVDRAY_COLLECTIVE_TABLE=tmp_path / "none").text
