# SPDX-License-Identifier: Apache-2.0
"""Training loops and searches, beside those of Ray and, for a checkpoint's bytes, beside ssh."""

import os
import pathlib
import subprocess
import sys
import tempfile

from calls import Place, seconds_told
from harness import ROOT, Measure, Series, alternate, timed
from remote_site import HostsError, Site

WORKER = ROOT / "bench/workers/train.py"
PATIENCE_S = 1500
CHECKPOINT_MB = 256
RAYS_OWN = "Ray's DataParallelTrainer"
SHM = "/dev/shm"  # in memory, and each host's own
SEARCH = """
command: [echo, "step 1 loss {x}"]
space: {x: {float: [0.1, 1]}}
metric: loss
trials: 12
run: {np: 2, hosts: "localhost:4"}
report_from: 'step (?P<step>\\d+) loss (?P<loss>\\S+)'
"""


def environment_made(*words):
    done = subprocess.run([ROOT / "tools" / words[0], *words[1:]], capture_output=True, text=True, check=True)
    return pathlib.Path(done.stdout.strip())


def on_ray(context, measure, rounds):
    """By contender, its seconds: all of them in turn on one Ray with four CPUs."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(context, pathlib.Path(folder), environment_made("ray_env.sh"))
        (libraries,) = environment_made("ray_env.sh", "libraries").glob("lib/python3*/site-packages")
        env = {**place.environment(), "PYTHONPATH": f"{ROOT / 'python'}:{libraries}:{place.site}"}
        told = seconds_told([place.ray, WORKER, measure, context.rounds(rounds)], env, folder, PATIENCE_S)
    if told is None:
        raise HostsError("the program on Ray has failed: bench/workers/train.py")
    return told


def fit(context):
    found = on_ray(context, "fit", 5)
    return [Measure("HorovodTrainer: fit() of a trivial loop, 3 workers", "s",
                    [Series("hvdray", found["hvdray"]), Series(RAYS_OWN, found["ray"])], "≤ 1.1 × Ray's own")]


def killed(context):
    found = on_ray(context, "killed", 5)
    what = "one of 3 workers SIGKILLed → all are in the loop again"
    return [Measure(f"{who}: {what}", "s", [Series("hvdray", found[ours]), Series(RAYS_OWN, found["ray"])], goal)
            for who, ours, goal in (("HorovodTrainer", "hvdray", "≤ 1.1 × Ray's own"), ("hvdray.train.Trainer", "trainer", "≤ 0.1 × Ray's own"))]


def search(context):
    found = on_ray(context, "search", 3)
    optuna = environment_made("optuna_env.sh")
    env = {**os.environ, "HVDRAY_BINARY": str(context.hvdray), "PYTHONPATH": str(ROOT / "python"),
           "PATH": f"{optuna}/bin:{os.environ['PATH']}"}

    def of_command():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "search.yaml")
            path.write_text(f"{SEARCH}output: {folder}/out\n")
            return timed([context.hvdray, "tune", path], env=env)

    def of_function():
        told = seconds_told([optuna / "bin/python", WORKER, "function"], env)
        return told[0] if told else None
    plain = Series("Ray Tune, 12 plain trials on 4 CPUs", found["four"])
    ours = alternate({"of a command, from nothing": of_command, "of a function": of_function}, context.rounds(3), warmup=0)
    return [*(Measure(f"hvdray tune {row.name}: 12 trivial trials × 2 workers on 4 slots", "s", [Series("hvdray", row.values), plain],
                      "≤ 0.15 × Ray Tune") for row in ours),
            Measure("DistributedTrainableCreator: 12 trivial trials × 2 workers in Ray's Tuner, two at a time", "s",
                    [Series("hvdray", found["creator"]), Series("hvdray, reuse_actors=True", found["reusing"]),
                     Series("the same as plain trials", found["two"])], "≤ 1.3 × plain trials")]


def checkpoint(context):
    """Of a host that does not see the storage: report() ÷ ssh, both without connecting."""
    folder, storage = f"{SHM}/checkpoint", f"{SHM}/storage"
    with Site(context, 1) as site:
        env = {**site.env, "HVDRAY_BINARY": str(context.hvdray), "PYTHONPATH": str(ROOT / "python")}
        site.hosts.run(["sh", "-c", f"mkdir {folder}; head -c {CHECKPOINT_MB}000000 /dev/urandom >{folder}/data"], on="h1", check=True)

        def rate(contender):
            words = [sys.executable, WORKER, "checkpoint", contender, "h1", folder, storage]
            site.hosts.run(["sh", "-c", f"rm -rf {storage}; mkdir {storage}"], check=True)
            told = seconds_told(site.hosts.command([str(word) for word in words]), env, SHM)
            site.settle()
            return CHECKPOINT_MB / told[0] if told else None
        rows = alternate({"hvdray": lambda: rate("hvdray"), "hvdray over the system's ssh": lambda: rate("openssh"),
                          "ssh host cat": lambda: rate("ssh")}, context.rounds(7))
    return [Measure(f"hvdray.train.Trainer: a checkpoint of {CHECKPOINT_MB} MB from a host over SSH, connected already", "MB/s", rows,
                    "≥ 0.8 × ssh host cat")]


def with_horovod(measure):
    """Whose environment has what hvdray needs beside Ray."""
    return lambda context: measure(context) if context.venv else []


MEASURES = {"train.fit": with_horovod(fit), "train.killed": with_horovod(killed), "train.search": with_horovod(search),
            "train.checkpoint": checkpoint}
