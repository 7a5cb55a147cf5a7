# SPDX-License-Identifier: Apache-2.0
"""The package `hvdray` with workers on other hosts, through real sshd. Hosts have no hvdray and no cloudpickle of their own
that counts: both come with the call. Parts of such a program that are killed at random moments leave nothing."""

import os
import signal

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


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_a_start_on_a_host_that_does_not_answer_ends_when_it_shall(programs, hosts, transport):
    """Long before the host would be given up: the program has five minutes in all."""
    hosts.blackhole_one_way("h2")
    job = programs.start(f"""
options = {{"start_timeout": "600", "ssh_transport": {transport!r}}}
def when_connecting(executor, act):
    def wait():
        while not getattr(executor._launcher or getattr(executor._elastic_call, "_launcher", None), "_build", ""):
            time.sleep(0.01)
        act()
    threading.Thread(target=wait).start()
for kind in [dict(num_workers=2), dict(min_workers=1, max_workers=2)]:
    with hvdray.Executor(hosts="h2:2", options=options, **kind) as executor:
        raised(TimeoutError, lambda: executor.run(os.getpid, timeout=1))
    with hvdray.Executor(hosts="h2:2", options=options, **kind) as executor:
        when_connecting(executor, lambda: os.kill(os.getpid(), signal.SIGINT))
        raised(KeyboardInterrupt, lambda: executor.run(os.getpid))
    executor = hvdray.Executor(hosts="h2:2", options=options, **kind)
    when_connecting(executor, executor.shutdown)
    assert "shut down" in str(raised(hvdray.HvdrayError, lambda: executor.run(os.getpid)))
    executor.shutdown()
""")
    result = job.wait(300)
    assert result.code == 0, result.errors
    assert not job.survivors()


def test_nothing_outlives_a_program_that_is_killed_while_a_host_does_not_answer(programs, hosts):
    hosts.blackhole_one_way("h2")
    job = programs.start("""
hvdray.Executor(2, hosts="h2:2", options={"start_timeout": "600", "ssh_transport": "openssh"}).run(os.getpid)
""")
    job.wait_for(lambda: job.find("ssh -T"), what="ssh")
    os.kill(job.find("program1.py")[0], signal.SIGKILL)
    assert not job.survivors(within=60)


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


def test_a_module_that_another_user_put_on_a_host_is_not_imported(programs, hosts):
    """In a directory of the program's path that is there, too: it would go before Python's own."""
    hosts.run(["mkdir", "-p", "/run/mine", "/run/team"], on="launcher", check=True)
    hosts.run(["sh", "-ec", "echo name = 1 >/run/team/shared_module.py; chown -R 65533 /run/team"], on="launcher", check=True)
    hosts.run(["sh", "-ec", "install -d -o 65534 /run/mine; touch /run/mine/in_mine.py; "
               "echo 'open(\"/run/taken\", \"w\")' >/run/mine/colorsys.py; "
               "install -d -o 65533 /run/team; echo name = 2 >/run/team/shared_module.py"], on="h1", check=True)
    try:
        result = programs.run("""
sys.path[:0] = ["/run/mine", "/run/team"]
def f():
    import colorsys, shared_module
    return os.path.exists("/run/taken"), colorsys.__file__.startswith("/run"), shared_module.name
assert hvdray.run(f, num_proc=1, hosts="h1:1") == [(False, False, 2)]
def left_out():
    import in_mine
error = raised(ModuleNotFoundError, lambda: hvdray.run(left_out, num_proc=1, hosts="h1:1"))
assert error.hint.startswith("it is in /run/mine on h1, where others may write"), error.hint
""")
        assert "not importing from /run/mine: another user owns /run/mine" in result.errors
        assert "/run/team" not in result.errors, "its owner could change what runs by the program's own copy"
    finally:
        for place in ("launcher", "h1"):
            hosts.run(["rm", "-rf", "/run/mine", "/run/team", "/run/taken"], on=place, check=True)


def test_a_folder_that_a_host_lacks_is_an_error_that_says_what_helps(programs, hosts):
    hosts.run(["mkdir", "-p", "/run/only-here"], on="launcher", check=True)
    programs.run("""
os.chdir("/run/only-here")
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, num_proc=1, hosts="h1:1"))
assert error.code == "HVD-E0308" and "working directory" in str(error) and "sync" in error.hint, (error, error.hint)
assert hvdray.run(os.getcwd, num_proc=1, hosts="h1:1", options={"sync": "."}) == ["/run/only-here"]
""")
    hosts.run(["rm", "-rf", "/run/only-here"], on="h1", check=True)


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


@pytest.mark.rest
@pytest.mark.parametrize("mode", ["static", "elastic", "pool"])
def test_killed_at_any_moment_nothing_is_left(programs, hosts, tmp_path, mode):
    victims = ["program", "serve", "agent", "keeper", "worker", *["fork_server"] * (mode == "pool")]

    def start(**streams):
        return programs.start(program_of(mode, "h1:1,h2:1"), **streams)

    kill_at_random(victims, Hosts(hosts), start, tmp_path / "said", kills=4)
