#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-format over the tree: --check (default) names files that differ, --fix rewrites them."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "--check"
    if mode not in ("--check", "--fix"):
        sys.exit("usage: tools/format.py [--check|--fix]")
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split()
    flags = ["-i"] if mode == "--fix" else ["--dry-run", "--Werror"]
    done = subprocess.run(["clang-format", *flags, *names], cwd=ROOT, capture_output=True, text=True)
    wrong = sorted({line.split(":", 1)[0] for line in done.stderr.splitlines()
                    if "clang-format-violations" in line})
    print("\n".join(f"{name}: run tools/format.py --fix" for name in wrong) or "formatted")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
