# SPDX-License-Identifier: Apache-2.0
"""`hvdray.run` on a Ray cluster from a program on a machine without Ray: its call is a job of the Jobs API, of which nothing is
left (the fixture looks for processes, jobs and groups after each test)."""

import json
import os
import signal

import pytest
from conftest import Hvdray, checked
from python_program import Programs
from hosts_processes import send, wait_until

SECRET = "nobody-may-see-this"


class CallPrograms(Programs):
    def __init__(self, tool, folder, ray):
        super().__init__(tool, folder)
        self.ray = ray

    def start(self, lines, env=None, **more):
        here = f"RAY = {{'ray_address': {self.ray.url!r}}}\n"
        return super().start(here + lines, env={**self.ray.client_environment(), **(env or {})}, **more)


def programs_beside(request, ray, folder):
    tool = Hvdray(request.config.getoption("--bin-dir"), ray.hosts)
    for tool_ in checked(tool):
        yield CallPrograms(tool_, folder, ray)


@pytest.fixture
def programs(request, ray_cluster, tmp_path):
    yield from programs_beside(request, ray_cluster, tmp_path)


@pytest.fixture
def old_programs(request, old_ray_cluster, tmp_path):
    yield from programs_beside(request, old_ray_cluster, tmp_path)


def statuses(ray):
    return [job["status"] for job in ray.jobs("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")
            if (job["submission_id"] or "").startswith("hvd-")]


def test_values_come_back_by_rank_from_a_program_without_ray(programs):
    result = programs.run("""
try:
    import ray
    raise SystemExit("this Python has Ray")
except ModuleNotFoundError:
    pass
class Net:
    def __init__(self, size):
        self.size = size
def train(net, *, step):
    import socket
    print("on", socket.gethostname(), "rank", rank())
    print("aside", file=sys.stderr)
    return rank(), net.size * factor + step, os.environ["COLOUR"], socket.gethostname(), net
factor = 3
values = hvdray.run(train, args=(Net(5),), kwargs={"step": 1}, num_proc=4, env={"COLOUR": "red"}, options=RAY)
assert [value[:3] for value in values] == [(r, 16, "red") for r in range(4)], values
assert all(type(value[4]) is Net and value[4].size == 5 for value in values)
assert len({value[3] for value in values}) >= 2 and set(v[3] for v in values) <= {"h1", "h2", "h3", "h4"}, values
assert hvdray.run(rank, options={**RAY, "num_hosts": 2, "num_slots": 1}) == [0, 1]
assert hvdray.run(rank, options=RAY) == [0]
""")
    assert sorted(line.split()[-1] for line in result.text.splitlines() if "<stdout>:on h" in line) == list("0123")
    assert result.errors.count("<stderr>:aside") == 4, result.errors
    assert statuses(programs.ray).count("SUCCEEDED") >= 3


def test_a_forked_child_does_not_answer_for_its_rank(programs):
    programs.run("""
def fork(leave):
    pid = os.fork()
    if pid == 0:
        return leave()
    return rank(), os.waitpid(pid, 0)[1]
assert hvdray.run(fork, args=(lambda: "child",), num_proc=2, options=RAY) == [(0, 0), (1, 0)]
assert hvdray.run(fork, args=(lambda: sys.exit(3),), num_proc=2, options=RAY) == [(0, 3 << 8), (1, 3 << 8)]
""")


def test_the_same_on_old_ray(old_programs):
    """Which unpacks without modes."""
    old_programs.run("""
def look():
    import glob
    import socket
    here = glob.glob(f"/tmp/*/{socket.gethostname()}/ray/**/hvdray_job", recursive=True)
    return rank(), len(block), len(here) > 0, [name for folder in here for name in os.listdir(folder)]
block = bytes(1 << 20)
values = hvdray.run(look, num_proc=2, options=RAY)
assert values == [(rank, 1 << 20, True, []) for rank in range(2)], values
error = raised(ZeroDivisionError, lambda: hvdray.run(lambda: 1 // 0, options=RAY))
assert error.rank == 0
""")


