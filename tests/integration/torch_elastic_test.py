# SPDX-License-Identifier: Apache-2.0
"""The elastic jobs of elastic_test.py and elastic_changes_test.py with our own horovod.torch."""

import functools
import os
import shutil

import pytest

from async_test import library_of
from conftest import Hvdray, checked
from elastic import NAMES, ROOT, Elastic
from elastic_changes_test import (  # noqa: F401  pylint: disable=unused-import
    test_a_host_that_the_script_adds_joins_while_the_job_trains,
    test_a_host_that_the_script_drops_leaves_without_being_a_failure,
    test_more_slots_of_the_same_host_are_used,
    test_workers_registered_behind_a_proxy_setting_hear_of_changes,
)
from elastic_test import (  # noqa: F401  pylint: disable=unused-import
    PATIENT,
    ended,
    said,
    test_a_killed_worker_costs_nobody_else,
    test_a_worker_that_dies_on_its_way_to_meet_the_others,
    test_all_of_the_last_round_end_well,
    test_rank_0_dies_again_and_again,
    test_two_that_die_at_once_are_one_change,
)


@pytest.fixture(autouse=True)
def builtin_horovod(monkeypatch):
    monkeypatch.setenv("HVDRAY_HOROVOD", "builtin")


@pytest.mark.parametrize("is_told", [True, False], ids=["builtin", "imported"])
def test_a_killed_newcomer_costs_nobody_else(elastic, hvdray, monkeypatch, is_told):
    """Our own hvd.init() does not pass through Horovod's barrier, where a member that dies is replaced. The launcher
    is not always told that it is ours."""
    if not is_told:
        monkeypatch.delenv("HVDRAY_HOROVOD")
        monkeypatch.setenv("PYTHONPATH", str(ROOT / "python/hvdray/_horovod"))
        monkeypatch.setenv("HVDRAY_LIBRARY", str(library_of(hvdray)))
    job = elastic()
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 1, "--max-np", 3, env={**os.environ, **PATIENT})
    job.wait_steps(2)
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    job.kill(2)
    job.wait_steps(2)
    result = ended(job, 2)
    assert "unknown environment variable" not in result.errors
    said(result, "generation 3: 2 workers; host 127.1 left with 1: rank 2 on host 127.1 was killed by SIGKILL (signal 9)")


def test_an_upgrade_is_told_by_those_who_come_after_it(hvdray, horovod_python, tmp_path):
    tree = tmp_path / "tree"
    package = shutil.copytree(ROOT / "python/hvdray", tree / "lib/hvdray/python/hvdray")
    (tree / "bin").mkdir()
    for program in (hvdray.binary, hvdray.agent):
        shutil.copy(program, tree / "bin")
    shutil.copy(library_of(hvdray), tree / "lib")
    with_tool = checked(Hvdray(tree / "bin"))
    job = Elastic(next(with_tool).job, horovod_python, tmp_path / "job")
    job.hosts(NAMES[0])
    job.start("-np", 1, "--min-np", 1, "--max-np", 2, "--events", job.folder / "events", env={**os.environ, **PATIENT})
    job.wait_steps(1)
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace('__version__ = "', '__version__ = "9.'))
    job.hosts(*NAMES[:2])
    job.wait_for(lambda: len(job.events("worker_exited")) == 2, "the end of a newcomer that is started twice")
    job.wait_steps(1)
    result = ended(job, 1)
    said(result, "ImportError: this job began with hvdray ")
    said(result, f"and {package} is 9.")
    next(with_tool, None)


def test_a_killed_worker_costs_nobody_else_on_pretended_gpus(elastic):
    test_a_killed_worker_costs_nobody_else(functools.partial(elastic, gpu=True), 3, 0, "reduce")
