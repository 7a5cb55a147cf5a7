# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments of programs that use the package `hvdray`, and what is left after each: processes, files,
shared memory, cgroups.

TEST_KILLS=N in the environment: so many kills of each test. TEST_KILLS_SEED: the dice of a run that failed.
"""

import collections
import glob
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import time

from hosts_processes import looks

WITHIN_S = 120.0  # for anything that is waited for

# Works round after round from "go" to "rest"; then once more, which must succeed, and says what was raised before.
PROGRAM = """
import json, select
BIG = b"x" * 2_000_000

def busy(data):
    for _ in range(5):
        time.sleep(0.01)
    return len(data)

ROUND

def say(**what):
    print(json.dumps(what), flush=True)

orders = open(0, "rb", buffering=0, closefd=False)
while orders.readline():
    say(begun=True)
    raised = []
    while not select.select([orders], [], [], 0)[0]:
        try:
            one_round()
        except hvdray.HvdrayError as error:
            raised.append([type(error).__name__, error.code, str(error)])
    orders.readline()
    begun = time.monotonic()
    one_round()
    say(raised=raised, took_s=time.monotonic() - begun)
"""

ROUNDS = {
    "static": """
def one_round():
    with hvdray.Executor(2, HOSTS options={"grace": 0.5}) as executor:
        executor.start(dict)
        assert executor.execute(len) == [0, 0]
        assert executor.run(busy, [BIG]) == [len(BIG)] * 2
        executor.run(busy, [b""])
""",
    "elastic": """
def one_round():
    with hvdray.Executor(min_workers=1, max_workers=2, HOSTS options={"grace": 0.5}) as executor:
        for _ in range(2):
            assert set(executor.run(busy, [BIG])) == {len(BIG)}
""",
    "pool": """
def one_round():
    with hvdray.Pool(2, HOSTS preload=["wave"], options={"grace": 0.5}) as pool:
        for _ in range(3):
            with hvdray.Executor(pool=pool) as executor:
                assert executor.run(busy, [BIG]) == [len(BIG)] * 2
            pool.wait_warm(20)
""",
}

# What the caller may get; besides, StateLost of a kill between two calls, and nothing, if nothing needed the victim any more.
EXPECTED = {
    "serve": "LauncherLost",
    "worker": "WorkerDied",
    "fork_server": "WorkerDied",
    **dict.fromkeys(["agent", "keeper", "front", "actor"], "HvdrayError"),  # the host is lost
}


def program_around(one_round):
    return PROGRAM.replace("ROUND", one_round)


def program_of(mode, hosts=""):
    return program_around(ROUNDS[mode].replace("HOSTS", f"hosts={hosts!r}," * bool(hosts)))


def kind_of(pid, line):
    """Which part of hvdray a process is; "" for others."""
    try:
        name = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    for kind in ("keeper", "front", "agent"):
        if name.removeprefix("hvdray-").startswith(kind):  # "agent-HASH" where it was copied by SSH
            return kind
    if " serve " in line and "--control-fd" in line:
        return "serve"
    if "hvdray-fork-server" in line:
        return "fork_server"
    if "HVDRAY_CHANNEL_FD" in line:
        return "worker"
    return "actor" if line.startswith("ray::Endpoint") else ""


def parent_of(pid):
    """0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


class Place:
    """Where the processes of a program are, and what they could leave."""

    def __init__(self):
        self.agents = set()  # pids, of all that have been seen
        self.begun = time.time()

    def processes(self, job):
        """{pid: command line} of all that lives, the program included."""
        found = self._processes(job)
        self.agents.update(pid for pid, line in found.items() if kind_of(pid, line) == "agent")
        return found

    def _processes(self, job):
        return job.processes()

    def leavings(self):
        """Names of all that could be left, but processes."""
        return self._of_agents() | set(self._more())

    def _more(self):
        return ()

    def _of_agents(self):
        """Sockets and cgroups bear the agent's pid; others' agents live where ours are."""
        with open("/proc/self/cgroup", encoding="ascii") as file:
            group = next((line[3:].strip() for line in file if line.startswith("0::")), "/")
        found = glob.glob(f"/tmp/hvdray-{os.geteuid()}/agent-*.sock")
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            found += glob.glob(f"{root}{group.rstrip('/')}/hvdray-*-*")
        return {path for path in found if self._is_ours(path, int(path.rpartition("-")[2].removesuffix(".sock")))}

    def _is_ours(self, path, pid):
        """The same pid may have been another agent's before, or is one's now."""
        try:
            return pid in self.agents and os.stat(path).st_ctime >= self.begun and not os.path.exists(f"/proc/{pid}")
        except FileNotFoundError:
            return False


