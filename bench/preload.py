# SPDX-License-Identifier: Apache-2.0
"""Warm starts: workers that import Horovod and torch, cold and with --preload."""

import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import time
import uuid

from harness import ROOT, TICK_S, Measure, Series, alternate, kill_session
from launch import environment

WORKER = ROOT / "bench/workers/first_line.py"
MARK = "BENCH_MARK"  # what begins with HVDRAY_ does not reach workers
WORKERS = 8
LIMIT_S = 180


def processor_time(mark):
    """What the processes with this mark have used so far, and their children that have ended."""
    used = 0
    needle = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if needle not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        used += sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
    return used * TICK_S


class Gang:
    """A job of WORKERS ranks; `with` ends it."""

    def __init__(self, command, env):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.mark = uuid.uuid4().hex
        words = [str(word).replace("EVENTS", str(self.path / "events")) for word in command]
        self.began = time.time()
        self.process = subprocess.Popen([*words, str(WORKER), str(self.path)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=dict(env, **{MARK: self.mark}), start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill_session(self.process.pid)
        self.process.wait()
        self.folder.cleanup()

    def last_line(self, restart):
        """When the last worker had its first line; None: it never had."""
        while time.time() < self.began + LIMIT_S and self.process.poll() is None:
            lines = list(self.path.glob(f"line.{restart}.*"))
            if len(lines) == WORKERS:
                return max(float(line.read_text()) for line in lines)
            time.sleep(0.01)
        return None

    def go(self, restart, code):
        part = self.path / "part"
        part.write_text(str(code))
        part.rename(self.path / f"go.{restart}")


def first_gang(command, env):
    """Seconds from the command to the last worker's first line, and the processor time until then."""
    with Gang(command, env) as gang:
        last = gang.last_line(0)
        if last is None:
            return None, None
        used = processor_time(gang.mark)
        gang.go(0, 0)
        gang.process.wait(LIMIT_S)
        return last - gang.began, used


def second_gang(command, env):
    """Seconds from the order for the second gang to its last worker's first line."""
    with Gang(command, env) as gang:
        if gang.last_line(0) is None:
            return None
        gang.go(0, 1)
        last = gang.last_line(1)
        if last is None:
            return None
        events = [json.loads(line) for line in (gang.path / "events").read_text().splitlines()]
        (order,) = [e for e in events if e["event"] == "generation" and e["generation"] == 2]
        ordered = datetime.datetime.fromisoformat(order["wall"].replace("Z", "+00:00")).timestamp()
        gang.go(1, 0)
        gang.process.wait(LIMIT_S)
        return last - ordered


def contenders_of(context, options=()):
    python = context.venv / "bin/python"
    found = {}
    for name, hvdray in context.builds.items():
        found[f"{name}, cold"] = [hvdray, "run", "-np", WORKERS, *options, "--", python]
    found["hvdray"] = [context.hvdray, "run", "-np", WORKERS, "--preload", "horovod.torch",
                                               *options, "--", python]
    return found


def first(context):
    if not context.venv:
        return []
    env = dict(environment(context), OMP_NUM_THREADS="1")
    contenders = contenders_of(context)
    contenders["hvdray --preload auto"] = [word if word != "horovod.torch" else "auto"
                                           for word in contenders["hvdray"]]
    used = {name: [] for name in contenders}

    def run(name, command):
        seconds, processor = first_gang(command, env)
        used[name].append(processor)
        return seconds

    rounds = context.rounds(5)
    series = alternate({name: (lambda n=name, c=command: run(n, c)) for name, command in contenders.items()}, rounds)
    measures = [Measure(f"{WORKERS} workers with import horovod.torch and --preload horovod.torch: command → last worker's first line", "s", series,
                        "≤ 0.2 × cold; stretch 0.12")]
    processor = [Series(name, values[-rounds:]) for name, values in used.items()]
    measures.append(Measure("the same: processor time until then, all processes", "s", processor,
                            "≤ 0.2 × cold; stretch 0.12"))
    return measures


def second(context):
    if not context.venv:
        return []
    env = dict(environment(context), OMP_NUM_THREADS="1")
    options = ("--max-restarts", 1, "--events", "EVENTS")
    contenders = {name: (lambda c=command: second_gang(c, env))
                  for name, command in contenders_of(context, options).items()}
    return [Measure("the same, second gang of a restart: order → last worker's first line", "s",
                    alternate(contenders, context.rounds(5), warmup=0), "≤ 0.03 × cold")]
