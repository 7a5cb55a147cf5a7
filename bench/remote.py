# SPDX-License-Identifier: Apache-2.0
"""Jobs on other hosts over SSH: launch, first copy of the agent, cost of 64 hosts, and the end."""

import json
import pathlib
import shutil
import time

import harness
from harness import Measure, Series, alternate, kill_session
from remote_site import Site, seconds_until_dead

MANY = 64
ENDLESS = ["sleep", "1000"]
GONE_LIMIT_S = 10


def launch(context):
    """Rows 3 × 8, 8 × 4, 16 × 4, each on its own hosts, with the phases of hvdray's launch."""
    measures = []
    for count, slots in ((3, 8), (8, 4), (16, 4)):
        with Site(context, count) as site:
            measures += launch_on(site, slots)
    return measures


def launch_on(site, slots):
    context, count = site.context, len(site.names)
    peers = site.commands(slots, ["/bin/true"])
    slow = peers.pop("horovodrun", None)
    peers["ssh host true, to all at once"] = site.ssh_to_all()
    contenders = {name: (lambda c=c: site.timed(c)) for name, c in peers.items()}
    series = alternate(contenders, context.rounds(7))  # the warm-up has put the agent on each host
    if slow and not context.is_quick:
        for name in ("horovodrun, first time on these hosts", "horovodrun"):
            series.append(Series(name, [site.timed(slow, 120)]))
    what = f"{count} hosts × {slots} /bin/true over SSH"
    return [Measure(f"{what}, agent in place", "s", series,
                    "≤ hydra; ≥ 15 × faster than horovodrun; stretch ≤ 0.9 × ssh to all at once"),
            Measure(f"{what}: phases of hvdray", "ms", phases(site, slots))]


def phases(site, slots):
    report = site.hosts.state / "report.json"
    command = site.hvdray(slots, ["/bin/true"], "--report", report)
    series = {}
    for _ in range(site.context.rounds(5)):
        report.unlink(missing_ok=True)
        if site.timed(command) is None or not report.exists():
            continue
        for phase in json.loads(report.read_text())["phases"]:
            row = series.setdefault(phase["name"], Series(phase["name"]))
            row.values.append((phase["ended_s"] - phase["began_s"]) * 1000)
    return list(series.values())


def first_job(context):
    measures = []
    for count in (1, 8):
        with Site(context, count) as site:
            command = site.hvdray(1, ["/bin/true"])

            def without_agent(site=site, command=command):
                for name in site.names:
                    shutil.rmtree(site.hosts.folder(name) / "home/.cache/hvdray",
                                  ignore_errors=True)
                return site.timed(command)

            contenders = {"hvdray, agent to be copied": without_agent,
                          "hvdray": lambda s=site, c=command: s.timed(c)}
            hosts = "one host" if count == 1 else f"{count} hosts"
            measures.append(Measure(f"/bin/true on {hosts} over SSH, agent there or not", "s",
                                    alternate(contenders, context.rounds(7))))
    return measures


def check(context):
    with Site(context, 8) as site:
        command = [context.builds["hvdray"], "check", "-H", site.hosts.host_list(1)]
        return [Measure("hvdray check of 8 hosts: the bandwidth and round trip of all 56 ways", "s",
                        alternate({"hvdray": lambda: site.timed(command)}, context.rounds(5)), "< 10 s")]


# ---- 64 hosts

def many(context):
    with Site(context, MANY) as site:
        return processor_time(site) + memory(site)


def processor_time(site):
    peers = {name: command for name, command in site.commands(1, ["/bin/true"]).items()
             if name in ("hvdray", "hydra")}
    peers["ssh host true, to all at once"] = site.ssh_to_all()
    total = {name: Series(name) for name in peers}
    own = {name: Series(name) for name in ("hvdray", "hydra") if name in peers}
    for number in range(1 + site.context.rounds(5)):
        for name, command in peers.items():
            split = processor_split(site, command, 120)
            if number == 0:
                continue  # the warm-up copies the agent
            total[name].values.append(split and sum(split) * 1000 / MANY)
            if name in own:
                own[name].values.append(split and split[0] * 1000 / MANY)
    what = f"{MANY} hosts over SSH: processor time at the launcher's place, per host"
    return [Measure(f"{what}: launcher and its ssh processes", "ms", list(total.values()),
                    "≤ 10 ms"),
            Measure(f"{what}: the launcher's process alone, without the ssh processes", "ms",
                    list(own.values()))]


def processor_split(site, command, timeout):
    """harness.processor_split of a command at the launcher; then the hosts are quiet again."""
    process = site.start(command)
    try:
        return harness.processor_split(process, timeout)
    finally:
        kill_session(process.pid)
        process.wait()
        site.settle()


def memory(site):
    shares, peak = Series("hvdray"), Series("hvdray")
    for _ in range(site.context.rounds(3)):
        process = site.start(site.hvdray(1, ENDLESS))
        try:
            if not site.wait_for(process, " ".join(ENDLESS), MANY, 60):
                shares.values.append(None)
                peak.values.append(None)
                continue
            all_kib = [kib(pid, "smaps_rollup", "Pss:") for pid in site.hosts.processes("launcher")]
            shares.values.append(sum(all_kib) / 1024 / MANY)
            peak.values.append(kib(process.pid, "status", "VmHWM:") / 1024 / MANY)
        finally:
            process.terminate()
            process.wait()
            site.settle()
    what = f"{MANY} hosts over SSH, workers running: memory at the launcher's place, per host"
    return [Measure(f"{what}: launcher and its ssh processes, shared pages by their share", "MB",
                    [shares], "≤ 1 MB"),
            Measure(f"{what}: peak of the launcher's process alone", "MB", [peak], "≤ 1 MB")]


def kib(pid, file, name):
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


# ---- the end

def killed(context, slots=4):
    with Site(context, 4) as site:
        commands = site.commands(slots, ENDLESS)
        stubborn = ["sh", "-c", f"trap '' TERM; exec {' '.join(ENDLESS)}"]
        commands["hvdray --grace 1, workers ignore SIGTERM"] = site.hvdray(
            slots, stubborn, "--grace", 1)
        if context.is_quick:
            commands.pop("horovodrun", None)
        rows = {name: Series(name) for name in commands}
        for number in range(context.rounds(5)):
            for name, command in commands.items():
                if name == "horovodrun" and number > 0:
                    continue  # half a minute per round, and it yields no time
                value, rows[name].note = seconds_until_gone(site, command, slots)
                rows[name].values.append(value)
    return [Measure("SIGKILL of the launcher → last remote process gone, 4 hosts × 4 sleepers", "s",
                    list(rows.values()),
                    "≤ 2 s when workers obey SIGTERM, else grace + 2 s")]


def seconds_until_gone(site, command, slots):
    """(seconds, "") or (None, reason)."""
    hosts, ranks = site.hosts, slots * len(site.names)
    process = site.start(command)
    try:
        if not site.wait_for(process, " ".join(ENDLESS), ranks, 60):
            return None, "did not start"
        pids = [pid for found in hosts.leftovers(*site.names).values() for pid in found]
        process.kill()
        took, alive = seconds_until_dead(pids, GONE_LIMIT_S)
        # Processes started after the scan above count as well.
        late = hosts.leftovers(*site.names)
        if alive or late:
            alive = max(alive, sum(len(found) for found in late.values()))
            return None, f"{alive} of {len(pids)} still there after {took:.0f} s"
        return took, ""
    finally:
        kill_session(process.pid)
        process.wait()
        site.settle()
