# SPDX-License-Identifier: Apache-2.0
"""`hvdray.train.Trainer` whose storage is a URL, by fsspec: of the environment that tools/frameworks_env.sh makes."""

import os
import pathlib
import subprocess

import pytest
from train_program import TrainPrograms


@pytest.fixture
def programs(hvdray, tmp_path):
    return TrainPrograms(hvdray, tmp_path)


@pytest.fixture
def python(request):
    venv = request.config.getoption("--frameworks-venv")
    if not venv:
        pytest.skip("no --frameworks-venv (tools/frameworks_env.sh torch)")
    return pathlib.Path(venv) / "bin/python"


def test_a_run_at_a_url_is_resumed_pruned_and_read_back(programs, python):
    programs.run("""
def loop(config):
    begin = step()
    for at in range(begin, 4):
        checkpoint = save(**{"step": at, f"rank{rank()}": "x" * 5_000_000})
        os.mkdir(checkpoint.path + "/deep")
        pathlib.Path(checkpoint.path, "deep/file").touch()
        train.report({"at": at}, checkpoint=checkpoint)
        if at == 0:
            meet("a")
        if at == 2 and begin == 0 and rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
url = (home / "bucket").as_uri()
config = train.RunConfig(name="run", storage_path=url, failure_config=train.FailureConfig(1),
                         checkpoint_config=train.CheckpointConfig(num_to_keep=2))
result = train.Trainer(loop, train_loop_config={}, num_workers=2, run_config=config).fit()
for read in result, train.Result.from_path(url + "/run"), train.Trainer.restore(url + "/run").fit():
    assert read.metrics["at"] == 3 and read.checkpoint.path == url + "/run/checkpoint_000003", read
    with read.checkpoint.as_directory() as folder:
        assert names(folder) == ["deep", "rank0", "rank1", "step"] and names(folder + "/deep") == ["file"]
        assert os.path.getsize(folder + "/rank1") == 5_000_000
    assert not os.path.exists(folder)
assert names(home / "bucket/run") == ["checkpoint_000002", "checkpoint_000003", "params.json", "progress.csv", "result.json",
                                      "run.json", "trainer.pkl"], names(home / "bucket/run")
assert told(home / "bucket/run")["attempts"] == 2
""", python=str(python))


def test_a_file_whose_name_is_a_pattern_of_fsspec_is_moved_and_pruned_alone(programs, python):
    programs.run("""
def loop(config):
    for at in range(3):
        checkpoint = save(**{"layer[0].pt": f"brackets {at}", "layer0.pt": "none", "a*": "star", "ab": "none"})
        train.report({"at": at}, checkpoint=checkpoint)
config = train.RunConfig(name="run[1]", storage_path="memory://bucket", checkpoint_config=train.CheckpointConfig(num_to_keep=1))
result = train.Trainer(loop, train_loop_config={}, num_workers=1, run_config=config).fit()
assert result.checkpoint.path.endswith("/checkpoint_000002"), result
with result.checkpoint.as_directory() as folder:
    assert names(folder) == ["a*", "ab", "layer0.pt", "layer[0].pt"], names(folder)
    assert pathlib.Path(folder, "layer[0].pt").read_text() == "brackets 2"
import fsspec
left = fsspec.filesystem("memory").find("/bucket/run[1]", withdirs=True)
assert [path for path in left if "checkpoint" in path and "000002" not in path] == [], left
""", python=str(python))


def test_a_url_without_fsspec_says_what_to_install(programs):
    if subprocess.run(["/usr/bin/python3", "-c", "import fsspec"], env={**os.environ}, capture_output=True, check=False).returncode == 0:
        pytest.skip("this Python has fsspec")
    programs.run("""
error = raised(hvdray.HvdrayError, lambda: train.Trainer(lambda: None, num_workers=1, run_config=train.RunConfig(storage_path="memory://x")).fit())
assert error.hint == "pip install fsspec", error
""", python="/usr/bin/python3")
