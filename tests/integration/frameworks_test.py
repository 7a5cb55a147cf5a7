# SPDX-License-Identifier: Apache-2.0
"""Frameworks that read the variables of whatever launcher they find: each worker must be told of one rank only. Slurm and mpirun
are simulated: to a framework they are nothing but variables. See wire/rank_variables.h."""

import json
import os

import pytest

from run_test import lines_by_rank

# What a task of `srun -n 4` has, less SLURM_STEP_NUM_TASKS, for which hvdray would refuse; and a process of `mpirun -np 4`.
SLURM = {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "train", "SLURM_JOB_NODELIST": "localhost",
         "SLURM_NODELIST": "localhost", "SLURM_NNODES": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "localhost",
         "SLURM_STEP_NUM_NODES": "1", "SLURM_TASKS_PER_NODE": "4", "SLURM_NTASKS": "4",
         "SLURM_NTASKS_PER_NODE": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_NODEID": "0",
         "SLURM_GTIDS": "3"}
MPIRUN = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
          "OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_NODE_RANK": "3", "OMPI_UNIVERSE_SIZE": "4",
          "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911", "OMPI_MCA_orte_ess_vpid": "3",
          "PMIX_RANK": "3", "PMIX_NAMESPACE": "1531576321", "PMI_RANK": "3", "PMI_SIZE": "4"}
AROUND = {"slurm": SLURM, "mpirun": MPIRUN}
STATIC = ("-np", "2", "-H", "localhost:2")
ELASTIC = ("-np", "2", "-H", "localhost:2", "--min-np", "2")
KINDS = {"static": STATIC, "gang": (*ELASTIC, "--elastic-mode", "gang")}

FABRIC = """
import json, os, sys
if "without-run-id" in sys.argv:
    os.environ.pop("TORCHELASTIC_RUN_ID", None)
import torch
torch.__version__ = "1.13.0"  # Debian's 1.13.0a0 counts as older, and lacks what Fabric then looks for
from lightning_fabric import Fabric
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
place = fabric._connector.cluster_environment
found = {"environment": type(place).__name__}
if "place" in sys.argv:
    found["rank"] = place.global_rank()
else:
    fabric.launch()
    found.update(rank=fabric.global_rank, size=fabric.world_size, local_rank=fabric.local_rank,
                 sum=int(fabric.all_reduce(torch.tensor(fabric.global_rank + 1), reduce_op="sum")))
print(json.dumps(found), flush=True)
"""

ACCELERATE = """
import json
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.tensor(accelerator.process_index + 1), "sum")
print(json.dumps({"rank": accelerator.process_index, "size": accelerator.num_processes,
                  "local_rank": accelerator.local_process_index, "sum": int(total)}), flush=True)
"""

# JAX asks the cluster that it believes to be in for the device of this process, even if it is told all the rest.
JAX = """
import json, os
import jax
from jax._src.xla_bridge import CUDA_VISIBLE_DEVICES
rank = int(os.environ["HOROVOD_RANK"])
jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", int(os.environ["HOROVOD_SIZE"]), rank)
print(json.dumps({"rank": jax.process_index(), "size": jax.process_count(),
                  "devices": CUDA_VISIBLE_DEVICES.value}), flush=True)
"""


def venv_of(request, option):
    directory = request.config.getoption(option)
    if not directory:
        pytest.skip(f"no {option} (tools/frameworks_env.sh)")
    return directory


@pytest.fixture
def torch_python(request):
    return venv_of(request, "--frameworks-venv") + "/bin/python"


@pytest.fixture
def jax_python(request):
    return venv_of(request, "--jax-venv") + "/bin/python"


def found_by(hvdray, python, tmp_path, text, words, around, *more, kind=()):
    program = tmp_path / "program.py"
    program.write_text(text)
    env = dict(os.environ, ACCELERATE_USE_CPU="1", JAX_PLATFORMS="cpu", **around)
    result = hvdray.go(*words, *kind, "--", python, program, *more, env=env, timeout=120)
    assert result.code == 0, result.errors
    return {rank: json.loads(lines[-1]) for rank, lines in lines_by_rank(result.text).items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", AROUND)
def test_lightning_takes_the_ranks_of_hvdray(hvdray, torch_python, tmp_path, around, kind):
    found = found_by(hvdray, torch_python, tmp_path, FABRIC, KINDS[kind], AROUND[around])
    assert found == {rank: {"environment": "TorchElasticEnvironment", "rank": rank, "size": 2, "local_rank": rank, "sum": 3}
                     for rank in range(2)}


def test_without_the_run_id_lightning_would_believe_slurm(hvdray, torch_python, tmp_path):
    """What else protects: with Slurm's variables kept and no TORCHELASTIC_RUN_ID, every worker is srun's rank."""
    found = found_by(hvdray, torch_python, tmp_path, FABRIC, STATIC, SLURM, "place", "without-run-id",
                     kind=["--keep-rank-variables"])
    assert found == {rank: {"environment": "SLURMEnvironment", "rank": 3} for rank in range(2)}
    found = found_by(hvdray, torch_python, tmp_path, FABRIC, STATIC, SLURM, "place", kind=["--keep-rank-variables"])
    assert found == {rank: {"environment": "TorchElasticEnvironment", "rank": rank} for rank in range(2)}


@pytest.mark.parametrize("words", [(*STATIC, "--no-torch-env"), ELASTIC], ids=["no torch-env", "elastic"])
def test_where_hvdray_sets_no_run_id_lightning_sees_no_slurm_either(hvdray, torch_python, tmp_path, words):
    found = found_by(hvdray, torch_python, tmp_path, FABRIC, words, SLURM, "place")
    assert {place["environment"] for place in found.values()} == {"LightningEnvironment"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", AROUND)
def test_accelerate_takes_the_ranks_of_hvdray(hvdray, torch_python, tmp_path, around, kind):
    found = found_by(hvdray, torch_python, tmp_path, ACCELERATE, KINDS[kind], AROUND[around])
    assert found == {rank: {"rank": rank, "size": 2, "local_rank": rank, "sum": 3} for rank in range(2)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("around", AROUND)
def test_jax_gives_no_process_the_device_of_another_launchers_rank(hvdray, jax_python, tmp_path, around, kind):
    found = found_by(hvdray, jax_python, tmp_path, JAX, KINDS[kind], AROUND[around])
    assert found == {rank: {"rank": rank, "size": 2, "devices": "all"} for rank in range(2)}


def test_with_the_variables_kept_jax_takes_slurms_device(hvdray, jax_python, tmp_path):
    """So the test above can fail."""
    found = found_by(hvdray, jax_python, tmp_path, JAX, STATIC, SLURM, kind=["--keep-rank-variables"])
    assert found == {rank: {"rank": rank, "size": 2, "devices": "3"} for rank in range(2)}
