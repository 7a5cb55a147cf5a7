# SPDX-License-Identifier: Apache-2.0
"""The last release and today's hvdray on one machine: an agent of the other version, and what stays as it is
(docs/compatibility.md): options, files, schemas, recordings, the workers' environment."""

import json
import os
import re
import signal
import subprocess

import pytest
from conftest import ROOT, Hvdray, checked
from elastic import NAMES, Elastic, check_training
from last_release import PROGRAMS, installed

PATIENT = {**os.environ, "HOROVOD_GLOO_TIMEOUT_SECONDS": "60"}
# Rank 0 reads a line; rank 1 fails.
TRAIN = ("import horovod.torch as hvd, sys, torch; hvd.init(); code = 3 * hvd.rank()\n"
         "print('sum', hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), sys.stdin.readline().strip())\n"
         "hvd.shutdown(); sys.exit(code)")
# Rank 1 of the first gang fails; the next one goes on until it may stop.
RESTARTED = ("touch up$TORCHELASTIC_RESTART_COUNT; [ $HOROVOD_RANK:$TORCHELASTIC_RESTART_COUNT = 1:0 ] && exit 5; "
             "while [ ! -e stop ]; do sleep 0.05; done")


@pytest.fixture
def pair(mixed):
    yield from checked(Hvdray(mixed))


@pytest.fixture
def old(release):
    yield from checked(Hvdray(release))


@pytest.fixture
def with_old_agent(old_agent):
    yield from checked(Hvdray(old_agent))


def of(command, *words, cwd=None):
    """Its stdout."""
    return subprocess.run([command, *map(str, words)], check=True, capture_output=True, text=True, cwd=cwd).stdout


# ---- an agent of the other version


def test_horovod_trains_with_stdin_report_and_exit_code(pair, horovod_python, tmp_path):
    (tmp_path / "in").write_text("typed\n")
    report = tmp_path / "report.json"
    with open(tmp_path / "in", "rb") as stdin:
        result = pair.go("-np", 2, "--stdin", 0, "--report", report, "--", horovod_python, "-c", TRAIN, stdin=stdin)
    assert result.code == 3, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:sum 2.0 typed", "[1]<stdout>:sum 2.0 "], result.errors
    said = json.loads(report.read_text())
    assert (said["exit"]["code"], said["exit"]["origin"], len(said["workers"])) == (3, "worker", 2)


def test_ctrl_c_reaches_the_workers(pair, tmp_path):
    job = pair.job("-np", 2, "--", "sh", "-c", "trap 'echo saved; exit 0' INT; touch up$HOROVOD_RANK; sleep 600 & wait", cwd=tmp_path)
    job.wait_for(lambda: len(list(tmp_path.glob("up*"))) == 2, what="two workers")
    job.process.send_signal(signal.SIGINT)
    result = job.wait()
    assert result.code == 130 and sorted(result.text.splitlines()) == [f"[{rank}]<stdout>:saved" for rank in range(2)], result.errors


def test_a_job_with_channels_names_an_agent_that_has_none(with_old_agent):
    result = with_old_agent.go("--channel", "-np", 1, "--", "true")
    assert result.code == 125, result
    lines = [line for line in result.errors.splitlines() if "share no protocol version: 2 to" in line]
    assert len(lines) == 1 and "HVD-E0206" in lines[0], result.errors


def test_check_tells_an_agent_of_the_last_release_from_todays(with_old_agent, release):
    version = (ROOT / "tools/last_release.txt").read_text().split()[0]
    result = with_old_agent.run("check", "--json", "-np", 1)
    page = json.loads(result.text)
    (host,) = page["hosts"]
    assert host["agent"] == of(release / "hvdray-agent", "--version").strip() == f"hvdray {version}", result
    (finding,) = [found for found in page["findings"] if found["kind"] == "build"]
    assert finding["message"].startswith(f"host localhost: its agent is hvdray {version}, this is {page['build'].split(' (')[0]}"), finding


def test_preload_with_an_older_agent_starts_as_usual(with_old_agent):
    result = with_old_agent.go("-np", 1, "--preload", "json", "--", "python3", "-c", "print('started')")
    assert (result.code, result.text) == (0, "[0]<stdout>:started\n"), result.errors


@pytest.mark.parametrize("from_today", [True, False], ids=["from_today", "to_today"])
def test_an_elastic_job_outlives_an_upgrade(release, today, horovod_python, tmp_path, from_today):
    """Two names of this machine are two hosts, each with its agent."""
    first, then = (today, release) if from_today else (release, today)
    folder = installed(tmp_path / "bin", *(first / name for name in PROGRAMS))
    with_tool = checked(Hvdray(folder))
    tool = next(with_tool)
    job = Elastic(tool.job, horovod_python, tmp_path / "job")
    job.hosts(NAMES[0])
    job.start("-np", 1, "--min-np", 1, "--max-np", 3, env=PATIENT)
    job.wait_steps(1)
    installed(folder, *(then / name for name in PROGRAMS))
    job.hosts(*NAMES[:2])
    job.wait_steps(2)
    agents = [os.stat(f"/proc/{pid}/exe") for pid in job.agents().values()]
    assert len(agents) == 2
    if from_today:
        assert os.path.samestat(*agents), "the host that joined later has another agent"
        (folder / "hvdray-agent").unlink()  # what an upgrade does for a moment
        job.hosts(*NAMES[:3])
        job.wait_steps(3)
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job)
    next(with_tool, None)


# ---- what stays as it is


def newer_changes():
    """The changelog above the last release."""
    version = (ROOT / "tools/last_release.txt").read_text().split()[0]
    return (ROOT / "CHANGELOG.md").read_text().partition(f"\n## [{version}]")[0]


