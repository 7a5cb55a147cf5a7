# SPDX-License-Identifier: Apache-2.0
"""Elastic calls of programs that use Ray: RayExecutor(min_workers=…), ElasticRayExecutor and discovery objects.

Not here: elastic calls as such (python_elastic_test), and nodes that come and go (ray_elastic_test).
"""

import os
import pathlib
import re
import signal

import pytest
from python_elastic_test import TRAIN
from python_program import ROOT
from ray import SPARE
from ray_program import programs_on

from hosts_processes import wait_until


@pytest.fixture
def programs(request, ray_cluster, tmp_path):
    yield from programs_on(request, ray_cluster, tmp_path)


ELASTIC = """
from unittest import mock
from hvdray.ray import ElasticRayExecutor
"""


def with_horovod(horovod_python, program=TRAIN):
    site = next((horovod_python.parent.parent / "lib").glob("python3*")) / "site-packages"
    path = f"sys.path += [{str(site)!r}, '/usr/lib/python3/dist-packages']"
    return re.sub("^( +)(?=import horovod)", rf"\1{path}\n\1", program, flags=re.MULTILINE)


def test_what_does_not_fit_together_and_what_discovery_finds(programs):
    """The inputs of horovod.ray's own tests."""
    programs.run(ELASTIC + """
def refused(text, **asked):
    error = raised(ValueError, lambda: RayExecutor(settings(), **asked))
    assert text in str(error), error

refused("Both `min_workers` and `num_workers` provided", min_workers=1, num_workers=2)
refused("`max_workers` provided without any positive `min_workers`", max_workers=2)
refused("min_workers and num_hosts", min_workers=1, num_hosts=2)
refused("gpus_per_worker is set, but use_gpu is False", min_workers=1, gpus_per_worker=1)
refused("settings.discovery", min_workers=1, override_discovery=False)
error = raised(ValueError, lambda: ElasticRayExecutor(ElasticRayExecutor.create_settings(), gpus_per_slot=1))
assert "gpus_per_slot is set" in str(error)
error = raised(ValueError, lambda: ElasticRayExecutor(ElasticRayExecutor.create_settings(), use_gpu=True, gpus_per_slot=0))
executor = RayExecutor(settings(), min_workers=1)
raised(hvdray.HvdrayError, lambda: executor.run(rank))  # not started
executor.start()
raised(NotImplementedError, lambda: executor.run_remote(rank))
raised(NotImplementedError, lambda: executor.execute_single(rank))
executor.shutdown()

def node(address, alive=True, **resources):
    return {"NodeManagerAddress": address, "alive": alive, "Resources": resources}

def found(nodes, v2=False, **asked):
    from hvdray.ray import elastic, elastic_v2
    with mock.patch("ray.nodes", lambda: nodes):
        return (elastic_v2 if v2 else elastic).RayHostDiscovery(**asked).find_available_hosts_and_slots()

for v2 in (False, True):
    cpus, gpus = ("cpus_per_worker", "gpus_per_worker") if v2 else ("cpus_per_slot", "gpus_per_slot")
    assert found([], v2) == {}
    assert found([node("a", CPU=5.0)], v2) == {"a": 5}
    assert found([node("a", CPU=5.0)], v2, **{cpus: 4}) == {"a": 1}
    assert found([node("a", alive=False, CPU=5.0), node("b", CPU=1.0), node("c")], v2) == {"b": 1}
    assert found([node("a", CPU=8.0, GPU=5.0)], v2, use_gpu=True) == {"a": 5}
    assert found([node("a", CPU=8.0, GPU=5.0)], v2, use_gpu=True, **{cpus: 3, gpus: 2}) == {"a": 2}
    assert found([node("a", CPU=8.0), node("b", CPU=8.0, GPU=1.0)], v2, use_gpu=True) == {"b": 1}

from hvdray.ray.elastic import TestDiscovery
hidden = TestDiscovery(min_hosts=1, max_hosts=2, change_frequency_s=0, verbose=False)
with mock.patch("ray.nodes", lambda: [node("a", CPU=1.0), node("b", CPU=1.0)]):
    sizes = [len(hidden.find_available_hosts_and_slots()) for _ in range(6)]
assert sizes == [1, 2, 1, 2, 1, 2], sizes
""")


