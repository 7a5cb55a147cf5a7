# SPDX-License-Identifier: Apache-2.0
"""tools/reproduce.py in a tree of a few lines, all of which tell who compiled and packed them. wheel_test.py runs it in this tree."""

import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys

import pytest
from python_program import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import reproduce  # noqa: E402

# The cache ignores time and folder, as cmake/options.cmake tells it to: only what is compiled without it shows them.
CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(tree LANGUAGES CXX)
set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                CCACHE_SLOPPINESS=locale,time_macros ccache)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
file(GLOB sources *.cc)
add_executable(hvdray ${sources})
add_library(hvdray_shared SHARED plain/plain.cc)
target_link_options(hvdray_shared PRIVATE -Wl,--build-id=uuid)
"""

BUILD_WHEEL = """\
import os, pathlib, subprocess, sys, time
ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/wheel"
LINKED, SHARED = ["bin/hvdray"], "libhvdray_shared.so"
if __name__ == "__main__":
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja"], check=True)
    subprocess.run(["cmake", "--build", BUILD], check=True)
    from facts import facts
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir()
    for name, fact in facts().items():
        (folder / f"{name}.whl").write_text(str(fact))
"""

FACTS = """\
import os, time
def facts():
    return {"folder": __file__, "zone": time.tzname, "language": os.environ.get("LC_ALL"), "user": os.getuid(), "umask": os.umask(0o22),
            "date": time.strftime("%F"), "processors": os.sched_getaffinity(0), "nothing": ""}