def test_large_arrays_travel_both_ways(programs):
    programs.run("""
size = 48 << 20
block = bytes(range(256)) * 4096
data = bytearray(block * (size // len(block)))
def double(data):
    import hashlib
    assert memoryview(data).readonly is False
    return hashlib.sha256(data).hexdigest(), bytearray(data[: 24 << 20])
import hashlib
values = hvdray.run(double, args=(data,), num_proc=2, options=RAY)
assert [digest for digest, _ in values] == [hashlib.sha256(data).hexdigest()] * 2
assert all(part == data[: 24 << 20] for _, part in values)
""")


def test_the_functions_own_exception_is_raised_with_rank_and_traceback(programs):
    result = programs.run("""
class Own(Exception):
    pass
def fail():
    if rank() == 2:
        raise Own("no luck")
    time.sleep(600)
error = raised(Own, lambda: hvdray.run(fail, num_proc=3, options=RAY))
assert isinstance(error, hvdray.WorkerError) and error.rank == 2 and type(error.__cause__) is Own, repr(error)
assert str(error).startswith("Horovod detected that one or more processes exited with non-zero status"), str(error)
assert "no luck" in str(error) and "in fail" in error.traceback, error.traceback
error = raised(hvdray.SerializationError, lambda: hvdray.run(lambda: threading.Lock(), options=RAY))
assert "rank 0" in str(error), error
lock = threading.Lock()
raised(hvdray.SerializationError, lambda: hvdray.run(lambda: lock, options=RAY))
""")
    assert "Own: no luck" in result.errors


def test_a_worker_that_is_killed_and_one_that_exits(programs):
    programs.run("""
def die(how):
    if rank() == 1:
        how()
    time.sleep(600)
error = raised(hvdray.WorkerDied, lambda: hvdray.run(die, args=(lambda: os.kill(os.getpid(), signal.SIGKILL),), num_proc=2, options=RAY))
assert (error.rank, error.signal) == (1, "SIGKILL"), repr(error)
error = raised(hvdray.WorkerDied, lambda: hvdray.run(lambda: os._exit(7), options=RAY))
assert (error.rank, error.exit_code) == (0, 7), repr(error)
error = raised(hvdray.WorkerDied, lambda: hvdray.run(lambda: os._exit(0), options=RAY))
assert "exited with code 0 before it had answered" in str(error), error
""")


def test_elastic_calls_go_on_without_a_worker(programs):
    programs.run("""
def work():
    return int(os.environ["HOROVOD_SIZE"])
assert hvdray.run(work, min_num_proc=2, max_num_proc=2, options=RAY) == [2, 2]
""")


SLEEPERS = """
def up():
    with open(f"/proc/self/comm", "w") as name:
        name.write("of-the-test")
    {more}
    time.sleep(600)
"""


def sleepers(ray):
    """Workers that are in the function."""
    found = []
    for alive in ray.foreign_processes(*ray.nodes).values():
        for pid in alive:
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                    found += [pid] if name.read() == "of-the-test\n" else []
            except OSError:
                pass
    return found


def test_ctrl_c_ends_the_job_on_the_cluster(programs):
    job = programs.start(SLEEPERS.format(more="") + """
raised(KeyboardInterrupt, lambda: hvdray.run(up, num_proc=2, options=RAY))
print("interrupted")
""")
    wait_until(lambda: len(sleepers(programs.ray)) == 2, "two workers", 120)
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(120)
    assert result.code == 0 and "interrupted" in result.text, result.errors
    wait_until(lambda: not sleepers(programs.ray) and not programs.ray.jobs(), "the job's end")


def test_workers_that_do_not_heed_an_interrupt_are_killed(programs):
    job = programs.start(SLEEPERS.format(more="signal.signal(signal.SIGTERM, signal.SIG_IGN)") + """
error = raised(KeyboardInterrupt, lambda: hvdray.run(up, num_proc=2, options={**RAY, "grace": 1}))
assert "killed, because they did not return: ranks 0, 1" in str(error), repr(error)
""")
    wait_until(lambda: len(sleepers(programs.ray)) == 2, "two workers", 120)
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(120)
    assert result.code == 0, result.errors


