# SPDX-License-Identifier: Apache-2.0
"""Calls from Python into workers, beside horovod.run, horovod.ray and Ray's own actors."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from harness import ROOT, Measure, Series, kill_session

WORKER = ROOT / "bench/workers/calls.py"
DEBIAN = pathlib.Path("/usr/lib/python3/dist-packages")
# Of Debian, beside Ray's own environment, whose other packages are newer.
PACKAGES = ("cloudpickle", "numpy", "torch", "yaml", "psutil", "cffi", "_cffi_backend*.so", "packaging")


class Place:
    """The Pythons: Horovod's, and Ray's with Horovod beside it."""

    def __init__(self, context, folder, ray_venv):
        self.context, self.folder = context, folder
        self.plain = context.venv / "bin/python"
        self.ray = ray_venv / "bin/python"
        (horovod,) = (context.venv / "lib").glob("python3*/site-packages")
        self.site = folder / "site-packages"  # for hvdray.Pool, what is installed is in such a folder
        self.site.mkdir()
        for pattern in PACKAGES:
            for path in DEBIAN.glob(pattern):
                (self.site / path.name).symlink_to(path)
        for path in [*horovod.glob("horovod*")]:
            (self.site / path.name).symlink_to(path)

    def environment(self):
        return {**os.environ, "HVDRAY_BINARY": str(self.context.hvdray), "OMP_NUM_THREADS": "1",
                "PYTHONPATH": f"{ROOT / 'python'}:{self.site}"}

    def run(self, python, measure, contender):
        return seconds_told([python, WORKER, measure, contender], self.environment(), self.folder)


def seconds_told(command, env, folder=None, timeout=180):
    """The seconds that the program tells, or None."""
    process = subprocess.Popen([str(word) for word in command], env=env, cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        out = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        out = b""
    finally:
        kill_session(process.pid)
        process.wait()
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return None


def with_place(context, measure):
    if not context.venv:
        return []
    ray = subprocess.run([ROOT / "tools/ray_env.sh"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        return measure(context, Place(context, pathlib.Path(folder), pathlib.Path(ray)))


def rounds_of(context, place, python, measure, contenders, rounds):
    """By contender, the list of each round, or None."""
    found = {name: [] for name in contenders}
    for _ in range(context.rounds(rounds)):
        for name, contender in contenders.items():
            found[name].append(place.run(python, measure, contender))
    return found


def series_of(found, pick):
    return [Series(name, [None if values is None else pick(values) for values in rounds]) for name, rounds in found.items()]


def run(context):
    def measure(context, place):
        found = rounds_of(context, place, place.plain, "run", {"hvdray": "hvdray", "horovod.run": "horovod"}, 5)
        imports = rounds_of(context, place, place.ray, "import", {"import hvdray": "hvdray", "import ray": "ray"}, 3)
        return [Measure("run(f, num_proc=2) of a trivial function, cold", "s", series_of(found, lambda v: v[0]),
                        "≤ 0.2 × horovod.run; stretch 0.1 ×"),
                Measure("import of the package", "s", series_of(imports, lambda v: v[0]), "≤ 0.04 s")]
    return with_place(context, measure)


def executors(context):
    def measure(context, place):
        contenders = {"hvdray": "hvdray", "horovod.ray": "horovod", "hvdray, from a Pool": "pool"}
        found = rounds_of(context, place, place.ray, "executor", contenders, 5)
        goals = (("first", "≤ 1.5 × horovod.ray; stretch 1 ×"), ("second", "from a pool ≤ 0.3 × horovod.ray; stretch 0.1 ×"))
        return [Measure(f"the {name} RayExecutor of a program, 2 workers: start → result of hvd.init()", "s",
                        series_of(found, lambda v, n=n: v[n]), goal)
                for n, (name, goal) in enumerate(goals)]
    return with_place(context, measure)


def gangs(context):
    def measure(context, place):
        found = rounds_of(context, place, place.plain, "gang", {"hvdray": "pool"}, 5)
        return [Measure("a warm gang of 4 from a Pool, without hvd.init(): start → results", "s",
                        series_of(found, lambda v: sorted(v)[len(v) // 2]), "≤ 0.06 s; stretch 0.03 s")]
    return with_place(context, measure)


def calls(context):
    def measure(context, place):
        contenders = {"hvdray": "hvdray", "Ray's actors": "ray"}
        short = rounds_of(context, place, place.ray, "calls", contenders, 5)
        array = rounds_of(context, place, place.ray, "array", contenders, 3)
        return [Measure("execute(lambda w: 1) on 4 workers", "s", series_of(short, lambda v: v[0]), "≤ 0.6 × Ray; stretch 0.3 ×"),
                Measure("64 MB array to 4 workers of a host", "s", series_of(array, lambda v: sorted(v)[len(v) // 2]),
                        "≤ 1 × Ray; stretch 0.5 ×")]
    return with_place(context, measure)


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def results(context):
    def measure(context, place):
        found = rounds_of(context, place, place.ray, "results", {"hvdray": "hvdray", "horovod.ray": "horovod"}, 5)
        return [Measure(f"a result of {size} MB from a worker on Ray", "s", series_of(found, lambda v, n=n: v[n]), "≤ 1.2 × horovod.ray")
                for n, size in enumerate((64, 256))]
    return with_place(context, measure)


def killed(context):
    """SIGKILL of the program → the last of its workers is gone."""
    def once(place):
        process = subprocess.Popen([place.plain, WORKER, "killed", "hvdray"], env=place.environment(), cwd=place.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        pids = json.loads(process.stdout.readline())
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(process.pid, signal.SIGKILL)
        while any(map(is_there, pids)) and time.monotonic() < began + 30:
            time.sleep(0.001)
        took = time.monotonic() - began
        process.wait()
        return took

    def measure(context, place):
        values = [once(place) for _ in range(context.rounds(10))]
        return [Measure("program killed → no worker left, 4 workers", "s", [Series("hvdray", values)], "≤ 0.1 s")]
    return with_place(context, measure)


MEASURES = {"calls.run": run, "calls.executors": executors, "calls.gangs": gangs, "calls.short": calls,
            "calls.results": results, "calls.killed": killed}
