# SPDX-License-Identifier: Apache-2.0
"""`hvdray.train.Trainer` on this machine: reports, commits, restarts, results, bad input, faults. docs/train.md.

Not here: the pure rules (train_rules_test) and other hosts (train_hosts_test).
"""

import json
import os
import signal
import sys

import pytest
from conftest import rest
from python_program import HEAD, ROOT, Programs
from train_program import TRAIN_HEAD, TrainPrograms

@pytest.fixture
def programs(hvdray, tmp_path):
    return TrainPrograms(hvdray, tmp_path)


# ---- what comes of it


def test_a_loop_reports_and_its_files_are_what_the_page_says(programs):
    programs.run("""
def loop(config):
    context = train.get_context()
    assert (context.get_world_rank(), context.get_world_size()) == (rank(), 2)
    assert (context.get_local_rank(), context.get_local_world_size(), context.get_node_rank()) == (rank(), 2, 0)
    assert context.get_experiment_name() == "run"
    shard = train.get_dataset_shard("rows")
    assert list(shard) == [[0, 1, 2], [3, 4, 5]][rank()] and len(train.get_dataset_shard("rows", equal=False)) == 3 + rank()
    for at in range(config["steps"]):
        loss = math.nan if at == 1 else 1 / (at + 1)
        train.report({"loss": loss, "deep": {"rank": rank()}}, checkpoint=save(**{"step": at, f"rank{rank()}": at}))
    return f"of rank {rank()}"
result = trainer(loop, train_loop_config={"steps": 3}, datasets={"rows": list(range(7))}).fit()
assert names() == ["checkpoint_000000", "checkpoint_000001", "checkpoint_000002", "params.json", "progress.csv", "result.json",
                   "run.json", "trainer.pkl"], names()
for read in result, train.Result.from_path(str(home / "run")):
    assert read.metrics["loss"] == 1 / 3 and read.metrics["deep"] == {"rank": 0}
    assert read.config == {"steps": 3} and read.error is None and read.path == str(home / "run")
    assert read.checkpoint.path == str(home / "run/checkpoint_000002") == read.best_checkpoints[-1][0].path
    assert sorted(os.listdir(read.checkpoint.path)) == ["rank0", "rank1", "step"]
    losses = [metrics["loss"] for _, metrics in read.best_checkpoints]
    assert losses[0] == 1 and math.isnan(losses[1]) and losses[2] == 1 / 3
    assert read.get_best_checkpoint("loss", "max").path.endswith("0") and read.get_best_checkpoint("loss", "min").path.endswith("2")
    assert read.get_best_checkpoint("nothing") is None
assert result.return_value == "of rank 0"
lines = [json.loads(line) for line in (home / "run/result.json").read_text().splitlines()]
assert [line["loss"] for line in lines] == [1, None, 1 / 3] and [line["training_iteration"] for line in lines] == [1, 2, 3]
assert lines[1]["checkpoint_dir_name"] == "checkpoint_000001"
rows = (home / "run/progress.csv").read_text().splitlines()
assert len(rows) == 4 and rows[0].endswith("loss,deep/rank") and ",nan,0" in rows[2], rows
assert told()["state"] == "finished"
""")


def test_what_a_metric_is_and_when_it_comes_does_not_matter(programs):
    programs.run("""
import csv
def loop():
    begin = step()
    for at in range(begin, 4):
        late = {"late": "x,y", "none": None, "training_iteration": 70} if at == 1 else {}
        train.report({"at": at, **late}, checkpoint=save(step=at))
        if at == 1 and begin == 0:
            os._exit(1)
result = trainer(loop, workers=1, failures=1).fit()
for _ in range(2):
    with open(home / "run/progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["at"], row["late"], row["training_iteration"]) for row in rows] == [("0", "", "1"), ("1", "x,y", "70"), ("2", "", "3"), ("3", "", "4")], rows
    os.unlink(home / "run/progress.csv")
    lines = (home / "run/run.json").read_text().replace('"finished"', '"interrupted"')
    (home / "run/run.json").write_text(lines)
    result = train.Trainer.restore(str(home / "run")).fit()
metrics = result.best_checkpoints[1][1]
assert metrics == {"at": 1, "late": "x,y", "none": None, "training_iteration": 70}, metrics
""")


