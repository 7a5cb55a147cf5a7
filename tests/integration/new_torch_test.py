# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch with the newest torch of PyPI: what torch_test.py says of Debian's."""

import pathlib

import pytest

from torch_test import (  # noqa: F401  pylint: disable=unused-import
    assert_alike,
    losses_of,
    test_a_gpu_that_is_pretended,
    test_operations_and_their_errors,
    test_what_only_ours_can_do,
)


@pytest.fixture(scope="module")
def torch_python(pytestconfig):
    python = pathlib.Path(pytestconfig.getoption("--new-torch-venv")) / "bin/python"
    if not python.exists():
        pytest.skip("torch 2.15.0 is not in the cache, and could not be installed: tools/frameworks_env.sh new-torch says why")
    return python


def test_training_gives_what_it_gives_with_an_older_torch(hvdray, torch_python, horovod_python):
    def losses(python):
        return losses_of(hvdray, "--horovod", "builtin", "--", python)

    assert_alike(losses(torch_python), losses(horovod_python))
