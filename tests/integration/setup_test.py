# SPDX-License-Identifier: Apache-2.0
"""The scripts that prepare a machine, where the machine is not as they want it. Stand-ins for apt-get and others come
first in PATH; nothing is installed."""

import os
import pathlib
import re
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path):
    """Runs a script of the tree with stand-ins: machine(command, name=script, ...)."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def run(*command, env=None, cwd=ROOT, **programs):
        programs.setdefault("sleep", "exit 0")
        for name, text in programs.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        environment = {"PATH": f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path),
                       "CALLS": str(tmp_path / "calls"), **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.run([str(part) for part in command], env=environment, cwd=cwd, text=True,
                              capture_output=True, timeout=60, check=False)

    run.calls = lambda: (tmp_path / "calls").read_text().splitlines()
    return run


def test_two_bare_roots_at_once_have_downloads_of_their_own(tmp_path):
    """apt gives up where another holds the lock of its downloads."""
    root = [ROOT / "tools/bare_root.sh", "--warm", "--bind", f"{tmp_path}:/meet", "--"]
    hold = """use Fcntl;
        open my $lock, '>', '/var/cache/apt/archives/lock' or die;
        my $all = pack 's s x4 q q l x4', F_WRLCK, 0, 0, 0, 0;
        fcntl $lock, F_SETLK, $all or die;
        mkdir '/meet/held';
        <>"""
    with subprocess.Popen([*root, "perl", "-e", hold], stdin=subprocess.PIPE) as holder:
        try:
            while not (tmp_path / "held").exists():
                assert holder.poll() is None
                time.sleep(0.05)
            other = subprocess.run([*root, "apt-get", "clean"], capture_output=True, text=True, check=False)
            assert other.returncode == 0, other.stderr
        finally:
            holder.stdin.close()
    assert holder.returncode == 0


NOTHING_INSTALLED = "exit 1"
INSTALL = ROOT / "tools/install_packages.sh"


def test_a_mirror_that_fails_in_the_middle_is_tried_again(machine):
    done = machine(INSTALL, "build", dpkg_query=NOTHING_INSTALLED, dpkg="exit 0", id="echo 0", apt_get="""
echo "$1" >> "$CALLS"
[ "$1" = update ] && exit 0
[ "$(grep -c install "$CALLS")" -ge 2 ] && exit 0
echo "E: Failed to fetch pool/g++.deb  502  Bad Gateway" >&2; exit 100""")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == ["update", "install", "update", "install"]
    assert "attempt 1 of 3 failed: E: Failed to fetch pool/g++.deb  502  Bad Gateway" in done.stderr
    assert "trying again in 5 s" in done.stderr


def test_a_mirror_that_stays_away_ends_it_clearly(machine):
    done = machine(INSTALL, "build", dpkg_query=NOTHING_INSTALLED, dpkg="exit 0", id="echo 0", apt_get="""
echo "$1" >> "$CALLS"
echo "E: Failed to fetch lists  Could not resolve" >&2; exit 100""")
    assert done.returncode == 1
    assert machine.calls().count("install") == 3
    assert "attempt 3 of 3 failed" in done.stderr
    assert re.search(r"gave up after 3 attempts\. Packages that are installed stay", done.stderr)


def test_a_list_that_does_not_come_is_no_fault_if_the_packages_do(machine):
    done = machine(INSTALL, "build", dpkg_query=NOTHING_INSTALLED, dpkg="exit 0", id="echo 0",
                   apt_get='[ "$1" = install ]')
    assert done.returncode == 0 and not done.stderr


def test_a_full_disk_is_not_tried_three_times(machine):
    done = machine(INSTALL, "build", dpkg_query=NOTHING_INSTALLED, dpkg="exit 0", id="echo 0", apt_get="""
