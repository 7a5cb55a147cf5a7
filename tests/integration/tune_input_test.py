# SPDX-License-Identifier: Apache-2.0
"""Searches that are wrong, or whose trials are: one line, the right exit code, nothing lost."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import pytest
from tune_program import ROOT, SEARCH, optuna_venv, programs, tune  # noqa: F401


def test_a_retry_goes_on_from_the_checkpoint_and_so_does_the_step(tune):  # noqa: F811
    trials = tune.function("flaky", "trials: 1\nmax_failures: 1")
    assert [(trial["state"], trial["reports"], trial["value"]) for trial in trials] == [("complete", [[0, 5.0], [1, 4.0]], 4.0)]


def test_a_retry_is_told_once_and_the_trial_when_it_is_over(tune):  # noqa: F811
    text = tune("func: 'obj:flaky'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\nmax_failures: 1\n").text
    assert "running" not in text and text.count("trial 0: ") == 1 and text.startswith("study s in s.tune: 1 trial, 1 at a time\n"), text


def test_a_metric_need_not_be_an_identifier(tune):  # noqa: F811
    trials = tune.document(SEARCH.replace("metric: loss", "metric: val/loss").replace("(?P<loss>", "(?P<value>"))["trials"]
    assert [trial["state"] for trial in trials] == ["complete"] * 4 and len(trials[0]["reports"]) == 4


def test_who_breaks_the_rules_of_the_channel_is_told_so(tune):  # noqa: F811
    command = """command: [sh, -c, 'echo "{{\\"type\\":\\"report\\"}}" >&$HVDRAY_CHANNEL_FD; sleep 100', "{x}"]"""
    (trial,) = tune.document(command + "\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\n", code=1)["trials"]
    assert trial["why"].endswith(': broken channel: "report" without "metrics"'), trial


def test_a_finished_search_says_that_nothing_is_left_to_run(tune):  # noqa: F811
    text = "func: 'obj:silent'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 2\n"
    assert "nothing to run" not in tune(text, code=1).text
    assert "nothing to run: the study has 2 trials, 2 failed; a larger number (trials:) goes on" in tune(text, "--resume", code=1).text


def test_searches_that_begin_at_once_make_their_tables_together(tune, optuna_venv):  # noqa: F811
    program = """
import os, pathlib, sys
from hvdray.tune._study import open_storage
pathlib.Path(f"ready{sys.argv[1]}").touch()
while not os.path.exists("go"):
    pass
