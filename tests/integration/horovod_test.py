# SPDX-License-Identifier: Apache-2.0
"""Unmodified Horovod 0.28.1 under hvdray: it initialises, computes, initialises again, trains."""

import os
import pathlib
import re
import signal
import time

import pytest
from conftest import rest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = ROOT / "tests/integration/workers/horovod_collectives.py"


@pytest.mark.parametrize("np", [2, *rest(1, 4)])
def test_collectives_process_sets_join_and_reinit(hvdray, horovod_python, np):
    result = hvdray.go("-np", np, "--", horovod_python, COLLECTIVES, "basic", "process_sets",
                       "reinit", "join", timeout=180)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{r}]<stdout>:ok" for r in range(np)]


@pytest.mark.rest
def test_two_hosts_names_of_this_machine(hvdray, horovod_python):
    result = hvdray.go("-np", "5", "-H", "localhost:3,127.0.0.1:2", "--", horovod_python,
                       COLLECTIVES, "basic", "process_sets", "reinit", timeout=180)
    assert result.code == 0, result.errors


@pytest.mark.parametrize("np", [2, *rest(1, 4)])
def test_digits_train(hvdray, horovod_python, np):
    result = hvdray.go("-np", np, "--", horovod_python, ROOT / "examples/digits_horovod.py",
                       timeout=180)
    assert result.code == 0, result.errors
    accuracy = float(re.search(r"test accuracy ([\d.]+) %", result.text)[1])
    assert accuracy > 93, result.text


def test_a_proxy_in_the_environment_does_no_harm(hvdray, horovod_python):
    env = dict(os.environ, http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    result = hvdray.go("-np", "2", "--", horovod_python, COLLECTIVES, "basic", env=env, timeout=120)
    assert result.code == 0, result.errors


def test_a_killed_rank_ends_the_job_with_its_name(hvdray, horovod_python, script):
    spin = script("spin.py", """
import horovod.torch as hvd, torch, os, signal
hvd.init()
for step in range(100000):
    hvd.allreduce(torch.ones(4), name="x")
    if step == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
""")
    result = hvdray.go("-np", "3", "--", horovod_python, spin, timeout=120)
    assert result.code == 128 + signal.SIGKILL
    assert "rank 1" in result.errors and "SIGKILL" in result.errors


def test_the_report_counts_the_rendezvous(hvdray, horovod_python, tmp_path):
    import json
    report = tmp_path / "report.json"
    result = hvdray.go("-np", "2", "--report", report, "--", horovod_python, COLLECTIVES, "basic",
                       timeout=120)
    assert result.code == 0, result.errors
    rendezvous = json.loads(report.read_text())["rendezvous"]
    assert "global" in json.dumps(rendezvous)


@pytest.mark.rest
def test_sixteen_ranks_start(hvdray, horovod_python):
    result = hvdray.go("-np", "16", "--", horovod_python, COLLECTIVES, "basic", timeout=300)
    assert result.code == 0, result.errors[-3000:]
