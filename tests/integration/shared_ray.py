#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster that all of a ctest run share: the fixture `ray_cluster_up` makes it, `ray_cluster_down` removes it.

    shared_ray.py up --state DIR --ray-venv DIR
    shared_ray.py down --state DIR

Without root or Ray it makes none: each test then says for itself what it lacks."""

import argparse
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from hosts_processes import HostsError  # noqa: E402
from make_hosts import Hosts  # noqa: E402
from ray import shared_cluster  # noqa: E402


def down(state):
    with contextlib.suppress(HostsError):
        Hosts.attach(state).down()
    shutil.rmtree(state, ignore_errors=True)  # of one that was killed before it was whole


def up(state, venv):
    down(state)  # a run that was killed may have left one
    if os.geteuid() != 0 or not venv:
        print("no root or no --ray-venv: no cluster to share")
        return 0
    with tempfile.TemporaryFile() as said:
        # Ray's processes stay: none of them may hold the pipe whose end ctest waits for.
        mine = os.dup(1), os.dup(2)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            shared_cluster(venv, state).up(keep=True)
        except HostsError as error:
            os.dup2(mine[1], 2)
            said.seek(0)
            sys.exit(f"{said.read().decode(errors='replace')}{error}")
        os.dup2(mine[0], 1)
    print(f"up in {state}")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["up", "down"])
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--ray-venv", default="")
    options = parser.parse_args()
    return up(options.state, options.ray_venv) if options.what == "up" else down(options.state)


if __name__ == "__main__":
    sys.exit(main())
