# SPDX-License-Identifier: Apache-2.0
"""Operations that meet by name, in processes under `hvdray run`: async_program.py does the work through the C interface."""

import json
import pathlib
import re
import signal
import sys

import pytest

from collective_ranks import NOTICED_MS

PROGRAM = pathlib.Path(__file__).with_name("async_program.py")


def go(hvdray, np, *words, **variables):
    library = hvdray.bin_dir.parent / "collective" / "libhvdray.so.0"
    options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    return hvdray.go("-np", np, *options, "--", sys.executable, PROGRAM, library, *words, timeout=120)


@pytest.mark.parametrize("backend,np", [("auto", 1), ("auto", 2), ("auto", 4), ("gloo", 3), ("hierarchical", 3)])
def test_operations_meet_by_name_in_any_order(hvdray, backend, np):
    result = go(hvdray, np, "values", HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    assert result.text.count("values are right") == np


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


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("phase", ["before", "after", "allocated", "joined"])
@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_a_peer_that_is_killed_ends_the_operations_of_all(hvdray, tmp_path, backend, phase, victim):
    result = go(hvdray, 4, "die", phase, VICTIM=victim, DEATH=tmp_path / "death", HVDRAY_COLLECTIVE=backend)
    assert result.code == 0, result.text + result.errors
    for rank in set(range(4)) - {victim}:
        line = re.search(rf"rank {rank}: after (\d+) ms: (\d+): (.*)", result.text)
        assert line, result.text + result.errors
        assert int(line[1]) < NOTICED_MS, line[0]
        assert line[2] == "401", line[0]
        assert f"rank {victim} of 4 has died" in line[3], line[0]
