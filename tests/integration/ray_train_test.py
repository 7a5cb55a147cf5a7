# SPDX-License-Identifier: Apache-2.0
"""hvdray.ray.train on a real Ray Train, with a real Horovod, on nodes that have no hvdray. ray_train_faults_test.py has what
takes longer."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT
from ray_libraries import library_programs_on


@pytest.fixture
def programs(request, ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, ray_cluster, tmp_path, horovod_python)


def test_the_quickstart_of_the_documents(programs):
    result = programs.run_example("ray_train_quickstart.py")
    assert re.search(r"'epoch': 2, .*'rows': 32", result.text) and "['model.pt']" in result.text, result.text


def test_what_does_not_fit_is_said_at_once(programs):
    programs.run("""
from ray.train import ScalingConfig
from hvdray.ray.train import HorovodConfig, HorovodTrainer
def loop(config):
    pass
for given, words in ((dict(horovod_config=HorovodConfig(), torch_backend=HorovodConfig()), "one parameter"),
                     (dict(resume_from_checkpoint=object()), "same name"), (dict(metadata={}), "train_loop_config")):
    assert words in str(raised(ValueError, lambda: HorovodTrainer(loop, **given))), words
assert "hvdray.ray.train" in str(raised(TypeError, lambda: HorovodTrainer(loop, horovod_config={})))
raised(ValueError, lambda: HorovodTrainer(lambda config, other: None))
for bad in (0, -1, "3", True, float("nan"), float("inf")):
    assert "timeout_s" in str(raised(ValueError, lambda: HorovodConfig(timeout_s=bad))), bad
trainer = HorovodTrainer(loop, tensorflow_backend=HorovodConfig(nics=["eth99"]), scaling_config=ScalingConfig(num_workers=1))
assert "has none of eth99" in str(raised(Exception, trainer.fit))
""")


@pytest.mark.parametrize("module", ["hvdray.ray.train", "hvdray.ray.tune"])
@pytest.mark.parametrize("version", ["2.39.1", "2.61.0"])
def test_a_ray_too_old_or_too_new_is_told_what_was_tested(tmp_path, version, module):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text(f'__version__ = "{version}"\n')
    result = subprocess.run([sys.executable, "-c", f"import {module}"], env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}"},
                            capture_output=True, text=True, check=False)
    assert result.returncode == 1, result
    assert f"{module} works with Ray 2.40 to 2.60; this is {version}" in result.stderr, result.stderr
    assert "hint: pip install ray==2.60.0" in result.stderr, result.stderr
