# SPDX-License-Identifier: Apache-2.0
"""The hosts that tests of remote jobs share: made once a session, whole again after each test."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from make_hosts import Hosts  # noqa: E402  pylint: disable=wrong-import-position

OTHER_INTERFACE = ("h3", "h4")
SLOW, SLOW_MS = "h5", 50
JUMP, BEHIND = "h7", "h8"


def make_set():
    """Eight hosts: two with another interface name, one 50 ms away, one behind another."""
    return Hosts(count=8, interfaces={name: "ens5" for name in OTHER_INTERFACE},
                 behind={BEHIND: JUMP}, delay_ms={SLOW: SLOW_MS})


@pytest.fixture(scope="session")
def host_set():
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("not root, and CI skips nothing")
        pytest.skip("hosts need root: network namespaces, mounts, sshd")
    with make_set() as hosts:
        yield hosts


@pytest.fixture
def hosts(host_set):
    """The shared hosts. What a test broke is mended, and what it left running on them fails it."""
    yield host_set
    for name in host_set.hosts:
        host_set.thaw(name)
    host_set.mend()
    host_set.start_sshd(*host_set.hosts)
    leftovers = host_set.leftovers(within=30)
    host_set.kill_leftovers()
    assert not leftovers, f"left running: {leftovers}"
