# SPDX-License-Identifier: Apache-2.0
"""The collective library between hosts: memory inside each, TCP between them; also over a slow link, and when a rank dies."""

import re

import pytest

from make_hosts import Hosts

SLOW = "h3"


@pytest.fixture(scope="module")
def three():
    """Two hosts, and a third 1 ms away whose link sends 1 Gbit/s."""
    with Hosts(count=3, delay_ms={SLOW: 1}) as hosts:
        limit = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"]
        limited = hosts.run(limit, on=SLOW)
        print(f"{SLOW}: {limited.stderr or 'at most 1 Gbit/s'}")
        yield hosts


@pytest.fixture
def go(hvdray, three, tmp_path):
    def run(hosts, *words, backend="auto", **variables):
        options = [word for name, value in {"HVDRAY_COLLECTIVE": backend, **variables}.items() for word in ("-x", f"{name}={value}")]
        return three.run([hvdray.binary, "run", "-H", hosts, *options, "--gloo-timeout-seconds", 100, "--",
                          hvdray.bin_dir / "collective_probe", *words], cwd=tmp_path, timeout=150)

    yield run
    assert not three.leftovers(within=30)


@pytest.mark.parametrize("hosts,backend,name", [
    ("h1:2,h2:2", "auto", "hierarchical"),
    ("h1:1,h2:3", "auto", "hierarchical"),
    ("h1:1,h2:1", "auto", "gloo"),
    ("h1:2,h2:1", "gloo", "gloo"),
    (f"h1:2,{SLOW}:2", "auto", "hierarchical"),
    (f"h1:1,{SLOW}:1,h2:1", "auto", "gloo"),
])
def test_every_collective_equals_its_reference(go, hosts, backend, name):
    result = go(hosts, "suite", backend=backend)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    size = sum(int(host.split(":")[1]) for host in hosts.split(","))
    for rank in range(size):
        assert f"all: {name} {rank} of {size}" in result.stdout


def test_memory_is_not_shared_between_hosts(go):
    result = go("h1:1,h2:1", "suite", backend="shm")
    assert result.returncode == 1
    assert "shared memory: ranks 0 and 1 are not on one machine" in result.stdout


@pytest.mark.parametrize("kind", ["all_reduce", "broadcast", "reduce_scatter", "barrier"])
@pytest.mark.parametrize("victim", [1, 2])
def test_a_rank_that_is_killed_ends_the_calls_of_all(go, kind, victim):
    """Of its own host and of the other, and all name it."""
    result = go("h1:2,h2:2", "until-end", kind, VICTIM=victim)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    for rank in {0, 1, 2, 3} - {victim}:
        line = re.search(rf"rank {rank}: (.*)", result.stdout)[1]
        assert f"rank {victim} of 4 has died" in line and "[HVD-E0401]" in line, line
