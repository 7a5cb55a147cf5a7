# SPDX-License-Identifier: Apache-2.0
"""The wheel, in an empty environment on a machine that has no network, no compiler and none of hvdray's libraries."""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile

import pytest
from python_program import ROOT

VERSION = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]

# A life of the library that hvdray.torch loads.
LIBRARY = """\
import ctypes, sys, sysconfig
library = ctypes.CDLL(sysconfig.get_path("data") + "/lib/hvdray/libhvdray.so.0")
library.hvdray_async_free.argtypes = [ctypes.c_void_p]
ranks = ctypes.c_void_p()
print(library.hvdray_async_init(b"wheel", ctypes.byref(ranks)))
library.hvdray_async_free(ranks)
"""

# The first steps of a newcomer.
PROGRAM = """\
import hvdray, os, sys

class Counter:
    def __init__(self, start):
        self.n = start
    def add(self, k):
        self.n += k
        return self.n

with hvdray.Executor(2) as executor:
    print(executor.run(lambda x: (int(os.environ["HOROVOD_RANK"]), x), [7]))
print(hvdray.run(lambda: os.path.dirname(sys.executable), num_proc=1)[0])
executor = hvdray.Executor(2)
executor.start(Counter, [10])
for k in range(5):
    values = executor.execute(lambda counter: counter.add(k))
print(values)
executor.shutdown()
"""


def readme_lines():
    """What README.md has newcomers type first."""
    below = (ROOT / "README.md").read_text().split("\nFrom Python, after ", 1)[1].splitlines()
    first = next(n for n, line in enumerate(below) if line.startswith("    "))
    end = next(n for n, line in enumerate(below) if n > first and line and not line.startswith("    "))
    return textwrap.dedent("\n".join(below[first:end]))


