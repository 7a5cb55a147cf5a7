# SPDX-License-Identifier: Apache-2.0
"""`hvdray tune` and hvdray.tune.run: searches with real trials, in an Optuna of their own."""

import json
import signal
import sqlite3
import subprocess

import pytest
from tune_program import optuna_venv, tune  # noqa: F401

SCRIPT = """
import sys
lr = float(sys.argv[1])
for epoch in range(4):
    print(f"epoch {epoch} took 1 s, loss {(lr - 0.3) ** 2 + 1 / (epoch + 1)}, fine", flush=True)
"""
SEARCH = """
command: [python3, -S, train.py, "{lr}"]
space: {lr: {float: [1e-4, 1.0]}}
metric: loss
trials: 4
max_concurrent: 2
sampler: {random: {seed: 1}}
report_from: 'epoch (?P<step>\\d+) .*loss (?P<loss>\\S+)'
"""
OBJECTIVE = """
import os, sys, time
import hvdray.tune

def objective(config):
    assert config == hvdray.tune.config()
    print("rank", os.environ["HVDRAY_RANK"], "of", os.environ["HOROVOD_SIZE"], "trial", hvdray.tune.trial_id())
    hvdray.tune.report(loss=1.0 + config["x"], seen=7)
    return config["x"] * config["x"]

def broken(config):
    if hvdray.tune.trial_id() % 2:
        raise ValueError(f"no good: {config['x']}")
    return 1.0

def flaky(config):
    before = hvdray.tune.get_checkpoint()
    if before is None:
        os.makedirs("made", exist_ok=True)
        hvdray.tune.report(loss=5.0, checkpoint="made")
        os._exit(3)
    hvdray.tune.report(loss=4.0)

def slow(config):
    kept = hvdray.tune.get_checkpoint()
    at = int(open(kept + "/step").read()) + 1 if kept else 0
    for step in range(at, 6):
        os.makedirs("made", exist_ok=True)
        with open("made/step", "w") as file:
            file.write(str(step))
        hvdray.tune.report(loss=float(step), checkpoint="made")
        while step == 2 and os.path.exists("hold"):
            time.sleep(0.01)

def silent(config):
    hvdray.tune.report(accuracy=1)

def diverging(config):
    hvdray.tune.report(loss=float("nan"))
    while True:
        pass

def pruned(config):
    for step in range(3):
        hvdray.tune.report(loss=config["n"] + 0.0, step=step)
    while config["n"] > 1:  # until the pruner ends it
        hvdray.tune.report(loss=config["n"] + 0.0, step=step)
"""


@pytest.fixture(autouse=True)
def programs(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "obj.py").write_text(OBJECTIVE)


def test_an_unmodified_script_is_tuned_by_its_lines(tune):  # noqa: F811
    result = tune(SEARCH)
    lines = result.text.splitlines()
    assert sum(line.startswith("trial ") for line in lines) == 4
    again = next(line for line in lines if line.startswith("to run it again: "))[len("to run it again: ") :]
    assert again.startswith("hvdray run -np 1 -- python3 -S train.py 0.")
    best = next(line for line in lines if line.startswith("best: trial "))
    shown = subprocess.run(["sh", "-c", again.replace("hvdray", str(tune.hvdray.binary), 1)], cwd=tune.folder, capture_output=True, text=True,
                           check=True).stdout
    last = float(shown.splitlines()[-1].split("loss ")[1].split(",")[0])
    assert best.endswith(f"loss {last:.6g}")
    assert "[0]<stdout>:epoch 3 took" in (tune.folder / "s.tune/trial_0/output.txt").read_text()
    rows = sqlite3.connect(tune.folder / "s.tune/study.db").execute("select count(*) from trial_intermediate_values").fetchone()
    assert rows == (16,)


def test_functions_run_on_all_ranks_and_rank_0_reports(tune):  # noqa: F811
    trials = tune.function("objective", "trials: 3\nrun: {np: 2}")
    assert [trial["state"] for trial in trials] == ["complete"] * 3
    for trial in trials:
        x = trial["params"]["x"]
        assert trial["reports"] == [[0, 1 + x], [1, x * x]] and trial["value"] == x * x and trial["metrics"]["seen"] == 7
        printed = (tune.folder / f"s.tune/trial_{trial['number']}/output.txt").read_text()
        assert sorted(printed.splitlines()) == [f"[{rank}]<stdout>:rank {rank} of 2 trial {trial['number']}" for rank in (0, 1)]


def test_a_failed_trial_says_why_and_others_go_on(tune):  # noqa: F811
    trials = tune.function("broken", "trials: 4")
    assert [trial["state"] for trial in trials] == ["complete", "fail", "complete", "fail"]
    assert "ValueError: no good" in trials[1]["why"]


def test_a_retry_goes_on_from_the_checkpoint_and_so_does_the_step(tune):  # noqa: F811
    trials = tune.function("flaky", "trials: 1\nmax_failures: 1")
    assert [(trial["state"], trial["reports"], trial["value"]) for trial in trials] == [("complete", [[0, 5.0], [1, 4.0]], 4.0)]


def test_a_metric_that_never_comes_is_named_and_all_trials_have_failed(tune):  # noqa: F811
    trials = tune.function("silent", code=1)
    assert {trial["why"] for trial in trials} == {"it has reported no loss; its reports have accuracy"}


