# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch with a real torch: what its operations do, and training beside Horovod itself."""

import json
import os
import subprocess

import pytest

from async_test import library_of
from conftest import ROOT

WORKERS = ROOT / "tests/integration/workers"


@pytest.fixture(scope="module")
def torch_python(pytestconfig):
    """Debian's Python if it has torch, else Horovod's environment."""
    venv = pytestconfig.getoption("--horovod-venv")
    for python in ["/usr/bin/python3", *([f"{venv}/bin/python"] if venv else [])]:
        if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip("no torch here: apt-get install python3-torch")


def losses_of(hvdray, *words):
    """Of workers/torch_training.py, for each way of reducing gradients."""
    result = hvdray.go("-np", "2", *words, WORKERS / "torch_training.py", timeout=240)
    assert result.code == 0, result.text + result.errors
    line = next(line for line in result.text.splitlines() if "LOSSES" in line)
    return json.loads(line.partition("LOSSES")[2])


def assert_alike(ours, theirs):
    assert ours.keys() == theirs.keys() and len(ours["plain"]) == 20
    for way, values in theirs.items():
        assert ours[way] == pytest.approx(values, rel=2e-3 if way == "fp16" else 1e-5), way


def builtin(hvdray, *words, **options):
    result = hvdray.go("-np", "2", "--horovod", "builtin", *words, timeout=240, **options)
    assert result.code == 0, result.text + result.errors
    return result


def test_operations_and_their_errors(hvdray, torch_python):
    result = builtin(hvdray, "--", torch_python, WORKERS / "torch_operations.py")
    assert result.text.count("all facts hold") == 2


def test_training_gives_what_horovod_gives(hvdray, torch_python, horovod_python):
    """20 steps: the same losses and parameters, and the same ones for each way of reducing the gradients."""
    assert_alike(losses_of(hvdray, "--horovod", "builtin", "--", horovod_python), losses_of(hvdray, "--", horovod_python))


def test_what_only_ours_can_do(hvdray, torch_python):
    result = builtin(hvdray, "--", torch_python, WORKERS / "torch_optimizers.py")
    assert result.text.count("all facts hold") == 2


def test_torch_distributed_with_our_backend(hvdray, torch_python):
    """Its operations and errors; DDP with it loses as with gloo, and a rank that dies is an error on the others."""
    result = hvdray.go("-np", "2", "--horovod", "builtin", "--", torch_python, WORKERS / "torch_c10d.py", timeout=240)
    assert result.text.count("all facts hold") == 2, result.text + result.errors
    assert "the death was seen" in result.text, result.text + result.errors
    assert result.code == 137


def test_a_gpu_that_is_pretended(hvdray, torch_python):
    """The same operations and errors by a group of torch.distributed, and what is a GPU's alone; the death of a rank."""
    result = hvdray.go("-np", "2", "--horovod", "builtin", "--", torch_python, WORKERS / "torch_device.py", timeout=240)
    assert result.text.count("all facts hold") == 2, result.text + result.errors
    assert "the death was seen" in result.text, result.text + result.errors
    assert result.code == 137


def test_whether_gpus_are_used_is_passed_on(hvdray, torch_python):
    result = builtin(hvdray, "--", torch_python, "-c", "import os; print('IS', os.environ['HVDRAY_TORCH_NCCL'])",
                     env={**os.environ, "HVDRAY_TORCH_NCCL": "0"})
    assert result.text.count("IS 0") == 2 and "HVDRAY_TORCH_NCCL" not in result.errors


def test_arrays_of_numpy_without_torch(hvdray, torch_python):
    result = builtin(hvdray, "--", torch_python, WORKERS / "arrays.py")
    assert result.text.count("all facts hold") == 2


def test_an_exception_is_in_the_errors_of_the_others(hvdray, torch_python):
    program = "\n".join(["import horovod.torch as hvd, torch", "hvd.init()", "if hvd.rank() == 1: raise ValueError('the batch is empty')",
                         "hvd.allreduce(torch.ones(1))", "hvd.allreduce(torch.ones(1))"])
    result = hvdray.go("-np", "2", "--horovod", "builtin", "--", torch_python, "-c", program)
    assert "HorovodInternalError: rank 1 raised ValueError: the batch is empty, and has shut down" in result.errors
    assert "rank 1 on host localhost exited with code 1" in result.errors


def test_without_the_option_nothing_changes(hvdray, torch_python):
    result = hvdray.go("-np", "1", "--", torch_python, "-c",
                       "import os; assert 'HVDRAY_LIBRARY' not in os.environ; assert '_horovod' not in os.environ.get('PYTHONPATH', '')")
    assert result.code == 0, result.errors


