# SPDX-License-Identifier: Apache-2.0
"""From the packages of this tree to a trained model: pip beside ruff's wheel, then each kind of package on a machine that has nothing of it."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from harness import ROOT, Measure, Series, alternate, timed
from remote_site import HostsError

RUFF = "ruff==0.17.5"
CLOUDPICKLE = "cloudpickle==3.1.3"
MADE = ROOT / "build/bench_packages"
TRAIN = "run -np 4 -- {bin}hvdray-digits | grep -c 'test accuracy 9'"
# What apt brings is there before; files are written as safely as dpkg does by itself.
ON_DEBIAN = """
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive OMP_NUM_THREADS=1
{{ apt-get update; apt-get satisfy -y --no-install-recommends {needs}; }} >/tmp/said 2>&1 || {{ cat /tmp/said; exit 1; }}
for round in $(seq {rounds}); do
  echo begin
  dpkg -i /given/*.deb >/dev/null
  hvdray {train}
  echo end
  dpkg --purge hvdray python3-hvdray >/dev/null
done
"""


def output_of(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostsError(f"{command[0]}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def made(context, tool, pattern):
    """The files that a tool packs from this tree, or has packed."""
    if not context.packages:
        output_of(sys.executable, ROOT / f"tools/build_{tool}.py", MADE)
    version = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    found = sorted((context.packages or MADE).resolve().glob(pattern.format(version)))
    if not found:
        raise HostsError(f"{context.packages} has no {pattern.format(version)}")
    return found


def downloaded(venv, package):
    """A wheel of PyPI, kept in the user's cache."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hvdray" / package.replace("==", "-")
    if not list(cache.glob("*.whl")):
        output_of(venv / "bin/pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--dest", cache, package)
    return next(cache.glob("*.whl"))


def fresh(folder):
    output_of("/usr/bin/python3", "-m", "venv", folder)
    return folder


def pip(context):
    (wheel,) = made(context, "wheel", "hvdray-{}-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        venv = fresh(pathlib.Path(scratch) / "env")
        output_of(venv / "bin/pip", "install", "-q", downloaded(venv, CLOUDPICKLE))

        def install(name, file):
            output_of(venv / "bin/pip", "uninstall", "-q", "-y", name)
            return timed([venv / "bin/pip", "install", "-q", "--no-index", file])

        ruff = downloaded(venv, RUFF)
        series = alternate({"hvdray": lambda: install("hvdray", wheel), RUFF: lambda: install("ruff", ruff)}, context.rounds(9))
    return [Measure("pip install of the wheel, a local file, into a ready environment", "s", series, "≤ 1.5 × ruff")]


def first(context):
    """Contenders that one machine can try in turn; Debian's packages need a root of their own."""
    (wheel,), (tarball,), debs = (made(context, *kind) for kind in (
        ("wheel", "hvdray-{}-*.whl"), ("tarball", "hvdray-{}-linux-*.tar.gz"), ("deb", "*hvdray_{}_*.deb")))
    with tempfile.TemporaryDirectory() as scratch:
        needed = downloaded(fresh(pathlib.Path(scratch) / "env"), CLOUDPICKLE).parent

    def from_nothing(*lines):
        with tempfile.TemporaryDirectory() as folder:
            return timed(["bash", "-c", "\n".join(["set -euo pipefail", f"cd {folder}", *lines])])

    by_pip = ("/usr/bin/python3 -m venv env", f"env/bin/pip install -q --no-index --find-links {shlex.quote(str(needed))} {shlex.quote(str(wheel))}",
              f"env/bin/hvdray {TRAIN.format(bin='env/bin/')}")
    by_tar = (f"tar -xzf {shlex.quote(str(tarball))} --strip-components=1", f"bin/hvdray {TRAIN.format(bin='bin/')}")
    series = alternate({"venv, pip install, digits": lambda: from_nothing(*by_pip), "tar, digits": lambda: from_nothing(*by_tar)}, context.rounds(5))
    if os.getuid() == 0:
        series.append(Series("dpkg -i, digits", on_debian(debs, context.rounds(5))))
    return [Measure("nothing → installed → digits trained by 4 workers", "s", series, "≤ 10 s by pip, ≤ 5 s by tarball and Debian's packages")]


def on_debian(debs, rounds):
    needs = ", ".join(part for deb in debs for part in output_of("dpkg-deb", "-f", deb, "Depends").strip().split(", ") if not part.startswith("hvdray "))
    with tempfile.TemporaryDirectory() as folder:
        for deb in debs:
            shutil.copy(deb, folder)
        script = ON_DEBIAN.format(needs=shlex.quote(needs), rounds=1 + rounds, train=TRAIN.format(bin="/usr/bin/"))
        command = [ROOT / "tools/bare_root.sh", "--bind", f"{folder}:/given", "--", "bash", "-c", script]
        begins, ends, said = [], [], []
        marks = {"begin\n": begins, "end\n": ends}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line in marks:
                    marks[line].append(time.monotonic())
                else:
                    said.append(line)
    if process.returncode != 0 or len(ends) != 1 + rounds:
        raise HostsError(f"Debian's packages: {''.join(said)[-2000:]}")
    return [end - begin for begin, end in zip(begins, ends)][1:]  # the first one warms up


MEASURES = {"install.pip": pip, "install.first": first}