def output_of(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return output_of(sys.executable, ROOT / "tools/build_wheel.py", tmp_path_factory.mktemp("wheel")).strip()


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment's folder."""
    folder = tmp_path_factory.mktemp("environment")
    output_of(sys.executable, "-m", "venv", folder)
    packages = folder / "packages"
    output_of(folder / "bin/pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--dest", packages, "cloudpickle>=2.2")
    output_of("unshare", "-n", folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--find-links", packages, wheel)
    return folder


def test_its_name_says_where_it_runs_and_which_version_it_is(wheel):
    assert re.search(rf"/hvdray-{re.escape(VERSION)}-py3-none-manylinux_2_(3[4-9])_\w+\.whl$", wheel), wheel


def test_its_extra_brings_optuna_and_without_it_tune_says_so(wheel, installed, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    assert re.search(r"""Requires-Dist: optuna[<>=,0-9]+ *; *extra == ['"]tune['"]""", metadata), metadata
    result = subprocess.run([installed / "bin/hvdray", "tune", "none.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (125, "  hint: pip install 'optuna>=5,<6'"), result


def test_it_lists_what_it_contains(wheel, installed):
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name.split("/")[-1] for name in archive.namelist() if "/licenses/lib" in name}
    bill = json.loads(next(installed.rglob("hvdray-*.dist-info/sboms/hvdray.cdx.json")).read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["version"]) == ("CycloneDX", "1.6", VERSION)
    listed = {part["name"]: part for part in bill["components"]}
    assert shipped and shipped | {"libssl-dev", "libevent-dev", "nlohmann-json3-dev", "libstdc++-12-dev"} <= set(listed)
    version = output_of("dpkg-query", "-W", "-f", "${Version}", "libssl-dev")
    assert listed["libssl-dev"]["purl"].startswith(f"pkg:deb/debian/libssl-dev@{version}?arch=")


def test_its_programs_need_nothing_but_glibc(installed):
    files = ("bin/hvdray", "bin/hvdray-bench", "lib/hvdray/libhvdray.so.0")
    lines = [line for name in files for line in output_of("ldd", installed / name).splitlines()]
    assert len(lines) > 16
    for line in lines:
        assert re.search(rf"linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|resolv)\.so|{re.escape(str(installed))}/", line), line
    agent = subprocess.run(["ldd", installed / "bin/hvdray-agent"], capture_output=True, text=True)
    assert "statically linked" in agent.stdout or "not a dynamic executable" in agent.stderr, agent


def test_its_library_is_found_and_runs(installed):
    assert output_of("unshare", "-n", installed / "bin/python", "-c", LIBRARY, env={"PATH": "/usr/bin:/bin"}) == "0\n"


def test_the_lines_of_the_readme_run_without_network_and_compiler(installed, tmp_path):
    program = tmp_path / "first.py"
    program.write_text(readme_lines() + PROGRAM)
    inside = f"/usr/sbin/ip link set lo up && exec env -i PATH={installed}/bin HOME={tmp_path} python {program}"
    out = output_of("unshare", "-n", "/bin/sh", "-c", inside, cwd=tmp_path)
    assert out.splitlines() == ["[('0', 7), ('1', 7)]", "[11, 11]", "[(0, 7), (1, 7)]", str(installed / "bin"), "[20, 20]"]


def test_it_installs_and_runs_under_other_pythons_on_a_bare_machine(wheel, installed, other_pythons, tmp_path):
    """Debian 12 as debootstrap makes it, which has no Python: others, which need no package, are mounted."""
    for path in [wheel, *(installed / "packages").iterdir()]:
        shutil.copy(path, tmp_path)
    (tmp_path / "first.py").write_text(PROGRAM)
    lines = ["set -e; cd /given", "for tool in cc g++ python3 pip ip; do if command -v $tool; then exit 1; fi; done"]
    for n, python in enumerate(other_pythons):
        pip = ":".join(map(str, (python.parents[2] / "wheels").glob("*.whl")))
        lines += [f"{python} -m venv --without-pip /env{n}",
                  f"export PYTHONPATH={pip}",
                  f"unshare -n /env{n}/bin/python -m pip install -q --disable-pip-version-check --no-index --find-links . hvdray",
                  f"env -i PATH=/env{n}/bin HOME=/root python first.py",
                  f"env -i /env{n}/bin/hvdray run -np 1 -- /bin/sh -c 'echo $HOROVOD_SIZE'"]
    out = output_of(ROOT / "tools/bare_root.sh", "--warm", "--bind", f"{tmp_path}:/given", "--", "bash", "-c", "\n".join(lines))
    expected = [["[(0, 7), (1, 7)]", f"/env{n}/bin", "[20, 20]", "[0]<stdout>:1"] for n in range(len(other_pythons))]
    assert out.splitlines() == sum(expected, [])


def test_the_command_is_there_too(installed, tmp_path):
    out = output_of(installed / "bin/hvdray", "run", "-np", "2", "--", "/bin/sh", "-c", "echo $HOROVOD_SIZE", env={"PATH": "/usr/bin:/bin"})
    assert sorted(out.splitlines()) == ["[0]<stdout>:2", "[1]<stdout>:2"]
    for backend in ("shm", "gloo"):
        command = [installed / "bin/hvdray", "bench", "-np", "2", "-b", "1K", "-e", "1K", "--backend", backend]
        assert "all results are right" in output_of(*command, env={"PATH": "/usr/bin:/bin"})


def test_workers_of_another_python_get_its_horovod(installed):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no torch here: apt-get install python3-torch")
    program = "import horovod.torch as hvd, torch; hvd.init(); print(hvd.__file__, hvd.allreduce(torch.ones(1), op=hvd.Sum).item())"
    out = output_of(installed / "bin/hvdray", "run", "-np", "2", "--horovod", "builtin", "--", python, "-c", program,
                    env={"PATH": "/usr/bin:/bin"})
    assert re.findall(rf"({re.escape(str(installed))}\S+/hvdray/torch/__init__.py) 2.0$", out, re.M) and out.count(" 2.0") == 2, out


@pytest.fixture(scope="module")
def static():
    """The folder of a static hvdray and its agent."""
    folder = ROOT / "build/static"
    # As tools/build_wheel.py, for the compiler's cache.
    output_of("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=c++", "-DCMAKE_BUILD_TYPE=Release",
              "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DHVDRAY_UNITY=ON", "-DHVDRAY_TESTS=OFF", "-DHVDRAY_STATIC=ON")
    output_of("cmake", "--build", folder, "--target", "hvdray", "hvdray-agent")
    return folder / "bin"


def apart(*command, inside="", env=None):
    """Runs it in namespaces of its own, after the lines of shell."""
    script = f"set -e; /usr/sbin/ip link set lo up; {inside}; exec \"$@\""
    return output_of("unshare", "-mnpf", "--mount-proc", "/bin/sh", "-c", script, "sh", *map(str, command), env=env)


@pytest.mark.rest
def test_the_static_program_needs_nothing_but_a_kernel(static, tmp_path):
    """A root with busybox alone."""
    assert "statically linked" in output_of("ldd", static / "hvdray")
    for place in ("bin", "proc", "dev", "tmp"):
        (tmp_path / place).mkdir()
    for program in ("/bin/busybox", static / "hvdray", static / "hvdray-agent"):
        shutil.copy(program, tmp_path / "bin")
    (tmp_path / "bin/sh").symlink_to("busybox")
    lines = "hvdray run -np 4 -- sh -c 'echo $HOROVOD_RANK of $HOROVOD_SIZE'; hvdray run -np 1 -H elsewhere:1 -- sh 2>&1 || echo $?"
    out = apart("/usr/sbin/chroot", tmp_path, "/bin/sh", "-c", lines, env={"PATH": "/bin"},
                inside=f"mount --bind /dev {tmp_path}/dev; mount --bind /proc {tmp_path}/proc")
    assert sorted(out.splitlines()[:4]) == [f"[{rank}]<stdout>:{rank} of 4" for rank in range(4)]
    assert "look up elsewhere: getent: no such program" in out and out.endswith("\n125\n")


@pytest.mark.rest
def test_the_static_program_asks_getent_where_a_module_of_the_name_service_is_missing(static, tmp_path):
    (tmp_path / "nsswitch.conf").write_text("passwd: nosuchmodule files\nhosts: nosuchmodule files\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n127.0.0.9 by-its-name\n")
    out = apart(static / "hvdray", "run", "-np", "2", "-H", "by-its-name:2", "--cwd", "~daemon", "--", "pwd",
                inside=f"for file in nsswitch.conf hosts; do mount --bind {tmp_path}/$file /etc/$file; done")
    home = pwd.getpwnam("daemon").pw_dir
    assert sorted(out.splitlines()) == [f"[{rank}]<stdout>:{home}" for rank in range(2)]


@pytest.fixture
def release(tmp_path):
    """Runs tools/release.py in a repository that has what it reads."""
    tree = tmp_path / "tree"
    for file in ("tools/release.py", "CMakeLists.txt", "python/hvdray/__init__.py", ".gitignore"):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-11-23\n\n- The first.\n")
    output_of("git", "init", "-q", tree)

    def run(version=VERSION, *wheel, commit=True):
        if commit:
            output_of("git", "-C", tree, "add", ".")
            output_of("git", "-C", tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
        return subprocess.run([sys.executable, tree / "tools/release.py", version, *wheel], capture_output=True, text=True)

    run.tree = tree
    return run


@pytest.mark.parametrize("file, text, said", [
    ("CHANGELOG.md", "# Changelog\n\n## [V] - 2026-11-23\n\n### Added\n", "section [V] is empty"),
    ("CHANGELOG.md", "## [Unreleased]\n- new\n## [V] - 2026-11-23\n- old\n", "entries above section [V]"),
    ("CHANGELOG.md", "## [V]\n- old\n", "section [V] has no date"),
    ("CHANGELOG.md", "## [0.0.9] - 2026-11-01\n- old\n", "no section [V]"),
    ("python/hvdray/__init__.py", '__version__ = "0.0.9"\n', "__init__.py has version 0.0.9, not V"),
    ("CMakeLists.txt", "project(hvdray VERSION 0.0.9 LANGUAGES CXX)\n", "CMakeLists.txt has version 0.0.9, not V")])
def test_what_is_not_ready_is_not_released(release, file, text, said):
    (release.tree / file).write_text(text.replace("[V]", f"[{VERSION}]"))
    result = release()
    assert result.returncode == 1 and re.sub(r"\bV\b", VERSION, said) in result.stderr, result
    assert result.stdout == "" and not (release.tree / "dist").exists()


def test_what_is_tagged_or_not_committed_is_not_released(release):
    assert "Usage:" in release("1").stderr
    output_of("git", "-C", release.tree, "tag", f"v{VERSION}")
    assert f"a tag v{VERSION} already" in release().stderr
    (release.tree / "new").touch()
    result = release(commit=False)
    assert result.returncode == 1 and "not committed" in result.stderr, result


def test_a_release_has_sums_and_says_how_to_publish_it(wheel, release):
    result = release(VERSION, wheel)
    assert result.returncode == 0, result
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["git", "tag"], ["git", "push"], ["ssh-keygen", "-Y"], ["twine", "upload"]]
    sums = output_of("sha256sum", "-c", "SHA256SUMS", cwd=release.tree / "dist").splitlines()
    assert sums == [f"{wheel.split('/')[-1]}: OK", f"hvdray-{VERSION}.tar.gz: OK"]
    files = output_of("tar", "-tzf", release.tree / f"dist/hvdray-{VERSION}.tar.gz").splitlines()
    assert f"hvdray-{VERSION}/CHANGELOG.md" in files
    assert output_of("git", "-C", release.tree, "tag") == ""
    assert release(VERSION, "other-1.whl", commit=False).returncode == 1
    # Again, with the wheel from there.
    before = {path.name: path.read_bytes() for path in (release.tree / "dist").iterdir()}
    assert release(VERSION, release.tree / "dist" / wheel.split("/")[-1], commit=False).returncode == 0
    assert {path.name: path.read_bytes() for path in (release.tree / "dist").iterdir()} == before
    assert not (release.tree / "dist.new").exists()
    # In another folder, by a user whose git makes private files.
    other = release.tree.parent / "other folder"
    output_of("git", "clone", "-q", release.tree, other)
    output_of("git", "-C", other, "config", "tar.umask", "0077")
    output_of(sys.executable, other / "tools/release.py", VERSION, wheel, umask=0o077, env={**os.environ, "TZ": "Asia/Tokyo"})
    assert {path.name: path.read_bytes() for path in (other / "dist").iterdir()} == before


def test_it_goes_without_a_trace(wheel, installed):
    output_of(installed / "bin/pip", "uninstall", "-q", "-y", "hvdray")
    left = [path for path in installed.rglob("*hvdray*") if "packages" not in str(path)]
    assert not [path for path in left if path.is_file()], left
