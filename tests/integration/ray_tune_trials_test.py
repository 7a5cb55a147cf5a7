# SPDX-License-Identifier: Apache-2.0
"""Trials of hvdray.ray.tune: the search of the documents, what trials report, go on from, and end with."""

import os
import signal

import pytest
from ray_libraries import end_of_the_head, library_programs_on

from hosts_processes import wait_until


@pytest.fixture
def programs(request, ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, ray_cluster, tmp_path, horovod_python)


BEGIN = """
import tempfile
from ray import tune
from ray.tune import Checkpoint, RunConfig, FailureConfig, TuneConfig, Tuner
from hvdray.ray.tune import DistributedTrainableCreator

def search(function, space, config=None, max_failures=0, stop=None, **asked):
    trainable = DistributedTrainableCreator(function, **{"num_workers": 2, "timeout_s": 120, **asked})
    return Tuner(trainable, param_space=space, tune_config=config or TuneConfig(),
                 run_config=RunConfig(storage_path=os.environ["STORAGE"], verbose=0, stop=stop,
                                      failure_config=FailureConfig(max_failures=max_failures))).fit()
"""


def test_the_search_of_the_documents(programs):
    result = programs.run_example("ray_tune_search.py")
    assert "{'epochs': 3, 'lr': 0.1}" in result.text, result.text


def test_trials_that_follow_each_other_start_warm_report_and_go_on_from_checkpoints(programs):
    programs.run(BEGIN + """
def steps(config):
    import sys
    is_warm = {"ray.tune", "horovod.torch"} <= set(sys.modules)
    import horovod.torch as hvd
    hvd.init()
    assert tune.get_context().get_trial_id(), "no trial"
    checkpoint, begin = tune.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            begin = int(open(folder + "/step").read())
    for step in range(begin, 3):
        hvd.barrier()
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/step", "w") as file:
                file.write(str(step + 1))
            tune.report({"step": step, "begin": begin, "size": hvd.size(), "is_warm": is_warm},
                        checkpoint=Checkpoint.from_directory(folder))
        hvd.barrier()
        if step == 1 and begin == 0 and config["number"] == 0 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

results = search(steps, {"number": tune.grid_search([0, 1, 2])}, max_failures=1, config=TuneConfig(max_concurrent_trials=1))
assert not results.errors, results.errors
metrics = [result.metrics for result in results]
assert [m["step"] for m in metrics] == [2] * 3 and {m["size"] for m in metrics} == {2}, metrics
assert all(m["is_warm"] for m in metrics), metrics
assert [m["begin"] > 0 for m in metrics] == [True, False, False], metrics
assert len({m["pid"] for m in metrics}) == 3, metrics
for result in results:
    lines = open(os.path.join(result.path, "worker_1", "result.json")).read().splitlines()
    assert len(lines) >= 3, lines
""")


def test_what_a_function_returns_or_yields_is_a_report_and_its_imports_are_learnt(programs):
    programs.run(BEGIN + """
import importlib
from ray.util import placement_group
ray.get(placement_group([{"CPU": 2}] * 3, strategy="STRICT_SPREAD").ready())  # one node is left: each learns for itself

def returns(config):
    is_warm = "horovod.torch" in sys.modules
    hvd = importlib.import_module("horovod.torch")
    hvd.init()
    return {"loss": 10 * config["number"] + hvd.rank(), "is_warm": is_warm}

def yields(config):
    for step in range(3):
        yield {"step": step}

for reuse in (False, True):
    results = search(returns, {"number": tune.grid_search([1, 2])}, config=TuneConfig(reuse_actors=reuse, max_concurrent_trials=1))
    assert [(r.metrics["loss"], r.metrics["is_warm"]) for r in results] == [(10, False), (20, True)], [r.metrics for r in results]
assert search(yields, {})[0].metrics["step"] == 2
""")