class Victims:
    """Programs one after the other, each until it is the victim itself."""

    def __init__(self, place, start, log):
        """`start`: starts the program, with these streams."""
        self.place, self._start, self._log = place, start, log
        self.job, self.round_s, self._baseline = None, None, set()
        self.raised = collections.Counter()

    def begin(self):
        """The program works, for the first time at rest: what the first round leaves, such as the copy of an agent, stays."""
        with open(self._log, "ab") as log:
            self.job = self._start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        if self.round_s is None:
            self._say("go")
            self._hear("begun")
            self.rest()
            self._baseline = self.place.leavings()

    def rest(self):
        """The program has one more round, which must succeed. Returns what it had raised."""
        self._say("rest")
        said = self._hear("raised")
        self.round_s = said["took_s"]
        return said["raised"]

    def kill(self, victim, dice):
        """Returns the moment, in seconds after the beginning of the first round."""
        self._say("go")
        self._hear("begun")
        pause = dice.uniform(0, 1.3 * self.round_s)
        time.sleep(pause)
        for _ in looks(WITHIN_S / 3, least=0.002):
            alive = self.place.processes(self.job)
            found = [self.job.pid] if victim == "program" else [pid for pid, line in alive.items() if kind_of(pid, line) == victim]
            found = [pid for pid in found if parent_of(pid) not in found]  # a child before its exec looks like its parent
            if found:
                try:
                    os.kill(dice.choice(found), signal.SIGKILL)
                    return pause
                except ProcessLookupError:
                    pass
        raise AssertionError(f"no {victim} to kill: {alive}")

    def settle(self, victim):
        """The program goes on, or has ended; and nothing is left."""
        if victim == "program":
            assert self.job.wait(WITHIN_S).code == -signal.SIGKILL
        else:
            raised = self.rest()
            self.raised.update((victim, name, code) for name, code, _ in raised)
            for name, _, text in raised:
                assert name in (EXPECTED[victim], "StateLost"), (name, text)
        for _ in looks(WITHIN_S, least=0.02):
            alive = {pid: line for pid, line in self.place.processes(self.job).items() if pid != self.job.pid}
            left = self.place.leavings() - self._baseline
            if not alive and not left:
                break
        assert not alive and not left, (alive, left)
        if victim == "program":
            self.job = None

    def end(self):
        if self.job is not None:
            self.job.process.stdin.close()
            assert self.job.process.wait(WITHIN_S) == 0, self.said()

    def said(self):
        return pathlib.Path(self._log).read_text(encoding="utf-8", errors="replace")[-2000:]

    def _say(self, order):
        self.job.process.stdin.write(order.encode() + b"\n")
        self.job.process.stdin.flush()

    def _hear(self, key):
        """The next message. What workers print is none."""
        text = b""
        stdout = self.job.process.stdout.fileno()
        deadline = time.monotonic() + WITHIN_S
        while not text.endswith(b"\n") or f'{{"{key}"'.encode() not in text:
            is_ready = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            piece = os.read(stdout, 1 << 16) if is_ready else b""
            assert piece, f"not said: {key}; {text!r}"
            text += piece
        return json.loads(text[text.rindex(b'{"' + key.encode()):])


def kill_at_random(victims, place, start, log, kills):
    """`kills`: so many, unless TEST_KILLS says otherwise. Each victim once before any of them twice."""
    count = int(os.environ.get("TEST_KILLS", kills))
    seed = int(os.environ.get("TEST_KILLS_SEED", random.randrange(1 << 30)))
    dice = random.Random(seed)
    order = []
    while len(order) < count:
        order += dice.sample(victims, len(victims))
    del order[count:]
    programs, pause, done, begun = Victims(place, start, log), 0.0, 0, time.monotonic()
    try:
        for victim in order:
            if programs.job is None:
                programs.begin()
            pause = programs.kill(victim, dice)
            programs.settle(victim)
            done += 1
        programs.end()
    except BaseException as error:
        said = programs.said() if os.path.exists(log) else ""
        if programs.job is not None:
            programs.job.kill()
        raise AssertionError(f"TEST_KILLS_SEED={seed}, kill {done + 1}: {order[done:done + 1]} after {pause:.3f} s: {error}\n{said}") from error
    print(f"{done} kills in {time.monotonic() - begun:.0f} s, {dict(collections.Counter(order))}; "
          f"a round takes {programs.round_s:.2f} s; raised: {dict(programs.raised)}")