def test_a_library_of_another_version_is_named(hvdray, torch_python):
    program = "\n".join(["import sys", "try: import horovod.torch", "except ImportError as error: print(error)"])
    result = builtin(hvdray, "--", torch_python, "-c", program, env={"HVDRAY_LIBRARY": "/nowhere/libhvdray.so.0"})
    assert result.text.count("it is not at /nowhere/libhvdray.so.0. HVDRAY_LIBRARY may name it") == 2


@pytest.mark.parametrize("torch,said", [
    ("__version__ = '1.12.1'", "hvdray.torch needs PyTorch 1.13 or later, and here is 1.12.1"),
    ("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", "hvdray.torch needs PyTorch 1.13 or later: No module named 'torch'"),
    ("raise OSError('libcudart is broken')", "OSError: libcudart is broken")])
def test_no_torch_and_one_that_is_too_old_are_named(hvdray, tmp_path, torch, said):
    (tmp_path / "torch.py").write_text(torch)
    result = hvdray.go("-np", "1", "--horovod", "builtin", "--", "/usr/bin/python3", "-c", "import horovod.torch",
                       env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.code == 1 and said in result.errors


def test_horovod_and_ours_are_not_initialized_in_one_process(hvdray, horovod_python):
    program = "\n".join(["import horovod.torch as theirs, hvdray.torch as ours", "theirs.init()", "try: ours.init()",
                         "except ValueError as error: print(error)", "theirs.shutdown()", "ours.init()", "print(ours.size(), 'ranks')"])
    result = hvdray.go("-np", "2", "--", horovod_python, "-c", program, timeout=120,
                       env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "HVDRAY_LIBRARY": str(library_of(hvdray))})
    assert result.text.count("Horovod itself is initialized in this process: use it or hvdray.torch, not both") == 2, result.errors
    assert result.text.count("2 ranks") == 2, result.text + result.errors


def test_a_file_that_is_no_library_is_named(hvdray, torch_python, tmp_path):
    (tmp_path / "libhvdray.so.0").write_text("text")
    result = hvdray.go("-np", "1", "--horovod", "builtin", "--", torch_python, "-c", "import horovod.torch",
                       env={"HVDRAY_LIBRARY": str(tmp_path / "libhvdray.so.0")})
    assert f"ImportError: hvdray.torch: {tmp_path}/libhvdray.so.0" in result.errors


def test_other_parts_of_horovod_are_said_to_be_missing(hvdray, torch_python):
    program = "\n".join(["import importlib.util, horovod", "for part in ['tensorflow', 'keras', 'spark.common', 'torch.nowhere']:",
                         "    try: importlib.import_module('horovod.' + part)",
                         "    except ModuleNotFoundError as error: print(error.name, 'MISSING', error)"])
    result = builtin(hvdray, "--", torch_python, "-c", program)
    for part in ("tensorflow", "keras", "spark", "torch.nowhere"):
        assert f"horovod.{part} MISSING No module named 'horovod.{part}': hvdray has horovod.torch built in" in result.text


# How each is run where "train" is `hvdray run --horovod builtin -- python3`, and what it says then.
EXAMPLES = {
    "digits_horovod.py": (["train"], "test accuracy"),
    "elastic_digits_horovod.py": (["train", "--min-np", "2", "--max-np", "2"], "test accuracy"),
    "python/digits_executor.py": (["2"], "test accuracy"),
    "python/digits_train.py": (["runs"], "loss 0.0446 after epoch 5"),
}
RAYS = {"python/digits_ray.py", "python/ray_train_quickstart.py", "python/ray_tune_search.py"}  # their Python has Ray


def test_no_example_with_horovod_is_forgotten():
    files = [*ROOT.glob("examples/*.py"), *ROOT.glob("examples/python/*.py")]
    names = {str(path.relative_to(ROOT / "examples")) for path in files if "import horovod" in path.read_text()}
    assert names == EXAMPLES.keys() | RAYS


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_where_horovod_is_not_installed(hvdray, torch_python, tmp_path, name):
    if subprocess.run([torch_python, "-c", "import horovod"], capture_output=True, check=False).returncode == 0:
        pytest.skip("the Python with torch has Horovod")
    words, said = EXAMPLES[name]
    path = ROOT / "examples" / name
    if words[0] == "train":
        result = builtin(hvdray, *words[1:], "--", torch_python, path)
    else:
        package = {"HVDRAY_BINARY": str(hvdray.binary), "PYTHONPATH": str(ROOT / "python"), "HVDRAY_HOROVOD": "builtin"}
        result = hvdray.run(path, *words, binary=torch_python, env={**os.environ, **package}, cwd=tmp_path, timeout=240)
        assert result.code == 0, result.text + result.errors
    assert said in result.text, result.text + result.errors
