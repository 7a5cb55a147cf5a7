# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch beside Horovod, and torch's gloo with its DDP: operations from Python, steps, init, a kill."""

import json
import subprocess

import elastic
from collective import medians
from harness import ROOT, Measure, Series, kill_session
from horovod_init import one_init
from launch import environment

WORKER = ROOT / "bench/workers/torch_steps.py"
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


def contenders(context, ranks):
    """Name -> command; the same script with the same Python and torch."""
    words = [context.venv / "bin/python", WORKER]
    return {**{name: [*run(hvdray, ranks, "--horovod", "builtin"), *words, "horovod"] for name, hvdray in context.builds.items()},
            THEIRS: [*run(context.hvdray, ranks), *words, "horovod"], GLOO: [*run(context.hvdray, ranks), *words, "gloo"]}


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


def memory_gib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) / (1 << 20)


def of_two_kinds(context, titles, goals, commands, rounds, of_cpu="processor time of a rank"):
    """titles, goals: by measure. commands: contender -> command and its measures. Its time, and what of a processor it took."""
    found = {(name, kind): {} for name in titles for kind in range(2)}
    for _ in range(context.rounds(rounds)):
        for who, (command, names) in commands.items():
            values = told([*command, *names], settings(context))
            for name in names:
                row = f"bound: {name.split('.')[0]} alone" if "." in name else who
                for kind in range(2):
                    value = values.get(name, (None, None))[kind]
                    found[name.split(".")[-1], kind].setdefault(row, Series(row)).values.append(value and value * 1000)
    return [Measure(f"{titles[name]}, {what}", "ms", list(found[name, kind].values()), goals[name])
            for name in titles for kind, what in enumerate(("p50", of_cpu))]


def sizes(context):
    """Beside them the bound: the same from C++, without Python, names and threads."""
    names = [str(size) for size, _ in SIZES.values()]
    titles = {str(size): f"allreduce of {name} float32 from Python, in place, 2 ranks" for name, (size, _) in SIZES.items()}
    commands = {who: (command, names) for who, command in contenders(context, 2).items()}
    measures = of_two_kinds(context, titles, {str(size): goal for size, goal in SIZES.values()}, commands, 3)
    bound = [*run(context.hvdray, 2), context.bin_dir / "collective_load", "hvdray", *names]
    values = [medians(bound, settings(context)) or {} for _ in range(context.rounds(3))]
    for name, measure in zip(names, measures[::2]):
        measure.series.append(Series("bound: the communicator, from C++", [value.get(int(name), 0) / 1000 or None for value in values]))
    return measures


def steps(context, ranks, names, rounds):
    titles = {name: f"{STEPS[name][0]}, {ranks} ranks" for name in names}
    goals = {name: STEPS[name][1 if ranks == 2 else 2] for name in names}
    bounds = [f"backward.{name}" for name in names if name != "tiny"]
    commands = {who: (command, [*names, *bounds] if who == "hvdray" else names) for who, command in contenders(context, ranks).items()}
    return of_two_kinds(context, titles, goals, commands, rounds)


def two_ranks(context):
    return steps(context, 2, list(STEPS), 3)


def four_ranks(context):
    names = ["small", "resnet50"]
    if memory_gib() > GIB_OF_FOUR:
        names.append("gpt2")
    else:
        print(f"== torch.four: {memory_gib():.1f} GiB of memory are free, {GIB_OF_FOUR} wanted for GPT-2's shapes", flush=True)
    return steps(context, 4, names, 2)


def negotiation(context):
    commands = {who: (command, ["negotiation"]) for who, command in contenders(context, 2).items() if who != GLOO}
    return of_two_kinds(context, {"negotiation": "step of 161 known tensors of 4 bytes, 2 ranks"}, {"negotiation": "≤ 0.05 of negotiation"},
                        commands, 3, "processor time of the library's threads, the reduction included")


def ddp(context):
    commands = {name: ([*command[:-1], "gloo" if name == GLOO else "hvdray"], ["resnet50"])
                for name, command in contenders(context, 2).items() if name != THEIRS}
    return of_two_kinds(context, {"resnet50": "step of DDP, gradients shaped like ResNet-50, 2 ranks: backend hvdray beside gloo"},
                        {"resnet50": "≤ 0.65 × gloo"}, commands, 3)


def init(context):
    python = context.venv / "bin/python"
    commands = {**{name: [*run(hvdray, 8, "--horovod", "builtin"), python] for name, hvdray in context.builds.items()},
                THEIRS: [*run(context.hvdray, 8), python]}
    series = {name: Series(name) for name in commands}
    for _ in range(context.rounds(3)):
        for name, command in commands.items():
            series[name].values.append(one_init(command, 8, settings(context), 180))
    return [Measure("init() of 8 ranks that enter together under hvdray, first in → last out", "s", list(series.values()), "≤ 0.25 ×")]


def killed(context):
    rows = {name: Series(name) for name in (*context.builds, THEIRS)}
    for _ in range(context.rounds(3)):
        for name, row in rows.items():
            words = [] if name == THEIRS else ["--horovod", "builtin"]
            row.values.append(elastic.killed(context, "hvdray" if name == THEIRS else name, 4, words))
    return [Measure("elastic under hvdray: 4 → 3 workers, one SIGKILLed → next step of all survivors", "s", list(rows.values()), "≤ 0.5 ×")]


MEASURES = {f"torch.{name}": with_horovod(measure) for name, measure in (
    ("sizes", sizes), ("two", two_ranks), ("negotiation", negotiation), ("ddp", ddp), ("init", init), ("killed", killed), ("four", four_ranks))}
