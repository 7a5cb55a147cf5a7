# SPDX-License-Identifier: Apache-2.0
"""How long elastic jobs stand still when a worker is killed, a host frozen or added, a gang restarted."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from harness import ROOT, Measure, Series, kill_session, which
from launch import environment

WORKER = ROOT / "tests/integration/workers/elastic_worker.py"
# Names of this machine that count as different hosts, also for horovodrun.
NAMES = ["localhost", "127.0.0.1", "127.1", "127.0.1", "127.00.0.1", "127.0.00.1", "0177.1", "0x7f.1"]
START_S, PATIENCE_S, STEP_S, WARM_STEPS = 120, 60, 0.005, 20


class Job:
    """An hvd.elastic script on the first `size` of NAMES with one worker each; runs during a `with` block."""

    def __init__(self, context, launcher, size, words=(), **plan):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hvdray-bench-"))
        self.size = size
        self._seen = {}
        self.hosts(size)
        words = ["-np", size, "--min-np", 1, *words, "--host-discovery-script",
                 f"cat {shlex.quote(str(self.folder / 'hosts'))}"]
        command = {**{name: [hvdray, "run", *words, "--"] for name, hvdray in context.builds.items()},
                   "horovodrun": [context.venv / "bin/horovodrun", "--network-interface", "lo", *words]}
        plan = {"folder": str(self.folder), "step_s": STEP_S, "commit_every": 5, **plan}
        env = dict(environment(context), OMP_NUM_THREADS="1", ELASTIC_PLAN=json.dumps(plan),
                   PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen(
            [str(word) for word in (*command[launcher], context.venv / "bin/python", WORKER)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
            start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill_all(self.process, self.folder)

    def hosts(self, count):
        new = self.folder / "hosts.new"
        new.write_text("".join(f"{name}:1\n" for name in NAMES[:count]))
        new.rename(self.folder / "hosts")

    def log(self, event):
        """Log entries of one kind from all workers, in order of time. Continues reading where the last call stopped."""
        for file in self.folder.glob("*.jsonl"):
            offset, entries = self._seen.get(file, (0, []))
            with open(file, "rb") as stream:
                stream.seek(offset)
                text = stream.read()
            whole = text[:text.rfind(b"\n") + 1]
            entries += [json.loads(line) for line in whole.splitlines()]
            self._seen[file] = (offset + len(whole), entries)
        found = [e for _, entries in self._seen.values() for e in entries if e["event"] == event]
        return sorted(found, key=lambda entry: entry["t"])

    def firsts(self, size, after):
        """{rank: time of its first step in a gang of that size}."""
        found = {}
        for entry in self.log("step"):
            if entry["size"] == size and entry["t"] > after:
                found.setdefault(entry["rank"], entry["t"])
        return found

    def all_stepped(self, size, after, limit):
        """Time when every rank of a gang of that size had made a step; None: never within the limit."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and self.process.poll() is None:
            found = self.firsts(size, after)
            if len(found) == size:
                return max(found.values())
            time.sleep(0.02)
        return None

    def warm_up(self):
        """Waits until all workers have made some steps. Returns the newest entry by rank, or None."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            steps = [e for e in self.log("step") if e["size"] == self.size]
            if len(steps) >= WARM_STEPS * self.size:
                return {e["rank"]: e for e in steps}
            time.sleep(0.02)
        return None

    def end(self):
        """Tells the job to stop; returns whether it succeeds."""
        (self.folder / "stop").touch()
        try:
            return self.process.wait(PATIENCE_S) == 0
        except subprocess.TimeoutExpired:
            return False


def kill_all(process, folder):
    """Workers have their own sessions, under horovodrun and hvdray, but the directory is in their environment."""
    process.kill()
    process.wait()
    needle = str(folder).encode()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and needle in pathlib.Path(f"/proc/{entry}/environ").read_bytes():
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue
    kill_session(process.pid)
    shutil.rmtree(folder, ignore_errors=True)


def killed(context, launcher, size, words=()):
    """Seconds from the SIGKILL of one worker until all others have made another step."""
    with Job(context, launcher, size, words) as job:
        newest = job.warm_up()
        if newest is None:
            return None
        at = time.monotonic()
        os.kill(newest[size // 2]["pid"], signal.SIGKILL)
        done = job.all_stepped(size - 1, at, PATIENCE_S)
        return done - at if done and job.end() else None


def frozen(context, launcher, size=4):
    """The same from the SIGSTOP of all processes on a host. horovodrun has only the worker there."""
    with Job(context, launcher, size) as job:
        newest = job.warm_up()
        if newest is None:
            return None
        pids = [newest[size // 2]["pid"]]
        if launcher in context.builds:
            with open(f"/proc/{pids[0]}/stat") as f:
                pids.insert(0, int(f.read().rsplit(")", 1)[1].split()[1]))
        at = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        done = job.all_stepped(size - 1, at, PATIENCE_S)
        return done - at if done else None


def joined(context, launcher, import_s, size=3):
    """Seconds from the old gang's last step until all workers of the larger gang have made a step."""
    with Job(context, launcher, size, import_s=import_s) as job:
        if job.warm_up() is None:
            return None
        job.hosts(size + 1)
        done = job.all_stepped(size + 1, 0, PATIENCE_S)
        if done is None or not job.end():
            return None
        return done - max(e["t"] for e in job.log("step") if e["size"] == size)