open_storage("sqlite:///x.db")
"""
    running = [subprocess.Popen([f"{optuna_venv}/bin/python", "-c", program, str(number)], cwd=tune.folder, env=tune.environment,
                                stderr=subprocess.PIPE, text=True) for number in range(4)]
    while len(list(tune.folder.glob("ready*"))) < 4 and all(one.poll() is None for one in running):
        time.sleep(0.01)
    (tune.folder / "go").touch()
    assert [one.communicate()[1] for one in running] == [""] * 4


def test_a_metric_that_never_comes_is_named_and_all_trials_have_failed(tune):  # noqa: F811
    trials = tune.function("silent", code=1)
    assert {trial["why"] for trial in trials} == {"it has reported no loss; its reports have accuracy"}


def test_a_metric_that_is_no_number_is_shown(tune):  # noqa: F811
    trials = tune.function("boolean", code=1)
    assert {trial["why"] for trial in trials} == {"it has reported no loss; it has reported True, which is not a number"}


def test_a_trial_is_one_line_whatever_it_says(tune):  # noqa: F811
    text = 'func: "obj:coloured"\nspace: {x: {grid: ["a\\nb"]}}\nmetric: loss\n'
    result = tune(text, code=1)
    assert result.text.splitlines()[1:] == [line for line in result.text.splitlines() if line.startswith(r"trial 0: x=a\nb: failed, ")], result.text
    assert r"red \x1b[31m text\r\nand" in result.text and r"red \x1b[31m text\r\nand" in result.errors
    (trial,) = json.loads(tune.show("s.tune", "--json", code=1).text)["trials"]
    assert "red \x1b[31m text\r\nand" in trial["why"]


def test_a_regular_expression_that_takes_for_ever_is_said(tune):  # noqa: F811
    search = SEARCH.replace("train.py", "-c", 1).replace('"{lr}"]', '"print(\'a\' * 60); print(\'!\')", "{lr}"]').replace("trials: 4", "trials: 1")
    text = search[: search.index("report_from")] + "report_from: '(a+)+!(?P<step>.)(?P<loss>.)'\n"
    (trial,) = tune.document(text, code=1)["trials"]
    assert trial["why"] == "it has reported no loss; report_from has taken more than 2 s for a line"


def test_a_signal_is_heard_before_the_reports_that_wait(tune):  # noqa: F811
    job = tune.start("func: 'obj:flooding'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\nmax_concurrent: 1\n")
    job.wait_for(lambda: (tune.folder / "flooded").exists(), what="all its reports")
    job.process.send_signal(signal.SIGINT)
    assert job.wait(120).code == 130
    ((count,),) = tune.rows("select count(*) from trial_intermediate_values")
    assert count < 3000, "all were written first"


def as_program(tune, optuna_venv, before, **more):
    """`hvdray tune s.yaml`, after `before` has changed what only time or another release would change."""
    return tune.hvdray.start("-c", f"import sys\n{before}\nfrom hvdray.tune.__main__ import main\nsys.exit(main(['s.yaml']))",
                             binary=f"{optuna_venv}/bin/python", cwd=tune.folder,
                             env={**tune.environment, "HVDRAY_BINARY": str(tune.hvdray.binary)}, **more)


def test_a_regular_expression_that_matches_nothing_is_said_while_the_trial_runs(tune, optuna_venv):  # noqa: F811
    (tune.folder / "train.py").write_text("import os, time\nprint('loss 1', flush=True)\nwhile not os.path.exists('said'):\n    time.sleep(0.01)\n")
    (tune.folder / "s.yaml").write_text(SEARCH.replace("trials: 4", "trials: 1"))
    shown = tune.folder / "shown"
    with open(shown, "wb") as out:
        job = as_program(tune, optuna_venv, "from hvdray.tune import _run\n_run.QUIET_S = 0.1", stdout=out)
    job.wait_for(lambda: "trial 0: report_from has matched no line of rank 0 in 0.1 s; see " in shown.read_text(), what="the line")
    (tune.folder / "said").touch()
    assert job.wait(60).code == 1 and shown.read_text().count("matched no line") == 1


@pytest.mark.parametrize("version", ["4.9.9", "6.0.0"])
def test_an_optuna_too_old_or_too_new_is_told_what_was_tested(tune, optuna_venv, version):  # noqa: F811
    (tune.folder / "s.yaml").write_text(SEARCH)
    result = as_program(tune, optuna_venv, f"import optuna\noptuna.__version__ = '{version}'").wait(60)
    said = f"hvdray tune: a search works with Optuna 5, tested is 5.0.0; this is {version}\n  hint: pip install 'optuna>=5,<6'\n"
    assert (result.code, result.errors) == (125, said)


def test_lines_are_found_whatever_the_environment_says(tune):  # noqa: F811
    tune.environment.update(HVDRAY_TAG_OUTPUT="none", HVDRAY_PREFIX_OUTPUT_WITH_TIMESTAMP="1", HVDRAY_NP="7")
    assert [len(trial["reports"]) for trial in tune.document(SEARCH)["trials"]] == [4] * 4


def test_a_sampler_that_has_nothing_left_ends_the_search(tune):  # noqa: F811
    document = tune.document("func: 'obj:objective'\nspace: {x: {int: [1, 2]}}\nmetric: loss\nsampler: brute_force\ntrials: 9\nmax_concurrent: 1\n")
    assert sorted(trial["params"]["x"] for trial in document["trials"]) == [1, 2]


def test_output_that_can_not_be_written_is_one_line(tune):  # noqa: F811
    (tune.folder / "s.yaml").write_text(SEARCH)
    job = tune.hvdray.start("-c", '"$@" > /dev/full', "sh", tune.hvdray.binary, "tune", "s.yaml", binary="sh", cwd=tune.folder, env=tune.environment)
    result = job.wait(60)
    assert (result.code, result.errors) == (125, "hvdray tune: can't write: No space left on device [HVD-E0305]\n")
    assert not job.survivors()


def test_a_clock_that_is_set_back_stops_no_sign_of_life(tune, optuna_venv):  # noqa: F811
    program = """
import time
from hvdray.tune import _study
from hvdray.tune._spec import read_search
search = read_search({"func": "a:b", "space": {"x": {"float": [0, 1]}}, "metric": "loss", "trials": 1}, "s")
book = _study.Book(search, "sqlite:///x.db", False)
real = time.time
time.time = lambda: real() - 3600
monotonic = time.monotonic
time.monotonic = lambda: monotonic() + _study.ALIVE_S
print(book.tell_alive(), book.tell_alive())
"""
    done = subprocess.run([f"{optuna_venv}/bin/python", "-c", program], cwd=tune.folder, env=tune.environment, capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


def test_a_point_that_another_search_queues_meanwhile_goes_before_a_new_one(tune, optuna_venv):  # noqa: F811
    program = """
