# SPDX-License-Identifier: Apache-2.0
"""The collective library between hosts: memory inside each, TCP between them; also over a slow link, and when a rank dies."""

import json
import subprocess
import sys

import pytest

import async_test
from collective_ranks import KINDS, assert_all_are_told_what_differs, assert_all_name_the_dead
from make_hosts import Hosts

SLOW = "h3"


@pytest.fixture(scope="module")
def three():
    """Two hosts, and a third 1 ms away."""
    with Hosts(count=3, delay_ms={SLOW: 1}) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def limited(three):
    """SLOW sends at most 1 Gbit/s from now on. Returns a function: how many bytes have gone through that limit."""
    limit = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"]
    made = three.run(limit, on=SLOW)
    if "qdisc kind is unknown" in made.stderr:
        pytest.skip("this kernel has no tbf to limit a link with")  # which nobody can install, in CI neither
    assert made.returncode == 0, made.stderr

    def sent():
        root, = json.loads(three.run(["tc", "-s", "-j", "qdisc", "show", "dev", "eth0"], on=SLOW, check=True).stdout)
        assert root["kind"] == "tbf" and root["options"]["rate"] == 10**9 // 8, root
        return root["bytes"]

    return sent


@pytest.fixture
def run(hvdray, three, tmp_path):
    """hvdray at the launcher, with words for `hvdray run`."""
    def run(*words, **variables):
        options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        command, *rest = words
        return three.run([hvdray.binary, command, *options, "--gloo-timeout-seconds", 100, *rest], cwd=tmp_path, timeout=150)

    yield run
    assert not three.leftovers(within=30)


@pytest.fixture
def go(hvdray, run):
    """The probe as the ranks."""
    def go(hosts, *words, backend="auto", **variables):
        return run("run", "-H", hosts, "--", hvdray.bin_dir / "collective_probe", *words, HVDRAY_COLLECTIVE=backend, **variables)

    return go


def size_of(hosts):
    return sum(int(host.split(":")[1]) for host in hosts.split(","))


def assert_right(result, hosts, backend):
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    for rank in range(size_of(hosts)):
        assert f"all: {backend} {rank} of {size_of(hosts)}\n" in result.stdout


@pytest.mark.parametrize("hosts,backend,name", [
    ("h1:2,h2:2", "auto", "hierarchical"),
    ("h1:1,h2:3", "auto", "hierarchical"),
    ("h1:1,h2:1", "auto", "gloo"),
    ("h1:2,h2:1", "gloo", "gloo"),
])
def test_every_collective_equals_its_reference(go, hosts, backend, name):
    assert_right(go(hosts, "suite", backend=backend), hosts, name)


@pytest.mark.parametrize("hosts,name", [(f"h1:2,{SLOW}:2", "hierarchical"), (f"h1:1,{SLOW}:1,h2:1", "gloo")])
def test_over_a_slow_link(go, limited, hosts, name):
    before = limited()
    assert_right(go(hosts, "suite"), hosts, name)
    assert limited() - before > 10**6, "not over that link"


@pytest.mark.parametrize("hosts", ["h1:1,h2:4", "h1:3,h2:3", "h1:4,h2:3", "h1:4,h2:4", "h1:4,h2:5"])
def test_any_number_of_ranks_will_do(go, hosts):
    assert_right(go(hosts, "suite", 0, 1, 777, 7001), hosts, "hierarchical")


@pytest.mark.parametrize("bytes_", [0, 1 << 40])
def test_the_table_of_rank_0_decides_which_algorithm_runs(go, tmp_path, bytes_):
    """Slices and rings, or one speaker and doubling: each is right for all sizes, and also where ranks can't be halved."""
    table = tmp_path / "table"
    table.write_text("".join(f"{name} {bytes_}\n" for name in ("shm_direct_of_two", "network_doubling", "network_ring", "slices")))
    for hosts in ("h1:2,h2:2", f"h1:2,h2:2,{SLOW}:2"):
        assert_right(go(hosts, "suite", 0, 1, 777, 7001, HVDRAY_COLLECTIVE_TABLE=table), hosts, "hierarchical")


def test_memory_is_not_shared_between_hosts(go):
    result = go("h1:1,h2:1", "suite", backend="shm")
    assert result.returncode == 1
    assert "shared memory: ranks 0 and 1 are not on one machine" in result.stdout


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_is_killed_ends_the_calls_of_all(go, victim):
    """In the middle of each kind of call: the root, one of its host, the first of the other host. All name it."""
    result = go("h1:2,h2:2", "until-end", *KINDS, VICTIM=victim)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert_all_name_the_dead(result.stdout, 4, victim)


