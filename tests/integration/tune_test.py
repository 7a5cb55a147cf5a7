# SPDX-License-Identifier: Apache-2.0
"""`hvdray tune` and hvdray.tune.run: searches with real trials, in an Optuna of their own."""

import json
import shlex
import signal
import subprocess

import pytest
from at_terminal import Terminal
from tune_program import SEARCH, optuna_venv, programs, tune  # noqa: F401


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
    rows = tune.rows("select count(*) from trial_intermediate_values")
    assert rows == [(16,)]


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


def test_the_pruner_ends_a_trial_and_the_grid_is_dealt_in_order(tune):  # noqa: F811
    trials = tune.document("func: 'obj:pruned'\nspace: {n: {grid: [1, 3, 2]}}\nmetric: loss\nmax_concurrent: 1\n"
                           "pruner: {median: {n_startup_trials: 1}}\n")["trials"]
    assert [(trial["params"]["n"], trial["state"]) for trial in trials] == [(1, "complete"), (3, "pruned"), (2, "pruned")], trials


def test_without_optuna_it_says_what_to_install(tune):  # noqa: F811
    tune.environment["PATH"] = "/usr/bin:/bin"
    result = tune(SEARCH, code=125)
    lacking = "hvdray tune: /usr/bin/python3 has no Optuna\n  hint: pip install 'optuna>=5,<6'\n"
    assert result.errors == lacking
    del tune.environment["PYTHONPATH"]
    assert tune(SEARCH, code=125).errors == lacking, "by the package that is with this program"
    assert "unknown key 'flat'" in tune(SEARCH.replace("float", "flat"), code=2).errors, "the file is read first"