@pytest.mark.parametrize("who", [0, 1])
def test_one_rank_reports_alone_and_nobody_waits(programs, who):
    programs.run(f"""
def loop():
    for at in range(3):
        if rank() == {who}:
            train.report({{"at": at}}, checkpoint=save(step=at))
result = trainer(loop).fit()
assert len(result.best_checkpoints) == 3 and step.__name__ == "step"
assert (result.metrics or {{}}).get("at") == (2 if {who} == 0 else None), result
""")


def test_metrics_of_rank_0_count_though_another_rank_is_first(programs):
    """Rank 1 has made its reports before rank 0 begins its first, whose files are then a commit all the same."""
    programs.run("""
def loop(config):
    mark = pathlib.Path(config["mark"])
    if rank() == 1:
        train.report({"rank": 1}, checkpoint=save(one=1) if config["both"] else None)
        mark.touch()
    else:
        wait_for(mark)
        train.report({"rank": 0}, checkpoint=save(zero=0))
for both in True, False:
    config = {"mark": str(home.parent / f"mark{both}"), "both": both}
    result = trainer(loop, f"run{both}", train_loop_config=config).fit()
    assert result.metrics["rank"] == 0
    (checkpoint, metrics), = result.best_checkpoints
    assert metrics["rank"] == 0 and names(checkpoint.path) == (["one", "zero"] if both else ["zero"])
    assert len((home / f"run{both}/result.json").read_text().splitlines()) == 1
""")


def test_checkpoints_are_pruned_but_for_the_best_and_the_latest(programs):
    programs.run("""
def loop():
    for at, score in enumerate([5, 1, 9, 2, math.nan]):
        train.report({"score": score}, checkpoint=save(step=at))
keep = train.CheckpointConfig(num_to_keep=3, checkpoint_score_attribute="score")
result = trainer(loop, workers=1, keep=keep).fit()
assert [name for name in names() if name.startswith("ch")] == ["checkpoint_000000", "checkpoint_000002", "checkpoint_000004"]
assert result.checkpoint.path.endswith("4") and result.get_best_checkpoint("score").path.endswith("2")
""")


@pytest.mark.parametrize("kill", [["--kill"], *rest([])])
def test_the_example_ends_with_the_same_loss_though_a_worker_is_killed(programs, horovod_python, kill):
    result = programs.tool.run(ROOT / "examples/python/digits_train.py", programs.folder / "runs", *kill, binary=str(horovod_python),
                               env={**os.environ, "HVDRAY_BINARY": str(programs.tool.binary), "PYTHONPATH": str(ROOT / "python")})
    assert result.code == 0, result.errors[-4000:]
    assert result.text.startswith("loss 0.0446 after epoch 5, ") and ("restarting from" in result.errors) == bool(kill)


def test_the_page_says_what_its_program_prints(programs):
    page = (ROOT / "docs/train.md").read_text()
    program = page.split("```python\n")[1].split("```")[0]
    result = Programs.run(programs, program)
    for line in page.split("$ python3 first.py\n")[1].split("```")[0].splitlines():
        assert line.replace("/…", str(programs.folder)) in result.errors + result.text


# ---- failures


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)", "1 / 0"])
def test_a_rank_that_fails_is_resumed_from_the_last_commit(programs, how):
    """Bit for bit what comes without a failure, and each line once."""
    result = programs.run(f"""
def loop(config):
    state = 1.0
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            state = float.fromhex(pathlib.Path(folder, f"state{{rank()}}").read_text())
    for at in range(step(), 6):
        state = math.sin(state * (rank() + 2)) + at
        if at == 3 and rank() == 1 and "once" in config and not os.path.exists(config["once"]):
            open(config["once"], "w").close()
            {how}
        train.report({{"state": state, "at": at}}, checkpoint=save(**{{"step": at, f"state{{rank()}}": state.hex()}}))
        if at == 0:
            meet(config["name"])
result = trainer(loop, failures=1, train_loop_config={{"name": "a", "once": str(home.parent / "once")}}).fit()
whole = trainer(loop, "whole", train_loop_config={{"name": "b"}}).fit()
assert result.metrics["state"] == whole.metrics["state"]
for name in "state0", "state1":
    assert pathlib.Path(result.checkpoint.path, name).read_text() == pathlib.Path(whole.checkpoint.path, name).read_text()
lines = [json.loads(line)["at"] for line in (home / "run/result.json").read_text().splitlines()]
assert lines == list(range(6)), lines
assert told()["attempts"] == 2 and told()["state"] == "finished"
""")
    assert "restarting from checkpoint_00000" in result.errors


