# SPDX-License-Identifier: Apache-2.0
"""The package `hvdray` in programs that use Ray: executors on the cluster, in a placement group, and what stays after them."""

import os
import signal

import pytest
from ray import GPUS
from ray_program import programs_on

from hosts_processes import wait_until


@pytest.fixture
def programs(request, ray_cluster, tmp_path):
    yield from programs_on(request, ray_cluster, tmp_path)


@pytest.fixture
def old_programs(request, old_ray_cluster, tmp_path):
    yield from programs_on(request, old_ray_cluster, tmp_path)


EXECUTOR = """
class Model:
    def __init__(self, start, step=1):
        self.n, self.step = start, step
    def up(self):
        self.n += self.step
        return self.n

executor = RayExecutor(settings(), num_workers=4)
executor.start(Model, [10], {"step": 5}, {"COLOUR": 7})
assert executor.execute(lambda model: model.up()) == [15] * 4
assert executor.execute_single(lambda model: model.up()) == 20
nodes = executor.run(lambda: (ray_node(), os.environ["HOROVOD_HOSTNAME"], rank(), os.environ["HOROVOD_LOCAL_RANK"], os.nice(0)))
assert [local for _, _, _, local, _ in nodes] == ["0", "1"] * 2 and [n[2] for n in nodes] == [0, 1, 2, 3], nodes
assert {nice for *_, nice in nodes} == {0} and len({name for _, name, *_ in nodes}) == 2, nodes
assert {name for _, name, *_ in nodes} <= {node["NodeID"] for node in ray.nodes()}
logged = []
def train(factor):
    from hvdray.ray import ray_logger
    for epoch in range(2):
        ray_logger.log({"rank": rank(), "epoch": epoch})
    return factor * rank()
assert executor.run(train, args=[3], callbacks=[logged.append]) == [0, 3, 6, 9]
assert sorted((entry["rank"], entry["epoch"]) for entry in logged) == [(r, e) for r in range(4) for e in range(2)]
references = executor.run_remote(train, [2])
assert all(isinstance(reference, ray.ObjectRef) for reference in references)
assert ray.get(references) == [0, 2, 4, 6]
error = raised(ZeroDivisionError, lambda: ray.get(executor.run_remote(lambda: 1 // 0)))
error = raised(ZeroDivisionError, lambda: executor.run(lambda: 1 // (2 - rank())))
assert isinstance(error, hvdray.WorkerError) and error.rank == 2
assert executor.execute(lambda model: model.n) == [20, 15, 15, 15]
def fork(model):
    pid = os.fork()
    if pid == 0:
        model.n = 0
        return "child"
    return model.n, os.waitpid(pid, 0)[1]
for _ in range(2):
    assert executor.execute(fork) == [(20, 0), (15, 0), (15, 0), (15, 0)]
executor.shutdown()
executor.shutdown()
until(lambda: not living() and ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"])
"""


def test_an_executor_keeps_workers_on_the_cluster(programs):
    programs.run("import socket\ndef ray_node():\n    return socket.gethostname()\n" + EXECUTOR)


def test_the_same_on_old_ray(old_programs):
    old_programs.run("def ray_node():\n    return None\n" + EXECUTOR)


def test_workers_that_are_forked_from_a_warm_python(programs):
    programs.run("""
def begin():
    return "xmlrpc.client" in sys.modules, os.getppid(), os.environ["HOROVOD_HOSTNAME"]
with RayExecutor(settings(), num_hosts=2, num_workers_per_host=2, options={"preload": ["xmlrpc.client"]}) as executor:
    executor.start()
    first = executor.run(begin)
    executor.restart()
    second = executor.run(begin)
assert [is_warm for is_warm, *_ in first + second] == [True] * 8, (first, second)
assert len({tuple(where) for _, *where in first + second}) == 2, (first, second)
""")


def test_executors_follow_each_other_on_a_pool(programs):
    programs.run("""
with hvdray.Pool(4, backend="ray", preload=["wave"]) as pool:
    assert pool.wait_warm(60)
    for count in (4, 2):
        executor = RayExecutor(settings(), num_workers=count, pool=pool)
        executor.start(extra_env_vars={})
        assert executor.run(lambda: (rank(), "wave" in sys.modules)) == [(n, True) for n in range(count)]
        executor.shutdown()
    assert hvdray.run(rank, pool=pool) == [0, 1, 2, 3]
    raised(ValueError, lambda: RayExecutor(settings(), num_workers=5, pool=pool).start())
    raised(ValueError, lambda: RayExecutor(settings(), num_workers=4, use_gpu=True, pool=pool).start())
    raised(ValueError, lambda: RayExecutor(settings(), min_workers=2, pool=pool))
until(lambda: not living() and ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"])
""")