def test_a_trial_that_tune_stops_ends_and_what_it_refuses_is_said(programs):
    programs.run(BEGIN + """
def loop(config):
    import horovod.torch as hvd
    import torch
    hvd.init()
    if config["bad"]:
        tune.report({"loss": torch.ones(1)})
    for step in range(10000):
        tune.report(loss=config["number"], step=step)

results = search(loop, {"bad": tune.grid_search([False, True]), "number": 1.0}, stop={"training_iteration": 3})
assert results[0].metrics["step"] == 2 and results[0].error is None, results[0]
assert "Torch tensors" in str(results[1].error), results[1].error

for given, kind in ((dict(num_workers=2, num_slots=2), ValueError), (dict(num_workers=0), ValueError), (dict(num_workers=True), ValueError),
                    (dict(num_cpus_per_worker=float("nan")), ValueError), (dict(num_gpus_per_slot=1), ValueError), (dict(timeout_s=0), ValueError)):
    raised(kind, lambda: DistributedTrainableCreator(loop, **given))
raised(TypeError, lambda: DistributedTrainableCreator("loop"))
raised(ValueError, lambda: DistributedTrainableCreator(lambda: None))
""")


WAITS = """
def waits(config):
    import horovod.torch as hvd
    hvd.init()
    path = os.path.join(config["folder"], f"rank{hvd.rank()}")
    if os.path.exists(path):
        return {"again": True}
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    time.sleep(600)
"""


def test_workers_of_a_trial_whose_actor_is_killed_end_and_the_trial_begins_again(programs):
    programs.run(BEGIN + WAITS + """
import threading
def kill_the_actor():
    until(lambda: all(os.path.exists(f"rank{rank}") for rank in (0, 1)))
    (pid,) = (actor["Pid"] for actor in ray._private.state.actors().values()
              if actor["ActorClassName"] == "ImplicitFunc" and actor["State"] == "ALIVE")
    os.kill(pid, signal.SIGKILL)
killer = threading.Thread(target=kill_the_actor)
killer.start()
(result,) = search(waits, {"folder": os.getcwd()}, max_failures=1)
assert result.metrics.get("again"), result
killer.join()
for rank in (0, 1):
    until(lambda: not os.path.exists("/proc/" + open(f"rank{rank}").read()))
""")


def test_nothing_is_left_of_a_search_whose_driver_is_killed(programs, ray_cluster, tmp_path):
    job = programs.start(BEGIN + WAITS + """
search(waits, {"folder": os.getcwd()})
""")
    wait_until(lambda: (tmp_path / "rank0").exists() and (tmp_path / "rank1").exists(), "both ranks", within=120)
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.wait(60).code == -signal.SIGKILL
    programs.run("""
until(lambda: not any(actor["name"].startswith("hvdray-") for actor in ray.util.list_named_actors(all_namespaces=True)))
""")
    wait_until(lambda: not any(ray_cluster.foreign_processes().values()), "the end of all", within=120)


def test_a_head_that_goes_away_ends_a_search_and_leaves_what_was_committed(programs, ray_cluster, tmp_path):
    job = programs.start(BEGIN + WAITS + """
def reports(config):
    with tempfile.TemporaryDirectory() as folder:
        open(folder + "/model", "w").close()
        tune.report({"loss": 1.0}, checkpoint=Checkpoint.from_directory(folder))
    waits(config)
folders = [os.path.join(os.getcwd(), name) for name in ("a", "b", "c")]
for folder in folders:
    os.mkdir(folder)
search(reports, {"folder": tune.grid_search(folders)}, max_failures=-1)
""")
    ready = [tmp_path / name / f"rank{rank}" for name in "abc" for rank in (0, 1)]
    wait_until(lambda: all(path.exists() for path in ready), "all trials", within=300)
    end_of_the_head(ray_cluster, job)
    assert len(list((tmp_path / "results").glob("*/*/checkpoint_000000/model"))) == 3
