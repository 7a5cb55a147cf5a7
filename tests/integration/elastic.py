# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs for tests: hosts that the test lists and changes, workers that follow its plan and log what
they do, and what must hold of every log whatever happened in between."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKERS = ROOT / "tests/integration/workers"
# Names of this machine which are as many hosts: each has its agent. horovodrun takes them as well.
NAMES = ["localhost", "127.0.0.1", "127.1", "127.0.1", "127.00.0.1", "127.0.00.1", "0177.1", "0x7f.1"]
HANG_S = 180  # no step and no end for so long is a hang, on a slow machine as well


def seeds(count, take=2):
    """`take` of that many seeds, which ones depends on the commit: every case is run, but not every time. All of
    them with HVDRAY_MEETING_SEEDS=all."""
    if os.environ.get("HVDRAY_MEETING_SEEDS") == "all":
        return range(count)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    first = int(head.stdout.strip() or "0", 16)
    return sorted((first + n * (count // take)) % count for n in range(take))


class Elastic:
    """A job whose hosts come from a discovery script of the test.

    start: takes the words after `hvdray run` and keywords of Popen, returns a conftest.Job.
    python: that of the workers; worker: a script in tests/integration/workers or a path.
    """

    def __init__(self, start, python, folder, worker="elastic_worker.py", **plan):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o777)
        self.plan = {"folder": str(self.folder), **plan}
        self.command = [str(python), str(WORKERS / worker)]
        self._start = start
        self.job = None
        self.result = None
        self.list_file = self.folder / "hosts"

    # ---- hosts

    def hosts(self, *names):
        """What the script lists from now on: "name" or "name:slots"."""
        new = self.folder / "hosts.new"
        new.write_text("".join(f"{name if ':' in name else name + ':1'}\n" for name in names))
        new.rename(self.list_file)

    @property
    def discovery(self):
        return f"cat {shlex.quote(str(self.list_file))}"

    # ---- the job

    def start(self, *options, command=None, env=None, script=True, **popen):
        env = dict(os.environ if env is None else env, ELASTIC_PLAN=json.dumps(self.plan),
                   OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        env.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", "30")
        words = ["--host-discovery-script", self.discovery] if script else []
        self.job = self._start(*words, *options, "--", *(command or self.command), env=env, **popen)
        return self

    def let_end(self):
        """The workers end at their next step."""
        (self.folder / "stop").touch()

    def end(self, timeout=HANG_S):
        self.let_end()
        return self.wait(timeout)

    def wait(self, timeout=HANG_S):
        self.result = self.job.wait(timeout)
        return self.result

    # ---- the log

    def log(self, *kinds, **values):
        """Everything that workers wrote down, in the order of time."""
        found = []
        for file in self.folder.glob("*.jsonl"):
            text = file.read_text()
            # A worker may be in the middle of its last line.
            for line in text[:text.rfind("\n") + 1].splitlines():
                entry = json.loads(line)
                if (not kinds or entry["event"] in kinds) and values.items() <= entry.items():
                    found.append(entry)
        return sorted(found, key=lambda entry: entry["t"])

    def events(self, *kinds, **values):
        """Of `--events FOLDER/events`; a line that is being written is left for the next time."""
        file = self.folder / "events"
        text = file.read_text() if file.exists() else ""
        lines = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        return [e for e in lines if e["event"] in kinds and values.items() <= e.items()]

    def wait_for(self, predicate, what, within=HANG_S):
        """As conftest.Job.wait_for(); what failed is told with what everybody said."""
        try:
            return self.job.wait_for(predicate, within, what)
        except AssertionError as error:
            if self.job.process.stderr is None or self.job.process.stderr.closed:
                raise
            said = self.job.process.communicate(timeout=10)[1].decode(errors="replace")
            raise AssertionError(f"{error}\n--- stderr\n{said[-6000:]}\n--- log\n{self.story()}") from None

    def story(self):
        """What happened, but for the steps; their number is told in front of what follows them."""
        lines, steps = [], {}
        for entry in self.log():
            pid = entry["pid"]
            if entry["event"] in ("step", "commit"):
                steps[pid] = entry["step"]
                continue
            rest = {k: v for k, v in entry.items() if k not in ("t", "event", "pid", "text", "gang")}
            lines.append(f"{entry['t']:.3f} {pid} at {steps.get(pid, 0)}: {entry['event']} {rest}")
        return "\n".join(lines[-80:])

    def wait_steps(self, size, count=3, within=HANG_S):
        """Until all ranks of a gang of `size` have made `count` steps more, from now."""
        now = time.monotonic()

        def done():
            steps = [e for e in self.log("step", size=size) if e["t"] > now]
            return all(sum(e["rank"] == rank for e in steps) >= count for rank in range(size))

        self.wait_for(done, f"{count} steps of {size} workers", within)

    def living(self):
        """rank: its last step's entry, for the workers of the newest gang that live."""
        newest = {}
        for entry in self.log("enter", "step"):
            newest[entry["pid"]] = entry
        return {e["rank"]: e for e in newest.values() if os.path.exists(f"/proc/{e['pid']}")}

    def kill(self, rank, signo=signal.SIGKILL):
        victim = self.living()[rank]
        at = time.monotonic()
        os.kill(victim["pid"], signo)
        return at

    def agents(self, pids=None):
        """host: pid of its agent, told by the parents of its workers."""
        found = {}
        for entry in self.log("start"):
            try:
                with open(f"/proc/{entry['pid']}/stat") as f:
                    found[entry["host"]] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
        return found

    def standstill(self, after):
        """Seconds from `after` until every rank of the next gang has made a step; None: none did."""
        enters = [e for e in self.log("enter") if e["t"] > after]
        if not enters:
            return None
        gang = enters[-1]["gang"]
        firsts = {}
        for entry in self.log("enter", gang=gang):
            steps = [s["t"] for s in self.log("step", pid=entry["pid"]) if s["t"] > entry["t"]]
            if steps:
                firsts[entry["rank"]] = steps[0]
        return max(firsts.values()) - after if firsts else None


# ---- what must hold of every log

def check_training(job, size=None, ended=True):
    """State and steps of a Horovod job: whoever enters has what rank 0 committed last, steps only move
    forward from there, and all ranks of the last gang end with the same model. Returns the gangs."""
    log = job.log()
    gangs = {}
    for entry in log:
        if entry["event"] == "enter":
            gangs.setdefault(entry["gang"], []).append(entry)
    gangs = sorted(gangs.values(), key=lambda gang: gang[0]["t"])
    assert gangs, "nobody trained"
    for number, gang in enumerate(gangs):
        check_gang(job, gang, is_first=number == 0)
    for pid in {entry["pid"] for entry in log}:
        check_steps([entry for entry in log if entry["pid"] == pid])
    committed = [gang[0]["step"] for gang in gangs]
    assert committed == sorted(committed), f"a later gang began with an older state: {committed}"
    if ended:
        check_end(log, gangs[-1], size)
    return gangs


def check_gang(job, gang, is_first):
    size = gang[0]["size"]
    ranks = sorted(entry["rank"] for entry in gang)
    assert {entry["size"] for entry in gang} == {size}, gang
    assert len(set(ranks)) == len(ranks) and set(ranks) <= set(range(size)), ranks
    assert len({(entry["step"], entry["model"]) for entry in gang}) == 1, f"unequal states: {gang}"
    head = next((entry for entry in gang if entry["rank"] == 0), None)
    if head is None:
        return  # it died on its way in
    before = [e for e in job.log("commit", pid=head["pid"]) if e["t"] < head["t"]]
    if is_first or not before:
        earlier = [e for e in job.log("commit") if e["t"] < head["t"]]
        assert head["step"] == 0, f"begins at {head['step']} without a commit"
        # Nobody had more to give than who is rank 0 now.
        assert not earlier, f"{earlier[-1]} is forgotten"
        return
    assert (head["step"], head["model"]) == (before[-1]["step"], before[-1]["model"]), (
        f"rank 0 goes on with {head}, its last commit was {before[-1]}")


def check_steps(entries):
    at = None
    for entry in entries:
        if entry["event"] == "enter":
            at = entry["step"]
        elif entry["event"] == "step":
            assert entry["step"] == at + 1, f"step {entry['step']} of {entry['pid']} after {at}"
            at = entry["step"]


def check_end(log, last, size):
    trained = [entry for entry in log if entry["event"] == "trained" and entry["gang"] == last[0]["gang"]]
    assert sorted(e["rank"] for e in trained) == list(range(last[0]["size"])), trained
    assert size is None or last[0]["size"] == size, f"{last[0]['size']} workers at the end"
    assert len({(e["step"], e["model"]) for e in trained}) == 1, f"unequal models: {trained}"
    assert {e["pid"] for e in log if e["event"] == "end"} >= {e["pid"] for e in trained}


def check_held(job):
    """Connections of their own: none was broken while both its ends lived, and there were some."""
    broken = job.log("broken")
    assert not broken, broken
    assert job.log("held"), "no worker held a connection"
    return job.log("unbroken")


def waited(result):
    """Whether a worker came free only by the time limit of Gloo, by its words on stderr."""
    return "Timed out waiting" in result.errors