def test_there_is_no_room(programs):
    programs.run("""
short = settings(placement_group_timeout_s=2)
for asked in ({"num_workers": 64}, {"num_hosts": 1, "num_workers_per_host": 64}, {"num_hosts": 64, "num_workers_per_host": 1}):
    executor = RayExecutor(short, **asked)
    error = raised(TimeoutError, executor.start)
    assert isinstance(error, hvdray.PlacementTimeout) and "64" in str(error), error
    executor.shutdown()
executor = hvdray.Executor(64)  # Ray is initialised: it is asked
timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
raised(KeyboardInterrupt, executor.start)
until(lambda: not living() and all(group["state"] == "REMOVED" for group in ray.util.placement_group_table().values()))
error = raised(ValueError, lambda: RayExecutor(short, num_workers=2, gpus_per_worker=1))
assert "use_gpu must be True" in str(error)
raised(ValueError, lambda: RayExecutor(short, num_workers=2, num_hosts=1))
raised(ValueError, lambda: RayExecutor(short))
raised(ValueError, lambda: hvdray.Executor(2, hosts="a:1", use_gpu=True, backend="ssh"))
""")


def test_slots_of_the_current_placement_group(programs):
    """As in a trial of Ray Tune: the program is an actor in a group that has its slots."""
    programs.run("""
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
group, _ = create_placement_group({"CPU": 1}, 3, 30, "PACK")
until(lambda: ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"] - 3)  # all nodes have told

@ray.remote(num_cpus=1)
class Trial:
    def run(self):
        executor = RayExecutor(settings(), num_workers=2)
        executor.start()
        ours = executor.adapter.strategy._created_placement_group
        values = executor.execute(lambda nothing: rank())
        free = ray.available_resources()["CPU"]
        executor.shutdown()
        many = RayExecutor(settings(), num_hosts=3, num_workers_per_host=1)
        return ours, values, free, str(raised(hvdray.PlacementTimeout, many.start))

within = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
here = {name: os.environ[name] for name in ("PYTHONPATH", "HVDRAY_BINARY")}
trial = Trial.options(scheduling_strategy=within, runtime_env={"env_vars": here}).remote()
free = ray.available_resources()["CPU"]
ours, values, during, error = ray.get(trial.run.remote())
assert (ours, values, during) == (False, [0, 1], free), (ours, values, during, free)
assert "room for 2 workers of 1 CPU each, and 3 are asked for" in error, error
assert ray.util.placement_group_table(group)["state"] == "CREATED"
ray.kill(trial)
ray.util.remove_placement_group(group)
""")


def test_gpus_are_those_that_ray_gave(programs):
    assert GPUS["h4"] == 4
    programs.run("""
for asked in ({"num_hosts": 1, "num_workers_per_host": 4}, {"num_workers": 4}):
    with RayExecutor(settings(), use_gpu=True, cpus_per_worker=0.5, **asked) as executor:
        executor.start()
        seen = executor.run(lambda: (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["HOROVOD_LOCAL_SIZE"]))
        if "num_hosts" in asked:
            assert len(set(seen)) == 1, seen
        assert all(len(gpus.split(",")) == int(size) for gpus, size in seen), seen
""")


def test_horovod_trains(programs, horovod_python):
    site = horovod_python.parent.parent / "lib"
    programs.run(f"""
def train():
    sys.path += [{str(next(site.glob("python3*")) / "site-packages")!r}, "/usr/lib/python3/dist-packages"]
    import horovod.torch as hvd
    import torch
    hvd.init()
    total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum).item()
    return hvd.rank(), hvd.local_rank(), hvd.cross_size(), total

with RayExecutor(settings(), num_hosts=2, num_workers_per_host=2) as executor:
    executor.start()
    assert executor.run(train) == [(0, 0, 2, 6.0), (1, 1, 2, 6.0), (2, 0, 2, 6.0), (3, 1, 2, 6.0)]
""")


def test_workers_and_hosts_are_lost(programs):
    programs.run("""
executor = RayExecutor(settings(), num_hosts=2, num_workers_per_host=1)
executor.start(dict)
error = raised(hvdray.WorkerDied, lambda: executor.run(lambda: rank() and os._exit(9)))
assert (error.rank, error.exit_code) == (1, 9), error
raised(hvdray.StateLost, lambda: executor.execute(len))
executor.restart()
assert executor.execute(len) == [0, 0]
def lose_the_agent():
    if rank() == 1:
        os.kill(os.getppid(), signal.SIGKILL)
    sleep()
error = raised(hvdray.HvdrayError, lambda: executor.run(lose_the_agent))
assert executor.workers == [] and error.code == "HVD-E0205", error
executor.restart()  # with a new serve, and new slots
assert executor.execute(len) == [0, 0]
executor.shutdown()
until(lambda: not living())
""")


