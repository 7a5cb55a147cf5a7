# SPDX-License-Identifier: Apache-2.0
"""The last release and today's hvdray over real sshd: an agent of the other version, on hosts that are there and that join, and
an upgrade while a job runs (docs/compatibility.md)."""

import hashlib
import os
import pathlib
import shutil

import pytest
from conftest import Hvdray, checked
from elastic import Elastic, check_training
from last_release import PROGRAMS, installed

PATIENT = {**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}
TRAIN = ("import horovod.torch as hvd, torch; hvd.init(); "
         "print(open('data').read(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item())")


@pytest.fixture
def pair(mixed, hosts):
    yield from checked(Hvdray(mixed, hosts))


def elastic(tool, python, folder):
    return Elastic(tool.job, python, folder)


def digest_of_agents(job):
    """{host: SHA-256 of the program that is its agent}"""
    return {host: hashlib.sha256(pathlib.Path(f"/proc/{pid}/exe").read_bytes()).hexdigest() for host, pid in job.agents().items()}


def test_horovod_trains_on_two_hosts_in_a_copied_directory(pair, hosts, horovod_python):
    home = hosts.state / "home"  # as the launcher and each host call theirs
    project = hosts.folder("launcher") / "home/versions"
    project.mkdir()
    (project / "data").write_text("copied")
    try:
        result = pair.go("-H", "h1:2,h2:1", "--sync", "versions", "--cwd", "versions", "--", horovod_python, "-c", TRAIN, cwd=str(home))
    finally:
        for name in ("launcher", "h1", "h2"):
            shutil.rmtree(hosts.folder(name) / "home/versions", ignore_errors=True)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{rank}]<stdout>:copied 3.0" for rank in range(3)], result.errors


def test_an_elastic_job_gains_a_host_and_loses_a_worker(pair, horovod_python, tmp_path):
    job = elastic(pair, horovod_python, tmp_path / "job")
    job.hosts("h1")
    job.start("-np", 1, "--min-np", 1, "--max-np", 3, env=PATIENT)
    job.wait_steps(1)
    job.hosts("h1", "h2", "h3")
    job.wait_steps(3)
    job.kill(2)
    job.wait_steps(2)
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, 2)


def test_check_says_what_an_older_agent_does_not_measure(old_agent, hosts):
    with_tool = checked(Hvdray(old_agent, hosts))
    result = next(with_tool).run("check", "-H", "h1:1,h2:1", "--", "true")
    assert result.code in (0, 1), result.errors
    assert "h[1-2]: no bandwidth and latency, the agent there does not measure" in result.text + result.errors, result
    next(with_tool, None)


@pytest.mark.parametrize("from_today", [True, False], ids=["from_today", "to_today"])
def test_hosts_that_join_after_an_upgrade_get_the_agent_of_the_job(release, today, hosts, horovod_python, tmp_path, from_today):
    first, then = (today, release) if from_today else (release, today)
    folder = installed(tmp_path / "bin", *(first / name for name in PROGRAMS))
    with_tool = checked(Hvdray(folder, hosts))
    job = elastic(next(with_tool), horovod_python, tmp_path / "job")
    job.hosts("h1")
    job.start("-np", 1, "--min-np", 1, "--max-np", 2, env=PATIENT)
    job.wait_steps(1)
    installed(folder, *(then / name for name in PROGRAMS))
    job.hosts("h1", "h2")
    job.wait_steps(2)
    agent = hashlib.sha256((first / "hvdray-agent").read_bytes()).hexdigest()
    assert digest_of_agents(job) == {"h1": agent, "h2": agent}
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, 2)
    next(with_tool, None)


def test_an_agent_that_is_missing_is_one_line(today, hosts, tmp_path):
    folder = installed(tmp_path / "bin", today / "hvdray")
    with_tool = checked(Hvdray(folder, hosts))
    result = next(with_tool).go("-H", "h1:1", "--", "true")
    assert result.code in (2, 125), result
    lines = result.errors.splitlines()
    assert f"{folder}/hvdray-agent: No such file" in lines[0] and "put hvdray-agent beside hvdray" in lines[1], lines
    next(with_tool, None)
