# SPDX-License-Identifier: Apache-2.0
"""`hvdray tune` with an Optuna of its own, and the folder of a search."""

import json
import os
import pathlib
import sqlite3

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


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

def hanging(config):
    while True:
        time.sleep(0.1)

def shared(config):
    while os.path.exists("hold"):
        time.sleep(0.01)
    return config["x"]

def many(config):
    for step in range(20000):
        hvdray.tune.report(loss=1.0)

def flooding(config):
    for step in range(3000):
        hvdray.tune.report(loss=1.0)
    open("flooded", "w").close()
    hanging(config)

def coloured(config):
    raise ValueError("red \\x1b[31m text\\r\\nand \\udcff more")

def boolean(config):
    return True

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
        time.sleep(0.01)
"""


@pytest.fixture(scope="session")
def optuna_venv(request):
    path = request.config.getoption("--optuna-venv")
    if not path:
        if os.environ.get("CI") == "true":
            pytest.fail("no --optuna-venv, and CI skips nothing")
        pytest.skip("needs --optuna-venv (tools/optuna_env.sh)")
    return pathlib.Path(path)


class Tune:
    def __init__(self, hvdray, venv, folder):
        self.hvdray, self.folder = hvdray, folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PATH": f"{venv}/bin:{os.environ['PATH']}"}

    def start(self, text, *words):
        (self.folder / "s.yaml").write_text(text)
        return self.hvdray.start("tune", "s.yaml", *words, cwd=self.folder, env=self.environment)

    def __call__(self, text, *words, code=0):
        result = self.start(text, *words).wait(120)
        assert result.code == code, result.text + result.errors
        return result

    def show(self, *words, code=0):
        result = self.hvdray.run("tune", "show", *words, cwd=self.folder, env=self.environment)
        assert result.code == code, result.text + result.errors
        return result

    def rows(self, query):
        """Of the study; empty while there are no tables."""
        path = self.folder / "s.tune/study.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error), error
            return []
        finally:
            connection.close()

    def document(self, text, *words, code=0):
        return json.loads(self(text, "--json", *words, code=code).text)

    def function(self, name, more="trials: 2", code=0):
        return self.document(f"func: 'obj:{name}'\nspace: {{x: {{float: [0, 1]}}}}\nmetric: loss\nsampler: random\nmax_concurrent: 2\n{more}\n",
                             code=code)["trials"]


@pytest.fixture
def tune(hvdray, optuna_venv, tmp_path):
    return Tune(hvdray, optuna_venv, tmp_path)


@pytest.fixture(autouse=True)
def programs(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "obj.py").write_text(OBJECTIVE)