@pytest.mark.parametrize("victim", ["program", "serve"])
def test_nothing_is_left_of_what_is_killed(programs, ray_cluster, tmp_path, victim):
    """The fixture finds processes and placement groups that stay."""
    job = programs.start("""
executor = RayExecutor(settings(), num_workers=3)
executor.start()
with open("pid.new", "w") as file:
    file.write(str(executor._executor._launcher._process.pid))
os.rename("pid.new", "pid")
error = raised(hvdray.LauncherLost, lambda: executor.run(sleep))
assert "killed by signal 9" in str(error), error
executor.shutdown()
until(lambda: not living())
""")
    wait_until((tmp_path / "pid").exists, "the workers", within=120)
    serve = int((tmp_path / "pid").read_text())
    os.kill(job.process.pid if victim == "program" else serve, signal.SIGKILL)
    assert job.wait(120).code == (-signal.SIGKILL if victim == "program" else 0), job.errors
    wait_until(lambda: not any(ray_cluster.foreign_processes().values()), "the end of all")


def test_a_function_that_uses_ray_joins_the_programs_cluster(programs):
    programs.run("""
@ray.remote(num_cpus=0)
class Counter:
    def up(self): return 41
counter = Counter.options(name="counter", namespace="shared").remote()
@ray.remote(num_cpus=0)
def double(x): return 2 * x
def use():
    import ray
    seen = ray.get(double.remote(4)), len(ray.nodes()), ray.get(ray.get_actor("counter", namespace="shared").up.remote())
    ray.shutdown()
    return seen
nodes = len(ray.nodes())
with RayExecutor(settings(), num_workers=2) as executor:
    executor.start()
    assert executor.run(use) == [(8, nodes, 41)] * 2
with hvdray.Executor(min_workers=1, max_workers=1) as executor:
    assert executor.run(use) == [(8, nodes, 41)]
""")


def test_references_of_ray_are_refused_by_their_path_before_anything_is_sent(programs):
    programs.run("""
ref = ray.put(3)
@ray.remote(num_cpus=0)
class Counter: pass
counter = Counter.remote()
class Holder:
    def __init__(self, what): self.what = what
executor = hvdray.Executor(1)
executor.start()
pids = executor.run(os.getpid)
for call, path in (
    (lambda: executor.run(print, (ref,)), "args[0]"),
    (lambda: executor.run(print, (), {"x": {"a": [counter]}}), "kwargs['x']['a'][0]"),
    (lambda: executor.run(lambda: ref), "fn.__globals__['ref']"),
    (lambda: executor.execute(lambda _, kept=Holder(counter): kept), "fn.__defaults__[0].what"),
    (lambda: executor.run_remote(print, (ref,)), "args[0]"),
    (lambda: hvdray.Executor(1).start(Holder, [ref]), "executable_args[0]"),
    (lambda: hvdray.run(print, (ref,)), "args[0]"),
):
    error = raised(hvdray.SerializationError, call)
    assert error.message.startswith(path + " can't be pickled: an ") and "of Ray" in error.message, error
error = raised(hvdray.SerializationError, lambda: executor.run(lambda: __import__("ray").put(3)))
assert "ObjectRef of Ray" in str(error) and executor.run(os.getpid) == pids, error
executor.shutdown()
""")


def test_what_no_node_has_is_refused_at_once_and_strangers_are_named(programs):
    result = programs.run("""
for more in ({"use_gpu": True, "gpus_per_worker": 64}, {"cpus_per_worker": 64}, {"num_hosts": 1, "num_workers_per_host": 64}):
    executor = hvdray.Executor(None if "num_hosts" in more else 1, backend="ray", options={"placement_group_timeout": "1h"}, **more)
    error = raised(hvdray.PlacementTimeout, executor.start)
    assert error.code == "HVD-E0219" and "64" in str(error), error
class Found:
    def find_available_hosts_and_slots(self): return {ray.nodes()[0]["NodeManagerAddress"]: 1, "10.9.9.9": 1}
executor = hvdray.Executor(min_workers=2, hosts=Found(), options={"elastic_timeout": 2})
error = raised(TimeoutError, lambda: executor.run(rank))
assert "10.9.9.9 is not a node of the Ray cluster" in str(error), error
""")
    assert "10.9.9.9 is not a node of the Ray cluster" in result.errors
