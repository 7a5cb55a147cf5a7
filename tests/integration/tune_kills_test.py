# SPDX-License-Identifier: Apache-2.0
"""A search that is killed at random moments and resumed: all its trials, each report that was committed, and nothing else left.

TEST_KILLS_SEED in the environment: the dice of a run that failed.
"""

import collections
import os
import random
import signal
import time

from hosts_processes import looks
from tune_program import optuna_venv, tune  # noqa: F401

KILLS = 10
TRIALS = 20
STEPS = 5
WITHIN_S = 120.0
# Reports by the channel alone: a trial takes some 100 ms.
SCRIPT = """
for step in $(seq 0 4); do
  echo "{\\"type\\":\\"report\\",\\"metrics\\":{\\"loss\\":$1,\\"step\\":$step}}" >&"$HVDRAY_CHANNEL_FD"
  sleep 0.03
done
"""
SEARCH = f"""
command: [sh, trial.sh, "{{x}}"]
space: {{x: {{float: [0, 1]}}}}
metric: loss
trials: {TRIALS}
run: {{np: 2}}
max_concurrent: 2
sampler: {{tpe: {{seed: 3}}}}
"""


def reports_of(tune):  # noqa: F811
    return set(tune.rows("select t.number, v.step, v.intermediate_value from trials t join trial_intermediate_values v using (trial_id)"))


def kill_at_some_moment(tune, dice):  # noqa: F811
    """Somewhere in its beginning, or among its reports."""
    job = tune.start(SEARCH, "--resume")
    if dice.random() < 0.3:
        moment = time.monotonic() + dice.uniform(0, 1.5)
        while time.monotonic() < moment and job.process.poll() is None:
            time.sleep(0.005)
    else:
        wanted = len(reports_of(tune)) + dice.randrange(1, 12)
        for _ in looks(WITHIN_S, least=0.005):
            if len(reports_of(tune)) >= wanted or job.process.poll() is not None:
                break
    if job.process.poll() is None:
        os.kill(job.pid, signal.SIGKILL)
    job.process.wait()
    assert not job.survivors()


def test_a_search_killed_ten_times_has_all_its_trials_and_reports(tune, tmp_path):  # noqa: F811
    seed = int(os.environ.get("TEST_KILLS_SEED", "1"))
    dice = random.Random(seed)
    (tmp_path / "trial.sh").write_text(SCRIPT)
    for name in ("tmp", "runtime"):
        (tmp_path / name).mkdir()
    tune.environment.update(TMPDIR=str(tmp_path / "tmp"), XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    committed = set()
    for _ in range(KILLS):
        kill_at_some_moment(tune, dice)
        committed |= reports_of(tune)
    trials = tune.document(SEARCH, "--resume")["trials"]
    assert committed <= reports_of(tune), f"seed {seed}"
    counted = [trial for trial in trials if "again" not in trial]
    assert [trial["state"] for trial in counted] == ["complete"] * TRIALS, f"seed {seed}"
    assert all(len(trial["reports"]) == STEPS for trial in counted), f"seed {seed}"
    cut = collections.Counter(str(trial["params"]) for trial in trials if "again" in trial and trial["params"])
    whole = {str(trial["params"]) for trial in counted}
    assert set(cut) <= whole, f"seed {seed}: each point that was cut short was run again"
    assert len(whole) == TRIALS, f"seed {seed}: no point twice"
    assert not [path for name in ("tmp", "runtime") for path in (tmp_path / name).rglob("*") if not path.is_dir()], f"seed {seed}"