"""


def output_of(*command, **more):
    result = subprocess.run(command, capture_output=True, text=True, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Runs reproduce.py of a tree that is built, and whose folder `given` has what was made."""
    folder = tmp_path_factory.mktemp("tree")
    environment = {**os.environ, "CCACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    macros = ["__TIME__", "__FILE__", *["__DATE__"] * 10]
    files = {"CMakeLists.txt": CMAKE, "tools/build_wheel.py": BUILD_WHEEL, "tools/facts.py": "?", ".gitignore": "/build/\n/given/\n__pycache__/\n",
             "tools/build_tarball.py": "import pathlib, sys\n(pathlib.Path(sys.argv[1]) / 'some.tar.gz').touch()\n",
             "main.cc": "int main() {}\n", "gone.cc": "#error it is deleted, but not committed\n", "plain/plain.cc": "int plain = 1;\n",
             **{f"text_{i}.cc": f"extern const char* const text_{i} = {macro};\n" for i, macro in enumerate(macros)}}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(ROOT / "tools/reproduce.py", folder / "tools")
    output_of("git", "init", "-q", folder)
    output_of("git", "-C", folder, "add", ".")
    output_of("git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "x")
    (folder / "gone.cc").unlink()
    (folder / "tools/facts.py").write_text(FACTS)
    for tool in ("wheel", "tarball"):
        output_of(sys.executable, folder / f"tools/build_{tool}.py", folder / "given", env=environment)

    def run(*words, **more):
        return subprocess.run([sys.executable, folder / "tools/reproduce.py", *words], capture_output=True, text=True, cwd=folder,
                              **{"env": environment, **more})

    run.folder, run.environment = folder, environment
    return run


def named(result):
    """The files that it says to differ, from the top of the tree."""
    return re.findall(r"(?m)^tools/reproduce.py: (\S+) differs$", result.stderr)


def objects(folder):
    return [str(path) for path in sorted((folder / "build/wheel").rglob("*.o"))]


@pytest.mark.parametrize("words", [["given"], ["--all", "given"]], ids=["a tenth", "all"])
def test_each_thing_that_others_would_build_differently_is_named(tree, words):
    result = tree(*words)
    assert result.returncode == 1 and result.stdout == "", result
    compiled = objects(tree.folder)
    if words[0] != "--all":
        compiled = reproduce.tenth(compiled, output_of("git", "-C", tree.folder, "rev-parse", "HEAD"))
    compiled = [path for path in compiled if "/text_" in path]
    packed = [f"given/{name}.whl" for name in ("date", "folder", "language", "processors", "umask", "user", "zone")]
    if len(os.sched_getaffinity(0)) == 1:
        packed.remove("given/processors.whl")
    linked = [f"{tree.folder}/build/wheel/bin/hvdray"] if compiled else []
    assert named(result) == compiled + linked + [f"{tree.folder}/build/wheel/libhvdray_shared.so"] + packed, result.stderr
    if words[0] == "--all":  # by diffoscope, the first of these, which has __TIME__
        assert re.search(r"(?m)^│ -\d\d:\d\d:\d\d\n│ \+\d\d:\d\d:\d\d$", result.stderr), result.stderr


def test_where_there_is_no_diffoscope_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    reproduce.show(ROOT / "README.md", tmp_path)
    assert "with Debian's diffoscope-minimal" in capsys.readouterr().err


def test_ten_commits_in_a_row_compile_everything():
    for count in (1, 4, 10, 82):
        parts = [reproduce.tenth(list(range(count)), f"{commit:x}\n") for commit in range(10)]
        assert sorted({item for part in parts for item in part}) == list(range(count)) and all(parts)


@pytest.mark.parametrize("words, said", [
    ([], "Usage: tools/reproduce.py [--all] FOLDER"), (["--some", "given"], "Usage:"), (["given", "given"], "Usage:"),
    (["tools"], "no wheel in tools, or no build/wheel here: run tools/build_wheel.py and tools/build_tarball.py first")])
def test_bad_input_is_named(tree, words, said):
    result = tree(*words)
    assert result.returncode == 1 and said in result.stderr and "Traceback" not in result.stderr, result


def test_a_missing_tool_is_named(tree, tmp_path):
    result = tree("given", env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stderr) == (1, "tools/reproduce.py: git is missing: tools/install_packages.sh build test\n")


def test_objects_that_were_not_compiled_again_are_named(tree):
    """Here because no cache is asked for any."""
    lists = tree.folder / "CMakeLists.txt"
    text = lists.read_text()
    lists.write_text(text.replace("locale,time_macros ccache)", "locale,time_macros)"))
    result = tree("given")
    lists.write_text(text)
    chosen = reproduce.tenth(objects(tree.folder), output_of("git", "-C", tree.folder, "rev-parse", "HEAD"))
    names = ", ".join(path.removeprefix(f"{tree.folder}/build/wheel/") for path in chosen)
    assert (result.returncode, result.stderr) == (1, f"tools/reproduce.py: not compiled without the cache: {names}\n"), result


def test_a_build_that_fails_elsewhere_is_named(tree):
    (tree.folder / "new.cc").write_text("#error not here\n")
    result = tree("given")
    (tree.folder / "new.cc").unlink()
    assert result.returncode == 1 and "error: #error not here" in result.stderr, result
    assert re.search(r"tools/reproduce.py: elsewhere this failed: .*build_wheel.py", result.stderr.splitlines()[-1]), result


# A compiler of ninja's, which has a process group of its own.
WAITS = """
add_custom_target(waits ALL COMMAND sh -c "echo $$ >'{begun}'; exec sleep 1000" VERBATIM)
"""


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_stops_it_stops_the_build_and_nothing_is_left(tree, tmp_path, number):
    begun, scratch = tmp_path / "begun", tmp_path / "scratch"
    os.mkfifo(begun)
    scratch.mkdir()
    lists = tree.folder / "CMakeLists.txt"
    text = lists.read_text()
    lists.write_text(text + WAITS.format(begun=begun))
    fifo = os.open(begun, os.O_RDWR)
    process = subprocess.Popen([sys.executable, tree.folder / "tools/reproduce.py", "given"], cwd=tree.folder, env={**tree.environment, "TMPDIR": str(scratch)},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert select.select([fifo], [], [], 100)[0], "the build has not begun"
        pid = int(os.read(fifo, 100))
        assert is_running(pid)
        process.send_signal(number)
        assert (process.communicate(timeout=100)[0], process.returncode) == ("", 128 + number)
        assert not is_running(pid) and list(scratch.iterdir()) == []
    finally:
        lists.write_text(text)
        process.kill()
        process.wait()
        os.close(fifo)


def test_another_repository_in_the_tree_is_left_out(tree):
    output_of("git", "init", "-q", tree.folder / "other")
    result = tree("given")
    shutil.rmtree(tree.folder / "other")
    assert "Traceback" not in result.stderr and "given/date.whl differs" in result.stderr, result