def test_all_nodes_are_there_for_an_elastic_call(programs):
    programs.run(ELASTIC + """
import warnings
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    asked = ElasticRayExecutor.create_settings(min_np=3, max_np=4, elastic_timeout=30, nics={"eth0"}, verbose=0, timeout_s=60)
assert [w.category for w in warned] == [DeprecationWarning] * 2
asked.nics = None
logged = []
def train():
    from hvdray.ray import ray_logger
    ray_logger.log({"rank": rank(), "colour": os.environ["COLOUR"]})
    return int(os.environ["HOROVOD_SIZE"])

with ElasticRayExecutor(asked, env_vars={"COLOUR": 7}) as executor:
    executor.start()
    sizes = executor.run(train, callbacks=[logged.append])
    assert sizes in ([3] * 3, [4] * 4), sizes
    assert {(entry["rank"], entry["colour"]) for entry in logged} >= {(rank, "7") for rank in range(len(sizes))}, logged
    error = raised(hvdray.WorkerError, lambda: executor.run(lambda: 1 // 0))
    assert isinstance(error, ZeroDivisionError), error

few = RayExecutor(settings(), min_workers=20, elastic_timeout=2)
few.start()
error = raised(hvdray.HvdrayError, lambda: few.run(train))
assert error.code == "HVD-E0208" and "Please check that you have enough resources" in str(error), error
few.shutdown()

class Model:
    def __init__(self, start):
        self.n = start + rank()
calls = RayExecutor(settings(), min_workers=2, max_workers=2)
calls.start(Model, [10])
assert calls.execute(lambda model: model.n) == [10, 11]
assert calls.execute(lambda model: model.n + 1) == [11, 12]
calls.shutdown()
until(lambda: not living() and ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"])
""")


def test_hosts_that_an_object_finds_come_and_go_and_workers_live_on(programs, horovod_python):
    programs.run(with_horovod(horovod_python) + ELASTIC + """
from hvdray.ray import elastic_v2
elastic_v2.DISCOVER_HOSTS_FREQUENCY_SECS = 0.1
nodes = sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["alive"]})

class Hosts:
    found = {nodes[0]: 1, nodes[1]: 1}
    def find_available_hosts_and_slots(self):
        return self.found

hosts = Hosts()
asked = settings()
asked.discovery = hosts
executor = RayExecutor(asked, min_workers=2, max_workers=4, override_discovery=False)
executor.start()

def pids(generation, *hosts):
    gang(generation, len(hosts))
    until(lambda: len(executor.workers) == len(hosts), "the workers")
    return {worker["host"]: worker["pid"] for worker in executor.workers}

def change():
    first = pids(1, *nodes[:2])
    assert sorted(first) == nodes[:2], first
    hosts.found = {**hosts.found, nodes[2]: 1}
    second = pids(2, *nodes[:3])
    assert sorted(second) == nodes[:3] and first.items() <= second.items(), (first, second)
    hosts.found = {nodes[0]: 1, nodes[2]: 1}
    third = pids(3, nodes[0], nodes[2])
    assert third == {host: second[host] for host in third}, (second, third)
    open("stop", "w").close()

beside(change)
values = executor.run(train)
assert values == [(0, 2, [2, 3, 2]), (1, 2, [2, 3, 2])], values
executor.shutdown()
until(lambda: not living(), "the end of all actors")
""")


# Discovery and training of horovod.ray's own tests of changing hosts, whose hosts are nodes here. What the discovery waits for is
# more: each list holds until all its slots have workers that take notices, and the training goes on until the last one's have.
SCHEDULED = """
from hvdray.ray import elastic_v2
elastic_v2.DISCOVER_HOSTS_FREQUENCY_SECS = 0.1
nodes = sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["alive"]})

class Schedule:
    executor = None
    def __init__(self, *lists):
        self.answers = [self.slots(names) for times, names in lists for _ in range(times or 1)]
        self.last = None

    @staticmethod
    def slots(names):
        return {nodes[int(name[len("host-")]) - 1]: int(name[-1]) for name in names}

    def is_there(self, hosts):
        driver = self.executor.driver
        clients = [driver.get_worker_client(driver.get_slot_info(host, slot)) for host in hosts for slot in range(hosts[host])]
        return None not in clients and driver.world_size() == len(clients)

    def find_available_hosts_and_slots(self):
        if self.last not in (None, self.answers[0]):
            until(lambda: self.is_there(self.last), self.last)
        self.last = self.answers[0]
        if len(self.answers) > 1:
            del self.answers[0]
        elif self.is_there(self.last):
            open("stop", "w").close()
        return self.last

def training(iterations):
    def train():
        import horovod.torch as hvd, torch
        from hvdray.ray import ray_logger
        hvd.init()
        model = torch.nn.Linear(2, 2)
        ray_logger.log({"started": os.getpid()})

        @hvd.elastic.run
        def go(state):
            for state.epoch in range(state.epoch, 10**6):
                time.sleep(0.1)
                may_end = torch.tensor([float(os.path.exists("stop"))])
                if hvd.allreduce(may_end, op=hvd.Min, name="end").item() and state.epoch >= iterations:
                    break
                state.commit()
            ray_logger.log({"finished": os.getpid()})

        go(hvd.elastic.TorchState(model, torch.optim.SGD(model.parameters(), lr=0.1), epoch=0))
        return True
    return train

def check(executor, schedule, iterations, started, finished):
    schedule.executor = executor
    executor.start()
    logged = []
    results = executor.run(training(iterations), callbacks=[logged.append])
    assert results == [True] * finished, results
    pids = {word: [entry[word] for entry in logged if word in entry] for word in ("started", "finished")}
    assert len(pids["started"]) == started and len(pids["finished"]) == finished, pids
    assert len(set(pids["started"])) == started and set(pids["finished"]) <= set(pids["started"]), pids
    assert executor.driver.get_coordinator_info() is None
    executor.shutdown()
    until(lambda: not living(), "the end of all actors")
"""
# As Horovod: a gang stops at once for newcomers, whose imports may last longer than the training.
TOGETHER = {"HVDRAY_JOIN": "together"}


