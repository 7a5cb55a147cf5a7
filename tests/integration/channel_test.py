# SPDX-License-Identifier: Apache-2.0
"""Workers' channels: reports become events in order, a flood is slowed, and a violation ends its worker alone."""

import json
import os
import re
import signal
import sys
import time

import pytest

from conftest import python_script

# One job of fixed size, one whose workers have numbers, on this machine both. In the second, a plain script never
# meets the others, so it must be a gang if it is to be restarted.
STATIC = ()
GANG = ("--elastic-mode", "gang", "--min-np", "4", "--host-discovery-script", "echo localhost:4")
HOROVOD = ("--min-np", "4", "--host-discovery-script", "echo localhost:4")

CHANNEL = """
import json, os, signal, subprocess, sys, time
channel = int(os.environ["HVDRAY_CHANNEL_FD"])
rank = int(os.environ["HOROVOD_RANK"])

def write(text):
    data = text.encode() if isinstance(text, str) else text
    while data:
        data = data[os.write(channel, data):]

def say(**message):
    write(json.dumps(message) + "\\n")
"""


def events(path, *kinds):
    """The lines of --events of these kinds; of all without any."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if not kinds or line["event"] in kinds]


def resident_kib(job, needle):
    """The resident memory of each process of the job whose program is named so."""
    sizes = {}
    for pid, line in job.processes().items():
        if os.path.basename(line.partition(" ")[0]) == needle:  # "": it ends in this moment
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                sizes[pid] = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    assert sizes, needle
    return sizes


def pids_of(job, start):
    """Processes of the job whose command line starts with this."""
    return [pid for pid, line in job.processes().items() if line.startswith(start)]


def is_asleep(pid):
    with open(f"/proc/{pid}/stat", "rb") as f:
        return f.read().rsplit(b")", 1)[1].split()[0] == b"S"


def test_a_shell_script_reports_with_one_line(hvdray, tmp_path):
    result = hvdray.go("--channel", "-np", "1", "--events", tmp_path / "events", "--", "sh", "-c",
                       """echo '{"type":"report","metrics":{"loss":0.3}}' >&"$HVDRAY_CHANNEL_FD"; echo out""")
    assert result.code == 0 and result.errors == ""
    assert result.text == "[0]<stdout>:out\n", "what is on the channel is not output"
    (line,) = events(tmp_path / "events", "report")
    assert {k: line[k] for k in ("generation", "rank", "host", "n", "metrics")} == {
        "generation": 1, "rank": 0, "host": "localhost", "n": 1, "metrics": {"loss": 0.3}}


@pytest.mark.parametrize("kind", [STATIC, GANG, HOROVOD], ids=["static", "gang", "horovod"])
def test_reports_of_four_workers_are_events_in_order(hvdray, script, tmp_path, kind):
    worker = script("worker", python_script(CHANNEL + """
say(type="hello", protocol=1, client="test", python=sys.version)
for step in range(500):
    say(type="report", metrics={"rank": rank, "step": step, "best": {"loss": 1 / (step + 1), "at": None}})
    if step % 100 == 0:
        write(json.dumps({"type": "data", "blob": 300000}) + "\\n")
        write(b"\\n" * 300000)
"""))
    result = hvdray.go("--channel", "-np", "4", *kind, "--events", tmp_path / "events", "--", worker)
    assert result.code == 0, result.errors
    lines = events(tmp_path / "events", "report")
    for rank in range(4):
        own = [line for line in lines if line["rank"] == rank]
        assert [line["n"] for line in own] == list(range(1, 501))
        assert [line["metrics"] for line in own] == [
            {"rank": rank, "step": step, "best": {"loss": 1 / (step + 1), "at": None}} for step in range(500)]
        assert {line["host"] for line in own} == {"localhost"}
        assert {"worker" in line for line in own} == {kind != STATIC}
    assert len(lines) == 2000
    times = [line["time"] for line in events(tmp_path / "events")]
    assert times == sorted(times)


@pytest.mark.parametrize("kind", [STATIC, GANG], ids=["static", "gang"])
def test_a_restart_counts_reports_anew(hvdray, script, tmp_path, kind):
    worker = script("worker", python_script(CHANNEL + """
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(3):
    say(type="report", metrics={"attempt": attempt})