from hvdray.tune import _study
from hvdray.tune._spec import read_search
search = read_search({"func": "a:b", "space": {"x": {"float": [0, 1]}}, "metric": "loss", "trials": 1}, "s")
one, other = (_study.Book(search, "sqlite:///x.db", resume) for resume in (False, True))
lost = one.next()
one._cut_short(lost.number, one._id)
storage = other.study._storage
create = storage.create_new_trial
def late(*arguments, **more):
    storage.create_new_trial = create
    one._again(one.trials()[lost.number])
    return create(*arguments, **more)
storage.create_new_trial = late
print(other.next().params == lost.params, [trial.state.name for trial in other.trials()])
"""
    done = subprocess.run([f"{optuna_venv}/bin/python", "-c", program], cwd=tune.folder, env=tune.environment, capture_output=True, text=True)
    assert done.stdout == "True ['FAIL', 'RUNNING', 'FAIL']\n", done.stderr


def test_a_trial_whose_loss_is_nan_is_ended(tune):  # noqa: F811
    trials = tune.function("diverging", code=1)
    assert [(trial["state"], trial["why"]) for trial in trials] == [("pruned", "loss is NaN at step 0")] * 2


def test_what_tpe_decides_by_itself_is_written_into_the_study(tune):  # noqa: F811
    tune(SEARCH.replace("random", "tpe").replace("trials: 4", "trials: 1"))
    ((text,),) = tune.rows("select value_json from study_user_attributes where key = 'hvdray:tpe'")
    assert json.loads(text) == {"multivariate": True, "constant_liar": True}


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (("{random", "{randm"), 2, "s.yaml:7:1: sampler: Optuna has no 'randm'; did you mean random?"),
        (("random: {seed: 1}", "tpe: {n_startup_trials: 1, gamma: 5}"), 2, "s.yaml:7:1: sampler: tpe: 'int' object is not callable"),
        (("1.0]", "1.0], step: 1.0e-300"), 2, "s.yaml:3:9: space.lr: "),
        (("seed", "sed"), 2, "s.yaml:7:20: sampler: RandomSampler has no argument 'sed'; did you mean seed?"),
        (("space: {lr", "space: {l"), 2, "s.yaml:2:34: {lr} is not in space; did you mean l? [HVD-E0102]"),
        (("metric: loss", "metric: loss\npruner: {median: {n_startup_trials: -1}}"), 2, "s.yaml:5:10: pruner: MedianPruner: "),
        (("metric: loss", "metric: loss\npruner: medain"), 2, "s.yaml:5:1: pruner: Optuna has no 'medain'; did you mean median? [HVD-E0102]"),
        (("python3, -S", "no-such-program"), 125, "the command can't be run: rank 0"),
        (("trials: 4", "trials: 4\nrun: {hosts: 'localhost:1', np: 2}"), 2, "s.yaml:6:1: a trial needs 2 slots, and there are localhost:1"),
        (("trials: 4", "trials: 4\nstorage: 'mysql://a:secret@localhost/x'"), 2, "s.yaml:6:1: the storage mysql://a@localhost/x needs the package MySQLdb"),
        (("trials: 4", "trials: 4\nrun: {verbos: 1}"), 2, "s.yaml:6:7: run: unknown key 'verbos' [HVD-E0102]\n  hint: did you mean verbose?"),
        (("trials: 4", "trials: 4\nrun: {np: 2, start-timeout: soon}"), 2, "s.yaml:6:14: run.start_timeout must be a time"),
        (("trials: 4", "trials: 4\nstorage: 'sqlit:///x.db'"), 2, "s.yaml:6:1: the storage sqlit:///x.db: no database is 'sqlit'; did you mean sqlite?"),
        (("trials: 4", "trials: 4\nstorage: 'sqlite:////no/such/folder/x.db'"), 125, "unable to open database file"),
    ],
)
def test_wrong_searches_are_refused_in_one_line(tune, change, code, said):  # noqa: F811
    result = tune(SEARCH.replace(*change), code=code)
    assert said in result.errors and "Traceback" not in result.errors, result.errors


def test_no_module_of_a_folder_that_others_can_fill_is_imported(tune):  # noqa: F811
    tune.folder.chmod(0o1777)
    for name in "hvdray", "json", "optuna", "sqlalchemy", "yaml":
        (tune.folder / f"{name}.py").write_text(f"raise SystemExit('{name} of another user')")
    assert "of another user" not in tune(SEARCH).text
    function = "func: 'obj:broken'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\n"
    said = tune(function, code=2).errors
    assert "func: nothing is imported from the current directory: other users may write to" in said, said


def test_a_tilde_that_no_shell_has_seen_is_the_home_directory(tune):  # noqa: F811
    tune.environment["HOME"] = str(tune.folder / "home")
    tune(SEARCH + "output: ~/out\nstorage: 'sqlite:///~/all.db'\n")
    assert (tune.folder / "home/out/trial_0/output.txt").exists() and not (tune.folder / "~").exists()
    assert (tune.folder / "home/all.db").exists() and "loss" in tune.show("~/all.db").text


def test_a_study_that_is_there_is_not_begun_again(tune):  # noqa: F811
    tune(SEARCH)
    assert "--resume goes on with it" in tune(SEARCH, code=125).errors
    assert "space is not as the study" in tune(SEARCH.replace("1.0]", "2.0]"), "--resume", code=125).errors
    assert tune.document(SEARCH.replace("trials: 4", "trials: 5"), "--resume")["trials"][4]["state"] == "complete"


def test_a_trial_that_hangs_is_ended_after_its_time(tune):  # noqa: F811
    trials = tune.function("hanging", "trials: 1\ntrial_timeout: 0.5", code=1)
    assert [(trial["state"], trial["why"]) for trial in trials] == [("fail", "trial_timeout: it has run for 0.5 s")]


def test_fail_fast_ends_the_search_at_the_first_failure(tune):  # noqa: F811
    text = "func: 'obj:broken'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 9\nmax_concurrent: 1\nfail_fast: true\n"
    assert "hvdray tune: trial 1 has failed: rank 0 on host localhost raised ValueError: no good" in tune(text, code=125).errors
    assert tune.rows("select state from trials order by number") == [("COMPLETE",), ("FAIL",)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_two_searches_share_the_trials_of_a_study(tune, is_killed):  # noqa: F811
    text = "func: 'obj:shared'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 6\nmax_concurrent: 1\n"
    (tune.folder / "hold").touch()
    jobs = [tune.start(text)]
    jobs[0].wait_for(lambda: tune.rows("select state from trials") == [("RUNNING",)], what="its trial")
    jobs.append(tune.start(text, "--resume"))
    jobs[1].wait_for(lambda: tune.rows("select state from trials") == [("RUNNING",)] * 2, what="the other's trial")
    assert tune.rows("pragma journal_mode") == [("wal",)], "a commit waits for no disk"
    if is_killed:
        os.kill(jobs[0].pid, signal.SIGKILL)
        jobs.pop(0).process.wait()
    (tune.folder / "hold").unlink()
    results = [job.wait(60) for job in jobs]
    assert [result.code for result in results] == [0] * len(jobs), [result.errors for result in results]
    states = tune.rows("select state from trials where trial_id not in (select trial_id from trial_user_attributes where key = 'hvdray:again')")
    assert states == [("COMPLETE",)] * 6


@pytest.fixture
def postgres(request):
    """The URL of a server of this test's own, at a socket, and what a question gets."""
    root = request.config.getoption("--postgres")
    if not root:
        if os.environ.get("CI") == "true":
            pytest.fail("no --postgres, and CI skips nothing")
        pytest.skip("needs --postgres (tools/postgres_env.sh)")
    (programs,) = pathlib.Path(root).glob("usr/lib/postgresql/*/bin")
    (library,) = pathlib.Path(root).glob("usr/lib/*/libpq.so.5")
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(library.parent)}
    as_user = ["unshare", "--user", "--map-user=65534"] if os.geteuid() == 0 else []  # It refuses root.
    with tempfile.TemporaryDirectory() as folder:  # A socket's path is short.
        options = {"cwd": folder, "env": environment, "text": True}
        made = subprocess.run([*as_user, programs / "initdb", "-D", "data", "-N", "-A", "trust", "-U", "tune"], capture_output=True, check=False, **options)
        assert made.returncode == 0, made.stderr
        server = subprocess.Popen([*as_user, programs / "postgres", "-D", "data", "-k", folder, "-c", "listen_addresses="],
                                  stderr=subprocess.PIPE, **options)
        try:
            assert any("ready to accept connections" in line for line in server.stderr)
            psql = [programs / "psql", "-h", folder, "-U", "tune", "-At", "postgres", "-c"]
            yield (f"postgresql+psycopg2://tune@/postgres?host={folder}",
                   lambda query: subprocess.run([*psql, query], capture_output=True, check=False, **options).stdout.split())
        finally:
            server.send_signal(signal.SIGQUIT)  # Its processes end at once.
            server.communicate()