def test_one_failure_too_many_is_a_training_failed_error(programs):
    programs.run("""
def loop():
    at = step()
    train.report({"at": at}, checkpoint=save(step=at))
    if rank() == 1:
        raise ValueError("no more")
    time.sleep(60)
error = raised(train.TrainingFailedError, trainer(loop, failures=2).fit)
assert isinstance(error.__cause__, ValueError) and isinstance(error.worker_failures[1], ValueError)
assert list(error.worker_failures)[0] == 1 and "three times" in str(error) and "no more" in str(error), error
assert error.result.error is error and error.result.checkpoint is not None
assert told()["state"] == "failed" and "no more" in (home / "run/error.txt").read_text()
again = train.Result.from_path(str(home / "run"))
assert isinstance(again.error, train.TrainingFailedError) and "no more" in str(again.error)
assert raised(hvdray.HvdrayError, trainer(loop).fit).hint
def better():
    assert train.get_checkpoint() is not None
    train.report({"at": 100}, checkpoint=save(step=100))
restored = train.Trainer.restore(str(home / "run"), better, num_workers=1)  # nobody waits for a rank that is no more
assert len(restored.fit().best_checkpoints) > 1 and train.Result.from_path(str(home / "run")).metrics["at"] == 100 and told()["state"] == "finished"
assert "error.txt" not in names() and train.Trainer.restore(str(home / "run")).fit().metrics["at"] == 100  # it has finished
""")


def test_what_fails_in_every_attempt_is_not_tried_again_and_may_be_mended(programs):
    programs.run("""
def loop():
    if not (home.parent / "mended").exists():
        import no_such_module
    return 1
run = trainer(loop, failures=3)
error = raised(train.TrainingFailedError, run.fit)
assert isinstance(error.__cause__, ImportError) and "the loop has failed: " in str(error) and told()["attempts"] == 1, error
(home.parent / "mended").touch()
assert trainer(loop).fit().return_value == 1  # another process, with the same name
os.rename(home / "run", home / "was")
(home.parent / "mended").unlink()
raised(train.TrainingFailedError, run.fit)
(home.parent / "mended").touch()
assert run.fit().return_value == 1
raised(hvdray.HvdrayError, run.fit)
""")


def test_a_start_that_is_impossible_is_no_failure_of_the_loop(programs):
    programs.run("""
for failures in 0, 5:
    error = raised(hvdray.HvdrayError, trainer(lambda: None, f"run{failures}", failures=failures, python="/nowhere/python").fit)
    assert not isinstance(error, train.TrainingFailedError) and "/nowhere/python" in str(error), error
""")


@pytest.mark.parametrize("signo", [signal.SIGKILL, *rest(signal.SIGINT)])
def test_a_driver_that_ends_is_restored_and_loses_nothing_that_was_committed(programs, signo):
    """At each step of a checkpoint; the trainer's loop and config are read from the run."""
    lines = """
import sys
def loop(config):
    for at in range(step(), config["steps"]):
        train.report({"at": at}, checkpoint=save(**{"step": at, f"rank{rank()}": "x" * 200_000}))
        if at == 0:
            meet("a")
"""
    job = programs.start(lines + """
trainer(loop, train_loop_config={"steps": 100_000}, keep=train.CheckpointConfig(num_to_keep=3)).fit()
""")
    run = programs.folder / "runs/run"
    told = {}
    for kills in range(6 if signo == signal.SIGKILL else 2):
        least = told.get("next_number", 0) + 2 + kills

        def committed():
            try:
                return json.loads((run / "run.json").read_text())["next_number"] >= least
            except FileNotFoundError:
                return False

        job.wait_for(committed, what="commits")
        os.kill(job.pid, signo)
        result = job.wait()
        assert signo == signal.SIGKILL or "hvdray: interrupted; Trainer.restore(" in result.errors, result.errors
        assert not job.survivors()
        told = json.loads((run / "run.json").read_text())
        for entry in told["checkpoints"]:
            folder = run / entry["name"]
            assert sorted(os.listdir(folder)) == ["rank0", "rank1", "step"], entry
            assert {(folder / name).stat().st_size for name in ("rank0", "rank1")} == {200_000}
        job = programs.start("result = train.Trainer.restore(str(home / 'run')).fit()")
    job.wait_for(lambda: json.loads((run / "run.json").read_text())["next_number"] > told["next_number"], what="a commit")
    job.kill()
    programs.run("""
def loop(config):
    assert train.get_checkpoint() is not None
result = train.Trainer.restore(str(home / "run"), loop).fit()
lines = [json.loads(line)["at"] for line in (home / "run/result.json").read_text().splitlines()]
assert lines == list(range(len(lines))), lines
assert not [name for name in names() if name.startswith(".")], names()
""")


