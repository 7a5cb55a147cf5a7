# SPDX-License-Identifier: Apache-2.0
"""One program that trains or searches: train.py MEASURE ARGUMENTS. Prints, as JSON, a list of seconds, or such lists by contender."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

WORKERS, TRIALS = 3, 12


def timed(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began


def init_ray():
    import ray
    # Whoever starts this program has put on PYTHONPATH what workers import.
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})


def in_turn(contenders, rounds, warmup):
    """On one Ray: `contenders` return seconds."""
    found = {name: [] for name in contenders}
    for number in range(warmup + int(rounds)):
        for name, function in contenders.items():
            seconds = function()
            if number >= warmup:
                found[name].append(seconds)
    return found


def trainers():
    from hvdray.ray.train import HorovodTrainer
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    return {"hvdray": HorovodTrainer, "ray": DataParallelTrainer}


# ---- a loop that does nothing on three workers

def report_once(config):
    from ray import train
    train.report({"loss": 1.0})


def fit(rounds):
    init_ray()
    return in_turn({name: lambda t=trainer: fit_of(t) for name, trainer in trainers().items()}, rounds, 1)


def fit_of(Trainer):
    from ray import train
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(report_once, scaling_config=train.ScalingConfig(num_workers=WORKERS), run_config=train.RunConfig(storage_path=folder))
        return timed(trainer.fit)


# ---- one of three is killed, until all three are in the loop again

def loop_until_killed(folder, rank):
    folder = pathlib.Path(folder)
    killed = folder / "killed"
    if killed.exists():
        (folder / f"again{rank}").write_text(str(time.monotonic()))
        return
    (folder / f"up{rank}").touch()
    while rank == 1 and len(list(folder.glob("up*"))) < WORKERS:
        time.sleep(0.01)
    if rank == 1:
        killed.write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def until_killed_on_ray(config):
    from ray import train
    loop_until_killed(config["folder"], train.get_context().get_world_rank())


def until_killed(config):
    from hvdray import train
    loop_until_killed(config["folder"], train.get_context().get_world_rank())


def killed(rounds):
    init_ray()
    import hvdray.train
    from ray import train
    workers = {"scaling_config": train.ScalingConfig(num_workers=WORKERS)}
    contenders = {name: lambda t=trainer: killed_of(t, train, until_killed_on_ray, workers) for name, trainer in trainers().items()}
    contenders["trainer"] = lambda: killed_of(hvdray.train.Trainer, hvdray.train, until_killed,
                                              {"num_workers": WORKERS, "backend": "local"})
    return in_turn(contenders, rounds, 1)


def killed_of(Trainer, train, loop, workers):
    with tempfile.TemporaryDirectory() as folder:
        config = train.RunConfig(storage_path=folder, failure_config=train.FailureConfig(max_failures=1))
        Trainer(loop, train_loop_config={"folder": folder}, run_config=config, **workers).fit()
        times = {path.name: float(path.read_text()) for path in pathlib.Path(folder).iterdir() if path.name.startswith(("killed", "again"))}
    began = times.pop("killed")
    assert len(times) == WORKERS
    return max(times.values()) - began


# ---- a search of trials that do nothing

def trial(config):
    from ray import tune
    tune.report({"loss": config["x"]})


def search(rounds):
    init_ray()
    from hvdray.ray.tune import DistributedTrainableCreator
    ours = DistributedTrainableCreator(trial, num_workers=2)
    return in_turn({"four": lambda: search_of(trial, 4), "two": lambda: search_of(trial, 2), "creator": lambda: search_of(ours, 2),
                    "reusing": lambda: search_of(ours, 2, reuse_actors=True)}, rounds, 0)


def search_of(trainable, most, **more):
    from ray import tune
    with tempfile.TemporaryDirectory() as folder:
        config = tune.TuneConfig(metric="loss", mode="min", num_samples=TRIALS, max_concurrent_trials=most, **more)
        tuner = tune.Tuner(trainable, param_space={"x": tune.uniform(0, 1)}, tune_config=config,
                           run_config=tune.RunConfig(storage_path=folder, verbose=0))
        found = []
        took = timed(lambda: found.extend(tuner.fit()))
    assert [result.error for result in found] == [None] * TRIALS
    return took


def function():
    return [timed(search_of_function)]


def search_of_function():
    import hvdray.tune
    with tempfile.TemporaryDirectory() as folder:
        study = hvdray.tune.run(lambda config: config["x"], space={"x": {"float": [0, 1]}}, metric="loss", trials=TRIALS, output=folder,
                                run={"np": 2, "hosts": "localhost:4"})
        assert [one.state.name for one in study.trials] == ["COMPLETE"] * TRIALS


# ---- a checkpoint of a host that does not see the storage

def checkpoint(contender, host, folder, storage):
    """Seconds without connecting: of report(), and from the first byte of ssh's."""
    if contender == "ssh":
        path = pathlib.Path(storage, "data")
        took = of_ssh(["ssh", "-n", host, f"cat {folder}/data"], path)
    else:
        from hvdray import train

        def loop():
            made = train.Checkpoint.from_directory(folder)
            return timed(lambda: train.report({"loss": 1.0}, checkpoint=made))
        options = {"ssh_transport": "openssh"} if contender == "openssh" else {}
        result = train.Trainer(loop, hosts=f"{host}:1", options=options, run_config=train.RunConfig(name="run", storage_path=storage)).fit()
        path, took = pathlib.Path(result.checkpoint.path, "data"), result.return_value
    here, there = (subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.split()[0]
                   for words in (["sha256sum", path], ["ssh", "-n", host, f"sha256sum {folder}/data"]))
    assert here == there
    return [took]


def of_ssh(command, path):
    with open(path, "wb") as out, subprocess.Popen(command, stdout=out) as process:
        while not os.fstat(out.fileno()).st_size:
            assert process.poll() is None
            time.sleep(0.0005)
        took = timed(process.wait)
    assert process.returncode == 0
    return took


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