@pytest.mark.parametrize("early", ["sitecustomize", "colorlog"])
def test_an_interrupt_while_python_imports_is_an_end_without_a_traceback(tune, early):  # noqa: F811
    (tune.folder / f"{early}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    tune.environment["PYTHONPATH"] += f":{tune.folder}"
    result = tune(SEARCH, code=130)
    assert (result.text, result.errors) == ("", "")
    assert not (tune.folder / "s.tune").exists()


@pytest.mark.parametrize("signo", [signal.SIGINT])
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
    assert not list(tune.folder.glob("s.tune/study.db?*")) and tune.rows("pragma journal_mode") == [("delete",)], "a file alone"
    result = tune.show("s.tune/study.db")
    best = searched["best"]
    lines = result.text.splitlines()
    assert lines[0].split() == ["trial", "state", "loss", "step", "time", "lr"]
    assert lines[1].split()[:2] == [str(best), "complete"]
    assert lines[-2:] == [f"best: trial {best}, loss {searched['trials'][best]['value']:.6g}", f"to run it again: {searched['run_again']}"]
    assert json.loads(tune.show("s.tune", "--json").text) == searched
    tune.show("s.tune/study.db", "--plot", "plots")
    assert sorted(path.name for path in (tune.folder / "plots").iterdir()) == ["history.svg", "importance.svg"]
    for words in ("none.db", "sqlite:///none.db"):
        assert "no such file: none.db" in tune.show(words, code=2).errors
    assert not (tune.folder / "none.db").exists()
    assert "has no study 't'; it" not in tune.show("s.tune", "--study", "t", code=2).errors
    (tune.folder / "no.db").write_text("no database, but long enough to be none")
    assert "file is not a database" in tune.show("no.db", code=125).errors
    assert "--plot is for show" in tune(SEARCH, "--plot", "x", code=2).errors


def test_a_terminal_has_a_table_that_lives(tune):  # noqa: F811
    (tune.folder / "hold").touch()
    (tune.folder / "s.yaml").write_text("func: 'obj:slow'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 2\nmax_concurrent: 1\n")

    def start(**more):
        return subprocess.Popen([tune.hvdray.binary, "tune", "s.yaml"], cwd=tune.folder, env=tune.environment, **more)

    terminal = Terminal(start)
    terminal.wait_for(r"trial +state +loss +step +time +x\r\n0 +running +2 +2 ")
    (tune.folder / "hold").unlink()
    terminal.wait_for(r"0 +complete +5 +5 .*1 +complete +5 +5 .*best: trial 0, loss 5\r\nto run it again: hvdray.run\(obj.slow, ")
    assert terminal.code() == 0


def test_a_table_fits_into_its_own_terminal_whatever_stdout_is(tune):  # noqa: F811
    (tune.folder / "s.yaml").write_text(SEARCH.replace("trials: 4", "trials: 14") + "run: {env: 'A=b'}\n")

    def start(stdout, **more):
        with (tune.folder / "s.json").open("w") as file:
            return subprocess.Popen([tune.hvdray.binary, "tune", "s.yaml", "--json"], cwd=tune.folder, env=tune.environment, stdout=file, **more)

    terminal = Terminal(start, rows=10, columns=24)
    terminal.wait_for("study s in s.tune: 14 trials, 2 at a time\r\n")
    assert terminal.code(120) == 0
    rows = terminal.shown.decode().split("\r\n")
    tables = terminal.shown.decode().split("\x1b[J")
    assert max(map(len, "".join(tables[1:]).split("\r\n"))) < 24 + len("\x1b[9A"), rows
    assert max(table.count("\r\n") for table in tables) < 10
    assert len(json.loads((tune.folder / "s.json").read_text())["trials"]) == 14


def test_a_table_that_a_narrow_terminal_has_wrapped_is_cleared_whole(tune, optuna_venv):  # noqa: F811
    program = """
import io, os
from hvdray.tune._shown import View
view = View(io.StringIO(), True)
view._rows = [60, 10, 0]
os.environ.update(COLUMNS="25", LINES="50")
view._clear()
view._rows = [100] * 30
view._clear()
print(repr(view._stream.getvalue()))
"""
    done = subprocess.run([f"{optuna_venv}/bin/python", "-c", program], env=tune.environment, capture_output=True, text=True, check=True)
    assert done.stdout == repr("\x1b[5A\x1b[J\x1b[49A\x1b[J") + "\n"


def test_a_program_that_reports_is_run_again_as_the_trial_it_was(tune):  # noqa: F811
    (tune.folder / "reports.py").write_text("""
import os, sys
import hvdray.tune
os.makedirs("made", exist_ok=True)
hvdray.tune.report(loss=float(sys.argv[1]), checkpoint="made")
assert hvdray.tune.config()["x"] == float(sys.argv[1])
""")
    document = tune.document("command: [python3, reports.py, '{x}']\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\n")
    assert document["best"] == 0, document
    words = shlex.split(document["run_again"])
    assert words[0] == "hvdray"
    result = tune.hvdray.run(*words[1:], cwd=tune.folder, env=tune.environment)
    assert result.code == 0, result.errors


def test_python_gets_optunas_study(tune):  # noqa: F811
    program = """
import hvdray.tune
def square(config):
    return config["x"] ** 2
study = hvdray.tune.run(square, space={"x": {"grid": [2, -1]}}, metric="loss", max_concurrent=1)
print(type(study).__module__, [trial.value for trial in study.trials], study.best_params)
try:
    hvdray.tune.run(square, space={"x": {"grid": [2, -1]}}, metrics="loss")
except hvdray.tune.TuneError as error:
    print(error.message)
"""
    (tune.folder / "program.py").write_text(program)
    job = tune.hvdray.start("program.py", binary="python3", cwd=tune.folder, env={**tune.environment, "HVDRAY_BINARY": str(tune.hvdray.binary)})
    result = job.wait(60)
    assert result.text.splitlines() == ["optuna.study.study [4.0, 1.0] {'x': -1}", "unknown key 'metrics'; did you mean metric?"], result.errors
    assert not job.survivors()


@pytest.mark.parametrize("printed", ["'\\repoch 0 loss 3.0\\repoch 1 loss {x}\\r'", "'epoch 1 loss {x}'"])
def test_progress_bars_and_last_lines_without_an_end_are_lines(tune, printed):  # noqa: F811
    trials = tune.document(f"command: [printf, {printed!r}]\nspace: {{x: {{grid: [0.5]}}}}\nmetric: loss\n"
                           "report_from: 'epoch (?P<step>\\d+) loss (?P<loss>[0-9.]+)'\n")["trials"]
    assert [(trial["state"], trial["value"]) for trial in trials] == [("complete", 0.5)], trials


def test_another_study_does_not_begin_with_the_checkpoints_of_the_first(tune):  # noqa: F811
    (tune.folder / "kept.py").write_text("""
import os, hvdray.tune
print("has", hvdray.tune.get_checkpoint(), flush=True)
os.makedirs("made", exist_ok=True)
hvdray.tune.report(loss=hvdray.tune.config()["x"], checkpoint="made", step=1 << 70)
""")
    search = "command: [python3, kept.py]\nconfig: variable\nspace: {x: {grid: [0.5]}}\nmetric: loss\nrun: {env: WORD=secret}\n"
    document = tune.document(search)
    tune.document(search + "study: second\n")
    assert "has None" in (tune.folder / "s.tune/trial_0.2/output.txt").read_text()
    assert "secret" not in json.dumps(document)
