# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the integration tests: real processes, bounded in time, counted from outside."""

import dataclasses
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

import pytest

from aws_cloud import aws_cloud, aws_server  # noqa: F401  pylint: disable=unused-import
from cloud_hosts import cloud_hosts, cloud_hosts_set  # noqa: F401  pylint: disable=unused-import
from elastic import Elastic
from hosts import host_set, hosts  # noqa: F401  pylint: disable=unused-import
from hosts_processes import looks
from last_release import mixed, old_agent, release, today  # noqa: F401  pylint: disable=unused-import
from ray import (hidden_ray, hidden_ray_set, old_ray_cluster,  # noqa: F401  pylint: disable=unused-import
                 old_ray_set, open_ray_cluster, open_ray_set, ray_cluster, ray_set, ray_v2_cluster,
                 ray_v2_set, ray_venv)

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A shell without job control starts what runs in its background deaf to these, and so would be hvdray.
for _signo in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signo) == signal.SIG_IGN:
        signal.signal(_signo, signal.SIG_DFL)

# Jobs of several workers on these few processors: hvdray would choose the same, and say so on stderr.
os.environ.setdefault("OMP_NUM_THREADS", "1")

MARK = "TEST_MARK"  # inherited by every process of a job, whatever it does to its group or session


def pytest_configure(config):
    config.addinivalue_line("markers", "rest: no first path of a capability: ./check runs a third of these, see CMakeLists.txt")


def rest(*cases):
    """Cases of a parametrize that are marked `rest`."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.rest) for case in cases]


def pytest_addoption(parser):
    parser.addoption("--bin-dir", default=str(ROOT / "build/release/bin"))
    parser.addoption("--horovod-venv", default="")
    parser.addoption("--ray-venv", default="")
    parser.addoption("--old-ray-venv", default="")
    parser.addoption("--ray-libraries", default="")
    parser.addoption("--moto-venv", default="")
    parser.addoption("--optuna-venv", default="")
    parser.addoption("--postgres", default="")
    parser.addoption("--frameworks-venv", default="")
    parser.addoption("--jax-venv", default="")
    parser.addoption("--new-torch-venv", default="")
    parser.addoption("--other-pythons", default="", help="interpreters, separated by commas")
    parser.addoption("--packages", default=str(ROOT / "build/release/packages"), help="the folder of ctest's fixture `wheel`")
    parser.addoption("--ray-state", default="", help="of tests/integration/shared_ray.py")


@dataclasses.dataclass
class Result:
    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")


class Job:
    """One hvdray process and whatever it starts, recognised by a mark in the environment."""

    def __init__(self, binary, args, env=None, cwd=None, **popen):
        self.mark = uuid.uuid4().hex
        environment = dict(os.environ if env is None else env)
        environment[MARK] = self.mark
        environment.pop("CI", None)
        self.started = time.monotonic()
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        self.process = subprocess.Popen(
            [str(binary), *map(str, args)], env=environment, cwd=cwd, **popen)
        self.pid = self.process.pid

    def wait(self, timeout=60):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.process.communicate()
            raise AssertionError(
                f"not ended after {timeout} s\n--- stdout\n{(out or b'')[-4000:].decode(errors='replace')}"
                f"\n--- stderr\n{(err or b'')[-4000:].decode(errors='replace')}")
        return Result(self.process.returncode, out or b"", err or b"",
                      time.monotonic() - self.started)

    def processes(self):
        """Living processes that carry the mark: {pid: command line}."""
        found = {}
        needle = f"{MARK}={self.mark}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as f:
                    if needle not in f.read().split(b"\0"):
                        continue
                with open(f"/proc/{entry}/stat", "rb") as f:
                    if f.read().rsplit(b")", 1)[1].split()[0] in (b"Z", b"X"):
                        continue
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    found[int(entry)] = f.read().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def survivors(self, within=30.0):
        """What is still alive after at most `within` seconds; {} as soon as nothing is."""
        for _ in looks(within, least=0.02):
            alive = self.processes()
            if not alive:
                break
        return alive

    def wait_for(self, predicate, within=60.0, what="condition"):
        for _ in looks(within, least=0.01):
            value = predicate()
            if value:
                return value
            assert self.process.poll() is None, f"ended before {what}: {self.wait()}"
        self.kill()
        raise AssertionError(f"not within {within} s: {what}")

    def find(self, needle):
        return [pid for pid, line in self.processes().items() if needle in line]

    def kill(self):
        for pid in list(self.processes()) + [self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Hvdray:
    """The commands under test; with `hosts`, started at their launcher, not on this machine."""

    def __init__(self, bin_dir, hosts=None):  # noqa: F811
        self.hosts = hosts
        self.bin_dir = pathlib.Path(bin_dir).resolve()
        self.binary = self.bin_dir / "hvdray"
        self.agent = self.bin_dir / "hvdray-agent"
        self.jobs = []
        self.environment = None  # where none is given; None: ours
        self.patience = 60  # how long run() and go() wait where nothing is said

    def start(self, *args, binary=None, **kwargs):
        command = [binary or self.binary, *args]
        kwargs.setdefault("env", self.environment)
        if self.hosts is not None:
            command = self.hosts.command(command, cwd=kwargs.pop("cwd", None))
            kwargs["env"] = self.hosts.environment(kwargs.get("env"))
        job = Job(command[0], command[1:], **kwargs)
        self.jobs.append(job)
        return job

    def run(self, *args, timeout=None, **kwargs):
        return self.start(*args, **kwargs).wait(timeout or self.patience)

    def job(self, *args, **kwargs):
        return self.start("run", *args, **kwargs)

    def go(self, *args, timeout=None, **kwargs):
        return self.job(*args, **kwargs).wait(timeout or self.patience)


def checked(tool):
    """Hands out the tool; at the end nothing that it started may live."""
    yield tool
    leftovers = {}
    for job in tool.jobs:
        leftovers.update(job.survivors(within=30))
        job.kill()
    assert not leftovers, f"left running: {leftovers}"


@pytest.fixture
def hvdray(request):
    yield from checked(Hvdray(request.config.getoption("--bin-dir")))


@pytest.fixture
def hvdray_at_launcher(request, hosts):  # noqa: F811
    """As `hvdray`, started on the machine from which the shared hosts are reached."""
    yield from checked(Hvdray(request.config.getoption("--bin-dir"), hosts))


@pytest.fixture
def hvdray_at_ray(request, ray_cluster):  # noqa: F811
    """As `hvdray`, started at the launcher of the shared Ray cluster, which has no Ray. Its token
    is in the environment, its address is not: give --ray-address ray_cluster.url.
    """
    tool = Hvdray(request.config.getoption("--bin-dir"), ray_cluster.hosts)
    tool.environment = ray_cluster.client_environment()
    tool.patience = 180
    yield from checked(tool)


@pytest.fixture
def hvdray_at_hidden_ray(request, hidden_ray):  # noqa: F811
    """The same for the cluster whose dashboard can't be reached from the launcher."""
    tool = Hvdray(request.config.getoption("--bin-dir"), hidden_ray.hosts)
    tool.environment = hidden_ray.client_environment()
    tool.patience = 180
    yield from checked(tool)


