# SPDX-License-Identifier: Apache-2.0
"""Who is blamed, and with which exit code, when a rank of a real gang fails. bench/run verdict has all ways of
failing; these are those that were once told wrongly, and one of each other kind."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAILING = ROOT / "bench/workers/failing.py"
DEBIANS = "/usr/bin/python3"


@pytest.fixture
def failure(hvdray, tmp_path):
    """Runs `words` and returns (rank, exit code, what the report says of the first failure, all of the report)."""
    def run(np, *words, options=()):
        path = tmp_path / "report.json"
        result = hvdray.go("-np", np, *options, "--report", path, "--", *words, timeout=170)
        report = json.loads(path.read_text())
        first = report["first_failure"]
        assert first is not None, result.errors
        return first["rank"], result.code, first, report, result
    return run


@pytest.mark.parametrize("how, code", [("raise", 1), ("exit", 17)])
def test_a_horovod_worker_that_ends_by_itself_is_blamed_and_not_its_victims(failure, horovod_python, how, code):
    rank, exit_code, first, report, _ = failure(3, horovod_python, FAILING, "horovod", how, "between", 2)
    assert (rank, exit_code) == (2, code), report["workers"]
    for worker in report["workers"][:2]:
        assert worker["victim"], worker
    if how == "raise":
        assert first["error"] == "ValueError: the batch is empty" and first["blames_peer"] == ""


def test_a_worker_that_raises_after_hvd_shutdown_is_blamed(failure, horovod_python):
    rank, code, *_ = failure(2, horovod_python, FAILING, "horovod", "shutdown, raise", "between", 1)
    assert (rank, code) == (1, 1)


@pytest.mark.parametrize("how, code", [("raise", 1), ("SIGSEGV", 139)])
def test_a_worker_of_torch_distributed_is_blamed(failure, horovod_python, how, code):
    del horovod_python  # it brings torch
    rank, exit_code, *_ = failure(2, DEBIANS, FAILING, "torch", how, "collective", 0)
    assert (rank, exit_code) == (0, code)


def test_plain_programs_are_stopped_a_moment_after_the_first_failure(failure):
    rank, code, first, _, result = failure(3, "sh", "-c", "[ $RANK = 1 ] && exit 9; exec sleep 60")
    assert (rank, code, first["certain"]) == (1, 9, True)
    assert "; first to fail" in result.errors


def test_of_two_that_fail_the_one_whose_error_came_first_is_probably_first(failure, tmp_path):
    script = f"""
cd {tmp_path}
case $RANK in
  0) echo $$ >pid; until [ -e erred ]; do sleep 0.05; done; sleep 1; exit 5;;
  1) until [ -s pid ]; do sleep 0.05; done
     printf 'Traceback (most recent call last):\\n  File "x"\\nKeyError: 7\\n' >&2; : >erred
     while [ -e /proc/$(cat pid) ]; do sleep 0.05; done; exit 3;;
esac
exec sleep 60"""
    rank, code, first, _, result = failure(3, "sh", "-c", script)
    assert (rank, code, first["certain"]) == (1, 3, False)
    assert first["evidence"] == ["its error came first", "but rank 0 ended before it"]
    assert "; probably first: its error came first, but rank 0 ended before it" in result.errors


def test_what_torchs_record_decorator_writes_is_read(failure):
    script = r"""
import json, os, sys, time
if os.environ["RANK"] == "0":
    time.sleep(60)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": {"message": "OSError: no such batch", "extraInfo": {"timestamp": "1"}}}, file)
sys.exit(4)
"""
    rank, code, first, *_ = failure(2, DEBIANS, "-c", script)
    assert (rank, code) == (1, 4)
    assert first["error"] == "OSError: no such batch"
    assert first["erred_s"] is not None


def test_an_inherited_error_file_is_not_handed_on(hvdray):
    import os
    env = dict(os.environ, TORCHELASTIC_ERROR_FILE="/nonexistent/error.json")
    result = hvdray.go("-np", "1", "--", "sh", "-c", "echo x >$TORCHELASTIC_ERROR_FILE", env=env)
    assert result.code == 0, result.errors
