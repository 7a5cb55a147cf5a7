# SPDX-License-Identifier: Apache-2.0
"""One program that calls functions on workers: calls.py MEASURE CONTENDER. Prints a JSON list of seconds."""

import json
import os
import sys
import time


def rank_after_init():
    import horovod.torch as hvd
    hvd.init()
    return hvd.rank()


def one():
    return 1


def timed(function):
    began = time.monotonic()
    function()
    return time.monotonic() - began


def init_ray():
    import ray
    # Whoever starts this program has put on PYTHONPATH what workers import.
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
    return ray


def actors(ray, count):
    @ray.remote
    class Worker:
        def execute(self, function, *args):
            return function(*args)
    return [Worker.remote() for _ in range(count)]


# ---- a function on two workers of this machine, cold

def run_hvdray():
    import hvdray
    return [timed(lambda: hvdray.run(one, num_proc=2))]


def run_horovod():
    import horovod
    return [timed(lambda: horovod.run(one, num_proc=2))]


# ---- a RayExecutor of two workers, up to the result of the first call; and another one

def executors(ray_executor, between=lambda: None, **more):
    def whole():
        executor = ray_executor(ray_executor.create_settings(timeout_s=60), num_workers=2, **more)
        executor.start()
        assert sorted(executor.run(rank_after_init)) == [0, 1]
        times.append(time.monotonic() - began)
        executor.shutdown()
    times = []
    for _ in range(2):
        began = time.monotonic()
        whole()
        between()
    return times


def executor_pool():
    init_ray()
    from hvdray import Pool
    from hvdray.ray import RayExecutor
    with Pool(2) as pool:
        return executors(RayExecutor, between=pool.wait_warm, pool=pool)


def executor_hvdray():
    init_ray()
    from hvdray.ray import RayExecutor
    return executors(RayExecutor)


def executor_horovod():
    init_ray()
    from horovod.ray import RayExecutor
    return executors(RayExecutor)


# ---- a gang of four from warm interpreters, up to the results of a call

def gang_pool():
    import hvdray

    def results():
        executor.start()
        assert executor.run(one) == [1] * 4
    times = []
    with hvdray.Pool(4, preload=["json"]) as pool:
        assert pool.wait_warm()
        for _ in range(20):
            with hvdray.Executor(pool=pool) as executor:
                times.append(timed(results))
    return times


# ---- short calls, and a large argument, on four workers that stay

CALLS = 300


def calls_hvdray():
    init_ray()
    import hvdray
    with hvdray.Executor(4) as executor:
        executor.start()
        executor.run(one)
        return [timed(lambda: [executor.execute(lambda worker: 1) for _ in range(CALLS)]) / CALLS]


def calls_ray():
    ray = init_ray()
    workers = actors(ray, 4)
    ray.get([worker.execute.remote(one) for worker in workers])
    return [timed(lambda: [ray.get([worker.execute.remote(one) for worker in workers]) for _ in range(CALLS)]) / CALLS]


def array_hvdray():
    init_ray()
    import hvdray
    import numpy
    array = numpy.ones(8 << 20)
    with hvdray.Executor(4) as executor:
        executor.start()
        executor.run(lambda a: a[-1], (numpy.ones(8),))
        return [timed(lambda: executor.run(lambda a: float(a[-1]), (array,))) for _ in range(5)]


def array_ray():
    ray = init_ray()
    import numpy
    array = numpy.ones(8 << 20)
    workers = actors(ray, 4)
    ray.get([worker.execute.remote(lambda a: a[-1], numpy.ones(8)) for worker in workers])

    def call():
        reference = ray.put(array)
        ray.get([worker.execute.remote(lambda a: float(a[-1]), reference) for worker in workers])
    return [timed(call) for _ in range(5)]


# ---- large results

def ones(megabytes):
    import numpy
    return numpy.ones(megabytes << 17) if os.environ["HOROVOD_RANK"] == "0" else None


def results_from(ray_executor):
    executor = ray_executor(ray_executor.create_settings(timeout_s=60), num_workers=2)
    executor.start()
    executor.run(ones, args=(1,))
    times = []
    for megabytes in (64, 256):
        rounds = [timed(lambda m=megabytes: executor.run(ones, args=(m,))) for _ in range(3)]
        times.append(sorted(rounds)[1])
    executor.shutdown()
    return times


def results_hvdray():
    init_ray()
    from hvdray.ray import RayExecutor
    return results_from(RayExecutor)


def results_horovod():
    init_ray()
    from horovod.ray import RayExecutor
    return results_from(RayExecutor)


# ---- an import

def import_hvdray():
    return [timed(lambda: __import__("hvdray"))]


def import_ray():
    return [timed(lambda: __import__("ray"))]


# ---- a program that is killed

def killed_hvdray():
    import hvdray
    executor = hvdray.Executor(4)
    pids = executor.run(os.getpid)
    print(json.dumps(pids), flush=True)
    executor.run(time.sleep, (600,))


if __name__ == "__main__":
    print(json.dumps(globals()["_".join(sys.argv[1:3])]()), flush=True)