def test_an_option_that_is_gone_is_in_the_changelog_and_its_error_says_what_to_use(old, hvdray):
    commands = re.findall(r"^  ([a-z]+)  ", of(old.binary, "--help"), re.M)
    assert {"run", "check", "replay", "follow", "status", "slots", "jobs", "rendezvous"} <= set(commands), commands
    tried, gone = 0, []
    for command in set(commands) - {"help", "explain", "agent"}:
        listed = re.findall(r"^  (-.*?)(?=  |$)", of(old.binary, command, "--help"), re.M)
        for option in {option for line in listed for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)}:
            words = [command, f"{option}=1" if command == "run" else option, "--help"]
            result = subprocess.run([hvdray.binary, *words], capture_output=True, text=True, timeout=60, check=False)
            tried += 1
            if f"unknown option '{option}" in result.stderr:
                gone.append((command, option))
                assert re.search(r"\n  hint: .*(HVDRAY_|hvdray stop)", result.stderr), result
    assert tried > 150
    left_out = [(command, option) for command, option in gone if not re.search(rf"{option}(?![\w-])", newer_changes())]
    assert not left_out, left_out


def places(value, path=""):
    """Every key of a JSON value by its path, with its type; of arrays, what any element has."""
    if isinstance(value, dict):
        return {place for key, part in value.items() for place in places(part, f"{path}.{key}")}
    if isinstance(value, list):
        return {place for part in value for place in places(part, f"{path}[]")}
    return {(path, "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__)}


def records(tool, folder):
    """What a job leaves that fails: its report, events by kind, plan and configuration."""
    folder.mkdir()
    failing = ("sh", "-c", "[ $HOROVOD_RANK = 0 ] && kill -9 $$; sleep 600")
    result = tool.go("-np", 2, "--report", "report", "--events", "events", "--", *failing, cwd=folder)
    assert result.code == 137, result.errors
    found = {"report": json.loads((folder / "report").read_text())}
    for line in (folder / "events").read_text().splitlines():
        event = json.loads(line)
        found[f"event {event.get('event')}"] = event
    found["plan"] = json.loads(of(tool.binary, "run", "-np", 2, "--dry-run", "--print-plan=json", "true"))
    return found


def test_a_schema_keeps_its_keys_and_their_types(old, hvdray, tmp_path):
    before, now = (records(tool, tmp_path / name) for tool, name in ((old, "old"), (hvdray, "new")))
    assert len(before) >= 7, before.keys()
    for name, page in before.items():
        assert name in now, now.keys()
        if page.get("schema") != now[name].get("schema"):
            continue  # the number after the slash has risen
        # null stands for any type.
        lost = {(path, kind) for path, kind in places(page) - places(now[name])
                if kind != "NoneType" and (path, "NoneType") not in places(now[name])}
        assert not lost, f"{name}: {lost}"


@pytest.mark.parametrize("name", ["static_job.yaml", "elastic_job.yaml", "ray_job.yaml"])
def test_a_job_file_means_what_it_meant(old, hvdray, release, name):
    file = release.parent / "configs" / name
    pages = [json.loads(of(tool.binary, "run", "-f", file, "--print-config=json", cwd=ROOT)) for tool in (old, hvdray)]
    before, now = ({key: value["value"] for key, value in page["settings"].items() if value["origin"] != "default"}
                   for page in pages)
    assert len(before) > 3
    assert before.items() <= now.items(), {key: (value, now.get(key)) for key, value in before.items() if now.get(key) != value}


def test_a_cluster_file_means_what_it_meant(old, hvdray, release):
    file = release.parent / "configs/quickstart.yaml"
    plans = [json.loads(of(tool.binary, "run", "--cluster", file, "--dry-run", "--print-plan=json", cwd=ROOT)) for tool in (old, hvdray)]
    before, now = ([{key: value for key, value in worker.items() if key != "environment"} for worker in plan["workers"]] for plan in plans)
    assert len(before) > 1 and before == now


def test_a_recording_is_decided_as_it_was(old, hvdray, tmp_path):
    job = old.job("-np", 2, "--min-np", 1, "--elastic-mode", "gang", "--max-restarts", 2, "-H", "localhost:1,127.0.0.1:1",
                  "--record", "record", "--", "sh", "-c", RESTARTED, cwd=tmp_path)
    job.wait_for((tmp_path / "up1").exists, what="a restart")
    (tmp_path / "stop").touch()
    assert job.wait().code == 0
    page = json.loads(of(hvdray.binary, "replay", "--json", tmp_path / "record"))
    assert page["broken"] is None and page["differences"] == [] and page["end"] == page["recorded_end"]
    assert page["generations"] >= 2


def test_workers_find_the_variables_that_they_found(old, hvdray):
    found = []
    for tool in (old, hvdray):
        result = tool.go("-np", 1, "--tag-output", "none", "--", "env")
        assert result.code == 0, result.errors
        found.append({line.partition("=")[0] for line in result.text.splitlines()})
    assert any(name.startswith("HOROVOD_") for name in found[0]) and "MASTER_ADDR" in found[0]
    assert found[0] <= found[1], found[0] - found[1]


def test_an_error_of_the_last_release_is_still_explained(hvdray):
    commit = (ROOT / "tools/last_release.txt").read_text().split()[1]
    codes = set(re.findall(r"HVD-E\d{4}", of("git", "-C", ROOT, "show", f"{commit}:docs/errors.md")))
    assert len(codes) > 30
    unknown = [code for code in sorted(codes)
               if subprocess.run([hvdray.binary, "explain", code], capture_output=True, check=False).returncode != 0]
    assert not unknown, unknown
