# SPDX-License-Identifier: Apache-2.0
"""What `hvdray.train` does, beside ssh."""

import sys

from calls import seconds_told
from harness import ROOT, Measure, alternate
from remote_site import Site

WORKER = ROOT / "bench/workers/train.py"
CHECKPOINT_MB = 256
SHM = "/dev/shm"  # in memory, and each host's own


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


MEASURES = {"train.checkpoint": checkpoint}