def test_several_searches_share_a_study_in_postgresql_and_one_that_is_killed_is_taken_over(tune, postgres):  # noqa: F811
    url, ask = postgres
    text = f"func: 'obj:shared'\nspace: {{x: {{float: [0, 1]}}}}\nmetric: loss\ntrials: 5\nmax_concurrent: 1\nstorage: '{url}'\n"
    (tune.folder / "hold").touch()
    jobs = []
    for count in (1, 2, 3):
        jobs.append(tune.start(text, *["--resume"] * (count > 1)))
        jobs[-1].wait_for(lambda count=count: ask("select state from trials") == ["RUNNING"] * count, what="its trial")
    os.kill(jobs[0].pid, signal.SIGKILL)
    jobs.pop(0).process.wait()
    (tune.folder / "hold").unlink()
    results = [job.wait(60) for job in jobs]
    assert [result.code for result in results] == [0, 0], [result.errors for result in results]
    ended = ask("select state from trials where trial_id not in (select trial_id from trial_user_attributes where key = 'hvdray:again')")
    assert ended == ["COMPLETE"] * 5
    shown = json.loads(tune.show(url, "--json").text)["trials"]
    assert [trial["state"] for trial in shown if "again" not in trial] == ["complete"] * 5
    assert f"is already in {url}" in tune(text, code=125).errors


