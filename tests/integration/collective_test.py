# SPDX-License-Identifier: Apache-2.0
"""The collective library in processes under `hvdray run`: tests/tools/collective_probe.cc does the work."""

import re

import pytest

KINDS = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "barrier",
         "send_recv"]
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["shm", "gloo"])
def test_a_peer_that_is_killed_ends_the_calls_of_all(hvdray, backend, kind):
    result = go(hvdray, 4, "until-end", kind, backend=backend, VICTIM=2)
    assert result.code == 0, result.text + result.errors
    for rank in (0, 1, 3):
        line = re.search(rf"rank {rank}: (.*)", result.text)[1]
        assert "rank 2 of 4 has died" in line and "[HVD-E0401]" in line, line


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


@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_a_rank_that_never_comes_is_named(hvdray, script, backend):
    late = script("late", f"""#!/bin/sh
[ $HOROVOD_RANK = 1 ] && {{ sleep 6; exit 0; }}
HOROVOD_GLOO_TIMEOUT_SECONDS=3 exec {hvdray.bin_dir}/collective_probe suite
""")
    result = hvdray.go("-np", 2, "-x", f"HVDRAY_COLLECTIVE={backend}", "--", late, timeout=60)
    assert result.code == 1
    assert re.search("rank 0 of 2 could not join: rank 1 (of 2 )?did not come", result.text), result.text
