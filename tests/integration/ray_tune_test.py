# SPDX-License-Identifier: Apache-2.0
"""hvdray.ray.tune in a real Ray Tune, with a real Horovod, on nodes that have no hvdray: one trial. ray_tune_trials_test.py has
the rest."""

import pytest
from ray_libraries import library_programs_on


@pytest.fixture
def programs(request, ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, ray_cluster, tmp_path, horovod_python)


def test_a_trial_is_a_job_of_horovod_and_its_folder_has_what_workers_say(programs):
    programs.run("""
from ray import tune
from hvdray.ray.tune import DistributedTrainableCreator
def function(config):
    import horovod.torch as hvd
    import torch
    hvd.init()
    print("rank", hvd.rank(), "is here")
    tune.report(total=hvd.allreduce(torch.tensor([config["x"] + hvd.rank()]), op=hvd.Sum).item(), rank=hvd.rank())
trainable = DistributedTrainableCreator(function, num_workers=2, timeout_s=120)
analysis = tune.run(trainable, config={"x": 5.0}, metric="total", mode="max", storage_path=os.environ["STORAGE"], verbose=0)
result = analysis.best_result
assert (result["total"], result["rank"]) == (11.0, 0), result
def said(rank, name):
    with open(os.path.join(analysis.best_trial.path, f"worker_{rank}", name)) as file:
        return file.read()
assert '"rank": 1' in said(1, "result.json")
assert [said(rank, "stdout") for rank in (0, 1)] == ["rank 0 is here\\n", "rank 1 is here\\n"]
""")
