# SPDX-License-Identifier: Apache-2.0
"""Bytes over SSH: worker output and input compared with plain ssh, and Horovod's rendezvous of 4 × 4."""

import contextlib
import filecmp
import json
import os
import pathlib
import subprocess
import tempfile
import time

from harness import Measure, Series, alternate, kill_session
from horovod_init import one_init
from remote_site import Site

LINE_BYTES = 100
REMOTE_FILE = "/dev/shm/bench-data"  # each host has a /dev/shm of its own
RANKS_PER_HOST = 4


def transfer(context):
    """Moves context.transfer_mb from a remote worker's stdout to a file, and the same into its stdin."""
    with Site(context, 1) as site, memory_folder() as folder:
        data = folder / "data"
        with open(data, "wb") as out:
            lines = context.transfer_mb * 1_000_000 // LINE_BYTES
            subprocess.run(["seq", "-f", f"%0{LINE_BYTES - 1}.0f", str(lines)], stdout=out,
                           check=True)
        with open(data, "rb") as source:
            site.hosts.run(["sh", "-c", f"cat >{REMOTE_FILE}"], on="h1", check=True, stdin=source)
        return [download(site, data, folder / "out"), upload(site, data)]


@contextlib.contextmanager
def memory_folder():
    """A temporary directory, in memory if possible, so that no disk is measured."""
    shm = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        yield pathlib.Path(folder)


def download(site, data, out):
    def run(command):
        with open(out, "wb") as stdout:
            took = site.timed(command, 120, stdout=stdout)
        if took is None or not filecmp.cmp(data, out, shallow=False):
            return None
        return data.stat().st_size / 1e6 / took

    cat = ["cat", REMOTE_FILE]
    contenders = {"hvdray": site.hvdray(1, cat, "--tag-output", "none"),
                  "hvdray --ssh-transport openssh": site.hvdray(
                      1, cat, "--tag-output", "none", "--ssh-transport", "openssh"),
                  "ssh host cat": ["ssh", "h1", *cat]}
    return Measure(f"{megabytes(data)} of {LINE_BYTES}-byte lines from a remote worker's stdout to "
                   "a file, connection included",
                   "MB/s", alternate({name: (lambda c=c: run(c)) for name, c in contenders.items()},
                                     site.context.rounds(5)),
                   "≥ 0.8 × ssh host cat; byte for byte the same")


def upload(site, data):
    expected = subprocess.run(["sha256sum"], stdin=open(data, "rb"), capture_output=True, text=True,
                              check=True).stdout.split()[0]

    def run(command):
        with open(data, "rb") as stdin, tempfile.TemporaryFile() as out:
            took = site.timed(command, 120, stdin=stdin, stdout=out)
            out.seek(0)
            if took is None or expected not in out.read().decode():
                return None
        return data.stat().st_size / 1e6 / took

    contenders = {"hvdray": site.hvdray(1, ["sha256sum"], "--stdin", 0, "--tag-output", "none"),
                  "ssh host sha256sum": ["ssh", "h1", "sha256sum"]}
    return Measure(f"{megabytes(data)} into a remote worker's stdin (--stdin 0), sha256sum there "
                   "included",
                   "MB/s", alternate({name: (lambda c=c: run(c)) for name, c in contenders.items()},
                                     site.context.rounds(3)),
                   "the worker's checksum is that of the file")


def megabytes(path):
    return f"{path.stat().st_size / 1e6:.0f} MB"


# ---- the rendezvous

def rendezvous(context):
    """hvd.init() of unmodified Horovod on 4 hosts: the launcher's requests and bytes sent."""
    if not context.venv:
        return []
    with Site(context, 4) as site:
        ranks = RANKS_PER_HOST * len(site.names)
        report = site.hosts.state / "report.json"
        if site.timed(site.hvdray(1, ["/bin/true"])) is None:  # puts the agent in place
            return []
        times, sent = Series("hvdray"), Series("hvdray")
        python = context.venv / "bin/python"
        init(site, site.hvdray(RANKS_PER_HOST, [python], "--report", report), ranks, times, sent)
        found = json.loads(report.read_text()) if report.exists() else None
        series = [times], [sent]
        if not context.is_quick:
            peer = [context.venv / "bin/horovodrun", "-np", ranks, "-H",
                    site.hosts.host_list(RANKS_PER_HOST), python]
            series[0].append(Series("horovodrun"))
            series[1].append(Series("horovodrun"))
            init(site, peer, ranks, series[0][1], series[1][1])
    what = f"hvd.init() of {ranks} ranks on 4 hosts"
    measures = [Measure(f"{what}, first in → last out", "s", series[0]),
                Measure(f"{what}: all that leaves the launcher's interface during the job, SSH and "
                        "headers included", "KB", series[1])]
    return (from_report(found, what) if times.good() and found else []) + measures


def init(site, command, ranks, times, sent):
    env = dict(site.env, HOROVOD_GLOO_TIMEOUT_SECONDS="120", OMP_NUM_THREADS="1")
    before = site.sent_bytes()
    times.values.append(one_init(site.hosts.command(command), ranks, env, 240))
    sent.values.append((site.sent_bytes() - before) / 1000 if times.values[-1] else None)
    site.settle()


def from_report(report, what):
    """The launcher's own count, compared with the cost of the same values without a relay on each host.

    Each member of a scope deletes one key, so deletes count members, and each member needs all values
    of the others. Horovod's client reads each value twice, first to check that it exists.
    """
    scopes = report["rendezvous"]["scopes"]
    relays = [host["relay"] for host in report["hosts"]]

    def total(key):
        return sum(relay[key] for relay in relays)

    once = sum((scope["deletes"] - 1) * scope["bytes_in"] for scope in scopes if scope["deletes"])
    sent = sum(scope["bytes_out"] for scope in scopes)
    both_ways = f"{total('upstream_bytes') / 1000:.0f} KB both ways"
    values = [Series("hvdray", [sent / 1000], both_ways),
              Series("every rank alone, as Horovod asks: each value twice (computed)",
                     [2 * once / 1000]),
              Series("every rank alone, each value once (computed)", [once / 1000])]
    asked = [Series("hvdray", [total("upstream_questions")]),
             Series("every rank alone: what the workers asked the relays of their hosts",
                    [total("requests")],
                    f"{total('served_from_cache')} of them answered at once")]
    return [Measure(f"{what}: bytes of values that the launcher sends", "KB", values,
                    f"≤ 1/{RANKS_PER_HOST} of every rank alone"),
            Measure(f"{what}: questions to the launcher", "requests", asked)]
