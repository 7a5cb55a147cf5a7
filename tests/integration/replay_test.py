# SPDX-License-Identifier: Apache-2.0
"""`hvdray replay` on recordings that are well, broken, cut off, and none at all."""

import json
import os
import pathlib
import resource

import pytest

RECORDINGS = sorted((pathlib.Path(__file__).parents[1] / "golden/record").glob("*.jsonl"))
WELL = next(path for path in RECORDINGS if path.name == "lost_and_back.jsonl")
GANG = next(path for path in RECORDINGS if path.name == "gang_fails.jsonl")


@pytest.fixture
def replay(hvdray):
    return lambda *words, **kwargs: hvdray.run("replay", *words, **kwargs)


def written(folder, lines):
    path = folder / "job.record"
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return path


def cpu_seconds():
    """What children have cost so far: a busy machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_every_recording_in_the_tree_holds_all_rules(replay, path):
    result = replay("-q", path)
    assert (result.code, result.text, result.errors) == (0, "", "")


def test_transitions_and_what_was_said_come_in_order(replay):
    result = replay(WELL)
    assert result.code == 0
    assert result.text == WELL.with_suffix(".txt").read_text()


def test_json_has_the_same(replay):
    page = json.loads(replay(WELL, "--json").text)
    assert page["schema"] == "hvdray.replay/1"
    assert page["exit_code"] == 0 and page["broken"] is None and page["differences"] == []
    assert page["end"] == page["recorded_end"]
    states = [step for step in page["steps"] if step["kind"] == "state"]
    assert states[0]["from"] == "gathering" and states[-1]["to"] == "finished"
    assert all(a["to"] == b["from"] for a, b in zip(states, states[1:]))
    generations = [step["generation"] for step in page["steps"] if step["kind"] == "generation"]
    assert generations == sorted(set(generations)) and len(generations) == page["generations"]
    assert [step["line"] for step in page["steps"]] == sorted(s["line"] for s in page["steps"])


def test_a_killed_launchers_recording_is_replayed_but_for_its_last_line(replay, tmp_path):
    whole = WELL.read_bytes()
    path = tmp_path / "job.record"
    path.write_bytes(whole[:whole.rindex(b'"event"')])
    result = replay(path)
    assert result.code == 0, result.text
    assert "the last line is cut off, as after a kill, and was ignored" in result.text
    assert json.loads(replay("--json", path).text)["cut_off"] is True


def test_a_recording_that_stops_early_is_said(replay, tmp_path):
    result = replay(written(tmp_path, WELL.read_text().splitlines()[:20]))
    assert result.code == 0
    assert result.text.endswith("the recording stops before the end of the job\n")


def test_the_first_broken_rule_stops_it_with_line_and_events(replay, tmp_path):
    lines = GANG.read_text().splitlines()
    assert '"event":"host_stopped"' in lines[-2] and '"event":"end"' in lines[-1]
    path = written(tmp_path, lines[:-2] + lines[-1:])
    result = replay(path)
    assert result.code == 1
    number = len(lines) - 1
    assert f"line {number}: broken rule: the job does not end\n" in result.text
    assert "last events:\n" in result.text and lines[-3][:100] in result.text
    assert replay("-q", path).text.startswith(f"line {number}: ")
    page = json.loads(replay("--json", path).text)
    assert page["exit_code"] == 1
    assert page["broken"]["line"] == number
    assert page["broken"]["rules"] == ["the job does not end"]
    assert page["broken"]["recent"][-1] == {"line": number, "text": lines[-1][:160]}


def test_another_end_than_the_recorded_one_is_told(replay, tmp_path):
    lines = GANG.read_text().splitlines()
    end = json.loads(lines[-1])
    end["size"] = 9
    result = replay("-q", written(tmp_path, lines[:-1] + [json.dumps(end)]))
    assert result.code == 1
    assert result.text.startswith("the job ends differently: its size is 3, was 9\n")


@pytest.mark.parametrize("change, said", [
    (lambda lines: [], ":1: the file is empty [HVD-E0102]"),
    (lambda lines: ["{}"], ":1: this is not a recording: schema is missing"),
    (lambda lines: lines[1:], ":1: this is not a recording: schema is missing"),
    (lambda lines: lines[:5] + ['{"t":1}'] + lines[5:], ":6: event is missing"),
    (lambda lines: lines[:5] + [""] + lines[5:], ":6: invalid JSON at byte 1"),
    (lambda lines: lines[:5] + [lines[5].replace('"t":', '"t":-')], ":6: t must be within 0 to "),
    (lambda lines: lines[:9] + lines[2:], ":10: its time is before that of the line above"),
    (lambda lines: lines + lines[-1:], ": the job has ended in the line above"),
], ids=["empty", "other_json", "no_header", "no_event", "blank", "negative", "back", "behind_end"])
def test_what_is_wrong_is_named_with_file_and_line(replay, tmp_path, change, said):
    path = written(tmp_path, change(WELL.read_text().splitlines()))
    result = replay(path)
    assert result.code == 2, result.errors
    assert result.text == ""
    assert f"hvdray replay: {path}:" in result.errors and said in result.errors


def test_a_binary_file_is_refused(replay, tmp_path):
    path = tmp_path / "job.record"
    path.write_bytes(os.urandom(1 << 20).replace(b"{", b"?"))
    result = replay(path)
    assert result.code == 2 and f"{path}:1: invalid JSON" in result.errors, result.errors
    path.write_bytes(WELL.read_bytes()[:2000].rsplit(b"\n", 1)[0] + b"\n\x00\xff\x80\n")
    result = replay(path)
    assert result.code == 2 and ": invalid JSON at byte 1" in result.errors


def test_a_huge_line_costs_neither_time_nor_memory(replay, tmp_path):
    path = tmp_path / "job.record"
    with open(path, "wb") as file:
        file.write(WELL.read_bytes().split(b"\n")[0] + b"\n")
        file.truncate(4 << 30)  # zeros, without a newline
    began = cpu_seconds()
    result = replay(path)
    assert cpu_seconds() - began < 3
    assert result.code == 2
    assert f"{path}:2: JSON of " in result.errors and ", at most 16777216 allowed" in result.errors


@pytest.mark.parametrize("words, said", [
    ((), "no recording given"),
    (("nowhere.record",), "nowhere.record: No such file or directory [HVD-E0104]"),
    (("/",), "Is a directory [HVD-E0104]"),
    (("--jsn", "x"), "unknown option '--jsn'"),
    (("a", "b"), "unexpected word 'b'"),
    (("-np", "2"), "unknown option"),
])
def test_wrong_words_and_files_are_exit_2(replay, words, said):
    result = replay(*words)
    assert result.code == 2 and result.text == ""
    assert said in result.errors, result.errors


def test_help_says_how_it_ends(replay):
    result = replay("--help")
    assert result.code == 0 and "Exit codes: 0 all rules hold; 1 " in result.text


def test_a_hundred_thousand_events_take_seconds(replay, tmp_path):
    lines = WELL.read_text().splitlines()[:16]
    at = json.loads(lines[-1])["t"]
    body = [f'{{"t":{at + i},"event":"addresses","worker":{i % 6}}}' for i in range(100_000)]
    path = written(tmp_path, lines + body)
    began = cpu_seconds()
    page = json.loads(replay("--json", path, timeout=60).text)
    assert page["events"] == 100_015
    assert cpu_seconds() - began < 3
