#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the tree again as somebody else would, and compares the bytes with what was built here.

Usage: tools/reproduce.py [--all] FOLDER     FOLDER: what tools/build_{wheel,tarball,deb}.py have made from this tree
The other build has a folder, user, time zone, locale, umask, date and number of processors of its own. It links and packs again, and
compiles a tenth of the objects without the compiler's cache; the commit chooses them. --all: all objects, and the libraries that
tools/static_libraries.sh makes. What differs is named; Debian's diffoscope-minimal, where it is installed, shows the first difference.
"""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from build_wheel import BUILD, LINKED, ROOT, SHARED

STOPPED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOOLS = ("git", "ninja", "ccache", "faketime", "localedef", "taskset", "unshare")
# Stands before the compiler's cache, which can't be told what to leave alone. {chosen}: names of objects, one a line.
SOME_WITHOUT_CACHE = """\
#!/bin/sh
before=
for word; do
  if [ "$before" = -o ] && grep -qxF -e "$word" {chosen}; then
    echo "$word" >>{compiled}
    export CCACHE_DISABLE=1
  fi
  before=$word
done
exec {ccache} "$@"
"""


def main():
    everything = sys.argv[1:2] == ["--all"]
    words = sys.argv[1 + everything:]
    if len(words) != 1 or words[0].startswith("-"):
        sys.exit(__doc__)
    given = pathlib.Path(words[0])
    if not any(given.glob("*.whl")) or not (BUILD / "build.ninja").is_file():
        fail(f"no wheel in {given}, or no build/wheel here: run tools/build_wheel.py and tools/build_tarball.py first")
    for number in STOPPED_BY:
        signal.signal(number, stop)
    for tool in TOOLS:
        if not shutil.which(tool):
            fail(f"{tool} is missing: tools/install_packages.sh build test")
    with tempfile.TemporaryDirectory(prefix="hvdray-reproduce-") as scratch:
        compiled, made = build(Elsewhere(pathlib.Path(scratch)), everything, any(given.glob("*.deb")))
        tree = pathlib.Path(scratch) / "tree"
        objects = sorted((tree / "build/wheel").rglob("*.o"))
        programs = [tree / "build/wheel" / name for name in (*LINKED, SHARED)]
        pairs = [(ROOT / path.relative_to(tree), path) for path in (*objects, *programs)]
        pairs += [(given / path.name, path) for path in sorted(made.iterdir())]
        differ = [pair for pair in pairs if not pair[0].exists() or pair[0].read_bytes() != pair[1].read_bytes()]
        for here, _ in differ:
            print(f"tools/reproduce.py: {here} {'differs' if here.exists() else 'is missing here'}", file=sys.stderr)
        if differ:
            show(*differ[0])
            sys.exit(1)
    print(f"{len(objects)} objects, of which {compiled} were compiled again without a cache, {len(programs)} programs and libraries, and "
          f"{len(pairs) - len(objects) - len(programs)} packages and lists are the same")


def stop(number, _frame):
    for again in STOPPED_BY:
        signal.signal(again, signal.SIG_IGN)  # while it is cleaned up
    sys.exit(128 + number)


def fail(problem):
    sys.exit(f"tools/reproduce.py: {problem}")


class Elsewhere:
    """Runs commands as another user of another machine might, in a copy of the tree."""

    def __init__(self, scratch):
        self.tree = scratch / "tree"
        self.scratch = scratch
        processors = sorted(os.sched_getaffinity(0))
        # A day and an hour, so that date and time differ and certificates of the package index are still valid. The monotonic clock goes
        # with them: faketime 0.9.10 fails Python's time.sleep() without. FAKE_UTIME: what CMake touches is not newer than all else.
        self._before = ["unshare", "--user", "--map-user=4321", "--map-group=4321", "taskset", "-c",
                        ",".join(map(str, processors[1:] or processors)), "faketime", "-f", "+25h"]
        self._environment = {**os.environ, "TZ": "XYZ-14", "LC_ALL": "tr_TR.UTF-8", "LOCPATH": str(scratch / "locale"),
                             "USER": "somebody", "LOGNAME": "somebody", "FAKE_UTIME": "1"}
        (scratch / "locale").mkdir()
        subprocess.run(["localedef", "-i", "tr_TR", "-f", "UTF-8", scratch / "locale/tr_TR.UTF-8"], check=True)
        self._copy_tree()

    def run(self, *command, **variables):
        """Shows what it says only if it fails. What stops this program stops all that the command has started."""
        process = subprocess.Popen([*self._before, *command], cwd=self.scratch, umask=0o077, env={**self._environment, **variables},
                                   start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)  # ninja ends compilers, which have groups of their own
            process.communicate()  # until nobody is left who writes into the folder
            raise
        if process.returncode != 0:
            sys.exit(f"{said.decode(errors='replace')[-40000:]}\ntools/reproduce.py: elsewhere this failed: {' '.join(map(str, command))}")

    def without_cache(self, chosen):
        """Has these compiled without the cache, and returns the file that will list which were."""
        names, compiled, stand_in = self.scratch / "chosen", self.scratch / "compiled", self.scratch / "bin/ccache"
        names.write_text("".join(f"{name}\n" for name in chosen), encoding="utf-8")
        compiled.touch()
        stand_in.parent.mkdir()
        stand_in.write_text(SOME_WITHOUT_CACHE.format(chosen=shlex.quote(str(names)), compiled=shlex.quote(str(compiled)),
                                                      ccache=shlex.quote(shutil.which("ccache"))), encoding="utf-8")
        stand_in.chmod(0o755)
        self._environment["PATH"] = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
        return compiled

    def _copy_tree(self):
        """A clone, because the build asks git for its commit; and what is not committed."""
        self.run("git", "clone", "--quiet", "--shared", ROOT, self.tree)
        changed = git("diff", "--name-only", "--no-renames", "-z", "HEAD") + git("ls-files", "--others", "--exclude-standard", "-z")
        for name in filter(None, changed.split("\0")):
            if name.endswith("/"):
                continue  # another repository
            target = self.tree / name
            target.unlink(missing_ok=True)
            if os.path.lexists(ROOT / name):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target, follow_symlinks=False)


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def build(elsewhere, everything, with_debs):
    """How many objects were compiled without the cache, and the folder of the packages."""
    tools, made = elsewhere.tree / "tools", elsewhere.scratch / "made"
    chosen = [] if everything else tenth(objects_here(), git("rev-parse", "HEAD"))
    compiled = elsewhere.without_cache(chosen)
    variables = {"CCACHE_DISABLE": "1", "XDG_CACHE_HOME": str(elsewhere.scratch / "cache")} if everything else {}
    for kind in ("wheel", "tarball", *["deb"] * with_debs):
        elsewhere.run(sys.executable, tools / f"build_{kind}.py", made, **variables)
    if everything:
        return len(list((elsewhere.tree / "build/wheel").rglob("*.o"))), made
    missed = set(chosen) - set(compiled.read_text(encoding="utf-8").splitlines())
    if missed:
        fail(f"not compiled without the cache: {', '.join(sorted(missed, key=pathlib.PurePath))}")
    return len(chosen), made


def objects_here():
    """Those of which the programs are made, from the folder of the build. In the folder itself there may be others, of yesterday."""
    inputs = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", *LINKED, SHARED], check=True, stdout=subprocess.PIPE, text=True).stdout
    return sorted((name for name in inputs.splitlines() if name.endswith(".o")), key=pathlib.PurePath)


def tenth(items, commit):
    """One of ten parts, of which none is empty."""
    parts = min(10, len(items))
    return items[int(commit, 16) % parts::parts]


def show(here, there):
    if not here.exists():
        return
    if not shutil.which("diffoscope"):
        print("tools/reproduce.py: with Debian's diffoscope-minimal this shows the first difference", file=sys.stderr)
        return
    subprocess.run(["diffoscope", "--no-progress", "--max-text-report-size", "20000", here, there], check=False, stdout=sys.stderr)


if __name__ == "__main__":
    main()
