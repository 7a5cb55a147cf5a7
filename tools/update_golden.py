#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites tests/golden/ with the tests' current output and lists the changed files: review the diff
before you commit it. Frames of released versions (tests/golden/wire) may be added, never changed."""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", help="a build with tests [build/release]")
    parser.add_argument("-R", "--only", default="", help="tests whose name matches, as ctest -R")
    arguments = parser.parse_args()
    command = ["ctest", "--test-dir", arguments.build, "-L", "unit", "--output-on-failure"]
    if arguments.only:
        command += ["-R", arguments.only]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ, HVDRAY_UPDATE_GOLDEN="1"))
    subprocess.run(["git", "status", "--short", "tests/golden"], cwd=ROOT, check=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
