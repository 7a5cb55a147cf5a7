# SPDX-License-Identifier: Apache-2.0
"""Searches whose lanes are on other hosts, through real sshd."""

import json
import os

from tune_program import ROOT, optuna_venv  # noqa: F401

SEARCH = """
command: [sh, -c, 'echo "step 1 loss {x} on $(hostname)"']
space: {x: {float: [0, 1]}}
metric: loss
trials: 6
run: {np: 2, hosts: 'h1:3,h2:3'}
report_from: 'step (?P<step>\\d+) loss (?P<loss>\\S+)'
"""


def test_a_lane_is_on_its_hosts(hvdray_at_launcher, optuna_venv, tmp_path):  # noqa: F811
    (tmp_path / "s.yaml").write_text(SEARCH)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PATH": f"{optuna_venv}/bin:{os.environ['PATH']}"}
    result = hvdray_at_launcher.run("tune", "s.yaml", "--json", cwd=tmp_path, env=environment, timeout=120)
    assert result.code == 0, result.errors
    trials = json.loads(result.text)["trials"]
    assert [trial["state"] for trial in trials] == ["complete"] * 6
    where = set()
    for trial in trials:
        lines = (tmp_path / f"s.tune/trial_{trial['number']}/output.txt").read_text().splitlines()
        where.add(tuple(sorted(line.rpartition(" on ")[2] for line in lines if " on h" in line)))
    assert where == {("h1", "h1"), ("h2", "h2"), ("h1", "h2")}
