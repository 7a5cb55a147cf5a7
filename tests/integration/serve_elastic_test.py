# SPDX-License-Identifier: Apache-2.0
"""`hvdray serve` with elastic options: one job whose hosts come and go, with plain workers in gang mode, where each change
starts new ones. Workers that live through changes need Horovod: python_elastic_test."""

import json
import os
import select
import signal

import pytest

from hosts_processes import wait_until
from serve_test import Client

HOSTS = ["localhost", "127.0.0.1", "127.1"]  # names of this machine, each with its own agent


class ElasticClient(Client):
    def __init__(self, tool, *options, told=True, np=2, **more):
        self.events = []
        source = ["--host-source", "control"] if told else []
        super().__init__(tool, "--min-np", 1, *source, *options, np=np, **more)
        self.begin()

    def hear(self):
        message = super().hear()
        if message is not None and message["type"] == "event":
            self.events.append(message)
        return message

    def hosts(self, *hosts, **more):
        self.say("hosts", hosts=list(hosts), **more)

    def ready(self):
        """Of the next generation: (host, rank) of its workers; their numbers."""
        workers = self.until("ready")["workers"]
        assert [worker["rank"] for worker in workers] == list(range(len(workers)))
        return [worker["host"] for worker in workers], [worker["worker"] for worker in workers]


@pytest.fixture
def client(hvdray):
    client = ElasticClient(hvdray, "--elastic-mode", "gang", "--max-restarts", 2)
    yield client
    client.socket.close()


def test_newcomers_get_objects_and_data_and_each_generation_is_told(client):
    """Also objects that came while there was no host yet, larger than what lies on a link."""
    client.say("put", object=1, blob=b"small")
    client.say("put", object=2, blob=b"x" * 3_000_000)
    client.hosts("localhost:2")
    client.say("start", gang=1, objects=[1, 2], env={"X": "blue"}, data={"call": 1})

    def answers(count):
        heard = [client.until("data") for _ in range(3 * count)]
        by_worker = {}
        for message in heard:
            by_worker.setdefault(message["worker"], []).append((message["rank"], message["data"]))
        for told in by_worker.values():
            (rank, small), (_, large), (_, data) = told
            assert (small[:2], large[:2]) == ([1, 5], [2, 3_000_000])
            assert data["got"] == {"call": 1} and data["x"] == "blue" and data["rank"] == rank
        return set(by_worker)

    places, first = client.ready()
    assert places == ["localhost"] * 2 and answers(2) == set(first)
    client.hosts("localhost:2", "127.0.0.1:1")
    places, second = client.ready()
    assert places == ["localhost", "localhost", "127.0.0.1"] and answers(3) == set(second)
    assert not set(first) & set(second), "a worker's number is its own"
    client.hosts("127.0.0.1:1")
    places, third = client.ready()
    assert places == ["127.0.0.1"] and answers(1) == set(third)
    client.say("put", object=3, blob=b"later")
    client.say("send", gang=1, to=[0], objects=[3], data="more")
    assert client.until("data")["data"][:2] == [3, 5]
    message = client.until("data")
    assert (message["rank"], message["worker"], message["data"]["got"]) == (0, third[0], "more")
    stopped = client.stop(1)
    assert stopped["exit"]["code"] == 0 and len(stopped["workers"]) == 1
    client.end()


def test_a_worker_that_fails_is_replaced_until_restarts_are_used_up(client):
    client.hosts("localhost:2", final=True)
    client.say("start", gang=1)
    for code in (5, 6, 7):
        client.ready()
        client.say("send", gang=1, to=[1], data={"exit": code})
    stopped = client.until("stopped")
    assert stopped["exit"]["code"] == 7 and stopped["restarts"] == 2
    assert [failure["exit_code"] for failure in stopped["earlier_failures"]] == [5, 6]
    assert "final" in client.refused("hosts", hosts=["127.1:1"])["message"]
    client.end()


