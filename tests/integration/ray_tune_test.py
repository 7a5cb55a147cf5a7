# SPDX-License-Identifier: Apache-2.0
"""hvdray.ray.tune in a real Ray Tune, with a real Horovod, on nodes that have no hvdray. ray_tune_trials_test.py has what
takes longer."""

import pytest
from ray_libraries import library_programs_on


@pytest.fixture
def programs(request, ray_cluster, tmp_path, horovod_python):
    yield from library_programs_on(request, ray_cluster, tmp_path, horovod_python)


def test_the_search_of_the_documents(programs):
    result = programs.run_example("ray_tune_search.py")
    assert "{'epochs': 3, 'lr': 0.1}" in result.text, result.text
