# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch beside Horovod, and torch's gloo with its DDP: operations from Python, steps, init, a kill."""

import json
import subprocess

import elastic
from collective import medians
from harness import ROOT, Measure, Series, kill_session
from horovod_init import one_init
from launch import environment

WORKERS = ROOT / "bench/workers"
SIZES = {"1 KB": (1 << 10, "≤ 0.1 ×; stretch 0.03 ×"), "1 MB": (1 << 20, "≤ 0.15 ×"), "32 MB": (32 << 20, "≤ 0.25 ×"),
         "102 MB": (102 << 20, "≤ 0.25 ×; stretch 0.12 ×")}
# What steps reduce: title, and what to reach with two ranks and with four, which share two cores.
STEPS = {"tiny": ("161 allreduces of 1 KB, all at once", "≤ 0.3 ×", ""),
         "small": ("step of 6 small gradients", "≤ 0.3 ×; stretch 0.15 ×", "≤ 0.1 ×"),
         "resnet50": ("step of gradients shaped like ResNet-50, 161 of 102 MB", "≤ 0.35 ×; stretch 0.25 ×", "≤ 0.25 ×"),
         "gpt2": ("step of gradients shaped like GPT-2 small, 148 of 498 MB", "≤ 0.35 ×", "≤ 0.25 ×")}
THEIRS, GLOO = "Horovod 0.28.1", "torch's gloo, DDP"
GIB_OF_FOUR = 7  # what the hungriest, DDP with GPT-2's shapes, takes


def run(hvdray, ranks, *words):
    return [hvdray, "run", "-np", ranks, "--tag-output", "none", *words, "--"]


def contenders(context, ranks, script):
    """Name -> command; the same script with the same Python and torch."""
    words = [context.venv / "bin/python", WORKERS / script]
    return {**{name: [*run(hvdray, ranks, "--horovod", "builtin"), *words, "horovod"] for name, hvdray in context.builds.items()},
            THEIRS: [*run(context.hvdray, ranks), *words, "horovod"], GLOO: [*run(context.hvdray, ranks), *words, "torch"]}


def told(command, env):
    """What rank 0 says as a line of JSON; {}: it failed or hung."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env=env, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        output = ""
    kill_session(process.pid)
    return next((json.loads(line) for line in output.splitlines() if line.startswith("{")), {})


def with_horovod(measure):
    return lambda context: measure(context) if context.venv else []


def settings(context):
    """malloc keeps what is freed, or chance decides whether gradients of each step are new pages of the system."""
    return dict(environment(context), OMP_NUM_THREADS="1", MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="4294967295")


def sizes(context):
    """Beside them the bound: the same from C++, without Python, names and threads."""
    found = {name: {} for name in SIZES}
    bound = "bound: the communicator, from C++"
    commands = {**contenders(context, 2, "allreduce.py"), bound: [*run(context.hvdray, 2), context.bin_dir / "collective_load", "hvdray"]}
    for _ in range(context.rounds(7)):
        for who, command in commands.items():
            values = medians([*command, *(size for size, _ in SIZES.values())], settings(context)) or {}
            for name, (size, _) in SIZES.items():
                value = values.get(size)
                found[name].setdefault(who, Series(who)).values.append(value and value / 1000)
    return [Measure(f"allreduce of {name} float32 from Python, in place, 2 ranks, p50", "ms", list(found[name].values()), goal)
            for name, (_, goal) in SIZES.items()]


def memory_gib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / (1 << 20)


def steps(context, ranks, names, rounds):
    found = {name: {} for name in names}
    alone = "bound: the backward pass alone"
    for _ in range(context.rounds(rounds)):
        for who, command in contenders(context, ranks, "torch_steps.py").items():
            is_ours = who == "hvdray"
            bounds = [f"backward.{name}" for name in names if is_ours and name != "tiny"]
            values = told([*command, *names, *bounds], settings(context))
            for name in names:
                for row, value in ((who, values.get(name)), *([(alone, values.get(f"backward.{name}"))] if is_ours else [])):
                    if row != alone or f"backward.{name}" in bounds:
                        found[name].setdefault(row, Series(row)).values.append(value and value * 1000)
    return [Measure(f"{STEPS[name][0]}, {ranks} ranks, p50", "ms", list(found[name].values()), STEPS[name][1 if ranks == 2 else 2])
            for name in names]


def two_ranks(context):
    return steps(context, 2, list(STEPS), 5)


def four_ranks(context):
    names = ["small", "resnet50"]
    if memory_gib() > GIB_OF_FOUR:
        names.append("gpt2")
    else:
        print(f"== torch.four: {memory_gib():.1f} GiB of memory are free, {GIB_OF_FOUR} wanted for GPT-2's shapes", flush=True)
    return steps(context, 4, names, 3)


def negotiation(context):
    found = {}
    for _ in range(context.rounds(5)):
        for who, command in contenders(context, 2, "torch_steps.py").items():
            if who != GLOO:
                value = told([*command, "cpu"], settings(context)).get("cpu")
                found.setdefault(who, Series(who)).values.append(value and value * 1e6)
    return [Measure("161 known tensors of 4 bytes, 2 ranks: processor time of the library's threads in a step, their reduction included",
                    "µs", list(found.values()), "≤ 50 µs")]


def init(context):
    python = context.venv / "bin/python"
    commands = {**{name: [*run(hvdray, 8, "--horovod", "builtin"), python] for name, hvdray in context.builds.items()},
                THEIRS: [*run(context.hvdray, 8), python]}
    series = {name: Series(name) for name in commands}
    for _ in range(context.rounds(5)):
        for name, command in commands.items():
            series[name].values.append(one_init(command, 8, settings(context), 180))
    return [Measure("init() of 8 ranks that enter together under hvdray, first in → last out", "s", list(series.values()), "≤ 0.25 ×")]


def killed(context):
    rows = {name: Series(name) for name in (*context.builds, THEIRS)}
    for _ in range(context.rounds(5)):
        for name, row in rows.items():
            words = [] if name == THEIRS else ["--horovod", "builtin"]
            row.values.append(elastic.killed(context, "hvdray" if name == THEIRS else name, 4, words))
    return [Measure("elastic under hvdray: 4 → 3 workers, one SIGKILLed → next step of all survivors", "s", list(rows.values()), "≤ 0.5 ×")]


MEASURES = {f"torch.{name}": with_horovod(measure) for name, measure in (
    ("sizes", sizes), ("two", two_ranks), ("four", four_ranks), ("negotiation", negotiation), ("init", init), ("killed", killed))}