def test_jobs_follow_each_other_on_the_hosts_that_are_there(client):
    """Numbers of workers and generations go on; what the client has found holds; hosts that it no longer finds go."""
    numbers, generations = [], []

    def run(gang, hosts, end):
        client.say("start", gang=gang, objects=[1], env={"X": f"gang {gang}"}, data={"call": gang})
        places, workers = client.ready()
        assert places == hosts
        numbers.extend(workers)
        heard = [client.until("data", lambda message: message["gang"] == gang) for _ in range(2 * len(hosts))]
        assert {message["worker"] for message in heard} == set(workers)
        assert [m["data"]["x"] for m in heard if isinstance(m["data"], dict)] == [f"gang {gang}"] * len(hosts)
        stopped = end(gang)
        assert stopped["gang"] == gang
        generations.extend(worker["generation"] for worker in stopped["workers"])
        return stopped["exit"]["code"]

    def fail(gang):
        for restart in range(3):
            client.say("send", gang=gang, to=[0], data={"exit": 9})
            if restart < 2:
                numbers.extend(client.ready()[1])
        return client.until("stopped")

    client.hosts("localhost:1", "127.0.0.1:1", "127.1:1")
    client.say("put", object=1, blob=b"x" * 1_000_000)
    assert run(1, HOSTS, client.stop) == 0
    agents = {e["host"]: e["agent_pid"] for e in client.events if e["event"] == "host_ready"}
    assert run(2, HOSTS, fail) == 9
    client.hosts("127.1:1", "localhost:2")
    wait_until(lambda: not os.path.exists(f"/proc/{agents['127.0.0.1']}"), "the end of an agent that is no longer needed")
    assert run(7, ["127.1", "localhost", "localhost"], client.stop) == 0
    assert numbers == sorted(set(numbers)) and generations == sorted(generations) and generations[2] < generations[3]
    assert {e["agent_pid"] for e in client.events if e["event"] == "host_ready"} == set(agents.values())
    with open(f"/proc/{agents['127.1']}/stat") as file:
        keeper = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(agents["127.1"], signal.SIGKILL)  # between two jobs
    wait_until(lambda: not os.path.exists(f"/proc/{keeper}"), "the end of that agent and of its keeper")
    client.refused("send", gang=7, to="all", data=1)  # by its answer hvdray has seen the closed link
    assert run(8, ["127.1", "localhost", "localhost"], client.stop) == 0
    assert len({e["agent_pid"] for e in client.events if e["event"] == "host_ready"}) == 4
    client.end()


def test_hosts_told_before_a_start_count_for_it(client):
    for gang, hosts in ((1, ["localhost:1"]), (2, ["localhost:1", "127.1:1"])):
        both = [{"type": "hosts", "hosts": hosts}, {"type": "start", "gang": gang, "np": 1}]
        client.stream.write(b"".join(json.dumps(message).encode() + b"\n" for message in both))  # in one piece
        client.stream.flush()
        assert len(client.ready()[0]) == gang
        client.stop(gang)
    client.end()


def test_signals_and_stop_reach_the_workers_of_the_moment(client):
    client.hosts("localhost:1", "127.0.0.1:1")
    client.say("start", gang=1)
    _, first = client.ready()
    client.hosts("localhost:1")
    _, second = client.ready()
    client.say("signal", gang=1, to=[0], signo=signal.SIGKILL)
    _, third = client.ready()
    assert len({*first, *second, *third}) == 4
    client.say("send", gang=1, to="all", data={"deaf": True})
    client.until("data")
    client.say("stop", gang=1, grace_s=60)
    client.say("stop", gang=1, grace_s=0)
    assert client.until("stopped")["exit"]["code"] == 0
    client.end()


def test_a_stop_may_interrupt_first(client):
    client.hosts("localhost:1", "127.0.0.1:1")
    client.say("start", gang=1)
    client.ready()
    client.say("send", gang=1, to="all", data={"sleep": 60})  # they do not read `end`
    stopped = client.stop(1, interrupt=True, grace_s=60)
    assert stopped["exit"]["code"] == 0
    assert [worker["signal"] for worker in stopped["workers"]] == ["SIGINT"] * 2
    client.end()


def test_a_client_that_takes_nothing_stops_the_workers_and_loses_nothing(client):
    size = 40 << 20  # of two workers, above the window of 64 MiB
    client.hosts("localhost:1", "127.0.0.1:1")
    client.say("start", gang=1)
    client.ready()
    client.say("send", gang=1, to="all", data={"say": size})
    taken = credit = 0
    while taken < 64 << 20:
        piece = client.until("data")
        taken, credit = taken + len(piece["blob"]), credit + piece["bytes"]
    while select.select([client.socket], [], [], 0.3)[0]:  # what was on its way comes, and no more
        piece = client.until("data")
        taken, credit = taken + len(piece["blob"]), credit + piece["bytes"]
    assert taken < 2 * size
    client.say("credit", bytes=credit)
    while taken < 2 * size:
        piece = client.until("data")
        taken += len(piece["blob"])
        client.say("credit", bytes=piece["bytes"])
    client.stop(1)
    client.end()


def test_changes_are_told_and_recorded_for_each_job(hvdray, tmp_path):
    client = ElasticClient(hvdray, "--elastic-mode", "gang", "--record", tmp_path / "job.record")
    for gang in (1, 2):
        client.hosts("localhost:2")
        client.say("start", gang=gang)
        client.ready()
        client.hosts("localhost:1")
        client.ready()
        stopped = client.stop(gang)
        assert [change["size"] for change in stopped["memberships"]] == [2, 1]
    result = client.end()
    assert "changed" not in result.errors.splitlines()[-1]
    replay = hvdray.run("replay", tmp_path / "job.record")
    assert replay.code == 0 and "all rules hold" in replay.text, replay.errors


@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_a_signal_ends_it_with_its_job(client, when):
    client.hosts("localhost:2")
    if when != "before":
        client.say("start", gang=1)
        client.ready()
    if when == "after":
        client.stop(1)
    os.kill(client.job.pid, signal.SIGTERM)
    if when == "in":
        assert client.until("stopped")["exit"]["code"] == 143
    assert client.until("bye")["exit"] == 143
    assert client.job.wait().code == 143


