# SPDX-License-Identifier: Apache-2.0
"""`hvdray tune` with an Optuna of its own, and the folder of a search."""

import json
import os
import pathlib
import sqlite3

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def optuna_venv(request):
    path = request.config.getoption("--optuna-venv")
    if not path:
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
