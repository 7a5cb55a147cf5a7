# SPDX-License-Identifier: Apache-2.0
"""examples/serve: a client of `hvdray serve` in C++ and its worker in sh, and what the client says when something is amiss."""

import pathlib
import re

import pytest

WORKER = pathlib.Path(__file__).resolve().parents[2] / "examples/serve/worker.sh"
# Words of a program that stands in for hvdray; $3 is the number of its socket.
REFUSES = """read -r hello <&$3
echo '{"type":"refused","about":null,"code":"HVD-E0208","message":"no slots","hint":""}' >&$3"""


@pytest.fixture
def client(hvdray):
    def run(*words, tool=hvdray.binary):
        return hvdray.run(tool, *words, binary=hvdray.bin_dir / "hvdray-serve-client")

    return run


def test_two_gangs_of_a_shell_script(client):
    result = client("-np", "2", "--", WORKER)
    assert result.code == 0, result.errors
    job, *lines = result.text.splitlines()
    assert re.fullmatch(r'job "hvd-.*"', job)
    gangs = [lines[:8], lines[8:]]
    for gang, (number, told) in enumerate(zip((21, 100), gangs), start=1):
        answers = [f"  rank {rank}: {answer}" for rank in (0, 1)
                   for answer in (f'"gang {gang}: object 1 has 28 bytes"', 2 * number)]
        assert told[0] == f"gang {gang}"
        assert sorted(told[1:6]) == sorted(["  ready, workers: 2", *answers])
        assert told[6:] == [f"  rank 0: {2 * (number + 1)}", "  stopped, exit code: 0"]


def said(result):
    """The one line of the client's own."""
    lines = [line for line in result.errors.splitlines() if line.startswith("hvdray-serve-client: ")]
    assert len(lines) == 1, result.errors
    return lines[0].split(": ", 1)[1]


def test_without_a_command_it_says_how_it_is_called(client):
    result = client()
    assert result.code == 2 and said(result).startswith("usage: ")


def test_no_hvdray(client, tmp_path):
    result = client("--", WORKER, tool=tmp_path / "hvdray")
    assert result.code == 1 and said(result) == f"can't start {tmp_path}/hvdray: No such file or directory"


def test_hvdray_ends_early(client):
    result = client("--no-such-option", "--", WORKER)
    assert result.code == 1 and said(result) == "hvdray serve has ended early, with exit code 2"
    assert "--no-such-option" in result.errors


def test_a_refusal_is_told_in_its_words(client, script):
    result = client("--", WORKER, tool=script("hvdray", f"#!/bin/sh\n{REFUSES}\n"))
    assert result.code == 1 and said(result) == "refused: no slots [HVD-E0208]"


def test_what_is_no_message_is_shown(client, script):
    result = client("--", WORKER, tool=script("hvdray", "#!/bin/sh\necho nonsense >&$3\n"))
    assert result.code == 1 and said(result) == "no message of hvdray serve: nonsense"


@pytest.mark.parametrize("words", ["exit 7", 'read -r first <&"$HVDRAY_CHANNEL_FD"; exit 7'], ids=["unready", "ready"])
def test_a_worker_that_fails_ends_it(client, words):
    hello = "echo '{\"type\":\"hello\",\"protocol\":1}' >&\"$HVDRAY_CHANNEL_FD\"; " if words != "exit 7" else ""
    result = client("-np", "1", "--", "sh", "-c", hello + words)
    assert result.code == 1 and said(result) == "the gang has ended before its time, with exit code 7"
