# SPDX-License-Identifier: Apache-2.0
"""Programs that use the package `hvdray`, run as users run them: a script, whose functions are in its __main__."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What each has before its own lines.
HEAD = """\
import os, signal, sys, threading, time
import hvdray

def rank():
    return int(os.environ["HOROVOD_RANK"])

def raised(kind, call):
    try:
        value = call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {value!r}")

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)

def sleep():
    time.sleep(60)
"""


class Programs:
    def __init__(self, tool, folder):
        self.tool, self.folder, self.count = tool, folder, 0

    def start(self, lines, python=sys.executable, env=None, cwd=None, **popen):
        self.count += 1
        path = self.folder / f"program{self.count}.py"
        path.write_text(HEAD + lines)
        package = {"HVDRAY_BINARY": str(self.tool.binary), "PYTHONPATH": str(ROOT / "python"), "PYTHONUNBUFFERED": "1"}
        environment = {**os.environ, **package, **(env or {})}
        return self.tool.start(path, binary=python, env=environment, cwd=cwd or self.folder, **popen)

    def run(self, lines, code=0, **more):
        """Its result; the program's own assertions are the test's."""
        result = self.start(lines, **more).wait(300)
        assert result.code == code, result.errors[-4000:]
        return result