@pytest.fixture(scope="session")
def horovod_python(request):
    venv = request.config.getoption("--horovod-venv")
    if not venv:
        if os.environ.get("CI") == "true":
            pytest.fail("no --horovod-venv, and CI skips nothing")
        pytest.skip("no Horovod environment: run tools/horovod_env.sh and pass --horovod-venv")
    return pathlib.Path(venv) / "bin" / "python"


NO_PYTHONS = "no Python of another minor version: run tools/other_pythons.sh and pass --other-pythons"


def pythons_of(config):
    return [pathlib.Path(path) for path in config.getoption("--other-pythons").split(",") if path]


@pytest.fixture
def other_pythons(request):
    """Interpreters of other minor versions. Skips the test if there are none to be had here, in CI too."""
    return pythons_of(request.config) or pytest.skip(NO_PYTHONS)


def pytest_generate_tests(metafunc):
    """`other_python`: each of them."""
    if "other_python" in metafunc.fixturenames:
        found = pythons_of(metafunc.config)
        values = found or [pytest.param(None, marks=pytest.mark.skip(reason=NO_PYTHONS))]
        # .../python-3.9/venv/bin/python
        metafunc.parametrize("other_python", values, ids=[path.parts[-4] for path in found] or ["none"])


@pytest.fixture
def elastic(hvdray, horovod_python, tmp_path):
    """Makes elastic jobs on this machine: elastic(**plan) with a Horovod script, see elastic.py."""
    numbers = itertools.count()

    def make(start=hvdray.job, python=horovod_python, **plan):
        return Elastic(start, python, tmp_path / f"elastic{next(numbers)}", **plan)

    yield make


@pytest.fixture
def script(tmp_path):
    """Writes an executable script of the test and returns its path."""

    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return write


def python_script(body):
    return f"#!{sys.executable}\n{body}"
