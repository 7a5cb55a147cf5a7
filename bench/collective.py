# SPDX-License-Identifier: Apache-2.0
"""All-reduce between ranks of this machine, beside the MPIs, Horovod and torch's Gloo; and the time until a first one."""

import json
import subprocess
import sys

from harness import ROOT, Measure, Series, alternate, kill_session, timed, which
from launch import environment
from remote_site import Site

SIZES = {"1 KB": 1 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20, "32 MB": 32 << 20}
# Of the better MPI's time, with two ranks; with four, of Open MPI's.
GOALS = {"1 KB": "≤ 0.5 × the better MPI", "64 KB": "≤ 0.2 ×; stretch 0.15 ×", "1 MB": "≤ 0.33 ×",
         "32 MB": "≤ 0.33 ×; stretch 0.2 ×"}


def mpirun(name, ranks):
    flags = ["--allow-run-as-root", "--oversubscribe"] if name == "openmpi" else []
    return [f"mpirun.{name}", *flags, "-np", ranks]


def commands(context, ranks):
    load = context.bin_dir / "collective_load"
    found = {name: [hvdray, "run", "-np", ranks, "--tag-output", "none", "--", load, "hvdray"]
             for name, hvdray in context.builds.items()}
    for name in ("openmpi", "mpich"):
        if which(f"mpirun.{name}"):
            found[name] = [*mpirun(name, ranks), load, name]
    return found


def medians(command, env):
    """Bytes to microseconds, or None."""
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env=env, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        output = ""
    kill_session(process.pid)
    line = next((text for text in output.splitlines() if text.startswith("{")), None)
    return {int(size): value for size, value in json.loads(line).items()} if line else None


def by_size(context, ranks, contenders, goals, rounds=5):
    env = dict(environment(context), OMP_NUM_THREADS="1")
    series = {size: {name: Series(name) for name in contenders} for size in SIZES}
    for _ in range(context.rounds(rounds)):
        for name, command in contenders.items():
            found = medians([*command, *SIZES.values()], env) or {}
            for size, count in SIZES.items():
                series[size][name].values.append(found.get(count))
    return [Measure(f"all-reduce of {size} float32 in place, {ranks} ranks, median call", "µs", list(series[size].values()),
                    goals[size]) for size in SIZES]


def two_ranks(context):
    contenders = commands(context, 2)
    # Not a peer, but the bound: both ranks copy as many bytes at the same time.
    contenders["memcpy"] = [context.hvdray, "run", "-np", 2, "--tag-output", "none", "--", context.bin_dir / "collective_load", "memcpy"]
    if context.venv:
        script = ROOT / "bench/workers/allreduce.py"
        for name in ("horovod", "torch"):
            contenders[f"{name} (gloo)"] = [context.hvdray, "run", "-np", 2, "--tag-output", "none", "--", context.venv / "bin/python",
                                            script, name]
    return by_size(context, 2, contenders, GOALS)


def four_ranks(context):
    contenders = {name: command for name, command in commands(context, 4).items() if name != "mpich"}  # it spins
    # Who shares a processor with whom differs from run to run, and with it the time by a factor of two.
    return by_size(context, 4, contenders, dict.fromkeys(SIZES, "≤ 0.7 × Open MPI"), rounds=15)


def eight_ranks(context):
    contenders = {name: command for name, command in commands(context, 8).items() if name != "mpich"}
    return by_size(context, 8, contenders, dict.fromkeys(SIZES, "no collapse"))


def between_hosts(context, slots):
    """Ranks on two hosts in namespaces of their own, beside Gloo's rings between as many."""
    with Site(context, 2) as site:
        series = {size: {} for size in SIZES}
        load = context.bin_dir / "collective_load"
        for _ in range(context.rounds(9)):
            contenders = [(name, name, "hvdray") for name in context.builds]
            contenders += [(f"Gloo {ring}", "hvdray", words) for ring, words in (("ring", "gloo"), ("chunked ring", "gloo-chunked"))]
            for name, build, words in contenders:
                command = site.hvdray(slots, [load, words, *SIZES.values()], "--tag-output", "none", build=build)
                found = medians(site.hosts.command(command), site.env) or {}
                site.settle()
                for size, count in SIZES.items():
                    series[size].setdefault(name, Series(name)).values.append(found.get(count))
    goals = {"32 MB": "≤ 0.8 × Gloo's ring"} if slots == 1 else {}
    return [Measure(f"all-reduce of {size} float32 in place, 2 hosts of {slots}, median call", "µs", list(found.values()),
                    goals.get(size, "")) for size, found in series.items()]


def network(context):
    return between_hosts(context, 1)


def hosts(context):
    return between_hosts(context, 2)


def tensors(context):
    """What a tensor of a group costs; in memory, and over TCP on loopback."""
    load, env = context.bin_dir / "collective_load", environment(context)
    measures = []
    for backend in ("shm", "gloo"):
        series = {"one by one": Series("one by one"), "as a group": Series("as a group")}
        for _ in range(context.rounds(5)):
            found = medians([context.hvdray, "run", "-np", 2, "-x", f"HVDRAY_COLLECTIVE={backend}", "--tag-output", "none", "--", load,
                             "hvdray", "tensors"], env) or {}
            for name, count in (("one by one", 1), ("as a group", 1000)):
                series[name].values.append(found.get(count))
        measures.append(Measure(f"all-reduce of 1,000 tensors of 1 KB, 2 ranks, {backend}: a tensor", "µs", list(series.values()), ""))
    return measures


def first(context):
    env = environment(context)
    contenders = {name: (lambda command=command: timed([*command, "first"], env=env))
                  for name, command in commands(context, 64).items()}
    return [Measure("64 ranks: command → all have finished a first all-reduce", "s", alternate(contenders, context.rounds(5)),
                    "≤ mpirun")]


def gpu(context):
    """The kernels beside the copies of a GPU: where this was built with CUDA, and there is one."""
    load = context.bin_dir / "gpu_copies"
    subprocess.run(["cmake", "--build", load.parent.parent, "--target", load.name], capture_output=True)
    found = {}
    for _ in range(context.rounds(3)):
        done = subprocess.run([load], capture_output=True, text=True, timeout=300) if load.exists() else None
        if done is None or done.returncode != 0:
            print(f"== collective.gpu: {done.stderr.strip() if done else 'built without NCCL'}", file=sys.stderr)
            return []
        for name, value in json.loads(done.stdout).items():
            found.setdefault(name, []).append(value)
    copy = found.pop("cudaMemcpy")
    return [Measure(f"GPU: {name} of 256 MiB, read and written", "µs", [Series("hvdray", values), Series("cudaMemcpy", copy)],
                    "≤ 1.18 × cudaMemcpy: 85 % of its bandwidth") for name, values in found.items()]


MEASURES = {
    "collective.two": two_ranks,
    "collective.four": four_ranks,
    "collective.eight": eight_ranks,
    "collective.network": network,
    "collective.hosts": hosts,
    "collective.tensors": tensors,
    "collective.first": first,
    "collective.gpu": gpu,
}
