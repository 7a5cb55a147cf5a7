#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes ctest's output through. Before its closing lines prints where the time went: the steps before the tests,
each argument one line, and the ten slowest tests."""

import re
import sys

RESULT = re.compile(r"^ *\d+/\d+ +Test +#\d+: +(\S+) .*?([\d.]+) sec\b")
CLOSING = re.compile(r"^\d+% tests passed")


def table(steps, seconds):
    lines = ["", "Where the time went:"]
    lines += [f"  {step}" for step in steps]
    slowest = sorted(seconds, key=lambda name: (-seconds[name], name))[:10]
    lines += [f"  {seconds[name]:.0f} s  test {name}" for name in slowest]
    return "\n".join(lines) + "\n\n"


def main():
    for stream in (sys.stdin, sys.stdout):  # a test that fails may have printed any bytes
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    seconds = {}
    is_told = False
    for line in sys.stdin:
        found = RESULT.match(line)
        if found:
            seconds[found[1]] = seconds.get(found[1], 0) + float(found[2])
        if CLOSING.match(line) and not is_told:
            is_told = True
            sys.stdout.write(table(sys.argv[1:], seconds))
        sys.stdout.write(line)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
