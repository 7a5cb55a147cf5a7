# SPDX-License-Identifier: Apache-2.0
"""The package `hvdray` with workers on other hosts, through real sshd. Hosts have no hvdray and no cloudpickle of their own
that counts: both come with the call. Parts of such a program that are killed at random moments leave nothing."""

import os

import pytest
from kills import Place, kill_at_random, program_of
from python_program import Programs


@pytest.fixture
def programs(hvdray_at_launcher, tmp_path):
    return Programs(hvdray_at_launcher, tmp_path)


def test_functions_run_on_their_hosts(programs):
    programs.run("""
import socket
def where():
    return rank(), socket.gethostname(), hvdray.__file__.startswith("/proc/self/fd/")
assert hvdray.run(where, num_proc=3, hosts="h1:2,h2:1") == [(0, "h1", True), (1, "h1", True), (2, "h2", True)]
with hvdray.Executor(hosts={"h1": 1, "h2": 1}) as executor:
    executor.start()
    assert [w["host"] for w in executor.workers] == ["h1", "h2"]
    # One transfer a host, above a megabyte and above the credit of a link.
    assert executor.run(lambda x: (len(x), socket.gethostname()), (b"x" * 20_000_000,)) == [(20_000_000, "h1"), (20_000_000, "h2")]
    back = executor.run(lambda: bytes([rank()]) * 20_000_000)
    assert [(len(b), b[-1]) for b in back] == [(20_000_000, 0), (20_000_000, 1)]
    error = raised(ZeroDivisionError, lambda: executor.run(lambda: 1 / (1 - rank())))
    assert error.host == "h2" and "on host h2" in str(error), error
    error = raised(hvdray.WorkerDied, lambda: executor.run(lambda: rank() and os._exit(9)))
    assert (error.host, error.exit_code) == ("h2", 9)
    assert executor.run(rank) == [0, 1]
""")


def test_a_host_that_can_not_be_reached_and_one_that_is_lost(programs):
    programs.run("""
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, num_proc=2, hosts="h1:1,nosuchhost:1"))
assert "nosuchhost" in str(error) and error.code == "HVD-E0209", error
with hvdray.Executor(hosts="h1:1,h2:1") as executor:
    def lose():
        if rank() == 1:
            os.kill(os.getppid(), signal.SIGKILL)  # the agent
        sleep()
    error = raised(hvdray.HvdrayError, lambda: executor.run(lose))
    assert "h2" in str(error), error
    assert executor.run(rank) == [0, 1]  # with new agents
""")


def test_a_module_that_one_host_lacks_is_named(programs, tmp_path):
    programs.run("""
import socket
def f():
    if socket.gethostname() == "h2":
        sys.modules["json"] = None  # as if it were not there
    import json
    return json.dumps(1)
error = raised(ModuleNotFoundError, lambda: hvdray.run(f, num_proc=2, hosts="h1:1,h2:1"))
assert "install json on h2" in error.hint or error.host == "h2", error
""")


class Hosts(Place):
    def __init__(self, hosts):
        super().__init__()
        self.hosts = hosts

    def _processes(self, job):
        return {pid: line for alive in self.hosts.leftovers().values() for pid, line in alive.items()}

    def _more(self):
        """Shared memory, and in the home what is copied there."""
        for name, host in self.hosts.hosts.items():
            for folder in (f"/proc/{host.holder}/root/dev/shm", self.hosts.folder(name) / "home"):
                yield from (f"{at}/{entry}" for at, folders, files in os.walk(folder) for entry in folders + files)


@pytest.mark.parametrize("mode", ["static", "elastic", "pool"])
def test_killed_at_any_moment_nothing_is_left(programs, hosts, tmp_path, mode):
    victims = ["program", "serve", "agent", "keeper", "worker", *["fork_server"] * (mode == "pool")]

    def start(**streams):
        return programs.start(program_of(mode, "h1:1,h2:1"), **streams)

    kill_at_random(victims, Hosts(hosts), start, tmp_path / "said", kills=4)
