# SPDX-License-Identifier: Apache-2.0
"""`hvdray.train.Trainer` whose driver or worker is killed at each change that it makes to a file."""

import json
import signal

import pytest
from train_program import TrainPrograms

# Both ranks are known to report, and are waited for, from its second attempt on.
LOOP = """
def loop():
    begin = step()
    for at in range(begin, 100_000):
        train.report({"at": at}, checkpoint=save(**{"step": at, f"rank{rank()}": at}))
        if begin == 0:
            meet("a")
            raise RuntimeError("both are known")
"""

# Kills this process after the N-th change of a file from now on; what fails changes nothing.
KILL_AT = """
def kill_at(number):
    left = [number]
    def counted(change):
        def do(*args, **kwargs):
            done = change(*args, **kwargs)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done
        return do
    import builtins
    for place, name in [(os, n) for n in "rename fsync chmod fchmod truncate unlink rmdir mkdir sendfile".split()] + [(builtins, "open")]:
        setattr(place, name, counted(getattr(place, name)))
"""


@pytest.fixture
def programs(hvdray, tmp_path):
    return TrainPrograms(hvdray, tmp_path)


def test_the_driver_may_be_killed_at_each_step_of_a_checkpoint(programs):
    """One run, restored again and again: each commit is whole, and none that was seen is lost."""
    programs.run(LOOP + """
trainer = trainer(loop, keep=train.CheckpointConfig(num_to_keep=2))
raised(train.TrainingFailedError, trainer.fit)
""")
    run = programs.folder / "runs/run"
    committed = -1
    for number in range(16, 64):
        job = programs.start(KILL_AT + f"""
trainer = train.Trainer.restore(str(home / "run"))
kill_at({number})
trainer.fit()
""")
        assert job.wait().code == -signal.SIGKILL
        assert not job.survivors()
        told = json.loads((run / "run.json").read_text())
        assert told["next_number"] > committed
        for entry in told["checkpoints"]:
            at = entry["metrics"]["at"]
            assert {name: int((run / entry["name"] / name).read_text()) for name in ("step", "rank0", "rank1")} == {
                "step": at, "rank0": at, "rank1": at}, entry
        committed = told["next_number"] - 1
    lines = [json.loads(line)["at"] for line in (run / "result.json").read_bytes().split(b"\n")[:-1]]
    assert lines == list(range(len(lines))) and committed > 10


def test_a_worker_may_be_killed_at_each_step_of_a_checkpoint(programs):
    programs.run(KILL_AT + """
def loop():
    begin, number = step(), told()["attempts"] - 2  # the same on both
    if rank() == 1 and 0 < begin and number < 40:
        kill_at(number + 1)
    for at in range(begin, begin + 100_000 if begin and number < 40 else begin + 2):
        train.report({"at": at}, checkpoint=save(**{"step": at, f"rank{rank()}": at}))
        if begin == 0:
            meet("a")
    if begin == 0:
        raise RuntimeError("both are known")
result = trainer(loop, failures=-1, keep=train.CheckpointConfig(num_to_keep=2)).fit()
for checkpoint, metrics in result.best_checkpoints:
    assert {name: int(pathlib.Path(checkpoint.path, name).read_text()) for name in names(checkpoint.path)} == {
        "step": metrics["at"], "rank0": metrics["at"], "rank1": metrics["at"]}
assert told()["attempts"] == 42
lines = [json.loads(line)["at"] for line in (home / "run/result.json").read_text().splitlines()]
assert lines == list(range(len(lines))), lines
assert not [name for name in names() if name.startswith(".")], names()
""")