@pytest.mark.parametrize("hosts", ["h1:2,h2:2", "h1:1,h2:1"])
def test_the_checking_mode_tells_all_ranks_which_calls_differ(go, hosts):
    result = go(hosts, "differ", HVDRAY_CHECK_COLLECTIVES=1)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert_all_are_told_what_differs(result.stdout, size_of(hosts))


@pytest.mark.parametrize("hosts,backends", [("h1:1,h2:1", "gloo"), ("h1:2,h2:2", "hierarchical,gloo")])
def test_every_collective_is_measured_and_right(run, hosts, backends):
    result = run("bench", "-H", hosts, "-b", 8, "-e", "64K", "-f", 90, "--collective", "all", "--backend", backends, "--json", "-",
                 "-n", 2, "-w", 1)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    measured = json.loads(result.stdout)
    assert (measured["ranks"], measured["hosts"], measured["wrong"]) == (size_of(hosts), 2, 0)
    rows = measured["rows"]
    assert {row["backend"] for row in rows} == set(backends.split(","))
    assert {row["collective"] for row in rows} == set(KINDS) - {"all_gather_v", "all_to_all_v", "barrier", "group_all_reduce"}
    ways = [way for row in rows for way in (row["out_of_place"], row["in_place"]) if way]
    assert all(way["wrong"] == 0 and way["iterations"] == 2 for way in ways)


def test_the_table_of_algorithms_between_hosts_is_written_and_can_be_used(go, run, tmp_path):
    table = tmp_path / "table"
    result = run("bench", "-H", "h1:2,h2:2", "--backend", "hierarchical", "--tune", table, "-n", 2, "-w", 1)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert [line for line in result.stdout.splitlines() if " | " in line and line.startswith("#")] == [
        "# all_reduce, in-place, float32: doubling | halving and doubling, or a ring",
        "# all_reduce, in-place, float32: one speaks | slices"]
    text = table.read_text()
    assert ": 4 ranks on 2 hosts, hierarchical\n" in text
    found = dict(line.split("#")[0].split() for line in text.splitlines()[1:])
    assert {"network_doubling", "network_ring", "slices"} < set(found) and all(int(number) >= 0 for number in found.values())
    again = run("bench", "-H", "h1:2,h2:2", "-e", "1K", "-n", 2, "-w", 1, HVDRAY_COLLECTIVE_TABLE=table)
    assert again.returncode == 0 and "# all results are right" in again.stdout, again.stderr[-4000:]
    assert_right(go("h1:2,h2:2", "suite", 777, 7001, HVDRAY_COLLECTIVE_TABLE=table), "h1:2,h2:2", "hierarchical")


def by_name(hvdray, *words):
    return [sys.executable, async_test.PROGRAM, async_test.library_of(hvdray), *words]


@pytest.mark.parametrize("hosts,backend", [("h1:2,h2:2", "auto"), ("h1:2,h2:2", "gloo"), ("h1:1,h2:1", "auto")])
def test_operations_by_name_meet_between_hosts(hvdray, run, hosts, backend):
    result = run("run", "-H", hosts, "--", *by_name(hvdray, "values"), HVDRAY_COLLECTIVE=backend)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert result.stdout.count("values are right") == size_of(hosts)


@pytest.mark.parametrize("phase,victim", [("before", 3), ("after", 0), ("allocated", 2), ("joined", 1)])
def test_operations_by_name_end_with_a_rank_that_is_killed(hvdray, run, tmp_path, phase, victim):
    kind = "allgather" if phase == "allocated" else "allreduce"
    result = run("run", "-H", "h1:2,h2:2", "--", *by_name(hvdray, "die", phase, kind), VICTIM=victim, DEATH=tmp_path / "death")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    async_test.assert_all_name_the_dead(result.stdout, 4, victim)


def test_a_host_that_is_cut_off_ends_operations_by_name(hvdray, three):
    """They have no time limit of their own: hvdray notices."""
    job = three.popen([hvdray.binary, "run", "-H", "h1:2,h2:2", "--heartbeat-timeout", 5, "--", *by_name(hvdray, "forever")],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(4):
            while "ten steps" not in job.stdout.readline():
                assert job.poll() is None
        three.cut("h2")
        said, _ = job.communicate(timeout=90)
    finally:
        three.mend("h2")
    assert job.returncode == 125 and "h2" in said, said
    assert not three.leftovers(within=60)
