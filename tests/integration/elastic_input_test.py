# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an elastic job before it starts is one message and exit 2; nothing is started."""

import json

import pytest


def refused(result, *needles):
    assert result.code == 2, (result.code, result.errors)
    assert result.text == ""
    for needle in needles:
        assert needle in result.errors, (needle, result.errors)
    assert len(result.errors.splitlines()) <= 3, result.errors


def script(path, text, mode=0o755):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("args,needles", [
    (["--min-np", "3", "--max-np", "2"], ["--min-np", "3", "--max-np"]),
    (["--min-np", "3"], ["--min-np", "3", "-np"]),
    (["--min-np", "1", "--max-np", "1"], ["--max-np", "1", "-np"]),
    (["--min-np", "1", "--blacklist-cooldown-range", "10", "5"],
     ["--blacklist-cooldown-range", "10", "5"]),
    (["--min-np", "1", "--blacklist-cooldown-range", "0", "5"],
     ["--blacklist-cooldown-range", "3600"]),
    (["--min-np", "1", "--blacklist-cooldown-range", "1", "3601"],
     ["--blacklist-cooldown-range", "3600", "3601"]),
    (["--min-np", "1", "--elastic-mode", "mpi"], ["--elastic-mode", "horovod, gang", "mpi"]),
    (["--min-np", "1", "--join", "cold"], ["--join", "warm, together", "cold"]),
    (["--min-np", "1", "--success", "some"], ["--success", "all, any", "some"]),
    (["--min-np", "1", "--discovery-interval", "0"], ["--discovery-interval"]),
    (["--min-np", "1", "--straggler-timeout", "soon"], ["--straggler-timeout", "soon"]),
    (["--host-discovery-script", "   "], ["--host-discovery-script", "empty"]),
    (["--host-discovery-script", "/nowhere/discover"], ["--host-discovery-script", "/nowhere/"]),
    (["--host-discovery-script", "/"], ["directory"]),
    (["--host-discovery-script", "x", "-H", "a:1"], ["-H", "--host-discovery-script"]),
    (["--min-np", "1", "-H", "localhost:1"], ["(2)", "(1)"]),
    (["--min-np", "1", "--hostfile", "/nowhere/hosts"], ["/nowhere/hosts"]),
])
def test_words_that_cannot_be(hvdray, tmp_path, args, needles):
    trace = tmp_path / "started"
    refused(hvdray.go("-np", "2", *args, "--", "touch", trace), *needles)
    assert not trace.exists()


def test_a_script_that_may_not_be_executed(hvdray, tmp_path):
    path = script(tmp_path / "discover", "echo localhost:2\n", mode=0o644)
    refused(hvdray.go("-np", "2", "--host-discovery-script", path, "true"),
            "not executable", "make it executable")


def test_a_torch_script_in_horovods_mode_is_sent_to_gangs(hvdray, tmp_path):
    (tmp_path / "ddp.py").write_text("# import torch.distributed\nimport os\nos.environ['RANK']\n")
    words = ["-np", "1", "--min-np", "1"]
    result = hvdray.go(*words, "--", "python3", "ddp.py", cwd=tmp_path)
    assert result.code != 0
    told = [line for line in result.errors.splitlines() if "--elastic-mode gang" in line]
    assert "warning" in told[0] and "hint" in told[-1], result.errors
    result = hvdray.go(*words, "--elastic-mode", "gang", "--", "python3", "ddp.py", cwd=tmp_path)
    assert (result.code, result.errors) == (0, "")


def test_a_job_file_names_the_place(hvdray, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("np: 2\nmin_np: 1\njoin: cold\n")
    refused(hvdray.go("-f", job, "true"), "job.yaml:3:7", "join")
    job.write_text("np: 2\nhost_discovery_script: /nowhere/discover\n")
    refused(hvdray.go("-f", job, "true"), "job.yaml:2:24", "/nowhere/discover")


def plan(hvdray, *args):
    return hvdray.go("--print-plan=json", *args, "true")


def test_a_plan_is_made_of_the_hosts_that_the_script_prints_now(hvdray, tmp_path):
    path = script(tmp_path / "discover", "echo looking >&2; echo a:2; echo b\n")
    result = plan(hvdray, "-np", "2", "--slots-per-host", "3", "--host-discovery-script", path)
    assert result.code == 0, result.errors
    assert json.loads(result.text)["hosts"] == [{"host": "a", "workers": 2},
                                                {"host": "b", "workers": 3}]
    assert result.errors == "hvdray: discovery: looking\n"
    result = plan(hvdray, "-np", "2", "--max-np", "4", "--slots-per-host", "3",
                  "--host-discovery-script", path)
    assert json.loads(result.text)["size"] == 4


@pytest.mark.parametrize("text,code,needles", [
    ("echo a:many\n", 2, ["line 1", "many"]),
    ("echo why >&2; exit 7\n", 2, ["code 7", "why"]),
    ("echo a\n", 2, ["--slots-per-host"]),
    ("echo a:1\n", 2, ["(2)", "(1)", "--elastic-timeout"]),
    ("", 2, ["(2)", "(0)"]),
    ("sleep 600\n", 125, ["0.3 s", "killed"]),
])
def test_a_script_that_gives_no_plan(hvdray, tmp_path, text, code, needles):
    path = script(tmp_path / "discover", text)
    limit = "0.3" if text.startswith("sleep") else "60"
    result = plan(hvdray, "-np", "2", "--discovery-timeout", limit, "--host-discovery-script", path)
    assert result.code == code and result.text == "", result.errors
    for needle in needles:
        assert needle in result.errors, (needle, result.errors)


def test_torchruns_variables_are_in_the_plan_of_a_gang_only(hvdray):
    hosts = ["-np", "2", "--min-np", "1", "-H", "localhost:2"]
    gang = json.loads(plan(hvdray, *hosts, "--elastic-mode", "gang").text)
    assert gang["workers"][1]["environment"]["RANK"] == "1"
    horovod = json.loads(plan(hvdray, *hosts).text)
    assert "RANK" not in horovod["workers"][1]["environment"]


def test_a_host_file_of_an_elastic_job_may_have_too_few_slots_yet(hvdray, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    assert "name more" in plan(hvdray, "-np", "2", "--hostfile", hosts).errors
    result = plan(hvdray, "-np", "2", "--min-np", "1", "--hostfile", hosts)
    assert result.code == 2 and "--elastic-timeout" in result.errors, result.errors