def test_a_trial_whose_loss_is_nan_is_ended(tune):  # noqa: F811
    trials = tune.function("diverging", code=1)
    assert [(trial["state"], trial["why"]) for trial in trials] == [("pruned", "loss is NaN at step 0")] * 2


def test_the_pruner_ends_a_trial_and_the_grid_is_dealt_in_order(tune):  # noqa: F811
    trials = tune.document("func: 'obj:pruned'\nspace: {n: {grid: [1, 3, 2]}}\nmetric: loss\nmax_concurrent: 1\n"
                           "pruner: {median: {n_startup_trials: 1}}\n")["trials"]
    assert [(trial["params"]["n"], trial["state"]) for trial in trials] == [(1, "complete"), (3, "pruned"), (2, "pruned")]


def test_what_tpe_decides_by_itself_is_written_into_the_study(tune):  # noqa: F811
    tune(SEARCH.replace("random", "tpe").replace("trials: 4", "trials: 1"))
    rows = sqlite3.connect(tune.folder / "s.tune/study.db").execute("select value_json from study_user_attributes where key = 'hvdray:tpe'")
    assert json.loads(rows.fetchone()[0]) == {"multivariate": True, "constant_liar": True}


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (("{random", "{randm"), 2, "sampler: Optuna has no 'randm'; did you mean random?"),
        (("seed", "sed"), 2, "sampler: RandomSampler has no argument 'sed'; did you mean seed?"),
        (("space: {lr", "space: {l"), 2, "s.yaml:2:34: {lr} is not in space; did you mean l? [HVD-E0102]"),
        (("metric: loss", "metric: loss\npruner: {median: {n_startup_trials: -1}}"), 2, "pruner: MedianPruner: "),
        (("python3, -S", "no-such-program"), 125, "the command can't be run: rank 0"),
        (("trials: 4", "trials: 4\nrun: {hosts: 'localhost:1', np: 2}"), 2, "a trial needs 2 slots, and there are localhost:1"),
        (("trials: 4", "trials: 4\nrun: {verbos: 1}"), 2, "verbos"),
        (("trials: 4", "trials: 4\nstorage: 'sqlite:////no/such/folder/x.db'"), 125, "unable to open database file"),
    ],
)
def test_wrong_searches_are_refused_in_one_line(tune, change, code, said):  # noqa: F811
    result = tune(SEARCH.replace(*change), code=code)
    assert said in result.errors and "Traceback" not in result.errors, result.errors


def test_a_study_that_is_there_is_not_begun_again(tune):  # noqa: F811
    tune(SEARCH)
    assert "--resume goes on with it" in tune(SEARCH, code=125).errors
    assert "space is not as the study" in tune(SEARCH.replace("1.0]", "2.0]"), "--resume", code=125).errors
    assert tune.document(SEARCH.replace("trials: 4", "trials: 5"), "--resume")["trials"][4]["state"] == "complete"


def test_without_optuna_it_says_what_to_install(tune):  # noqa: F811
    tune.environment["PATH"] = "/usr/bin:/bin"
    result = tune(SEARCH, code=125)
    assert result.errors == "hvdray tune: Optuna is not installed here\n  hint: pip install 'hvdray[tune]'\n"


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_a_search_that_is_told_to_end_can_go_on(tune, signo):  # noqa: F811
    (tune.folder / "hold").touch()
    search = "func: 'obj:slow'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 2\nmax_concurrent: 1\n"
    job = tune.start(search)
    database = tune.folder / "s.tune/study.db"
    reports = "select count(*) from trial_intermediate_values"
    job.wait_for(lambda: database.exists() and tune.rows(reports) == [(3,)], what="three reports")
    job.process.send_signal(signo)
    result = job.wait(60)
    assert result.code in (128 + signo, -signo)
    assert result.text.endswith("to go on: hvdray tune s.yaml --resume\n"), result.text + result.errors
    assert not job.survivors()
    (tune.folder / "hold").unlink()
    trials = tune.document(search, "--resume")["trials"]
    assert [trial["state"] for trial in trials] == ["fail", "complete", "complete"]
    assert trials[1]["params"] == trials[0]["params"] and trials[0]["reports"] == trials[1]["reports"][:3]
    assert [step for step, _ in trials[1]["reports"]] == [0, 1, 2, 3, 4, 5], "it has gone on from its checkpoint"


def test_show_tells_what_a_study_has_and_plots_it(tune):  # noqa: F811
    searched = tune.document(SEARCH)
    result = tune.show("s.tune/study.db")
    best = searched["best"]
    lines = result.text.splitlines()
    assert lines[0].split() == ["trial", "state", "loss", "step", "time", "lr"]
    assert lines[1].split()[:2] == [str(best), "complete"]
    assert lines[-2:] == [f"best: trial {best}, loss {searched['trials'][best]['value']:.6g}", f"to run it again: {searched['run_again']}"]
    assert json.loads(tune.show("s.tune", "--json").text) == searched
    tune.show("s.tune/study.db", "--plot", "plots")
    assert sorted(path.name for path in (tune.folder / "plots").iterdir()) == ["history.svg", "importance.svg"]
    assert "no such file: none.db" in tune.show("none.db", code=2).errors
    assert "has no study 't'; it" not in tune.show("s.tune", "--study", "t", code=2).errors
    (tune.folder / "no.db").write_text("no database, but long enough to be none")
    assert "file is not a database" in tune.show("no.db", code=125).errors
    assert "--plot is for show" in tune(SEARCH, "--plot", "x", code=2).errors
