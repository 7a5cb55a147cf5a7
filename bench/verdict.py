# SPDX-License-Identifier: Apache-2.0
"""Which rank is blamed, and with which exit code, when a rank fails: tries every way of failing, and compares
with horovodrun and torchrun."""

import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

from harness import ROOT, ended, kill_session
from launch import environment

WORKER = ROOT / "bench/workers/failing.py"
LIMIT_S = 180
CODES = {"raise": 1, "exit": 17, "os._exit": 23, "abort": 134, "SIGSEGV": 139, "SIGKILL": 137,
         "C++ exception": 134, "import": 1, "shutdown, raise": 1}
AFTER_INIT = ["raise", "exit", "os._exit", "abort", "SIGSEGV", "SIGKILL", "C++ exception"]
KINDS = ("horovod", "torch", "plain", "elastic")


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str  # of the worker
    how: str
    where: str
    np: int
    rank: int
    is_elastic: bool = False

    @property
    def code(self):
        return CODES[self.how]


@dataclasses.dataclass
class Answer:
    rank: int | None
    code: int | None
    is_certain: bool = True


def cases(kind, sizes):
    """All cases of a kind; the failing rank rotates, so that each rank has its turn."""
    if kind == "plain":
        ways = [(how, "between") for how in CODES if how != "shutdown, raise"]
    elif kind == "elastic":
        ways = [(how, "between") for how in AFTER_INIT] + [("import", "before")]
    else:
        ways = [(how, where) for where in ("between", "collective", "hook") for how in AFTER_INIT]
        ways += [(how, "before") for how in ("raise", "exit", "SIGKILL", "import")]
        ways.append(("shutdown, raise", "between"))
    found = []
    for np in sizes:
        for how, where in ways:
            if kind == "elastic":
                for worker in ("horovod", "torch"):
                    found.append(Case(worker, how, where, np, len(found) % np, True))
            else:
                found.append(Case(kind, how, where, np, len(found) % np))
    return found


def go(context, command):
    """(exit code, all output); the exit code is None if the job hangs."""
    env = dict(environment(context), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, env=env,
                                   start_new_session=True)
        code = ended(process, LIMIT_S)
        kill_session(process.pid)
        process.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def words(context, case):
    python = context.venv / "bin/python" if case.kind == "horovod" else "/usr/bin/python3"
    return [python, WORKER, case.kind, case.how, case.where, case.rank]


def ask_hvdray(context, case, hvdray):
    with tempfile.TemporaryDirectory(prefix="hvdray-bench-") as folder:
        report = pathlib.Path(folder) / "report.json"
        elastic = []
        if case.is_elastic:  # no more hosts will come, so a failure ends the job
            elastic = ["--min-np", case.np, "-H", f"localhost:{case.np}"]
            if case.kind == "torch":
                elastic += ["--elastic-mode", "gang"]
        code, _ = go(context, [hvdray, "run", "-np", case.np, *elastic, "--report", report, "--",
                               *words(context, case)])
        if code is None or not report.exists():
            return Answer(None, code)
        first = json.loads(report.read_text())["first_failure"]
        return Answer(first and first["rank"], code, bool(first and first.get("certain", True)))


def ask_horovodrun(context, case):
    code, text = go(context, [context.venv / "bin/horovodrun", "--gloo", "-np", case.np, "-H",
                              f"localhost:{case.np}", *words(context, case)])
    # Horovod prints this on stdout, where workers write as well, so the last match counts.
    names = re.findall(r"Process name: (\d+)", text)
    return Answer(int(names[-1]) if names else None, code)


def ask_torchrun(context, case):
    with tempfile.TemporaryDirectory(prefix="hvdray-bench-") as folder:
        # With Python 3.11 this torchrun fails without redirections.
        code, text = go(context, ["/usr/bin/python3", "-m", "torch.distributed.run",
                                  "--nproc_per_node", case.np, "--master_port",
                                  29400 + os.getpid() % 500, "--no_python", "-r", "1", "-t", "1",
                                  "--log_dir", folder, *words(context, case)])
    # The last match is the root cause; torchrun lists the other failures before it.
    ranks = re.findall(r"rank\s*: (\d+) \(local_rank", text)
    return Answer(int(ranks[-1]) if ranks else None, code)


def peers(context, case):
    found = {name: (lambda h=hvdray: ask_hvdray(context, case, h))
             for name, hvdray in context.builds.items()}
    if case.is_elastic:
        return found
    if case.kind != "torch" and context.venv:
        found["horovodrun"] = lambda: ask_horovodrun(context, case)
    if case.kind == "torch":
        found["torchrun"] = lambda: ask_torchrun(context, case)
    return found


@dataclasses.dataclass
class Tally:
    runs: int = 0
    ranks: int = 0
    both: int = 0
    certain: int = 0
    wrong: list = dataclasses.field(default_factory=list)

    def add(self, case, answer):
        is_rank_right = answer.rank == case.rank
        is_right = is_rank_right and answer.code == case.code
        self.runs += 1
        self.ranks += is_rank_right
        self.both += is_right
        self.certain += is_right and answer.is_certain
        if not is_right:
            self.wrong.append(f"{case.kind}, {case.how}, {case.where}, rank {case.rank} of {case.np}: "
                              f"rank {answer.rank}, exit code {answer.code}, not {case.code}")


def measure(context, kind, sizes=None):
    """Runs all cases of a kind; returns a table, followed by hvdray's wrong answers."""
    sizes = sizes or ((4,) if context.is_quick else (2, 4, 8))
    tallies = collections.defaultdict(Tally)
    contenders = []
    for case in cases(kind, sizes):
        if case.kind == "horovod" and not context.venv:
            continue
        for name, ask in peers(context, case).items():
            answer = ask()
            if name not in contenders:
                contenders.append(name)
            tallies[name, case.how].add(case, answer)
            tallies[name, "all"].add(case, answer)
    return table(kind, contenders, tallies)


def table(kind, contenders, tallies):
    lines = [f"### Who is blamed: {kind} (right rank, of these with the right exit code too; of runs)", "",
             "| fails by | " + " | ".join(contenders) + " |", "|---|" + "---|" * len(contenders)]
    for how in [*CODES, "all"]:
        if not any((name, how) in tallies for name in contenders):
            continue
        cells = []
        for name in contenders:
            one = tallies.get((name, how), Tally())
            cells.append(f"{one.ranks}, {one.both} of {one.runs}" if one.runs else "–")
        lines.append(f"| {how} | " + " | ".join(cells) + " |")
    ours = tallies["hvdray", "all"]
    lines += ["", f"hvdray was certain in {ours.certain} of {ours.both} right answers."]
    lines += [f"* wrong: {wrong}" for wrong in ours.wrong]
    return "\n".join(lines) + "\n"


TABLES = {f"verdict.{kind}": (lambda context, kind=kind: measure(context, kind)) for kind in KINDS}