def test_bad_hosts_are_refused_and_the_last_list_holds(client):
    client.hosts("localhost:1", "127.0.0.1:1")
    for bad in (["localhost:two"], [":3"], ["localhost"]):
        message = client.refused("hosts", hosts=bad)
        assert message["code"] == "HVD-E0102" and "line 1" in message["message"], message
    client.say("start", gang=1)
    assert client.ready()[0] == ["localhost", "127.0.0.1"]
    client.stop(1)
    client.end()


def test_a_job_stopped_before_it_has_hosts_has_no_workers(client):
    client.say("start", gang=1)
    assert "does not run" in client.refused("send", gang=1, to="all", data=1)["message"]
    stopped = client.stop(1)
    assert (stopped["exit"]["code"], stopped["workers"]) == (0, [])
    client.end()


def test_hosts_that_do_not_come_end_the_job_and_not_the_session(hvdray):
    client = ElasticClient(hvdray, "--elastic-timeout", "0.5")
    client.hosts("localhost:1")
    client.say("start", gang=1)
    stopped = client.until("stopped")
    assert (stopped["exit"]["code"], stopped["exit"]["error"]["code"]) == (125, "HVD-E0208")
    client.end()


def test_np_of_the_start_must_fit_the_limits(hvdray):
    client = ElasticClient(hvdray, "--max-np", 3)
    assert "--max-np 3 is below -np 4" in client.refused("start", gang=1, np=4)["message"]
    client.hosts("localhost:3")
    client.say("start", gang=2, np=3)
    assert len(client.ready()[0]) == 3
    client.stop(2)
    client.end()


def test_a_script_finds_the_hosts_as_well(hvdray, tmp_path):
    listed = tmp_path / "hosts"
    listed.write_text("localhost:1\n")
    client = ElasticClient(hvdray, "--host-discovery-script", f"cat {listed}", "--discovery-interval", "0.1", "--elastic-mode",
                           "gang", told=False, np=1)
    assert "--host-source" in client.refused("hosts", hosts=["localhost:1"])["hint"]
    client.say("start", gang=1)
    assert client.ready()[0] == ["localhost"]
    listed.with_suffix(".new").write_text("localhost:1\n127.1:1\n")
    listed.with_suffix(".new").rename(listed)
    assert client.ready()[0] == ["localhost", "127.1"]
    client.stop(1)
    client.end()


def test_workers_of_a_lost_host_are_no_members_any_more(client):
    client.hosts("localhost:1", "127.0.0.1:1")
    client.say("start", gang=1)
    client.ready()
    lost = next(e for e in client.events if e["event"] == "host_ready" and e["host"] == "127.0.0.1")
    os.kill(lost["agent_pid"], signal.SIGKILL)
    assert client.ready()[0] == ["localhost"]
    client.stop(1)
    client.end()


def test_nothing_is_left_when_the_client_dies(client):
    client.hosts("localhost:1", "127.0.0.1:1")
    client.say("start", gang=1)
    workers = [worker["pid"] for worker in client.until("ready")["workers"]]
    client.stream.close()
    client.socket.close()
    assert client.job.wait().code == 0
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), "the end of the workers")


def test_sockets_of_agents_that_were_killed_with_their_keepers_go_with_the_next(hvdray, tmp_path):
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}

    def begun():
        client = ElasticClient(hvdray, "--elastic-mode", "gang", np=1, env=env)
        client.hosts("localhost:1")
        client.say("start", gang=1)
        client.ready()
        return client, set(tmp_path.glob("hvdray/agent-*"))

    client, [dead] = begun()
    agents = client.job.find("hvdray-agent")
    for signo in (signal.SIGSTOP, signal.SIGKILL):  # neither sees the other's end
        for pid in agents:
            os.kill(pid, signo)
    client.say("bye")
    client.job.wait()
    assert dead.exists()
    first, [path] = begun()
    assert path != dead
    second, paths = begun()
    assert len(paths) == 2 and path in paths, "a living one stays"
    for client in (first, second):
        client.stop(1)
        client.end()
    assert not list(tmp_path.glob("hvdray/*"))


def test_options_that_do_not_fit_are_refused_before_anything_starts(hvdray):
    for options, said in (
        (["-np", 2, "--host-source", "control"], "--min-np"),
        (["--min-np", 1, "--host-source", "script"], "must be one of control"),
        (["--min-np", 1, "--host-source", "control", "-H", "localhost:1"], "not allowed with"),
        (["--min-np", 3, "--max-np", 2, "--host-source", "control"], "above"),
    ):
        result = hvdray.run("serve", *options, "--control", "/nonexistent/socket", "--", "true")
        assert result.code == 2 and said in result.errors, result.errors
    result = hvdray.run("run", "--min-np", 1, "--host-source", "control", "--", "true")
    assert result.code == 2 and "unknown option" in result.errors, result.errors
