# SPDX-License-Identifier: Apache-2.0
"""tools/run_tests.py: what ./check makes of a test that fails, with a stand-in for ctest that plays given runs."""

import os
import pathlib
import subprocess

import pytest

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "tools/run_tests.py"

# Plays runs/1, runs/2, …: its first line is the exit code. Keeps the words of each call.
CTEST = """#!/bin/sh
cd "$PLAY"
echo "$@" >> calls
run=runs/$(wc -l < calls)
tail -n +2 $run
exit $(head -n 1 $run)
"""


def played(number, name, result, seconds="0.50", output=""):
    return f"      Start  {number}: {name}\n{number}/9 Test  #{number}: {name} ......{result} {seconds} sec\n{output}"


def closing(failed, of):
    return f"\n{100 * (of - failed) // of}% tests passed, {failed} tests failed out of {of}\n\nTotal Test time (real) =  12.9 sec\n"


PASSED, FAILED, NOT_RUN = "  Passed  ", "***Failed  ", "***Not Run  "


@pytest.fixture
def check(tmp_path):
    """Plays (exit code, output) of each run of ctest: check(run, ...)."""
    (tmp_path / "bin").mkdir()
    ctest = tmp_path / "bin/ctest"
    ctest.write_text(CTEST)
    ctest.chmod(0o755)
    (tmp_path / "runs").mkdir()
    environment = {**os.environ, "PATH": f"{ctest.parent}:/usr/bin:/bin", "PLAY": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def runner(*words):
        return subprocess.run([RUNNER, *words], env=environment, text=True, capture_output=True, timeout=60, check=False)

    def play(*runs):
        (tmp_path / "calls").unlink(missing_ok=True)
        for number, (code, text) in enumerate(runs, 1):
            (tmp_path / f"runs/{number}").write_text(f"{code}\n{text}")
        return runner("--build", "some/build", "--step", "5 s  1/5 packages", "--", "-j", "3", "-LE", "^third_.$")

    play.begin = lambda: runner("--begin").stdout
    play.calls = lambda: (tmp_path / "calls").read_text().splitlines()
    play.kept = tmp_path / "cache/hvdray/failed_once"
    return play


def test_the_slowest_tests_are_told_before_the_closing_line(check):
    done = check((0, played(1, "base_test", PASSED, "0.61") + played(2, "integration_x", PASSED, "12.20") + closing(0, 2)))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "Total Test time (real) =  12.9 sec"
    assert "  5 s  1/5 packages\n  12 s  test integration_x\n  1 s  test base_test\n" in done.stdout
    assert check.calls() == ["--test-dir some/build --output-on-failure --no-tests=error -j 3 -LE ^third_.$"]


def test_a_test_that_passes_alone_is_told_in_a_block_and_kept_for_the_next_run(check):
    done = check((8, played(1, "a.b", FAILED, output="assert 1 == 2\n") + played(2, "c", PASSED) + closing(1, 2)),
                 (0, played(1, "a.b", PASSED) + closing(0, 1)))
    assert done.returncode == 0
    assert check.calls()[1].endswith("--no-tests=error -j 1 -R ^(a\\.b)$")
    text = (check.kept / "a.b.txt").read_text()
    assert text.startswith("== a.b failed, and passed when it ran once more, alone.")
    assert text.endswith("The first failure:\nassert 1 == 2\n") and "c .." not in text
    assert done.stdout.endswith(text + closing(0, 1))
    begin = check.begin()
    assert begin.startswith(text) and f"rm {check.kept / 'a.b.txt'}" in begin
    assert check.begin() == begin, "until somebody has removed it"


def test_a_test_that_fails_again_fails_the_run(check):
    done = check((8, played(1, "a", FAILED, output="why\n") + closing(1, 2)), (8, played(1, "a", FAILED) + closing(1, 1)))
    assert done.returncode == 8
    assert done.stdout.endswith(closing(1, 1)) and not check.kept.exists()


def test_three_failed_tests_are_no_chance(check):
    done = check((8, "".join(played(i, f"t{i}", FAILED) for i in (1, 2, 3)) + closing(3, 3)))
    assert done.returncode == 8 and len(check.calls()) == 1
    assert done.stdout.endswith(closing(3, 3))


def test_a_test_that_was_aborted_counts(check):
    done = check((8, played(1, "a", "Subprocess aborted***Exception:  ", output="why\n") + closing(1, 2)), (0, closing(0, 1)))
    assert done.returncode == 0 and check.calls()[1].endswith("-R ^(a)$")
    assert "The first failure:\nwhy\n" in (check.kept / "a.txt").read_text()


def test_a_failure_that_is_only_listed_is_no_chance(check):
    listed = "\nThe following tests FAILED:\n\t  1 - a (Failed)\n\t  2 - b (Some new way)\n"
    done = check((8, played(1, "a", FAILED) + "2/9 Test #2: b ... in some new way\n" + closing(2, 2) + listed))
    assert done.returncode == 8 and len(check.calls()) == 1


def test_what_waited_for_a_fixture_that_failed_runs_with_it(check):
    done = check((8, played(1, "ray_up", FAILED) + "".join(played(i, f"ray_{i}", NOT_RUN) for i in (2, 3, 4)) + closing(4, 4)),
                 (0, closing(0, 4)))
    assert done.returncode == 0
    assert check.calls()[1].endswith("-R ^(ray_2|ray_3|ray_4|ray_up)$")
    assert [path.name for path in check.kept.iterdir()] == ["ray_up.txt"]


def test_a_ctest_that_runs_nothing_is_told_as_it_is(check):
    done = check((1, "No tests were found!!!\n"))
    assert done.returncode == 1 and len(check.calls()) == 1
    assert done.stdout.startswith("No tests were found!!!\n")


def test_a_cache_that_cannot_be_written_fails_no_run(check):
    check.kept.parent.mkdir(parents=True)
    check.kept.write_text("a file in its place")
    done = check((8, played(1, "a", FAILED) + closing(1, 1)), (0, played(1, "a", PASSED) + closing(0, 1)))
    assert done.returncode == 0 and "== not kept for the next run: " in done.stdout
