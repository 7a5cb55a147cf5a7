# SPDX-License-Identifier: Apache-2.0
"""Common parts of the benchmarks: alternating rounds, medians, a table, JSON with machine and commit."""

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import select
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Series:
    """Values of one contender in one measure; None for a failed or abandoned run."""
    name: str
    values: list = dataclasses.field(default_factory=list)
    note: str = ""

    def good(self):
        return [v for v in self.values if v is not None]

    def median(self):
        return statistics.median(self.good()) if self.good() else None


@dataclasses.dataclass
class Measure:
    title: str
    unit: str
    series: list
    goal: str = ""

    def row(self, name):
        return next((s for s in self.series if s.name == name), None)

    def ratio(self, name, peer):
        """Median of the ratios round by round, so that a slow phase of the machine affects both."""
        pairs = [(a, b) for a, b in zip(self.row(name).values, self.row(peer).values)
                 if a is not None and b]
        return statistics.median(a / b for a, b in pairs) if pairs else None


def alternate(contenders, rounds, warmup=1):
    """contenders: name -> function that returns a value or None. Every round runs each once, in turn,
    except contenders that failed or hung in the warm-up."""
    series = {name: Series(name) for name in contenders}
    for number in range(warmup + rounds):
        for name, function in contenders.items():
            if series[name].note:
                continue
            value = function()
            if number < warmup and value is None:
                series[name].note = "failed or hung in the warm-up"
            if number >= warmup:
                series[name].values.append(value)
    return list(series.values())


def timed(command, timeout=120, expect=0, env=None, stdout=subprocess.DEVNULL,
          stdin=subprocess.DEVNULL):
    """Wall seconds of a command, or None if it fails or hangs. Never leaves it running."""
    started = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdin=stdin, stdout=stdout,
                               stderr=subprocess.DEVNULL, env=env, start_new_session=True)
    code = ended(process, timeout)
    took = time.monotonic() - started
    if code is None:
        kill_session(process.pid)
        process.wait()
        return None
    kill_session(process.pid)  # orphans of a peer would slow the next command
    return took if expect is None or code == expect else None


def ended(process, timeout):
    """Exit code of a child, or None if it still runs after `timeout` seconds. Uses a pidfd, because
    Python's own wait with a timeout polls in steps of up to 50 ms, which would dominate the result."""
    pidfd = os.pidfd_open(process.pid)
    try:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        return process.wait() if poller.poll(timeout * 1000) else None
    finally:
        os.close(pidfd)


def processor_split(process, timeout):
    """Processor seconds (of a child's own process, of all its children); None: it failed or hung. Does not reap it.

    Reads them after the process has died and before it is reaped, so nothing is missed. Children
    count once their parent has waited for them; the kernel's resolution is 10 ms.
    """
    deadline = time.monotonic() + timeout
    flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while (end := os.waitid(os.P_PID, process.pid, flags)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.02)
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    times = [int(field) * TICK_S for field in fields[11:15]]  # utime stime cutime cstime
    if end.si_code != os.CLD_EXITED or end.si_status != 0:
        return None
    return times[0] + times[1], times[2] + times[3]


def kill_session(session):
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                os.kill(int(entry), 9)
        except (OSError, IndexError):
            continue


def which(name):
    found = shutil.which(name)
    return pathlib.Path(found) if found else None


def number(value):
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def table(measure, ours="hvdray"):
    lines = [f"### {measure.title} ({measure.unit})", "",
             "| | min | median | max | runs | hvdray ÷ this |", "|---|---|---|---|---|---|"]
    for series in measure.series:
        good = series.good()
        ratio = ""
        if series.name != ours and measure.row(ours):
            value = measure.ratio(ours, series.name)
            ratio = f"{value:.3g}" if value is not None else "–"
        failed = len(series.values) - len(good)
        runs = f"{len(good)}" + (f", {failed} failed" if failed else "")
        name = series.name + (f" ({series.note})" if series.note else "")
        lines.append(f"| {name} | {number(min(good, default=None))} | {number(series.median())} | "
                     f"{number(max(good, default=None))} | {runs} | {ratio} |")
    if measure.goal:
        lines += ["", f"To reach: {measure.goal}"]
    return "\n".join(lines) + "\n"


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), "")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "commit": commit,
            "date": datetime.date.today().isoformat()}


def to_json(measures):
    return json.dumps({"schema": "hvdray.bench/1", "machine": machine(), "measures": [
        {"title": m.title, "unit": m.unit, "goal": m.goal,
         "series": [{"name": s.name, "values": s.values, "note": s.note} for s in m.series]}
        for m in measures]}, indent=1)