def test_hosts_are_added_and_removed_as_in_horovods_tests(programs, horovod_python):
    programs.run(with_horovod(horovod_python, TRAIN + ELASTIC + SCHEDULED) + """
asked = ElasticRayExecutor.create_settings(min_num_proc=1, timeout_s=60)
asked.discovery = Schedule((10, ["host-1:2"]), (30, ["host-1:2", "host-2:1", "host-3:1"]), (None, ["host-2:1"]))
executor = ElasticRayExecutor(asked, cpus_per_slot=1, override_discovery=False)
assert executor.driver is None
check(executor, asked.discovery, 50, started=4, finished=1)
""", env=TOGETHER)


def test_hosts_are_removed_and_others_added_as_in_horovods_tests(programs, ray_cluster, horovod_python):
    ray_cluster.start_node(SPARE)
    programs.run(with_horovod(horovod_python, TRAIN + ELASTIC + SCHEDULED) + """
asked = settings()
asked.discovery = Schedule((10, ["host-1:2", "host-2:1", "host-3:2"]), (10, ["host-1:2"]),
                           (None, ["host-1:2", "host-4:1", "host-5:1"]))
executor = RayExecutor(asked, min_workers=1, cpus_per_worker=1, override_discovery=False)
check(executor, asked.discovery, 30, started=7, finished=4)
""", env=TOGETHER)


def test_hosts_are_removed_and_added_again_as_in_horovods_tests(programs, horovod_python):
    """Horovod's test expects that five start: its hosts leave before they have workers. Here they have some."""
    programs.run(with_horovod(horovod_python, TRAIN + ELASTIC + SCHEDULED) + """
asked, hosts = settings(), ["host-1:2", "host-2:1", "host-3:2"]
asked.discovery = Schedule((10, hosts), (10, ["host-1:2"]), (None, hosts))
executor = RayExecutor(asked, min_workers=1, cpus_per_worker=1, override_discovery=False, cooldown_range=[1, 1])
check(executor, asked.discovery, 30, started=5 + 3, finished=5)
assert executor.adapter.driver is executor.driver
""", env=TOGETHER)


@pytest.mark.parametrize("elastic", [False, True])
def test_the_example_learns_on_the_cluster(programs, horovod_python, elastic):
    """What a program has on its sys.path is on that of its workers, too."""
    (horovod,) = (horovod_python.parent.parent / "lib").glob("python3*/site-packages")
    packages = [*horovod.glob("horovod*")]
    for pattern in ("numpy", "torch", "yaml", "psutil", "cffi", "_cffi_backend*.so", "packaging", "typing_extensions.py"):
        packages += pathlib.Path("/usr/lib/python3/dist-packages").glob(pattern)
    for package in packages:
        (programs.site / package.name).symlink_to(package)
    names = {"PYTHONPATH": f"{ROOT / 'python'}:{programs.site}", "HVDRAY_BINARY": str(programs.tool.binary)}
    if programs.ray.token:
        names["RAY_AUTH_TOKEN"] = programs.ray.token
    result = programs.tool.run(ROOT / "examples/python/digits_ray.py", "--workers", "2", *["--elastic"] * elastic,
                               binary=programs.ray.venv / "bin/python", env={**os.environ, **names}, timeout=300)
    assert result.code == 0, result.errors[-4000:]
    accuracy, workers = re.search(r"test accuracy ([\d.]+) %, (\d) workers", result.out.decode()).groups()
    assert float(accuracy) > 85 and int(workers) in ((2, 3, 4) if elastic else (2,)), result.out
    assert b"epoch 60: loss " in result.out


def test_nothing_is_left_of_an_elastic_call_that_is_killed(programs, ray_cluster, tmp_path):
    job = programs.start("""
executor = RayExecutor(settings(), min_workers=2)
executor.start()
def work():
    open(f"up{rank()}", "w").close()
    sleep()
executor.run(work)
""")
    wait_until((tmp_path / "up1").exists, "the workers", within=120)
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.wait(120).code == -signal.SIGKILL, job.errors
    wait_until(lambda: not any(ray_cluster.foreign_processes().values()), "the end of all")