# ---- bad input


def test_bad_input_is_said_before_anything_starts(programs):
    programs.run("""
def two(a, b):
    pass
assert "takes no argument or one" in str(raised(TypeError, lambda: trainer(two)))
assert "function" in str(raised(TypeError, lambda: trainer(3)))
for name in "", "a/b", "..", ".", "é" * 128:
    raised(ValueError, lambda: train.RunConfig(name=name))
assert "must be a text, not 5" in str(raised(TypeError, lambda: train.RunConfig(name=5)))
raised(ValueError, lambda: train.RunConfig(storage_path=""))
raised(ValueError, lambda: train.CheckpointConfig(num_to_keep=0))
raised(ValueError, lambda: train.CheckpointConfig(checkpoint_score_order="best"))
raised(TypeError, lambda: train.FailureConfig("1"))
raised(TypeError, lambda: trainer(lambda: None, run_config=3) if False else train.Trainer(lambda: None, num_workers=1, run_config={}))
raised(TypeError, lambda: trainer(lambda: None, datasets=[1]))
raised(TypeError, lambda: trainer(lambda: None, datasets={"a": iter([1])}))
raised(ValueError, lambda: trainer(lambda: None, workers=None))
raised(ValueError, lambda: trainer(lambda: None, workers=(2, 1)))
raised(TypeError, lambda: trainer(lambda: None, nonsense=1))
said = str(raised(TypeError, lambda: train.Trainer(lambda: None, num_worker=3)))
assert said == "Trainer() got an unexpected keyword argument 'num_worker'; did you mean num_workers?", said
assert "num_workers=2" in str(raised(TypeError, lambda: train.Trainer(lambda: None, scaling_config=3)))
for wrong, right in (("storage", "storage_path"), ("failure", "failure_config")):
    assert f"did you mean {right}?" in str(raised(TypeError, lambda: train.RunConfig(**{wrong: "x"}))), wrong
assert train.FailureConfig(3) == train.FailureConfig(max_failures=3)
raised(hvdray.HvdrayError, lambda: train.Trainer.restore(str(home / "nowhere")))
raised(hvdray.HvdrayError, lambda: train.Result.from_path(str(home / "nowhere")))
raised(RuntimeError, lambda: train.report({}))
raised(RuntimeError, train.get_context)
assert not home.exists()
""")


@pytest.mark.parametrize("lines, kind, text", [
    ("train.report({'a': object()})", "TypeError", "metrics['a'] is a object"),
    ("train.report([1])", "TypeError", "must be a dict"),
    ("train.report({}, checkpoint='/tmp')", "TypeError", "must be a Checkpoint"),
    ("train.report({}, checkpoint=train.Checkpoint('/nowhere/at/all'))", "FileNotFoundError", "/nowhere/at/all"),
    ("train.report({}, checkpoint=linked())", "ValueError", "links are not followed"),
    ("train.report({}, checkpoint=growing())", "RuntimeError", "has changed while it was copied"),
    ("train.get_dataset_shard('x')", "KeyError", "no data set 'x'"),
])
def test_a_report_that_can_not_be_is_an_error_and_the_next_one_is_not(programs, lines, kind, text):
    programs.run(f"""
def linked():
    checkpoint = save(a=1)
    os.symlink("a", checkpoint.path + "/b")
    return checkpoint
def growing():
    from hvdray.train import _files
    checkpoint, copy_in = save(a=1), _files.copy_in
    def copy(*args):
        copy_in(*args)
        pathlib.Path(checkpoint.path, "b").touch()
        _files.copy_in = copy_in
    _files.copy_in = copy
    return checkpoint
def loop():
    try:
        {lines}
        raise SystemExit("no error")
    except {kind} as error:
        assert {text!r} in str(error), error
    train.report({{"a": 1}}, checkpoint=save(step=0))
result = trainer(loop, workers=1).fit()
assert [name for name in names() if name.startswith(("ch", "."))] == ["checkpoint_000000"], names()
assert names(result.checkpoint.path) == ["step"] and result.metrics["a"] == 1
""")


