# SPDX-License-Identifier: Apache-2.0
"""What a program calls in a trial, on real workers with channels."""

import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import math, os
import hvdray.tune as tune
from hvdray.train import _files as files
tune.report({"loss": math.nan, "step": 1}, checkpoint="made")
tune.report(loss=0.5)
try:
    tune.report(loss=[1])
except TypeError as error:
    print(error)
try:
    tune.report(loss=1, more=-10**400)
except OverflowError as error:
    print(error)
tune.report(seen="a\\ud800")
try:
    tune.report(loss=1, checkpoint="none")
except NotADirectoryError as error:
    print(error)
for name in "linked", "piped":
    try:
        tune.report(loss=1, checkpoint=name)
    except ValueError as error:
        print(error)
copy_in = files.copy_in
def grow(*args):
    copy_in(*args)
    open("made/more", "w").close()
files.copy_in = grow
try:
    tune.report(loss=1, checkpoint="made")
except RuntimeError as error:
    print(error)
if os.environ["HVDRAY_RANK"] == "0":
    print(tune.config(), tune.trial_id(), os.path.basename(tune.get_checkpoint()))
"""


def test_rank_0_reports_and_keeps_its_checkpoint(hvdray, tmp_path):
    for name in ("made", "trial", "linked", "piped"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked/link").symlink_to("../made/weights")
    os.mkfifo(tmp_path / "piped/pipe")
    (tmp_path / "made/weights").write_text("1")
    variables = {
        "HVDRAY_TRIAL_CONFIG": '{"lr": 1}', "HVDRAY_TRIAL_ID": "3", "HVDRAY_TRIAL_DIR": tmp_path / "trial", "PYTHONPATH": ROOT / "python",
    }
    words = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    result = hvdray.go("-q", "-np", 2, "--channel", "--events", "events", *words, "--", "python3", "-c", PROGRAM, cwd=tmp_path)
    assert result.code == 0, result.errors
    assert "[0]<stdout>:{'lr': 1} 3 checkpoint" in result.text
    assert "[0]<stdout>:report: loss must be a number, text or boolean, not list" in result.text
    assert "[0]<stdout>:report: more is above all numbers that a channel takes" in result.text
    assert "[0]<stdout>:report: the checkpoint is not a directory: none" in result.text
    assert "linked/link' is a link, and links are not followed" in result.text
    assert "piped/pipe' is no plain file" in result.text
    assert "[0]<stdout>:the checkpoint's directory has changed while it was copied: made" in result.text
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [(event["rank"], event["metrics"]) for event in events if event["event"] == "report"] == [
        (0, {"loss": "NaN", "step": 1, "checkpoint": True}), (0, {"loss": 0.5}), (0, {"seen": "a?"})]
    assert [path.name for path in (tmp_path / "trial").iterdir()] == ["checkpoint"]
    assert (tmp_path / "trial/checkpoint/weights").read_text() == "1"
