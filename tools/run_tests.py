#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest, and a test that failed once more, alone, after all others.

If it passes then, so does the run. A block before ctest's closing lines then names it and shows the first failure; a file
in the user's cache keeps the block, and --begin prints it until somebody has deleted it. More than two such tests fail
the run. Before the closing lines stands where the time went.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

RESULT = re.compile(r"^ *\d+/\d+ +Test +#\d+: +(\S+) \.*(?: +|[^*]*\*\*\*)(.*?) +([\d.]+) sec\b")
START = re.compile(r"^ +Start +\d+: ")
CLOSING = re.compile(r"^\d+% tests passed")
LISTED = re.compile(r"^\s+\d+ - \S+ \(")  # a failed test, in the closing lines
MOST = 2  # tests that may fail at first: more of them are no chance
SHOWN_LINES = 200  # of a first failure, in the block; the run's own output has all


def kept_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "hvdray" / "failed_once"


class Run:
    """One run of ctest, whose output passes through up to its closing lines."""

    def __init__(self, command):
        self.seconds = {}
        self.failed = {}  # name: what it printed
        self.not_run = []  # their fixture failed
        self.closing = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
                              errors="surrogateescape") as process:
            self._read(process.stdout)
        self.code = process.returncode

    def _read(self, lines):
        last = None  # the output of the test that has failed last
        for line in lines:
            if self.closing or CLOSING.match(line):
                self.closing.append(line)
                continue
            found = RESULT.match(line)
            if found:
                last = self._take(*found.groups())
            elif START.match(line):
                last = None
            elif last is not None:
                last.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()

    def _take(self, name, result, seconds):
        self.seconds[name] = self.seconds.get(name, 0) + float(seconds)
        if result.startswith(("Passed", "Skipped")):
            return None
        if result.startswith("Not Run"):
            self.not_run.append(name)
            return None
        self.failed[name] = []
        return self.failed[name]


def table(steps, seconds):
    slowest = sorted(seconds, key=lambda name: (-seconds[name], name))[:10]
    return "\n".join(["", "Where the time went:", *(f"  {step}" for step in steps),
                      *(f"  {seconds[name]:.0f} s  test {name}" for name in slowest), "", ""])


def block(name, output):
    shown = output[-SHOWN_LINES:]
    cut = [f"[the last {SHOWN_LINES} of {len(output)} lines]\n"] if len(shown) < len(output) else []
    return "".join([f"== {name} failed, and passed when it ran once more, alone. Mend this first: see CONTRIBUTING.md. The first "
                    "failure:\n", *cut, *shown])


def keep(name, text):
    """Keeps a block for the next run on this machine. A cache that can't be written is no reason to fail."""
    folder = kept_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        print(f"== not kept for the next run: {error}")


def begin():
    for path in sorted(kept_folder().glob("*.txt")):
        print(path.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n"))
        print(f"== that was in an earlier run here; once it is mended: rm {path}\n")


def run(build, steps, words):
    ctest = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
    first = Run([*ctest, *words])
    print(table(steps, first.seconds), end="")
    print(*first.closing, sep="", end="", flush=True)
    listed = sum(1 for line in first.closing if LISTED.match(line))
    is_understood = listed <= len(first.failed) + len(first.not_run)
    if first.code == 0 or not is_understood or not 0 < len(first.failed) <= MOST:
        return first.code
    again = sorted([*first.failed, *first.not_run])
    print(f"\n== once more, one at a time: {' '.join(again)}", flush=True)
    second = Run([*ctest, "-j", "1", "-R", f"^({'|'.join(map(re.escape, again))})$"])
    if second.code == 0:
        for name, output in sorted(first.failed.items()):
            text = block(name, output)
            print(f"\n{text}")
            keep(name, text)
    print(*second.closing, sep="", end="", flush=True)
    return second.code


def main():
    for stream in (sys.stdin, sys.stdout):  # a test that fails may have printed any bytes
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--begin", action="store_true", help="print what earlier runs on this machine have kept, no more")
    parser.add_argument("--build", help="build folder of the tests")
    parser.add_argument("--step", action="append", default=[], help="a line for what was done before the tests")
    parser.add_argument("words", nargs="*", metavar="-- OPTION", help="for ctest's first run")
    options = parser.parse_args()
    if options.begin:
        begin()
        return 0
    if not options.build:
        parser.error("expected --build")
    return run(options.build, options.step, options.words)


if __name__ == "__main__":
    sys.exit(main())