echo "$1" >> "$CALLS"
echo "E: You don't have enough free space in /var/cache/apt/archives/." >&2; exit 100""")
    assert done.returncode == 1 and "the disk is full" in done.stderr
    assert machine.calls().count("install") == 1


def test_who_is_not_root_is_told_what_root_has_to_do(machine):
    done = machine(INSTALL, "build", dpkg_query=NOTHING_INSTALLED, id="echo 1000", apt_get="exit 99")
    assert done.returncode == 1
    assert "not root" in done.stderr and "apt-get install g++ cmake" in done.stderr


def test_packages_are_everybodys_whatever_the_umask(machine):
    done = machine("sh", "-c", f"umask 077; exec {INSTALL} build", dpkg_query=NOTHING_INSTALLED, dpkg="exit 0",
                   id="echo 0", apt_get='[ "$1" = install ] && umask >> "$CALLS"; exit 0')
    assert done.returncode == 0 and machine.calls() == ["0022"]


ALL_INSTALLED = "echo 'ii '"


def test_an_old_cmake_is_named(machine):
    done = machine(ROOT / "quickstart", dpkg_query=ALL_INSTALLED, cmake="echo cmake version 3.18.4")
    assert done.returncode == 1
    assert re.search(r"quickstart: \S+/cmake is CMake 3\.18\.4; hvdray needs 3\.25 or later", done.stderr)


@pytest.mark.parametrize("script", ["horovod_env.sh", "ray_env.sh"])
def test_a_cache_that_cannot_be_written_is_named(machine, script):
    done = machine(ROOT / "tools" / script, env={"XDG_CACHE_HOME": "/proc"})
    assert done.returncode == 1
    assert f"{script}: cannot write to /proc/hvdray; set XDG_CACHE_HOME" in done.stderr


def test_without_home_the_cache_is_in_the_users_own(machine):
    done = machine("bash", "-c", f'source {ROOT}/tools/machine.sh; echo "$HOME"', env={"HOME": None})
    assert done.stdout.strip() == os.path.expanduser("~root" if os.getuid() == 0 else "~")


def test_a_clone_in_a_path_with_blanks_and_umlauts(machine, tmp_path):
    """The scripts quote their paths; the build itself is tried in the bare root."""
    clone = tmp_path / "Häuser und Höfe"
    (clone / "tools").mkdir(parents=True)
    for name in ("quickstart", "tools/install_packages.sh", "tools/machine.sh"):
        (clone / name).write_bytes((ROOT / name).read_bytes())
        (clone / name).chmod(0o755)
    done = machine(clone / "quickstart", cwd=clone, dpkg_query=ALL_INSTALLED, cmake="""
[ "$1" = --version ] && echo cmake version 3.25.1 || { echo "$PWD" >> "$CALLS"; exit 1; }""")
    assert machine.calls() == [str(clone)]
    assert "quickstart: failed: cmake --preset release" in done.stderr


@pytest.fixture
def check(machine, tmp_path):
    """./check in a tree whose other scripts only say how they were called: check(commit, word, ...)."""
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    for name in ("check", "tools/machine.sh"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
        (tree / name).chmod(0o755)
    for name in ("install_packages.sh", "horovod_env.sh", "ray_env.sh", "moto_env.sh", "optuna_env.sh", "course_env.sh", "postgres_env.sh", "other_pythons.sh", "frameworks_env.sh", "run_tests.py"):
        script = tree / "tools" / name
        script.write_text('#!/bin/sh\necho "${0##*/} $*" >> "$CALLS"\n')
        script.chmod(0o755)

    def run(commit, *words):
        return machine(tree / "check", *words, cwd=tree, git=f"echo {commit}", ctest="echo Test '#1: tsan'",
                       cmake='[ "$1" = --version ] && echo cmake version 3.25.1 || echo "cmake $*" >> "$CALLS"')

    return run


@pytest.mark.parametrize("commit,words,left_out", [
    ("0000003", [], "third_[^0]"), ("0000004", [], "third_[^1]"), ("fffffff", [], "third_[^0]"),
    ("0000004", ["--fast"], "third_."), ("0000004", ["--all"], "none")])
def test_the_commit_decides_which_third_of_the_rest_runs(check, machine, commit, words, left_out):
    done = check(commit, *words)
    assert done.returncode == 0, done.stderr
    calls = machine.calls()
    assert calls[-1].startswith("run_tests.py --build build/release --step ") and calls[-1].endswith(f" -LE ^{left_out}$")
    assert calls.index("run_tests.py --begin") < calls.index("horovod_env.sh ")
    assert ("cmake --build build/tsan --target threaded_tests" in calls) == (words != ["--fast"])


def test_check_says_that_it_is_configured(check, machine):
    done = check("0000000", "--configure")
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("== done: ")
    assert not any("run_tests.py" in call or "--build" in call for call in machine.calls())


def test_check_names_its_options(check):
    done = check("0000000", "--quick")
    assert done.returncode == 2 and done.stderr == "usage: ./check [--all | --fast] [--configure]\n"


def test_each_third_of_the_rest_has_its_share():
    """Files of the rest exist, once each, and those that always run are the others."""
    text = (ROOT / "tests/integration/CMakeLists.txt").read_text()
    rest = [name for third in re.findall(r"^set\(rest_[012] ([^)]*)\)", text, re.M) for name in third.split()]
    files = {path.name[:-len("_test.py")] for path in (ROOT / "tests/integration").glob("*_test.py")}
    assert len(rest) == len(set(rest)) and {name.removesuffix("_rest") for name in rest} < files
