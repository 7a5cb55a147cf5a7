# SPDX-License-Identifier: Apache-2.0
"""hvdray.ray.train when ranks and drivers end in all ways; and on an older Ray."""

import os
import signal

import pytest
from ray_libraries import end_of_the_head, library_programs_on

from hosts_processes import wait_until


@pytest.fixture
def programs(request, ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, ray_cluster, tmp_path, horovod_python)


@pytest.fixture
def old_programs(request, old_ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, old_ray_cluster, tmp_path, horovod_python)


BEGIN = """
import tempfile
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from hvdray.ray.train import HorovodConfig, HorovodTrainer

def fit(loop, workers=3, max_failures=0, config=None, **more):
    config = {"folder": os.getcwd(), **(config or {})}
    return HorovodTrainer(loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=workers, **more),
                          run_config=RunConfig(storage_path=os.environ["STORAGE"],
                                               failure_config=FailureConfig(max_failures=max_failures))).fit()

def resumed():
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return int(open(folder + "/step").read())

def report(step, metrics):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/step", "w") as file:
            file.write(str(step + 1))
        train.report({"step": step, **metrics}, checkpoint=Checkpoint.from_directory(folder))

def is_first(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False

def steps(config):
    import horovod.torch as hvd
    import torch
    hvd.init()
    begin = resumed()
    for step in range(begin, 4):
        total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum).item()
        report(step, {"total": total, "begin": begin, "hosts": hvd.cross_size()})
        how = config["how"].get(step)
        if how is None or hvd.rank() != 1 or not is_first(os.path.join(config["folder"], how)):
            continue
        if how == "raise":
            raise ValueError("mine")
        if how == "exit":
            sys.exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_ranks_that_raise_exit_and_are_killed_restart_from_the_checkpoint(programs):
    programs.run(BEGIN + """
how = {0: "raise", 1: "exit", 2: "kill"}
metrics = fit(steps, max_failures=3, config={"how": how}, placement_strategy="SPREAD").metrics
assert metrics["step"] == 3 and metrics["total"] == 3 and metrics["begin"] > 0 and metrics["hosts"] > 1, metrics
assert all(os.path.exists(name) for name in how.values())
""")


def test_the_same_on_old_ray(old_programs):
    old_programs.run(BEGIN + """
metrics = fit(steps, max_failures=1, config={"how": {2: "kill"}}).metrics
assert metrics["step"] == 3 and metrics["total"] == 3 and metrics["begin"] > 0, metrics
""")


def test_who_lost_a_peer_is_named_behind_who_began(programs):
    programs.run(BEGIN + """
def loop(config):
    import horovod.torch as hvd
    import torch
    hvd.init()
    for step in range(1000):
        hvd.allreduce(torch.ones(1), name="one")
        if step == 10 and hvd.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
error = raised(train.TrainingFailedError, lambda: fit(loop))
assert list(error.worker_failures)[0] == 2 and str(error).split("[Rank ")[1].startswith("2 "), (error.worker_failures, error)
""")


def test_nothing_is_left_of_a_driver_that_is_killed(programs, ray_cluster, tmp_path):
    job = programs.start(BEGIN + """
def loop(config):
    import horovod.torch as hvd
    hvd.init()
    open(os.path.join(config["folder"], f"rank{hvd.rank()}"), "w").close()
    time.sleep(600)
fit(loop, workers=2)
""")
    wait_until(lambda: (tmp_path / "rank0").exists() and (tmp_path / "rank1").exists(), "both ranks", within=420)
    os.kill(job.process.pid, signal.SIGKILL)
    assert job.wait(60).code == -signal.SIGKILL
    programs.run("")  # ends what Ray keeps
    wait_until(lambda: not any(ray_cluster.foreign_processes().values()), "the end of all", within=420)


def test_a_head_that_goes_away_ends_a_fit_and_leaves_what_was_committed(programs, ray_cluster, tmp_path):
    job = programs.start(BEGIN + """
def loop(config):
    report(2, {"loss": 1.0})
    rank = train.get_context().get_world_rank()
    open(os.path.join(config["folder"], f"rank{rank}"), "w").close()
    time.sleep(600)
fit(loop, workers=2, max_failures=-1)
""")
    wait_until(lambda: all((tmp_path / f"rank{rank}").exists() for rank in (0, 1)), "both ranks", within=420)
    end_of_the_head(ray_cluster, job)
    assert "3" in [path.read_text() for path in (tmp_path / "results").glob("*/checkpoint_*/step")]


def test_between_one_and_three_workers_as_a_node_leaves_and_comes(programs, ray_cluster, tmp_path):
    job = programs.start(BEGIN + """
def loop(config):
    import horovod.torch as hvd
    import torch
    hvd.init()
    step = resumed()
    while True:
        ready = os.path.exists(os.path.join(config["folder"], "ready"))
        total = hvd.allreduce(torch.tensor([1.0, float(ready)]), op=hvd.Sum)
        with open(os.path.join(config["folder"], f"size{hvd.size()}"), "a"):
            pass
        report(step, {"size": hvd.size(), "begin": step})
        if total[1].item() == hvd.size() == 3:
            return
        step += 1
        time.sleep(0.1)
metrics = fit(loop, workers=(1, 3), max_failures=2, use_gpu=True, resources_per_worker={"GPU": 2}, elastic_resize_monitor_interval_s=1).metrics
assert metrics["size"] == 3 and metrics["begin"] > 0, metrics
""")
    wait_until(lambda: (tmp_path / "size3").exists(), "three workers", within=420)
    ray_cluster.remove_node("h4")  # has the GPUs of two
    wait_until(lambda: (tmp_path / "size1").exists(), "one worker", within=420)
    ray_cluster.start_node("h4")
    (tmp_path / "ready").touch()
    result = job.wait(300)
    assert result.code == 0, result.errors[-6000:]
