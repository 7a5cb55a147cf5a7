# SPDX-License-Identifier: Apache-2.0
"""The file of a search: read strictly, wrong ones named with their place."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from hvdray.tune._slots import partition  # noqa: E402
from hvdray.tune._errors import SpecError  # noqa: E402
from hvdray.tune._spec import argv_of, read_search, text_of  # noqa: E402

yaml = pytest.importorskip("yaml")
from hvdray.tune._yaml import read_yaml  # noqa: E402

GOOD = """\
command: [python, train.py, --lr, "{lr}", --batch, "{batch}"]
space:
  lr: {float: [1e-4, 1e-1], log: true}
  batch: {choice: [16, 32]}
metric: loss
trials: 20
"""


def read(tmp_path, text):
    path = tmp_path / "search.yaml"
    path.write_text(text)
    return read_search(*_with_name(*read_yaml(str(path))))


def _with_name(tree, places):
    return tree, "search", places


def test_a_number_without_a_dot_is_a_number(tmp_path):
    search = read(tmp_path, GOOD)
    assert (search.space[0].low, search.space[0].high, search.space[0].log) == (1e-4, 1e-1, True)
    assert (search.trials, search.np, search.storage, search.output) == (20, 1, "sqlite:///study.db", "search.tune")


def test_a_file_that_is_not_there_has_the_code_of_one(tmp_path):
    with pytest.raises(SpecError) as raised:
        read_yaml(str(tmp_path / "none.yaml"))
    assert raised.value.code == "HVD-E0104"


def test_placeholders_are_replaced_and_doubled_braces_stay(tmp_path):
    search = read(tmp_path, GOOD.replace('"{batch}"', '"b={batch}{{lr}}"'))
    assert argv_of(search.command, search.by_variable, {"lr": text_of(0.5), "batch": text_of(16)}) == ["python", "train.py", "--lr", "0.5", "--batch", "b=16{lr}"]


def test_the_grid_is_in_the_order_written_and_counts_the_trials(tmp_path):
    text = GOOD.replace("{choice: [16, 32]}", "{grid: [32, 16]}").replace("{float: [1e-4, 1e-1], log: true}", "{grid: [3, 1]}")
    search = read(tmp_path, text.replace("trials: 20\n", ""))
    assert search.grid() == [{"lr": 3, "batch": 32}, {"lr": 3, "batch": 16}, {"lr": 1, "batch": 32}, {"lr": 1, "batch": 16}]
    assert search.trials == 4


def test_of_a_grid_with_billions_of_points_those_that_are_tried_are_made(tmp_path):
    text = GOOD.replace("[16, 32]", "[16]").replace("float: [1e-4, 1e-1], log: true", f"grid: {list(range(200))}").replace("trials: 20", "trials: 3")
    for name in "abcdef":
        text = text.replace("space:", f"space:\n  {name}: {{grid: {list(range(200))}}}").replace('"{lr}"', f'"{{lr}}", "{{{name}}}"')
    assert [point["lr"] for point in read(tmp_path, text).grid()] == [0, 1, 2]


def test_a_trial_has_the_workers_that_run_says(tmp_path):
    search = read(tmp_path, GOOD + "run: {num-hosts: 2, num_slots: 3, grace: 5}\n")
    assert (search.np, search.run) == (6, {"grace": 5})


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("metric:", "metrik:", "search.yaml:5:1: unknown key 'metrik'; did you mean metric?"),
        ("trials: 20", "trials: 0", "search.yaml:6:1: trials must be a whole number, at least 1, not 0"),
        ("trials: 20", "trials: 20\ntrials: 3", "search.yaml:7:1: 'trials' is there twice"),
        ("float:", "flaot:", "search.yaml:3:8: unknown key 'flaot'; did you mean float?"),
        ("[16, 32]", "[]", "search.yaml:4:11: space.batch.choice must be a list of values, and not empty"),
        ("[16, 32]", "[16, 16]", "search.yaml:4:24: 16 is there twice"),
        ("[1e-4, 1e-1]", "[1e-1, 1e-4]", "search.yaml:3:8: space.lr: low (0.1) must be below high (0.0001)"),
        ("[1e-4, 1e-1]", "[0, 1]", "search.yaml:3:8: space.lr: log needs low above 0, not 0"),
        ("log: true", "log: true, step: 0.1", "search.yaml:3:40: log and step don't go together"),
        ("[1e-4, 1e-1], log: true", "[-1.7e308, 1.7e308]", "search.yaml:3:8: space.lr: high - low is no longer a number"),
        ("{choice: [16, 32]}", "{int: [0, 9007199254740993]}", "search.yaml:4:11: space.batch: a study keeps whole numbers up to 2^53 exactly"),
        ("[16, 32]", "[16, .inf]", "search.yaml:4:24: not a number that JSON has: inf"),
        ("[16, 32]", '["a\\0b"]', r"search.yaml:4:20: not a text that a program can get: 'a\x00b'"),
        ("[16, 32]", '["\\ud800"]', r"search.yaml:4:20: not a text that a program can get: '\ud800'"),
        ("metric: loss", "metric: step", "search.yaml:5:1: the metric can't be named step: reports have that name for something else"),
        ("[1e-4, 1e-1], log: true", "[0, 1], step: 5", "search.yaml:3:23: step (5) must not be above high - low (1): only 0 would be left"),
        ("[1e-4, 1e-1], log: true", "[0.5, 0.75], step: 0.5", "search.yaml:3:28: step (0.5) must not be above high - low (0.25)"),
        ("metric: loss", "metric: val/loss\nreport_from: 'e (?P<step>.) (?P<val>.)'", "search.yaml:6:1: report_from has no group 'value', the metric"),
        ('"{lr}"', '"{rl}"', "search.yaml:1:35: {rl} is not in space"),
        (', "{batch}"', "", "search.yaml:4:3: {batch} is not in the command: the program would not get it"),
        ('"{batch}"', "{batch}", "search.yaml:1:52: not a word: {'batch': None}"),
        ("trials: 20", "trials: 20\nrun: {timeout: 3}", "search.yaml:7:7: run.timeout is not for trials: trial_timeout limits a trial"),
        ("trials: 20", "trials: 20\nrun: {np: 2, num_slots: 1}", "search.yaml:7:1: run: np and num_slots are both given"),
        ("trials: 20", "trials: 20\nreport_from: 'l (?P<loss>.*)'", "search.yaml:7:1: report_from has no group 'step', the number of the step"),
        ("trials: 20", "trials: 20\nreport_from: '(?P<step>.*'", "search.yaml:7:1: report_from is not a valid regular expression: missing )"),
        ("trials: 20", "trials: 20\ndirection: minimise", "search.yaml:7:1: direction must be minimize or maximize, not 'minimise'; did you mean minimize?"),
        ("trials: 20", "trials: 20\nstorage: study.db", "search.yaml:7:1: storage must be the URL of a database, not 'study.db'"),
        ("trials: 20", "trials: 20\nsampler: {tpe: {}, random: {}}", "search.yaml:7:1: sampler must be a name, or one name with its arguments"),
        ("trials: 20", "trials: *x", "search.yaml:6:9: found undefined alias 'x'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, old, new, message):
    with pytest.raises(SpecError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(message)


def test_an_empty_file_and_one_that_contains_itself_are_refused(tmp_path):
    with pytest.raises(SpecError, match="a search must be a mapping"):
        read(tmp_path, "")
    with pytest.raises(SpecError, match="contains itself"):
        read(tmp_path, "command: &a [*a]\n")


@pytest.mark.parametrize(
    ("slots", "np", "hosts", "lanes"),
    [
        ([("a", 4)], 2, None, [[("a", 2)], [("a", 2)]]),
        ([("a", 3), ("b", 3)], 2, None, [[("a", 2)], [("b", 2)], [("a", 1), ("b", 1)]]),
        ([("a", 1), ("b", 1), ("c", 1)], 2, None, [[("a", 1), ("b", 1)]]),
        ([("a", 4), ("b", 2), ("c", 2)], 4, 2, [[("a", 2), ("b", 2)], [("a", 2), ("c", 2)]]),
        ([("a", 1)], 2, None, []),
        ([("a", 9)], 2, 2, []),
    ],
)
def test_a_lane_is_on_one_host_where_that_has_room(slots, np, hosts, lanes):
    assert partition(slots, np, hosts) == lanes