@pytest.mark.parametrize("victim", ["program", "serve"])
def test_a_client_that_is_killed_leaves_no_job(programs, victim):
    job = programs.start(SLEEPERS.format(more="") + """
raised(hvdray.LauncherLost, lambda: hvdray.run(up, num_proc=2, options={**RAY, "grace": 1}))
""")
    wait_until(lambda: len(sleepers(programs.ray)) == 2, "two workers", 120)
    if victim == "program":
        os.kill(job.pid, signal.SIGKILL)
        wait_until(lambda: not sleepers(programs.ray) and not programs.ray.jobs("PENDING", "RUNNING"), "the job's end", 120)
        job.wait(120)
        return
    # Nobody can tell Ray: the driver misses its client after a minute.
    (serve,) = job.find(" serve ")
    send([serve], signal.SIGKILL)
    assert job.wait(120).code == 0
    wait_until(lambda: not sleepers(programs.ray) and not programs.ray.jobs("PENDING", "RUNNING"), "the job's end", 240)


def test_what_can_not_be(programs):
    programs.run("""
from hvdray.ray import RayExecutor
for make in (lambda: hvdray.Executor(2, options=RAY), lambda: RayExecutor(None, num_workers=2, options=RAY), lambda: hvdray.Pool(2, options=RAY)):
    error = raised(ValueError, make)
    assert "is of hvdray.run" in str(error) and "run this program on the cluster" in str(error), error
raised(ValueError, lambda: hvdray.run(rank, hostfile="hosts", options=RAY))
raised(ValueError, lambda: hvdray.run(rank, num_proc=1, options={**RAY, "np": 2}))
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, options={"ray_address": "http://127.0.0.1:9"}))
assert "127.0.0.1:9" in str(error) and error.code, repr(error)
error = raised(hvdray.PlacementTimeout, lambda: hvdray.run(rank, num_proc=64, options=RAY))
assert error.code == "HVD-E0219", repr(error)
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, options={**RAY, "no_such": 1}))
assert "no-such" in str(error) or "no_such" in str(error), error
error = raised(hvdray.WorkerError, lambda: hvdray.run(rank, executable="/usr/bin/false", options=RAY))
""")


def test_no_list_of_processes_or_jobs_has_the_call(programs):
    job = programs.start(SLEEPERS.format(more="") + f"""
raised(KeyboardInterrupt, lambda: hvdray.run(up, num_proc=1, env={{"TOKEN": "{SECRET}"}}, options={{**RAY, "env": ["TOO={SECRET}"]}}))
""")
    wait_until(lambda: len(sleepers(programs.ray)) == 1, "the worker", 120)
    lines = [line for alive in programs.ray.foreign_processes().values() for line in alive.values()]
    assert lines and not any(SECRET in line for line in lines), lines
    assert SECRET not in json.dumps(programs.ray.call("GET", "/api/jobs/"))
    resources = programs.ray.logs().parent / "runtime_resources"
    assert not list(resources.rglob("hvdray_job/control")) and not list(resources.rglob("hvdray_job/job.json"))
    assert not any(SECRET.encode() in path.read_bytes() for path in programs.ray.logs().glob("hvdray_*"))
    (worker,) = sleepers(programs.ray)
    with open(f"/proc/{worker}/environ", "rb") as variables:
        assert f"TOKEN={SECRET}".encode() in variables.read()
    os.kill(job.pid, signal.SIGINT)
    assert job.wait(120).code == 0


def test_no_job_without_its_start(programs):
    before = statuses(programs.ray)
    result = programs.tool.run("serve", "--ray-address", programs.ray.url, "-np", 1, "--control", "/tmp/nowhere", "--", "true",
                               env=programs.ray.client_environment())
    assert result.code == 2 and "--control-fd" in result.errors, result.errors
    assert statuses(programs.ray) == before
