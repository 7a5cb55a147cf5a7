# SPDX-License-Identifier: Apache-2.0
"""Programs on this machine whose parts are killed at random moments, in the middle of everything: nothing is left.

Not here: what the caller is told (python_calls_test and its neighbours).
"""

import os
import subprocess

import pytest
from conftest import Hvdray, checked
from kills import Place, kill_at_random, program_of
from python_program import Programs

PRIVATE = 'mount -t tmpfs tmpfs /dev/shm && cd "$0" && exec "$@"'


class OwnSharedMemory:
    """Stands for hosts: a program whose /dev/shm is its own. Needs mounts, so root."""

    def command(self, argv, cwd):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", PRIVATE, cwd, *argv]

    def environment(self, base):
        return base


class ThisMachine(Place):
    def __init__(self, folder, has_own_shm):
        super().__init__()
        self.folders = [folder / "tmp", folder / "runtime"]
        for path in self.folders:
            path.mkdir()
        self.has_own_shm = has_own_shm
        self.shm = None

    def environment(self):
        return {"TMPDIR": str(self.folders[0]), "XDG_RUNTIME_DIR": str(self.folders[1])}

    def forget(self):
        """The program has ended; another one follows."""
        if self.shm is not None:
            os.close(self.shm)
        self.shm = None

    def _processes(self, job):
        if self.shm is None and self.has_own_shm:
            self.shm = os.open(f"/proc/{job.pid}/root/dev/shm", os.O_RDONLY | os.O_DIRECTORY)  # stays when the program has ended
        return super()._processes(job)

    def _more(self):
        names = {str(path) for folder in self.folders for path in folder.rglob("*")}
        return names | {f"/dev/shm/{name}" for name in (os.listdir(self.shm) if self.shm is not None else [])}


@pytest.fixture
def programs(request, tmp_path):
    may_mount = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    tool = Hvdray(request.config.getoption("--bin-dir"), OwnSharedMemory() if may_mount else None)
    for tool_ in checked(tool):
        yield Programs(tool_, tmp_path)


@pytest.mark.parametrize("mode", ["static", "elastic", "pool"])
def test_nothing_is_left(programs, tmp_path, mode):
    place = ThisMachine(tmp_path, has_own_shm=programs.tool.hosts is not None)
    victims = ["program", "serve", "agent", "keeper", "worker", *["fork_server"] * (mode == "pool")]
    hosts = "localhost:1,127.0.0.1:1" if mode == "elastic" else ""

    def start(**streams):
        place.forget()
        return programs.start(program_of(mode, hosts), env=place.environment(), **streams)

    kill_at_random(victims, place, start, tmp_path / "said", kills=len(victims))
    place.forget()
