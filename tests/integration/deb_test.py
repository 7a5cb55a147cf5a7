# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: built from git's files without network, checked by lintian, and used on a bare Debian, by autopkgtest and piuparts too."""

import re
import shutil
import subprocess
import sys

import pytest
from python_program import ROOT

VERSION = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def output_of(*command, cwd=None):
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1500)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Their files by name."""
    folder = tmp_path_factory.mktemp("deb")
    made = output_of("unshare", "-n", sys.executable, ROOT / "tools/build_deb.py", folder).split()
    assert sorted(made) == sorted(map(str, folder.iterdir()))
    return {path.name.split("_")[0]: path for path in folder.iterdir()}


def field(package, name):
    return output_of("dpkg-deb", "-f", package, name).strip()


def test_they_have_the_version_of_all_parts(packages):
    changes = re.match(r"hvdray \((\S+)\)", (ROOT / "debian/changelog").read_text())[1]
    assert set(packages) == {"hvdray", "python3-hvdray"}
    assert [changes] + [field(package, "Version") for package in packages.values()] == [VERSION] * 3


def test_all_that_a_build_needs_is_named():
    named = re.search(r"(?ms)^Build-Depends: (.*?)\n\n", (ROOT / "debian/control").read_text())[1]
    installed = re.search(r'\[build\]="(.*?)"', (ROOT / "tools/install_packages.sh").read_text(), re.S)[1]
    # g++ is in build-essential; the others are for checkouts and for speed.
    needed = set(installed.split()) - {"g++", "git", "ca-certificates", "ccache"}
    assert needed <= {part.split()[0] for part in named.split(",")}


def test_their_files_are_where_debian_has_such(packages):
    files = {name: {line.split()[5].removeprefix("."): line.split()[0] for line in output_of("dpkg-deb", "-c", path).splitlines()}
             for name, path in packages.items()}
    assert all(path.startswith("/usr/") for path in [*files["hvdray"], *files["python3-hvdray"]] if path not in ("/", "/usr"))
    assert files["hvdray"]["/usr/libexec/hvdray/hvdray-agent"] == "-rwxr-xr-x" and "/usr/bin/hvdray-agent" not in files["hvdray"]
    assert {"/usr/bin/hvdray", "/usr/bin/horovodrun", "/usr/bin/hvdray-bench", "/usr/bin/hvdray-digits",
            "/usr/lib/hvdray/libhvdray.so.0", "/usr/share/bash-completion/completions/horovodrun",
            "/usr/share/zsh/vendor-completions/_hvdray", "/usr/share/fish/vendor_completions.d/hvdray.fish",
            "/usr/share/man/man1/hvdray-run.1.gz", "/usr/share/man/man1/horovodrun.1.gz", "/usr/share/man/man5/hvdray-job.5.gz",
            "/usr/share/doc/hvdray/copyright", "/usr/share/doc/hvdray/CHANGELOG.md",
            "/usr/share/hvdray/digits.csv"} <= set(files["hvdray"])
    assert {"/usr/lib/python3/dist-packages/hvdray/__init__.py", "/usr/lib/python3/dist-packages/hvdray/py.typed",
            "/usr/lib/hvdray/python/hvdray"} <= set(files["python3-hvdray"])


def test_the_sources_of_the_static_agent_are_named(packages):
    named = dict(re.findall(r"(\S+) \(= (\S+)\)", field(packages["hvdray"], "Static-Built-Using")))
    form = "${source:Version}"
    assert named["openssl"] == output_of("dpkg-query", "-W", "-f", form, "libssl-dev")
    assert named["glibc"] == output_of("dpkg-query", "-W", "-f", form, "libc6-dev")
    assert {"libevent", "gcc-12"} <= set(named)


# Each line is printed as it is read, so that a failure shows where; what apt and dpkg say comes only then.
INSIDE = r"""
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive HOME=/home/ann
unset XDG_CACHE_HOME
quietly() { "$@" >/tmp/said 2>&1 || { cat /tmp/said; return 1; }; }
files() { find / -xdev -path /tmp -prune -o -path "$HOME" -prune -o -printf '%y %p %l\n' | sort; }
mkdir $HOME && cd $HOME
quietly apt-get update
quietly apt-get satisfy -y --no-install-recommends "$1"
files >/tmp/before
# For piuparts: this machine, which has what they need, and no sources of packages, so that nothing else changes.
mkdir /tmp/base
tar -C / --one-file-system --exclude=./tmp --exclude=./root/hvdray -cf - . | tar -C /tmp/base -xf -
rm -f /tmp/base/etc/apt/sources.list /tmp/base/etc/apt/sources.list.d/*
mkdir -m 1777 /tmp/base/tmp
quietly dpkg -i /given/*.deb
echo "== digits"
hvdray run --cluster /usr/share/doc/hvdray/configs/quickstart.yaml
echo "== check"
PATH=/given/env/bin:$PATH hvdray check -np 1 -- sh
echo "== left"
quietly dpkg --remove hvdray python3-hvdray
dpkg-query -W -f '${Package} ${db:Status-Status}\n' '*hvdray*' | grep -v ' not-installed$' || true
quietly dpkg --purge hvdray python3-hvdray
files | diff /tmp/before - || true
quietly apt-get install -y --no-install-recommends autopkgtest piuparts
echo "== piuparts"
quietly unshare -n piuparts --existing-chroot /tmp/base --hard-link --keep-sources-list --no-eatmydata --no-upgrade-test \
  --distribution bookworm --bindmount /given --testdebs-repo /given /given/*.deb
grep -o 'PASS: .*' /tmp/said
echo "== autopkgtest"
quietly autopkgtest --output-dir /tmp/results /given/*.deb /root/hvdray -- null
cat /tmp/results/summary
"""


def test_they_work_and_go_without_a_trace_on_a_bare_machine(packages, hvdray, tmp_path):
    """What they need comes by apt. A hvdray of another package is in front of theirs."""
    for path in packages.values():
        shutil.copy(path, tmp_path)
    (tmp_path / "Packages").write_text(output_of("dpkg-scanpackages", ".", cwd=tmp_path))
    (tmp_path / "env/bin").mkdir(parents=True)
    for program in (hvdray.binary, hvdray.agent):
        shutil.copy(program, tmp_path / "env/bin")
    needs = ", ".join(part for package in packages.values() for part in field(package, "Depends").split(", ")
                      if not part.startswith("hvdray "))
    out = output_of(ROOT / "tools/bare_root.sh", "--warm", "--bind", f"{tmp_path}:/given", "--", "bash", "-c", INSIDE, "bash", needs)
    said = dict(re.findall(r"(?ms)^== (\S+)\n(.*?)(?=^== |\Z)", out))
    accuracy = re.search(r"test accuracy ([\d.]+) % of \d+ images, 4 workers", said["digits"])
    assert accuracy and float(accuracy[1]) > 90, out
    named = re.search(r"warning: PATH has another hvdray: (\S+) is hvdray (\S+) .*; this one, (\S+), is hvdray (\S+)", said["check"])
    assert named and named.groups() == ("/usr/bin/hvdray", VERSION, "/given/env/bin/hvdray", VERSION), out
    assert said["left"] == "", out
    assert said["piuparts"].splitlines() == ["PASS: Installation and purging test.", "PASS: All tests."], out
    assert re.findall(r"(?m)^(\S+) +(\S+)", said["autopkgtest"]) == [("digits", "PASS"), ("check", "PASS"), ("python", "PASS")], out
