# SPDX-License-Identifier: Apache-2.0
"""The elastic jobs of elastic_test.py and elastic_changes_test.py with our own horovod.torch."""

import functools

import pytest

from elastic_changes_test import (  # noqa: F401  pylint: disable=unused-import
    test_a_host_that_the_script_adds_joins_while_the_job_trains,
    test_a_host_that_the_script_drops_leaves_without_being_a_failure,
    test_more_slots_of_the_same_host_are_used,
    test_workers_registered_behind_a_proxy_setting_hear_of_changes,
)
from elastic_test import (  # noqa: F401  pylint: disable=unused-import
    test_a_killed_worker_costs_nobody_else,
    test_a_worker_that_dies_on_its_way_to_meet_the_others,
    test_all_of_the_last_round_end_well,
    test_rank_0_dies_again_and_again,
    test_two_that_die_at_once_are_one_change,
)


@pytest.fixture(autouse=True)
def builtin_horovod(monkeypatch):
    monkeypatch.setenv("HVDRAY_HOROVOD", "builtin")


def test_a_killed_worker_costs_nobody_else_on_pretended_gpus(elastic):
    test_a_killed_worker_costs_nobody_else(functools.partial(elastic, gpu=True), 3, 0, "reduce")
