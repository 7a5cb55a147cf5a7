# SPDX-License-Identifier: Apache-2.0
"""cmake --install puts down what runs from there, without the build tree."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest

from conftest import Hvdray
from python_program import ROOT


@pytest.fixture
def installed(hvdray, tmp_path):
    subprocess.run(["cmake", "--install", str(hvdray.bin_dir.parent), "--prefix", str(tmp_path)],
                   check=True, capture_output=True)
    tool = Hvdray(tmp_path / "bin")
    yield tool
    assert all(job.survivors() == {} for job in tool.jobs)


def test_the_installed_programs_run(installed, tmp_path):
    result = installed.go("-np", "2", "--", "sh", "-c", "echo $HOROVOD_SIZE", cwd="/")
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:2", "[1]<stdout>:2"]
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"bin/hvdray", "bin/hvdray-agent", "bin/hvdray-bench", "share/man/man1/hvdray-run.1",
            "share/bash-completion/completions/hvdray", "share/zsh/site-functions/_hvdray",
            "share/fish/vendor_completions.d/horovodrun.fish",
            "share/doc/hvdray/configs/quickstart.yaml", "share/man/man1/hvdray.1", "share/man/man5/hvdray-job.5",
            "share/man/man1/hvdray-rendezvous.1", "share/doc/hvdray/README.md",
            "share/doc/hvdray/docs/errors.md"} <= files
    assert os.readlink(tmp_path / "bin" / "horovodrun") == "hvdray"


def test_all_parts_have_the_version_of_the_newest_section_of_the_changelog(installed, tmp_path):
    env = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "lib/pkgconfig"), "PYTHONPATH": str(tmp_path / "lib/hvdray/python")}
    commands = ([installed.binary, "--version"], [installed.agent, "--version"], ["pkg-config", "--modversion", "hvdray"],
                [sys.executable, "-c", "import hvdray; print(hvdray.__version__)"])
    said = [re.search(r"\d+(\.\d+)+", subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)[0]
            for command in commands]
    project = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    changes = re.findall(r"(?m)^## \[([0-9.]+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text())
    assert said == [project] * len(commands) and changes[0] == project


def test_the_installed_quickstart_runs_from_any_folder(installed, tmp_path):
    here = tmp_path / "any folder"
    here.mkdir()
    result = installed.go("--cluster", tmp_path / "share/doc/hvdray/configs/quickstart.yaml", cwd=here)
    assert result.code == 0, result.errors
    assert "test accuracy" in result.text
    assert [path.name for path in here.iterdir()] == ["quickstart_report.json"]


def drain(terminal):
    """Reads what a program prints on its terminal until it has ended."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # EIO
        pass


def run_ranks(installed, program):
    result = installed.go("-np", "2", "--", program)
    assert result.code == 0, result.errors + result.text
    return result.text


def test_a_program_in_c_finds_the_collective_library_by_pkg_config(installed, tmp_path):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hvdray"], check=True, capture_output=True, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "lib/pkgconfig")}).stdout.split()
    source = tmp_path / "share/doc/hvdray/examples/bandwidth_c.c"
    subprocess.run(["cc", "-Wall", "-Werror", str(source), *flags, "-o", str(tmp_path / "bandwidth")], check=True)
    lines = run_ranks(installed, tmp_path / "bandwidth").splitlines()
    assert len(lines) == 4 and all("GB/s over shm" in line for line in lines), lines


PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(user CXX)
find_package(hvdray REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE hvdray::hvdray)
target_compile_features(user PRIVATE cxx_std_20)
"""
USER = """
#include <collective/communicator.h>
#include <collective/work_queue.h>
#include <cstdio>
#include <numeric>
#include <vector>
int main() {
  auto options = hvdray::CommunicatorOptionsFrom(hvdray::Environment::FromProcess(), "user");
  auto communicator = options.ok() ? hvdray::MakeCommunicator(*options) : options.status();
  if (!communicator.ok()) return std::puts(communicator.status().ToString().c_str()), 1;
  std::vector<int> values(100000, 1 + (*communicator)->rank());
  hvdray::WorkQueue queue(**communicator);
  const hvdray::Work work = queue.Start([&](hvdray::Communicator& ranks) {
    return ranks.AllReduce(values.data(), values.data(), values.size(), hvdray::DataType::kInt32, hvdray::ReduceOp::kSum);
  });
  const hvdray::Status status = work.Wait();
  std::printf("%s %d\\n", status.ToString().c_str(), values.back());
}
"""


def test_a_program_in_cxx_finds_the_collective_library_by_cmake(installed, tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(PROJECT)
    (folder / "user.cc").write_text(USER)
    for words in (["-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={tmp_path}"], ["--build", folder / "build"]):
        done = subprocess.run(["cmake", *map(str, words)], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(run_ranks(installed, folder / "build/user").splitlines()) == ["[0]<stdout>:ok 3", "[1]<stdout>:ok 3"]


def test_the_man_pages_are_clean(tmp_path, installed):
    done = subprocess.run(["mandoc", "-T", "lint", *sorted((tmp_path / "share/man").glob("man*/*"))], check=False,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_completion_knows_every_command(installed, tmp_path):
    """The commands that --help lists, and for those of people their options."""
    def complete(*words):
        line = " ".join(words)
        script = (f"shopt -s extglob; . {tmp_path}/share/bash-completion/completions/hvdray; "
                  f"COMP_WORDS=({line}); COMP_WORDS+=(''); COMP_CWORD={len(words)}; "
                  f"[[ $1 ]] && COMP_WORDS[COMP_CWORD]=$1; _hvdray_run; echo ${{COMPREPLY[*]}}")
        done = subprocess.run(["bash", "-c", script, "bash", complete.begun], check=True,
                              capture_output=True, text=True)
        return done.stdout.split()

    complete.begun = ""
    listed = [line.split()[0] for line in installed.run("--help").text.split("\nJobs:")[1]
              .splitlines() if line.startswith("  ")]
    assert set(listed) <= set(complete(installed.binary.as_posix()))
    assert "HVD-E0201" in complete(installed.binary.as_posix(), "explain")
    assert "show" in complete(installed.binary.as_posix(), "tune")
    assert "show" not in complete(installed.binary.as_posix(), "tune", "show")
    complete.begun = "--"
    for command, option in (("run", "--hosts"), ("check", "--import"), ("replay", "--json"),
                            ("follow", "--junit"), ("status", "--json"), ("slots", "--use-gpu"),
                            ("rendezvous", "--port"), ("bench", "--minbytes")):
        assert option in complete(installed.binary.as_posix(), command), command


# What a shell makes of each line at TAB, run's options before its command and not after.
COMPLETED = [("hvdray rendezv", "hvdray rendezvous"), ("hvdray help rendezv", "hvdray help rendezvous"),
             ("hvdray rendezvous --all", "--allow"), ("hvdray run --strategy STRICT_P", "STRICT_PACK"),
             ("hvdray run -np 2 --host-d", "--host-discovery-script"), ("horovodrun -np 2 --host-d", "--host-discovery-script"),
             ("hvdray run -np 2 only-her", "only-here"), ("hvdray run -np 2 -- only-her", "only-here"),
             ("hvdray run -- only-her", "only-here"),
             ("hvdray tune sho", "hvdray tune show"), ("hvdray cluster migr", "hvdray cluster migrate"),
             ("hvdray bench --minb", "--minbytes"), ("hvdray explain HVD-E040", "HVD-E0401"),
             ("hvdray run --tag-output=ho", "--tag-output=host")]


@pytest.fixture
def search_path(installed, tmp_path):
    program = tmp_path / "programs/only-here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return f"{installed.binary.parent}:{program.parent}:/usr/bin:/bin"


def test_bash_completes_names_with_blanks(installed, tmp_path):
    (tmp_path / "a file.yaml").touch()
    (tmp_path / "a folder").mkdir()
    script = f"""source {tmp_path}/share/bash-completion/completions/hvdray
        for COMP_WORDS in "hvdray run -f a" "hvdray run --cwd a" "hvdray run -- cat a" "hvdray up a"; do
            COMP_WORDS=($COMP_WORDS) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _hvdray_run
            printf '%s|' "${{COMPREPLY[@]}}"; echo
        done"""
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    both = ["", "a file.yaml", "a folder"]
    assert [sorted(line.split("|")) for line in done.stdout.splitlines()] == [both, ["", "a folder"], both, both], done
    assert done.stderr == ""


def test_fish_completes_what_the_table_has(search_path, tmp_path):
    env = {"PATH": search_path, "HOME": str(tmp_path), "XDG_DATA_DIRS": str(tmp_path / "share"), "TERM": "dumb"}

    def complete(line):
        done = subprocess.run(["fish", "-c", "complete -C $argv[1]", line], env=env, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert done.stderr == ""
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    for line, expected in COMPLETED:
        assert expected.split()[-1] in complete(line), line
    (tmp_path / "a file.yaml").touch()
    assert "a file.yaml" in complete("hvdray up ") and "run" not in complete("hvdray up ")
    assert "--hosts" in complete("hvdray run --") and "--json" not in complete("hvdray run --")
    assert "--hosts" not in complete("hvdray run -np 2 only-here --")


def test_zsh_completes_what_the_table_has(search_path, tmp_path):
    """At a terminal. After each TAB, Ctrl-X Ctrl-P writes the line into a pipe."""
    answer = tmp_path / "answer"
    os.mkfifo(answer)
    (tmp_path / ".zshrc").write_text(
        f"fpath=({tmp_path}/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump\n"
        f"say() {{ print -r -- $BUFFER >{answer}; BUFFER= }}; zle -N say; bindkey '^X^P' say; setopt no_beep; print ready >{answer}\n")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execve("/usr/bin/zsh", ["zsh", "-d", "-i"], {"PATH": search_path, "HOME": str(tmp_path), "TERM": "xterm"})
    reader = threading.Thread(target=drain, args=[terminal])
    reader.start()
    try:
        assert answer.read_text() == "ready\n"
        for line, expected in COMPLETED:
            os.write(terminal, f"{line}\t\x18\x10".encode())
            assert answer.read_text().split()[-1].rstrip("=") == expected.split()[-1], line
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reader.join()
        os.close(terminal)


def test_a_link_called_horovodrun_finds_its_agent(installed, tmp_path):
    link = tmp_path / "elsewhere" / "horovodrun"
    link.parent.mkdir()
    link.symlink_to(installed.binary)
    result = installed.run("-np", "1", "echo", "as ever", binary=link)
    assert result.text == "[0]<stdout>:as ever\n", result.errors


def test_the_installed_bench_finds_hvdray(installed):
    result = installed.run("bench", "-np", "2", "-e", "8", "-n", "1", cwd="/")
    assert result.code == 0 and "all results are right" in result.text, result.errors


def test_a_missing_agent_is_named(installed):
    os.unlink(installed.agent)
    result = installed.go("-np", "1", "--", "true")
    assert result.code == 125
    assert str(installed.agent) in result.errors and "put hvdray-agent beside hvdray" in result.errors, result.errors


def test_a_missing_dev_null_is_named(installed):
    """As in an image that was unpacked and entered by chroot."""
    result = installed.run("-m", "sh", "-c", 'mount -t tmpfs none /dev && exec "$0" run -np 1 -- true', installed.binary, binary="unshare")
    assert result.code == 125 and "hvdray-agent: /dev/null: No such file or directory" in result.errors, result.errors


def test_cmake_says_at_once_that_it_is_for_linux(tmp_path):
    """So does pip install of the sources: it calls cmake."""
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-D", "CMAKE_SYSTEM_NAME=Darwin"], capture_output=True, text=True)
    assert done.returncode != 0 and "hvdray runs on Linux only, and this is Darwin" in done.stderr, done
    assert "compiler" not in done.stdout, done


def test_the_agent_may_be_where_distributions_have_such_programs(installed, tmp_path):
    place = tmp_path / "libexec/hvdray"
    place.mkdir(parents=True)
    installed.agent.rename(place / installed.agent.name)
    result = installed.go("-np", "1", "--", "echo", "here")
    assert (result.code, result.text) == (0, "[0]<stdout>:here\n"), result.errors
