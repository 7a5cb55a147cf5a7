#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages (debian/) from what git has of the tree, changes to its files included, and checks them with lintian.

Usage: tools/build_deb.py FOLDER     prints their paths
Needs Debian's debhelper, dh-python and lintian beside what the build needs; no network, and no root.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for tool in ("dpkg-buildpackage", "dh", "dh_python3", "lintian"):
        if not shutil.which(tool):
            sys.exit(f"tools/build_deb.py: {tool} is missing: tools/install_packages.sh build test")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (ROOT / "build").mkdir(exist_ok=True)
    # Inside the tree, so that the build finds its commit.
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="deb-") as scratch:
        for made in build(pathlib.Path(scratch)):
            print(shutil.copy(made, folder))


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def build(scratch):
    """The files of the packages."""
    tree = scratch / "hvdray"
    tree.mkdir()
    commit = output_of("git", "-C", ROOT, "stash", "create") or "HEAD"
    archive = subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", tree], check=True, stdin=archive.stdout)
    if archive.wait() != 0:
        sys.exit("tools/build_deb.py: git archive failed")
    environment = {"CXX": "c++", **os.environ}
    if shutil.which("ccache"):  # debhelper gives the build an empty home
        environment |= {"CCACHE_DIR": output_of("ccache", "-k", "cache_dir"), "CCACHE_MAXSIZE": output_of("ccache", "-k", "max_size")}
    run(["dpkg-buildpackage", "--build=binary", "--no-sign"], tree, environment)
    changes = next(scratch.glob("*.changes"))
    run(["lintian", "--allow-root", "--fail-on", "error,warning", changes], scratch, environment)
    return sorted(scratch.glob("*.deb"))


def run(command, folder, environment):
    """Shows what it says only if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-40000:]}tools/build_deb.py: {command[0]} failed")


if __name__ == "__main__":
    main()
