# SPDX-License-Identifier: Apache-2.0
"""The wheel and the tarball, on machines that have no network, no compiler and none of hvdray's libraries, and what a release is made of."""

import hashlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest
from python_program import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import sbom  # noqa: E402

VERSION = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]

PROGRAMS = ("hvdray", "hvdray-agent", "hvdray-bench", "hvdray-digits")

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
    below = (ROOT / "README.md").read_text().split("\nFrom Python, after ", 1)[1]
    return below.split("```python\n", 1)[1].split("```\n", 1)[0]


def output_of(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(request):
    (path,) = pathlib.Path(request.config.getoption("--packages")).glob(f"hvdray-{VERSION}-*.whl")
    return str(path)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment's folder."""
    folder = tmp_path_factory.mktemp("environment")
    output_of(sys.executable, "-m", "venv", folder)
    packages = folder / "packages"
    packages.mkdir()
    for path in pathlib.Path(wheel).parent.glob("cloudpickle-*.whl"):
        shutil.copy(path, packages)
    output_of("unshare", "-n", folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--find-links", packages, wheel)
    return folder


def test_its_name_says_where_it_runs_and_which_version_it_is(wheel):
    assert re.search(rf"/hvdray-{re.escape(VERSION)}-py3-none-manylinux_2_17_(\w+)\.musllinux_1_1_\1\.whl$", wheel), wheel


def test_its_extra_brings_optuna_and_without_it_tune_says_so(wheel, installed, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    assert re.search(r"""Requires-Dist: optuna[<>=,0-9]+ *; *extra == ['"]tune['"]""", metadata), metadata
    result = subprocess.run([installed / "bin/hvdray", "tune", "none.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (125, "  hint: pip install 'optuna>=5,<6'"), result


def test_it_says_what_it_is_and_has_completions(installed):
    about = output_of(installed / "bin/python", "-c", "from importlib.metadata import metadata as m; print(m('hvdray'))").split("\n\n")[0]
    assert re.search(r"^License-Expression: Apache-2.0$", about, re.M) and "Classifier: Operating System :: POSIX :: Linux" in about, about
    for file in ("bash-completion/completions/hvdray", "zsh/site-functions/_hvdray", "fish/vendor_completions.d/hvdray.fish"):
        assert (installed / "share" / file).stat().st_size > 0, file


def test_it_lists_what_it_contains(wheel, installed):
    bill = json.loads(next(installed.rglob("hvdray-*.dist-info/sboms/hvdray.cdx.json")).read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["version"]) == ("CycloneDX", "1.6", VERSION)
    listed = {part["name"]: part for part in bill["components"]}
    assert {"libssl-dev", "libssh2-1-dev", "libevent-dev", "nlohmann-json3-dev", "libstdc++-12-dev", "libgcc-12-dev", "libc6-dev",
            "libzip", "gloo", "cpp-httplib", "glibc"} <= set(listed)
    version = output_of("dpkg-query", "-W", "-f", "${Version}", "libssl-dev")
    assert listed["libssl-dev"]["purl"].startswith(f"pkg:deb/debian/libssl-dev@{version}?arch=")
    assert listed["libssl-dev"]["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    hashes = {file["name"]: file["hashes"][0]["content"] for file in listed["libssl-dev"]["components"]}
    library = output_of("g++", "-print-file-name=libcrypto.a").strip()
    assert hashes["libcrypto.a"] == output_of("sha256sum", library).split()[0] and set(hashes) == {"libcrypto.a", "libssl.a"}


def test_it_has_the_licences_of_what_it_contains(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/licenses/" in name]
        text = archive.read(next(name for name in names if name.endswith("/THIRD-PARTY-NOTICES"))).decode()
    assert len(names) == 2 and any(name.endswith("/LICENSE") for name in names), names
    for said in ("GNU LESSER GENERAL PUBLIC LICENSE", "You may change it and link the programs again", "GCC RUNTIME LIBRARY EXCEPTION",
                 "CC BY 4.0", "Copyright (c) 2017-present, Facebook", "OpenSSL", "libzip"):
        assert said in text, said


def test_a_part_without_an_owner_or_a_licence_is_an_error(monkeypatch, tmp_path):
    stray = tmp_path / "libstray.a"
    stray.touch()
    with pytest.raises(SystemExit, match=f"{stray} was compiled or linked, and no package has it"):
        sbom.parts([str(stray)])
    monkeypatch.setattr(sbom, "made", lambda: [(str(stray), {"name": "stray", "copyright": str(tmp_path / "none")})])
    with pytest.raises(SystemExit, match="stray has no licence"):
        sbom.parts([str(stray)])


def is_static(program):
    return not re.search(r"INTERP|NEEDED", output_of("readelf", "-W", "-l", "-d", program))


def test_its_programs_need_nothing_and_its_library_only_glibc(installed):
    assert [name for name in PROGRAMS if not is_static(installed / "bin" / name)] == []
    library = installed / "lib/hvdray/libhvdray.so.0"
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-W", "-d", library))
    assert "libc.so.6" in needed and not [name for name in needed if not re.match(r"lib(c|m|pthread|dl|gcc_s)\.so|ld-linux", name)], needed
    # With more names, a libstdc++ of another version in the same process would take its calls.
    defined = re.findall(r" [TWVDBRu] (\S+)", output_of("nm", "-D", "--defined-only", library))
    assert "hvdray_async_init" in defined and {name[:7] for name in defined} == {"hvdray_"}


def test_no_program_names_the_folders_that_it_was_built_in(installed):
    """Not in messages of ours or of Gloo: a user's name is in them, and so the bytes would be another's."""
    folders = [os.fsencode(ROOT), output_of(ROOT / "tools/static_libraries.sh").strip().encode()]
    files = [*(installed / "bin" / name for name in PROGRAMS), installed / "lib/hvdray/libhvdray.so.0"]
    assert [file for file in files for folder in folders if folder in file.read_bytes()] == []


def test_its_library_is_found_and_runs(installed):
    assert output_of("unshare", "-n", installed / "bin/python", "-c", LIBRARY, env={"PATH": "/usr/bin:/bin"}) == "0\n"


def test_its_library_says_that_it_needs_glibc_where_there_is_none(installed, tmp_path):
    """Where the loader can't load it, and confstr() does what musl's does."""
    (tmp_path / "libhvdray.so.0").touch()
    program = ("import os\ndef confstr(name): raise OSError(22, 'Invalid argument')\nos.confstr = confstr\n"
               "from hvdray._async import _library\ntry: _library.load()\nexcept ImportError as error: print(error)")
    said = output_of(installed / "bin/python", "-c", program, env={"HVDRAY_LIBRARY": str(tmp_path / "libhvdray.so.0")})
    assert "libhvdray.so.0: file too short. It needs glibc 2.17 or later, and this Python has another C library" in said


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
    assert output_of(installed / "bin/python", "-m", "hvdray", "--version").startswith(f"hvdray {VERSION} ")
    for backend in ("shm", "gloo"):
        command = [installed / "bin/hvdray", "bench", "-np", "2", "-b", "1K", "-e", "1K", "--backend", backend]
        assert "all results are right" in output_of(*command, env={"PATH": "/usr/bin:/bin"})


FOUND = "from hvdray import _binary; print(_binary.find_binary())"


def test_a_package_takes_the_programs_that_were_installed_with_it(wheel, installed, tmp_path):
    """And not those of the Python that imports it."""
    for option, package in (("--prefix", "lib/python*/site-packages/hvdray"), ("--target", "hvdray")):
        folder = tmp_path / option
        output_of("unshare", "-n", installed / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--ignore-installed",
                  option, folder, wheel)
        (path,) = folder.glob(package)
        assert output_of(installed / "bin/python", "-c", FOUND, env={**os.environ, "PYTHONPATH": str(path.parent)}) == f"{folder}/bin/hvdray\n"


def test_a_folder_where_no_programs_run_is_named(installed):
    """Whatever hvdray is on PATH."""
    bound = f"mount --bind {installed} {installed}; mount -o remount,bind,noexec {installed}"
    said = apart("sh", "-c", '! "$@" 2>&1', "sh", installed / "bin/python", "-c", FOUND, inside=bound)
    assert f"HvdrayError: {installed}/bin/hvdray may not be executed\n" in said and "noexec" in said, said


def test_workers_of_another_python_get_its_horovod(installed):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no torch here: apt-get install python3-torch")
    program = "import horovod.torch as hvd, torch; hvd.init(); print(hvd.__file__, hvd.allreduce(torch.ones(1), op=hvd.Sum).item())"
    out = output_of(installed / "bin/hvdray", "run", "-np", "2", "--horovod", "builtin", "--", python, "-c", program,
                    env={"PATH": "/usr/bin:/bin"})
    assert re.findall(rf"({re.escape(str(installed))}\S+/hvdray/torch/__init__.py) 2.0$", out, re.M) and out.count(" 2.0") == 2, out


@pytest.fixture(scope="module")
def tarball(wheel, tmp_path_factory):
    return output_of(sys.executable, ROOT / "tools/build_tarball.py", tmp_path_factory.mktemp("tarball")).strip()


@pytest.fixture(scope="module")
def unpacked(tarball, tmp_path_factory):
    """Its folder, under one with a blank in its name."""
    folder = tmp_path_factory.mktemp("un packed")
    output_of("tar", "-xzf", tarball, "-C", folder)
    return folder / os.path.basename(tarball).removesuffix(".tar.gz")


def apart(*command, inside="", env=None):
    """Runs it in namespaces of its own, after the lines of shell."""
    script = f"set -e; /usr/sbin/ip link set lo up; {inside}; exec \"$@\""
    return output_of("unshare", "-mnpf", "--mount-proc", "/bin/sh", "-c", script, "sh", *map(str, command), env=env)


@pytest.fixture
def busybox_root(tmp_path):
    """Runs lines of shell in a root that has busybox alone, and what was put into its folder."""
    root = tmp_path / "root"
    for place in ("bin", "proc", "dev", "tmp"):
        (root / place).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for name in output_of("/bin/busybox", "--list").splitlines():
        if name in ("sh", "cp", "ln", "mkdir", "rm", "tar", "gzip"):
            (root / "bin" / name).symlink_to("busybox")

    def run(lines):
        return apart("/usr/sbin/chroot", root, "/bin/sh", "-e", "-c", lines, env={"PATH": "/bin"},
                     inside=f"mount --bind /dev {root}/dev; mount --bind /proc {root}/proc")

    run.folder = root
    return run


def test_the_tarball_has_all_that_a_person_needs(tarball, unpacked):
    for line in output_of("tar", "-tvzf", tarball).splitlines():
        assert re.match(r"(-rw-r--r--|[-dl]rwxr-xr-x|lrwxrwxrwx) root/root ", line), line
    assert [name for name in PROGRAMS if not is_static(unpacked / "bin" / name)] == []
    assert os.readlink(unpacked / "bin/horovodrun") == "hvdray"
    for file in ("LICENSE", "THIRD-PARTY-NOTICES", "share/hvdray/digits.csv", "share/hvdray/DATA.md", "share/man/man1/hvdray-run.1",
                 "share/man/man5/hvdray-job.5", "share/bash-completion/completions/hvdray", "share/zsh/site-functions/_hvdray",
                 "share/fish/vendor_completions.d/hvdray.fish"):
        assert (unpacked / file).stat().st_size > 0, file
    bill = json.loads(open(tarball.replace(".tar.gz", ".cdx.json")).read())
    assert bill["metadata"]["component"]["version"] == VERSION and "libc6-dev" in {part["name"] for part in bill["components"]}


def test_the_first_job_trains_where_only_the_tarball_was_unpacked(tarball, busybox_root):
    """Over shared memory, and over Gloo as between hosts; no Python, no library, no name service."""
    shutil.copy(tarball, busybox_root.folder / "tmp/it.tar.gz")
    folder = "/" + os.path.basename(tarball).removesuffix(".tar.gz")
    out = busybox_root(f"""tar -xzf /tmp/it.tar.gz; PATH={folder}/bin:$PATH
        hvdray run -np 4 hvdray-digits --epochs 10
        hvdray run -np 2 -x HVDRAY_COLLECTIVE=gloo hvdray-digits --epochs 2
        hvdray run -np 1 -H elsewhere:1 -- sh 2>&1 || echo $?""")
    assert re.findall(r"test accuracy 9\d\.\d % of \d+ images, (\d) workers", out) == ["4", "2"], out
    assert "look up elsewhere: getent: no such program" in out and out.endswith("\n125\n"), out


def test_programs_find_each_other_through_a_link_from_any_folder(unpacked, tmp_path):
    link = tmp_path / "hvdray"
    link.symlink_to(unpacked / "bin/hvdray")
    run = [link, "run", "-np", "2"]
    assert "test accuracy" in output_of(*run, "--", unpacked / "bin/hvdray-digits", "--epochs", "1", cwd="/", env={"PATH": "/bin"})
    assert "all results are right" in output_of(link, "bench", "-np", "2", "-b", "1K", "-e", "1K", cwd="/", env={"PATH": "/bin"})


def test_an_agent_of_another_processor_is_named(unpacked, tmp_path):
    for name in ("hvdray", "hvdray-agent"):
        shutil.copy(unpacked / "bin" / name, tmp_path)
    with open(tmp_path / "hvdray-agent", "r+b") as agent:
        agent.seek(18)  # e_machine
        agent.write(b"\xb7\x00")  # EM_AARCH64
    result = subprocess.run([tmp_path / "hvdray", "run", "-np", "1", "true"], capture_output=True, text=True)
    assert result.returncode == 125 and f"{tmp_path}/hvdray-agent: Exec format error" in result.stderr, result
    assert "must be for this processor" in result.stderr, result


# Numbers of system calls are one list for all architectures since 424. Linux 5.4 ends with clone3, 435; 5.2 has no pidfd_open, 434.
@pytest.mark.parametrize("first, code, said", [(436, 0, "test accuracy 9"), (434, 125, "hint: hvdray needs Linux 5.4 or later")])
def test_it_trains_on_linux_5_4_and_names_it_on_older_ones(unpacked, first, code, said):
    done = subprocess.run([sys.executable, ROOT / "tests/integration/workers/refuse_calls.py", str(first), "999", "ENOSYS",
                           unpacked / "bin/hvdray", "run", "-np", "2", unpacked / "bin/hvdray-digits", "--epochs", "5"], capture_output=True, text=True)
    assert done.returncode == code and said in done.stdout + done.stderr, done


@pytest.mark.rest
def test_the_static_program_asks_getent_where_a_module_of_the_name_service_is_missing(unpacked, tmp_path):
    (tmp_path / "nsswitch.conf").write_text("passwd: nosuchmodule files\nhosts: nosuchmodule files\n")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n127.0.0.9 by-its-name\n")
    out = apart(unpacked / "bin/hvdray", "run", "-np", "2", "-H", "by-its-name:2", "--cwd", "~daemon", "--", "pwd",
                inside=f"for file in nsswitch.conf hosts; do mount --bind {tmp_path}/$file /etc/$file; done")
    home = pwd.getpwnam("daemon").pw_dir
    assert sorted(out.splitlines()) == [f"[{rank}]<stdout>:{home}" for rank in range(2)]


MUSL_WORKER = """\
#include <stdio.h>
#include <stdlib.h>
int main(void) { printf("%s of %s\\n", getenv("HOROVOD_RANK"), getenv("HOROVOD_SIZE")); return 0; }
"""


@pytest.mark.rest
def test_its_programs_run_where_the_c_library_is_musl(wheel, installed, busybox_root, tmp_path):
    """As on Alpine, whose Python this machine can't have: pip is told the platform, and musl's programs are the workers. That a Python
    of musl asks for this tag is shown by packaging, which looks at the program that runs it."""
    (tmp_path / "worker.c").write_text(MUSL_WORKER)
    worker = busybox_root.folder / "bin/worker"
    output_of("musl-gcc", tmp_path / "worker.c", "-o", worker)
    ask = "import sys; sys.executable = sys.argv[1]; from pip._vendor.packaging.tags import platform_tags as all; print(*all())"
    tags = output_of(installed / "bin/python", "-c", ask, worker).split()
    tag = next(tag for tag in tags if tag.startswith("musllinux_1_1_"))
    output_of("unshare", "-n", installed / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--only-binary", ":all:",
              "--platform", tag, "--target", busybox_root.folder / "opt", wheel)
    loader = re.search(r"interpreter: (/lib/ld-musl\S+)\]", output_of("readelf", "-W", "-l", worker))[1]
    (busybox_root.folder / "lib").mkdir()
    shutil.copy(loader, busybox_root.folder / "lib")
    out = busybox_root("""/opt/bin/hvdray run -np 2 worker
        /opt/bin/hvdray run -np 4 /opt/bin/hvdray-digits --epochs 10""")
    assert {"[0]<stdout>:0 of 2", "[1]<stdout>:1 of 2"} <= set(out.splitlines())
    assert re.search(r"test accuracy 9\d\.\d % of \d+ images, 4 workers", out), out


# Two workers meet by the library that hvdray.torch loads, over shared memory and over Gloo.
MEETING = """\
import ctypes, os, hvdray
from hvdray._async import _library
def work(name):
    library, ranks = _library.load(), ctypes.c_void_p()
    error = library.hvdray_async_init(name, ctypes.byref(ranks))
    library.hvdray_async_free(ranks)
    return error, os.confstr("CS_GNU_LIBC_VERSION")
print(hvdray.run(work, args=(b"a",), num_proc=2), hvdray.run(work, args=(b"b",), num_proc=2, env={"HVDRAY_COLLECTIVE": "gloo"}))
"""


@pytest.mark.rest
@pytest.mark.parametrize("suite, glibc", [("bullseye", "2.31"), ("trixie", "2.41")])  # the older one's is that of Horovod's images
def test_it_installs_and_runs_on_debian_11_and_13(wheel, tarball, installed, suite, glibc, tmp_path):
    for path in [wheel, tarball, *(installed / "packages").iterdir()]:
        shutil.copy(path, tmp_path)
    for name, text in (("first.py", PROGRAM), ("meeting.py", MEETING)):
        (tmp_path / name).write_text(text)
    lines = f"""set -e; cd /given; python3 -m venv /env
        unshare -n /env/bin/pip install -q --disable-pip-version-check --no-index --find-links . hvdray
        export PATH=/env/bin:$PATH
        python first.py; python meeting.py; hvdray run -np 4 hvdray-digits
        cd /opt; tar -xzf /given/{os.path.basename(tarball)}
        PATH=$(echo /opt/hvdray-*/bin):/bin hvdray run -np 4 hvdray-digits"""
    out = output_of(ROOT / "tools/bare_root.sh", "--suite", suite, "--bind", f"{tmp_path}:/given", "--", "bash", "-c", lines)
    done = [(0, f"glibc {glibc}")] * 2
    assert out.splitlines()[:4] == ["[(0, 7), (1, 7)]", "/env/bin", "[20, 20]", f"{done} {done}"]
    assert len(re.findall(r"test accuracy 9\d\.\d % of \d+ images, 4 workers", out)) == 2, out


# For tools/reproduce.py, which this tree's packages are given to once, below.
REPRODUCE = """\
import pathlib, sys
print("reproduce", *sys.argv[1:], file=sys.stderr)
sys.exit(pathlib.Path(__file__).with_name("differs").exists())
"""


# It takes some time to end.
REPRODUCE_FOREVER = """\
import pathlib, signal, sys, time
def end(*_):
    time.sleep(0.5)
    pathlib.Path({ended!r}).touch()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
pathlib.Path({begun!r}).write_text("begun")
signal.pause()
"""


@pytest.fixture
def release(tmp_path):
    """Runs tools/release.py in a repository that has what it reads."""
    tree = tmp_path / "tree"
    for file in ("tools/release.py", "CMakeLists.txt", "debian/changelog", "python/hvdray/__init__.py", ".gitignore"):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-11-23\n\n- The first.\n")
    (tree / "tools/reproduce.py").write_text(REPRODUCE)
    output_of("git", "init", "-q", tree)

    def run(version=VERSION, *folder, commit=True):
        if commit:
            output_of("git", "-C", tree, "add", ".")
            output_of("git", "-C", tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
        return subprocess.run([sys.executable, tree / "tools/release.py", version, *folder], capture_output=True, text=True)

    run.tree = tree
    return run


@pytest.mark.parametrize("file, text, said", [
    ("CHANGELOG.md", "# Changelog\n\n## [V] - 2026-11-23\n\n### Added\n", "section [V] is empty"),
    ("CHANGELOG.md", "## [Unreleased]\n- new\n## [V] - 2026-11-23\n- old\n", "entries above section [V]"),
    ("CHANGELOG.md", "## [V]\n- old\n", "section [V] has no date"),
    ("CHANGELOG.md", "## [0.0.9] - 2026-11-01\n- old\n", "no section [V]"),
    ("python/hvdray/__init__.py", '__version__ = "0.0.9"\n', "__init__.py has version 0.0.9, not V"),
    ("debian/changelog", "hvdray (0.0.9) bookworm; urgency=medium\n", "debian/changelog has version 0.0.9, not V"),
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


def make_image(path, unpacked):
    """An OCI archive of an unpacked tarball's programs, as far as a release looks into one."""
    blobs = path.parent / "image/blobs/sha256"
    blobs.mkdir(parents=True)

    def add(content):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}"}

    layer = subprocess.run(["tar", "-cz", "-C", unpacked.parent, f"{unpacked.name}/bin"], check=True, stdout=subprocess.PIPE).stdout
    manifest = add(json.dumps({"layers": [add(layer)]}).encode())
    (blobs.parents[1] / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    output_of("tar", "-cf", path, "-C", blobs.parents[1], "index.json", "blobs")
    shutil.rmtree(blobs.parents[1])


@pytest.fixture
def packages(wheel, tarball, tmp_path):
    """A folder with what a release is made of."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for file in (wheel, tarball, tarball.replace(".tar.gz", ".cdx.json")):
        shutil.copy(file, folder)
    for name in (f"hvdray_{VERSION}_amd64.deb", f"python3-hvdray_{VERSION}_all.deb"):  # deb_test.py looks into them
        (folder / name).write_text(name)
    return folder


def test_a_release_has_sums_and_says_how_to_publish_it(packages, release, unpacked):
    image = f"hvdray-{VERSION}-linux-x86_64.oci.tar"
    make_image(packages / image, unpacked)
    result = release(VERSION, packages)
    assert result.returncode == 0 and result.stderr == f"reproduce --all {release.tree}/dist.new\n", result
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["git", "tag"], ["git", "push"], ["ssh-keygen", "-Y"], ["twine", "upload"], ["buildah", "push"]]
    assert result.stdout.endswith(f'pull --quiet oci-archive:dist/{image})" docker://REGISTRY/hvdray:{VERSION}\n'), result
    dist = release.tree / "dist"
    sums = output_of("sha256sum", "-c", "SHA256SUMS", cwd=dist).splitlines()
    assert sums == [f"{name}: OK" for name in sorted([*os.listdir(packages), f"hvdray-{VERSION}.tar.gz"])]
    files = output_of("tar", "-tzf", dist / f"hvdray-{VERSION}.tar.gz").splitlines()
    assert f"hvdray-{VERSION}/CHANGELOG.md" in files
    assert output_of("git", "-C", release.tree, "tag") == ""
    # Again, with what lies there.
    before = {path.name: path.read_bytes() for path in dist.iterdir()}
    assert release(VERSION, dist, commit=False).returncode == 0
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == before
    assert not (release.tree / "dist.new").exists()
    # In another folder, by a user whose git makes private files.
    other = release.tree.parent / "other folder"
    output_of("git", "clone", "-q", release.tree, other)
    output_of("git", "-C", other, "config", "tar.umask", "0077")
    output_of(sys.executable, other / "tools/release.py", VERSION, packages, umask=0o077, env={**os.environ, "TZ": "Asia/Tokyo"})
    assert {path.name: path.read_bytes() for path in (other / "dist").iterdir()} == before


def test_what_somebody_else_builds_differently_is_not_released(packages, release):
    (release.tree / "tools/differs").touch()
    result = release(VERSION, packages)
    assert result.returncode == 1 and result.stderr.endswith("tools/release.py: somebody else would not build the same\n"), result
    assert result.stdout == "" and not (release.tree / "dist").exists()


def test_somebody_else_builds_the_same_bytes(packages):
    for deb in packages.glob("*.deb"):
        deb.unlink()  # no real ones
    said = output_of(sys.executable, ROOT / "tools/reproduce.py", packages)
    found = re.fullmatch(r"(\d+) objects, of which (\d+) were compiled again without a cache, 5 programs and libraries, and 3 packages and lists "
                         r"are the same\n", said)
    assert found and int(found[1]) // 10 <= int(found[2]) <= int(found[1]) // 10 + 1, said


def test_its_sums_are_signed_as_it_says_and_verified_as_security_md_says(packages, release, tmp_path):
    output_of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    command = next(line for line in release(VERSION, packages).stdout.splitlines() if line.startswith("ssh-keygen"))
    output_of(*command.replace("KEY", str(tmp_path / "key")).split(), cwd=release.tree)
    dist = release.tree / "dist"
    (dist / "allowed_signers").write_text(f"hvdray {(tmp_path / 'key.pub').read_text()}")
    verify = re.search(r"(?m)^(ssh-keygen -Y verify .*)$", (ROOT / "SECURITY.md").read_text())[1]
    assert "Good \"file\" signature for hvdray" in output_of("bash", "-c", verify, cwd=dist)
    with open(dist / "SHA256SUMS", "a") as sums:
        sums.write("0" * 64 + "  more\n")
    changed = subprocess.run(["bash", "-c", verify], cwd=dist, capture_output=True, text=True)
    assert changed.returncode != 0 and "incorrect signature" in changed.stderr, changed


@pytest.mark.parametrize("kind", ["wheel", "tarball", "deb", "image"])
def test_what_packs_takes_no_option_for_a_folder(kind, tmp_path):
    result = subprocess.run([sys.executable, ROOT / f"tools/build_{kind}.py", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, list(tmp_path.iterdir())) == (1, []) and f"\nUsage: tools/build_{kind}.py FOLDER" in result.stderr, result


@pytest.mark.parametrize("lost, said", [("licenses", "gloo has no licence"), ("components", "gloo has no hash"), (None, "no list of what")])
def test_what_lacks_a_licence_a_hash_or_a_list_is_not_released(packages, release, lost, said):
    beside = next(packages.glob("*.cdx.json"))
    bill = json.loads(beside.read_text())
    part = next(part for part in bill["components"] if part["name"] == "gloo")
    bill["components"] = [part] if lost else []
    part.pop(lost, None)
    beside.write_text(json.dumps(bill))
    result = release(VERSION, packages)
    assert result.returncode == 1 and said in result.stderr and len(result.stderr.splitlines()) == 1, result
    assert not (release.tree / "dist").exists()


@pytest.mark.parametrize("missing", [f"hvdray-{VERSION}-py3-none-*.whl", f"hvdray_{VERSION}_*.deb"])
def test_what_is_missing_is_not_released(packages, release, missing):
    next(packages.glob(missing)).unlink()
    result = release(VERSION, packages)
    assert result.returncode == 1 and f"has 0 files {missing}" in result.stderr, result


@pytest.mark.parametrize("damaged", [["hvdray-*.whl", "hvdray-*-linux-*.tar.gz"], ["hvdray-*.oci.tar"]])
def test_what_is_damaged_is_not_released(packages, release, unpacked, damaged):
    """By a disk that was full, say."""
    make_image(packages / f"hvdray-{VERSION}-linux-x86_64.oci.tar", unpacked)
    for pattern in damaged:
        (path,) = packages.glob(pattern)
        os.truncate(path, path.stat().st_size // 2)
    result = release(VERSION, packages)
    said = result.stderr.splitlines()
    assert result.returncode == 1 and len(said) == len(damaged) and all(" damaged: " in line for line in said), result
    assert not (release.tree / "dist").exists()


def test_an_image_of_another_build_is_not_released(packages, release, unpacked, tmp_path):
    shutil.copytree(unpacked, tmp_path / "other", symlinks=True)
    with open(tmp_path / "other/bin/hvdray-digits", "ab") as program:
        program.write(b"older")
    make_image(packages / f"hvdray-{VERSION}-linux-x86_64.oci.tar", tmp_path / "other")
    result = release(VERSION, packages)
    assert result.returncode == 1 and ".oci.tar has other programs than hvdray-" in result.stderr, result


def test_a_folder_that_a_release_would_begin_anew_is_not_taken(packages, release):
    """Where a run that failed has left them."""
    left = release.tree / "dist.new"
    shutil.copytree(packages, left)
    result = release(VERSION, left)
    assert result.returncode == 1 and f"{left} is what this run would begin anew" in result.stderr, result
    assert sorted(os.listdir(left)) == sorted(os.listdir(packages))


def test_a_release_that_fails_or_is_stopped_says_so_in_a_line(packages, release):
    begun, ended = release.tree / "begun", release.tree.parent / "ended"
    os.mkfifo(begun)
    (release.tree / "tools/reproduce.py").write_text(REPRODUCE_FOREVER.format(begun=str(begun), ended=str(ended)))
    (release.tree / ".git/info/exclude").write_text("begun\n")
    release("1", commit=True)
    process = subprocess.Popen([sys.executable, release.tree / "tools/release.py", VERSION, packages], stderr=subprocess.PIPE, text=True)
    begun.read_text()
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=100)[1], process.returncode) == ("", 130)
    assert ended.exists() and not (release.tree / "dist").exists()
    shutil.rmtree(release.tree / ".git")
    result = release(commit=False)
    assert result.returncode == 1 and "not a git repository" in result.stderr and "Traceback" not in result.stderr, result


def test_it_goes_without_a_trace(wheel, installed):
    output_of(installed / "bin/pip", "uninstall", "-q", "-y", "hvdray")
    left = [path for path in installed.rglob("*hvdray*") if "packages" not in str(path)]
    assert not [path for path in left if path.is_file()], left
