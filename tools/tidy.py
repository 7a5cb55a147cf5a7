#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the product's sources and treats findings as errors. A cache remembers files that
passed until the file, one of our files that it includes, or the configuration changes.

Third-party headers take most of the time, so ./check passes a build with HVDRAY_UNITY: twenty sources
then cost little more than one."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("base", "agent", "wire", "cmd", "launcher", "rendezvous", "cluster", "collective", "examples")
LAUNCHER = re.compile(r"^.*?/ccache ")  # does not affect the findings
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(base) / "hvdray" / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def closure(path, seen):
    """Adds to `seen` the file and every header of ours that it includes, directly or not."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    for header in INCLUDE.findall(path.read_text(errors="replace")):
        closure(ROOT / header, seen)
        closure(path.parent / header, seen)


def key_of(path, command, version):
    seen = set()
    closure(path, seen)
    digest = hashlib.sha256((version + command).encode())
    digest.update((ROOT / ".clang-tidy").read_bytes())
    for name in sorted(seen):
        digest.update(name.relative_to(ROOT).as_posix().encode() + name.read_bytes())
    return digest.hexdigest()


def check(path, build, key, cache):
    if (cache / key).exists():
        return path, None
    # suspicious-include: a file of HVDRAY_UNITY includes sources on purpose.
    done = subprocess.run(["clang-tidy", "-p", str(build), "--quiet",
                           "--checks=-bugprone-suspicious-include", str(path)],
                          capture_output=True, text=True)
    if done.returncode == 0 and "warning:" not in done.stdout:
        (cache / key).touch()
        return path, None
    return path, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/clang", help="directory of compile_commands.json")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    build = ROOT / arguments.build
    cache = cache_folder()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    work = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix == ".cu":
            continue  # Debian's clang knows older CUDAs only
        place = ROOT
        if path.is_relative_to(build):
            if path.parent.name != "unity":
                continue  # generated, and perhaps not yet there
            place = build
        if path.relative_to(place).parts[0] in ROOMS:
            command = LAUNCHER.sub("", entry["command"].replace(str(ROOT), ""))
            work.append((path, key_of(path, command, version)))
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        results = list(pool.map(lambda item: check(item[0], build, item[1], cache), work))
    bad = [(path, text) for path, text in results if text is not None]
    for path, text in bad:
        print(f"== {path.relative_to(ROOT)}\n{text}")
    print(f"clang-tidy: {len(work) - len(bad)} of {len(work)} files clean")
    return 1 if bad or not work else 0


if __name__ == "__main__":
    sys.exit(main())