if attempt == 0:
    write('{"type":"rep')  # cut off by the end: the next attempt begins at its first byte
    if rank == 1:
        deadline = time.monotonic() + 50
        while len(os.listdir(sys.argv[1])) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        sys.exit(9)
    open(os.path.join(sys.argv[1], str(rank)), "w").close()
    time.sleep(600)
"""))
    (tmp_path / "there").mkdir()
    result = hvdray.go("--channel", "-np", "4", *kind, "--max-restarts", "1", "--events", tmp_path / "events", "--",
                       worker, tmp_path / "there")
    assert result.code == 0, result.errors
    reports = {}
    for line in events(tmp_path / "events", "report"):
        reports.setdefault((line["rank"], line["metrics"]["attempt"]), []).append((line["n"], line["generation"]))
    assert sorted(reports) == [(rank, attempt) for rank in range(4) for attempt in (0, 1)]
    for (rank, attempt), own in reports.items():
        assert [n for n, _ in own] == [1, 2, 3], (rank, attempt)
        assert len({generation for _, generation in own}) == 1
    firsts = {own[0][1] for (_, attempt), own in reports.items() if attempt == 0}
    seconds = {own[0][1] for (_, attempt), own in reports.items() if attempt == 1}
    assert len(firsts) == len(seconds) == 1 and max(firsts) < min(seconds)


def test_a_flood_that_nobody_reads_is_slowed_and_not_memory(hvdray, script, tmp_path):
    worker = script("worker", python_script(CHANNEL + """
block = b"z" * 99999 + b"\\n"
for i in range(400):
    say(type="data", blob=len(block))
    write(block)
    if i == 0:
        open(sys.argv[1] + str(rank), "w").close()
say(type="report", metrics={"done": True})
"""))
    mark = tmp_path / "begun."
    command = f"{sys.executable} {worker}"
    job = hvdray.job("--channel", "-np", "2", "--heartbeat-timeout", "120", "--events", tmp_path / "events", "--",
                     "sh", "-c", f": >{tmp_path}/up.$HOROVOD_RANK; "
                     f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; exec {worker} {mark}")
    # Not by command lines: what a shell forks has its own for a moment.
    job.wait_for(lambda: len(list(tmp_path.glob("up.*"))) == 2, what="two workers")
    os.kill(job.pid, signal.SIGSTOP)
    try:
        (tmp_path / "go").touch()
        job.wait_for(lambda: all(os.path.exists(f"{mark}{rank}") for rank in range(2)), what="floods")
        workers = pids_of(job, command)
        assert len(workers) == 2
        # 80 MB would have come in this time.
        time.sleep(2)
        job.wait_for(lambda: all(is_asleep(pid) for pid in workers), what="workers that wait")
        assert set(pids_of(job, command)) == set(workers), "slowed, not killed"
        assert max(resident_kib(job, "hvdray-agent").values()) < 60_000
        assert not events(tmp_path / "events", "report")
    finally:
        os.kill(job.pid, signal.SIGCONT)
    peak = 0
    while job.process.poll() is None and pids_of(job, command):
        try:
            peak = max([peak, *resident_kib(job, "hvdray").values()])
        except (AssertionError, FileNotFoundError, ProcessLookupError, TypeError):
            break  # it ends
    result = job.wait()
    assert result.code == 0, result.errors
    assert peak < 100_000
    assert [line["metrics"] for line in events(tmp_path / "events", "report")] == [{"done": True}] * 2


VIOLATIONS = {
    "no_message": ("write('loss 0.3\\n')", "JSON"),
    "unknown_type": ("say(type='object')", "no type \"object\""),
    "list": ("say(type='report', metrics={'a': [1]})", "metrics must be an object"),
    "long_line": ("write(b'{' * 1100000)", "a line of over 1 MiB"),
}


@pytest.mark.parametrize("what", VIOLATIONS)
def test_a_violation_kills_its_worker_and_is_told(hvdray, script, tmp_path, what):
    code, said = VIOLATIONS[what]
    worker = script("worker", python_script(CHANNEL + f"""
say(type="report", metrics={{"rank": rank}})
if rank == 2:
    try:
        {code}
    except OSError:
        pass