def test_two_trainers_do_not_share_a_directory(programs):
    programs.run("""
def loop(mark):
    pathlib.Path(mark["mark"]).touch()
    wait_for(mark["end"])
marks = {"mark": str(home.parent / "mark"), "end": str(home.parent / "end")}
first = trainer(loop, workers=1, train_loop_config=marks)
thread = threading.Thread(target=first.fit)
thread.start()
wait_for(marks["mark"])
assert "another trainer" in str(raised(hvdray.HvdrayError, trainer(loop, workers=1).fit))
pathlib.Path(marks["end"]).touch()
thread.join()
""")


def test_a_full_disk_is_said_and_what_was_committed_is_there(programs, tmp_path):
    """The storage is a file system of 3 MB: a checkpoint too large fails, a later one that fits is committed; a second loop that
    does not catch it fails."""
    storage = tmp_path / "runs"
    storage.mkdir()
    command = f"mount -t tmpfs -o size=3m none {storage} && exec {sys.executable} \"$@\""
    lines = """
import errno
def loop():
    if rank() != 0:
        return  # It would take the room that a failed report gives back.
    train.report({"a": 1}, checkpoint=save(step="0", big="x" * 1_000_000))
    try:
        train.report({"a": 2}, checkpoint=save(step="1", big="x" * 4_000_000))
        raise SystemExit("no error")
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    train.report({"a": 3}, checkpoint=save(step="2"))
result = trainer(loop).fit()
assert [path.path[-1] for path, _ in result.best_checkpoints] == ["0", "1"] and names(result.checkpoint.path) == ["step"]
assert not [name for name in names() if name.startswith(".")]
def careless():
    train.report({"a": 2}, checkpoint=save(big="x" * 4_000_000))
error = raised(train.TrainingFailedError, trainer(careless, "careless").fit)
assert isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ENOSPC
"""
    programs.count += 1
    path = tmp_path / "full.py"
    path.write_text(HEAD + TRAIN_HEAD + lines)
    environment = {**os.environ, "HVDRAY_BINARY": str(programs.tool.binary), "PYTHONPATH": str(ROOT / "python")}
    job = programs.tool.start("--mount", "bash", "-c", command, "bash", path, binary="unshare", env=environment, cwd=tmp_path)
    result = job.wait(300)
    assert result.code == 0, result.errors[-4000:]


def test_a_run_that_never_began_leaves_its_name_and_runs_without_one_differ(programs):
    programs.run("""
lock = threading.Lock()
raised(Exception, trainer(lambda: lock).fit)
assert trainer(lambda: 1).fit().return_value == 1
raised(hvdray.HvdrayError, trainer(lambda: 1).fit)
nameless = [train.Trainer(lambda: 1, num_workers=1, run_config=train.RunConfig(storage_path=str(home))).fit().path for _ in range(2)]
assert nameless[0] != nameless[1]
""")


def test_a_restored_run_keeps_what_has_changed(programs):
    programs.run("""
def loop(config):
    train.report({"lr": config["lr"]})
    if config["lr"] == 1: raise ValueError
raised(train.TrainingFailedError, trainer(loop, train_loop_config={"lr": 1, 2: "key"}).fit)
result = train.Trainer.restore(str(home / "run"), train_loop_config={"lr": 3}).fit()
assert result.metrics["lr"] == 3 and result.config == {"lr": 3} == train.Result.from_path(str(home / "run")).config
""")


def test_a_handler_that_raises_in_a_report_ends_that_report_alone(programs):
    programs.run("""
def loop():
    def late(*_): raise TimeoutError("mine")
    signal.signal(signal.SIGALRM, late)
    failed = []
    for step in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + step * 0.00003)
            try:
                train.report({"step": step}, checkpoint=save(step=step))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Exception as error:
            failed.append(repr(error))
    train.report({"name": os.fsdecode(b"caf\\xe9")}, checkpoint=save(step=100))
    return set(failed)
value = trainer(loop, workers=1).fit().return_value
assert value <= {"TimeoutError('mine')"}, value
""")