def rounds_of(context, function, rounds, few=None):
    """Alternates the launchers. few: rounds for horovodrun, where a round takes half a minute."""
    rows = {name: Series(name) for name in (*context.builds, "horovodrun")}
    few = rounds if few is None else few
    for number in range(context.rounds(rounds)):
        for name, row in rows.items():
            if name in context.builds or number < few and not (context.is_quick and few < rounds):
                row.values.append(function(name))
    return list(rows.values())


def losses(context):
    if not context.venv:
        return []
    measures = [Measure("elastic: 2 workers on 2 hosts, one SIGKILLed → the survivor's next step", "s",
                        rounds_of(context, lambda n: killed(context, n, 2), 10),
                        "≤ horovodrun")]
    for size, rounds in ((4, 5), (8, 5)):
        measures.append(Measure(
            f"elastic: {size} → {size - 1} workers, one SIGKILLed → next step of all survivors", "s",
            rounds_of(context, lambda n, s=size: killed(context, n, s), rounds, few=2),
            "≤ 1/40 of horovodrun; stretch 1/80"))
    measures.append(Measure(
        "elastic: one of 4 hosts frozen (SIGSTOP of agent and worker) → next step of the others", "s",
        rounds_of(context, lambda n: frozen(context, n), 3, few=1),
        "≤ --heartbeat-timeout (5 s) + 1 s"))
    return measures


def joins(context):
    if not context.venv:
        return []
    title = "elastic: a host added, 3 → 4: last step of the old gang → first of the larger one"
    return [Measure(title, "s", rounds_of(context, lambda n: joined(context, n, 0), 5),
                    "≤ 0.3 × horovodrun"),
            Measure(title + ", 5 s of imports", "s",
                    rounds_of(context, lambda n: joined(context, n, 5), 3), "as without them")]


# ---- gangs

NOTE = 'echo > "$FOLDER/$TORCHELASTIC_RESTART_COUNT.$RANK.$$"; exec sleep 600'


def restarted(context, launcher, ranks):
    """Seconds from the SIGKILL of one rank until all run again, measured by the times of files they create."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hvdray-bench-"))
    note = folder / "note.sh"  # a file, because torchrun substitutes text in a command's words
    note.write_text(NOTE)
    command = {
        **{name: [hvdray, "run", "--elastic-mode", "gang", "-np", ranks, "--min-np", ranks,
                  "--max-restarts", 3, "-H", f"localhost:{ranks}", "--", "sh", note]
           for name, hvdray in context.builds.items()},
        # With Python 3.11 this torchrun fails without redirections.
        "torchrun": ["torchrun", "--no_python", "--nproc_per_node", ranks, "--max_restarts", 3,
                     "--monitor_interval", "0.1", "-r", "1", "-t", "1", "--log_dir", folder / "logs",
                     "--master_port", "29511", "sh", note]}[launcher]
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=dict(os.environ, FOLDER=str(folder), OMP_NUM_THREADS="1"),
                               start_new_session=True)
    try:
        first = started(process, folder, 0, ranks)
        if first is None:
            return None
        time.sleep(0.5)
        victim = next(name for name in first if name.split(".")[1] == str(ranks // 2))
        at = time.time_ns()
        os.kill(int(victim.split(".")[2]), signal.SIGKILL)
        second = started(process, folder, 1, ranks)
        return None if second is None else (max(second.values()) - at) / 1e9
    finally:
        kill_all(process, folder)


def started(process, folder, restart, ranks):
    """{file name: creation time} once all ranks of that start have made theirs; None if they never do."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = {path.name: path.stat().st_mtime_ns for path in folder.glob(f"{restart}.*")}
        if len(found) == ranks:
            return found
        time.sleep(0.02)
    return None


def gangs(context):
    measures = []
    for ranks, goal in ((16, "≤ torchrun"), (64, "≤ 0.3 s")):
        names = [*context.builds] + (["torchrun"] if which("torchrun") else [])
        rows = {name: Series(name, note="--monitor_interval 0.1" if name == "torchrun" else "")
                for name in names}
        for _ in range(context.rounds(7)):
            for name, row in rows.items():
                row.values.append(restarted(context, name, ranks))
        measures.append(Measure(f"elastic: gang of {ranks}, one rank SIGKILLed → all run again", "s",
                                list(rows.values()), goal))
    return measures


def driver(context):
    """Cost of one event of the driver at 10,000 slots, by kind."""
    tool = context.bin_dir / "elastic_events"
    rows = {}
    for _ in range(context.rounds(5)):
        told = json.loads(subprocess.run([tool], capture_output=True, check=True).stdout)
        for kind, cost in told.items():
            if isinstance(cost, dict):
                row = rows.setdefault(kind, Series(f"{kind}, mean of {cost['count']}"))
                row.values.append(cost["mean_us"])
    return [Measure("elastic: one event of the driver at 10,000 slots", "µs", list(rows.values()),
                    "≤ 1 ms")]