def test_optuna_dashboard_answers_on_the_storage(tune, optuna_venv):  # noqa: F811
    tune(SEARCH)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    dashboard = subprocess.Popen([f"{optuna_venv}/bin/optuna-dashboard", "sqlite:///s.tune/study.db", "--host", "127.0.0.1", "--port", str(port)],
                                 cwd=tune.folder, env=tune.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert any("Listening on" in line for line in dashboard.stderr)  # It says so before it does.
        while dashboard.poll() is None:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies/1", timeout=60) as answer:
            trials = json.load(answer)["trials"]
    finally:
        dashboard.kill()
        dashboard.communicate()
    assert [(trial["state"], len(trial["intermediate_values"])) for trial in trials] == [("Complete", 4)] * 4


def test_a_reader_that_goes_away_ends_the_search(tune):  # noqa: F811
    (tune.folder / "hold").touch()
    (tune.folder / "s.yaml").write_text("func: 'obj:shared'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 6\nmax_concurrent: 1\n")
    job = tune.hvdray.start("-c", '"$@" | head -n 1; exit ${PIPESTATUS[0]}', "sh", tune.hvdray.binary, "tune", "s.yaml", binary="bash",
                            cwd=tune.folder, env=tune.environment)
    job.wait_for(lambda: tune.rows("select state from trials") == [("RUNNING",)], what="its trial")
    job.wait_for(lambda: not any(line.startswith("head") for line in job.processes().values()), what="the end of its reader")
    (tune.folder / "hold").unlink()
    result = job.wait(60)
    assert (result.code, result.errors) == (141, "")
    assert not job.survivors()


def test_a_full_disk_ends_the_search_and_loses_no_report(tune):  # noqa: F811
    text = "func: 'obj:many'\nspace: {x: {float: [0, 1]}}\nmetric: loss\ntrials: 1\nmax_concurrent: 1\n"
    (tune.folder / "s.yaml").write_text(text)
    script = 'mount -t tmpfs -o size=300k none s.tune && "$@"; code=$?; cp s.tune/study.db kept.db; exit $code'
    (tune.folder / "s.tune").mkdir()
    job = tune.hvdray.start("--mount", "--propagation", "private", "sh", "-c", script, "sh", tune.hvdray.binary, "tune", "s.yaml",
                            binary="unshare", cwd=tune.folder, env=tune.environment)
    result = job.wait(120)
    if "unshare" in result.errors:
        pytest.skip("may not mount")
    assert result.code == 125 and "disk is full\n  hint: make room, then go on with --resume" in result.errors, result.errors
    assert "Traceback" not in result.errors
    assert not job.survivors()


def test_an_example_with_a_real_horovod_is_tuned_as_it_is(tune, horovod_python):  # noqa: F811
    script = ROOT / "examples/digits_horovod.py"
    text = f"""
command: ['{horovod_python}', '{script}', --epochs, '6', --batch, '{{batch}}']
space: {{batch: {{grid: [16, 64]}}}}
metric: loss
run: {{np: 2}}
max_concurrent: 1
report_from: 'epoch +(?P<step>\\d+) +loss (?P<loss>\\S+)'
"""
    trials = tune.document(text)["trials"]
    assert [(trial["params"]["batch"], trial["state"], len(trial["reports"])) for trial in trials] == [(16, "complete", 2), (64, "complete", 2)]
    assert trials[0]["value"] < trials[1]["value"], "more steps"