time.sleep(600)
"""))
    result = hvdray.go("--channel", "-np", "4", "--report", tmp_path / "report", "--events", tmp_path / "events",
                       "--", worker)
    assert result.code == 128 + signal.SIGKILL
    assert re.search(rf"rank 2 broke the rules of its channel and is killed: .*{re.escape(said)}", result.errors), \
        result.errors
    assert "did not send that SIGKILL" not in result.errors
    report = json.loads((tmp_path / "report").read_text())
    assert report["first_failure"]["rank"] == 2 and report["first_failure"]["signal"] == "SIGKILL"
    assert report["first_failure"]["error"].startswith("broken channel: "), report["first_failure"]
    assert [w["victim"] for w in report["workers"]] == [True, True, False, True]
    own = [line for line in events(tmp_path / "events", "report") if line["rank"] == 2]
    assert [line["n"] for line in own] == [1], "what came before counts"


def test_a_violation_in_an_elastic_job_costs_one_worker(hvdray, script, tmp_path):
    worker = script("worker", python_script(CHANNEL + """
if rank == 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    write("no message\\n")
    time.sleep(600)
"""))
    result = hvdray.go("--channel", "-np", "4", *GANG, "--max-restarts", "1", "--events", tmp_path / "events", "--",
                       worker)
    assert result.code == 0, result.errors
    assert re.search(r"worker \d+ broke the rules of its channel and is killed: ", result.errors), result.errors
    killed = [e for e in events(tmp_path / "events", "worker_exited") if e["signal"] == "SIGKILL"]
    assert [e["rank"] for e in killed] == [2]


@pytest.mark.parametrize("kind", [STATIC, HOROVOD], ids=["static", "horovod"])
def test_a_child_that_keeps_the_channel_does_not_keep_the_job(hvdray, script, tmp_path, kind):
    worker = script("worker", python_script(CHANNEL + """
null = subprocess.DEVNULL
subprocess.Popen(["sleep", "300"], stdin=null, stdout=null, stderr=null, pass_fds=[channel], start_new_session=True)
say(type="report", metrics={"rank": rank})
"""))
    result = hvdray.go("--channel", "-np", "4", *kind, "--events", tmp_path / "events", "--", worker)
    assert result.code == 0, result.errors
    assert sorted(line["rank"] for line in events(tmp_path / "events", "report")) == [0, 1, 2, 3]
    # Nothing is left either: the fixture looks.


def test_a_worker_that_ignores_its_channel_or_closes_it_is_an_ordinary_one(hvdray):
    result = hvdray.go("--channel", "-np", "2", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 0 ] && exec 4>&-; sleep 0.2; echo end")
    assert result.code == 0 and result.errors == ""
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:end", "[1]<stdout>:end"]


@pytest.mark.parametrize("kind", [STATIC, HOROVOD], ids=["static", "horovod"])
def test_without_the_option_there_is_no_channel(hvdray, kind):
    env = dict(os.environ, HVDRAY_CHANNEL_FD="4")
    result = hvdray.go("-np", "4", *kind, "--", "sh", "-c", 'echo "<${HVDRAY_CHANNEL_FD-none}>"; ls /proc/$$/fd; :',
                       env=env)
    assert result.code == 0, result.errors
    assert result.errors == "", "a job within a job is no reason to warn"
    for rank in range(4):
        own = [line.split(":", 1)[1] for line in result.text.splitlines() if line.startswith(f"[{rank}]")]
        assert own == ["<none>", "0", "1", "2"]


def test_a_job_within_a_worker_has_channels_of_its_own(hvdray, tmp_path):
    inner = (f"{hvdray.binary} run --channel -np 1 --events {tmp_path}/inner -- sh -c "
             """'echo "{\\"type\\":\\"report\\",\\"metrics\\":{\\"in\\":1}}" >&4'""")
    result = hvdray.go("--channel", "-np", "1", "--events", tmp_path / "outer", "--", "sh", "-c", inner)
    assert result.code == 0 and result.errors == "", result.errors
    assert [line["metrics"] for line in events(tmp_path / "inner", "report")] == [{"in": 1}]
    assert events(tmp_path / "outer", "report") == []
