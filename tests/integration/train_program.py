# SPDX-License-Identifier: Apache-2.0
"""Programs that use `hvdray.train`."""

from python_program import Programs

# After what each program has.
TRAIN_HEAD = """
from hvdray import train
import json, math, pathlib, tempfile
home = pathlib.Path.cwd() / "runs"
saved = home.parent / "saved"  # pytest removes it
saved.mkdir(exist_ok=True)

def save(**files):
    folder = tempfile.mkdtemp(dir=saved)
    for name, text in files.items():
        pathlib.Path(folder, name).write_text(str(text))
    return train.Checkpoint.from_directory(folder)

def step():
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return int(pathlib.Path(folder, "step").read_text()) + 1

def trainer(loop, name="run", workers=2, failures=0, keep=None, **more):
    config = train.RunConfig(name=name, storage_path=str(home), failure_config=train.FailureConfig(failures),
                             checkpoint_config=keep or train.CheckpointConfig())
    return train.Trainer(loop, num_workers=workers, run_config=config, **more)

def meet(name):
    # Until then others are not known to report: what they commit may lack our files.
    (home.parent / f"{name}{rank()}").touch()
    wait_for(home.parent / f"{name}{1 - rank()}")

def names(path=home / "run"):
    return sorted(os.listdir(path))

def told(path=home / "run"):
    return json.loads((path / "run.json").read_text())
"""


class TrainPrograms(Programs):
    def start(self, lines, **more):
        return super().start(TRAIN_HEAD + lines, **more)
