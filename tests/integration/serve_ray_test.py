# SPDX-License-Identifier: Apache-2.0
"""`hvdray serve --ray-address` against a dashboard that a test plays: what of the client goes into the job's package, and what of the
job's stream comes back. A real cluster: ray_calls_test.py."""

import fcntl
import json
import os
import select
import socket
import struct
import threading

import pytest
from serve_test import Client

from fake_dashboard import FakeDashboard, last_record, record, wait_until

WORKER = ["@python", "-c", "pass"]
STOPPED = {"type": "stopped", "gang": 1, "exit": {"code": 0}}


class Told:
    """What the session in the cluster says, as records of the job's stream."""

    def __init__(self, job):
        self.job, self.offset, self.held = job, 0, None

    def say(self, message, blob=b"", lost=0):
        if blob:
            message = {**message, "blob": len(blob)}
        self.say_bytes(json.dumps(message).encode() + b"\n" + blob, lost)

    def say_bytes(self, message, lost=0):
        self.offset += lost
        written = record(6, struct.pack("<Q", self.offset) + message)
        self.offset += len(message)
        if self.held is None:
            self.job.write("stream", written)
        else:
            self.held.append(written)

    def hold(self):
        """What is said from now on arrives at once, with release()."""
        self.held = []

    def release(self):
        held, self.held = self.held, None
        self.job.write("stream", b"".join(held))


@pytest.fixture
def cluster():
    opened = []

    def start(on_job=None, **kwargs):
        opened.append(FakeDashboard(on_job, **kwargs))
        return opened[-1]

    yield start
    for dashboard in opened:
        dashboard.close()


@pytest.fixture
def connect(hvdray, tmp_path):
    """A client that has said its hello."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "HVDRAY_"))}

    def go(url, *options, **more):
        client = Client(hvdray, "--ray-address", url, *options, worker=WORKER, env={**kept, "HOME": str(tmp_path)}, cwd=tmp_path, **more)
        client.say("hello", protocol=1, client="test")
        return client

    return go


def ended(client, code):
    """Its bye, and the job's result."""
    assert client.until("bye")["exit"] == code
    assert client.hear() is None
    result = client.job.wait(60)
    assert result.code == code, result.errors
    return result


def played(dashboard):
    wait_until(lambda: dashboard.jobs)
    (job,) = dashboard.jobs.values()
    return job


def test_what_the_client_says_travels_in_the_private_package(cluster, connect):
    is_flushed = threading.Event()

    def play(job):
        job.run()
        told = Told(job)
        told.say({"type": "ready", "gang": 1, "workers": []})
        job.write("stream", record(1, b"[0]<stdout>:hello\n"))
        told.say({"type": "data", "gang": 1, "worker": 0, "rank": 0, "at": 0, "of": 5, "data": None}, b"\xff\0ab\n")
        is_flushed.wait(60)
        told.say(STOPPED)
        job.end(0)

    dashboard = cluster(play)
    client = connect(dashboard.url)
    assert client.until("hello")["job_id"].startswith("hvd-")
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(memory, b"of memory" * 100_000)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    client.pass_memory(1, memory)
    client.say("put", b"\0bytes\n", object=2)
    client.say("drop", object=2)
    assert not dashboard.jobs
    client.say("start", b"blob", gang=1, np=2, env={"TOKEN": "secret"}, objects=[1], data={"n": [1, 2]})
    ready, data = client.until("ready"), client.until("data")
    client.say("flush")
    client.until("flushed")
    text = b"[0]<stdout>:hello\n"
    assert select.select([client.job.process.stdout], [], [], 0)[0] and client.job.process.stdout.read1() == text
    is_flushed.set()
    stopped = client.until("stopped")
    assert ready["workers"] == [] and data["blob"] == b"\xff\0ab\n" and stopped["exit"] == {"code": 0}
    result = ended(client, 0)
    assert result.text == "", result.text
    job = played(dashboard)
    assert "secret" not in json.dumps(job.body)
    mode, said = dashboard.files_of(f"hvdray_job_{job.id}.zip")["hvdray_job/control"]
    assert mode == 0o600
    hello, rest = said.split(b"\n", 1)
    put, rest = rest.split(b"\n", 1)
    assert json.loads(hello) == {"type": "hello", "protocol": 1}
    assert json.loads(put) == {"type": "put", "object": 1, "blob": 900_000} and rest.startswith(b"of memory" * 100_000)
    second, rest = rest[900_000:].split(b"\n", 1)
    assert json.loads(second) == {"type": "put", "object": 2, "blob": 7} and rest.startswith(b"\0bytes\n")
    start, blob = rest[7:].split(b"\n", 1)
    assert blob == b"blob"
    assert json.loads(start) == {"type": "start", "gang": 1, "np": 2, "env": {"TOKEN": "secret"}, "objects": [1],
                                 "data": {"n": [1, 2]}, "blob": 4}
    assert dashboard.job_file()["options"]["settings"]["stop_with_client"] is True


def test_nothing_is_submitted_without_a_start(cluster, connect):
    dashboard = cluster()
    client = connect(dashboard.url)
    client.say("put", b"bytes", object=1)
    client.say("bye")
    assert client.job.wait(60).code == 0
    assert not dashboard.jobs and not dashboard.packages


def test_a_cluster_that_can_not_be_reached_or_has_no_room_is_refused_before_the_hello(cluster, connect):
    client = connect("http://127.0.0.1:9")
    refused = client.until("refused")
    assert refused["about"] is None and refused["code"] == "HVD-E0216" and "127.0.0.1:9" in refused["message"]
    assert client.until("bye")["exit"] == 2
    client = connect(cluster().url, np=64)
    refused = client.until("refused")
    assert refused["about"] is None and refused["code"] == "HVD-E0219", refused


def test_after_the_start_only_a_stop_is_heard(cluster, connect):
    dashboard = cluster(lambda job: job.run())
    client = connect(dashboard.url)
    for kind, keys in (("send", {"gang": 1, "to": "all", "data": 1}), ("stop", {"gang": 1}), ("warm", {"preload": ["a"]})):
        client.say(kind, **keys)
        assert client.until("refused")["about"] == kind
    client.say("start", gang=1, data=1)
    job = played(dashboard)
    for kind, keys in (("send", {"gang": 1, "to": "all", "data": 1}), ("signal", {"gang": 1, "to": "all", "signo": 2}),
                       ("hosts", {"hosts": ["a:1"]}), ("start", {"gang": 2}), ("stop", {"gang": 2})):
        client.say(kind, **keys)
        assert client.until("refused")["about"] == kind
    client.say("put", b"late", object=7)
    assert client.until("refused")["about"] == "put"
    assert job.stops == 0
    client.say("stop", gang=1)
    wait_until(lambda: job.stops == 1)
    client.say("stop", gang=1, grace_s=0)
    wait_until(lambda: f"hvdray_now_{job.id}.zip" in dashboard.packages)
    Told(job).say({**STOPPED, "exit": {"code": 143}})
    job.end(143, "STOPPED")
    assert client.until("stopped")["exit"]["code"] == 143
    ended(client, 0)


def test_a_client_that_goes_stops_the_job(cluster, connect):
    dashboard = cluster(lambda job: job.run())
    client = connect(dashboard.url)
    client.say("start", gang=1, data=1)
    job = played(dashboard)
    client.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: job.stops == 1)
    job.end(143, "STOPPED")
    assert client.job.wait(60).code == 143


@pytest.mark.parametrize("error", [{"code": "HVD-E0208", "message": "no slots"}, None])
def test_a_job_that_ends_without_a_verdict_refuses_the_start(cluster, connect, error):
    def play(job):
        job.run()
        job.write("stream", last_record(125, error))
        job.code, job.status = 125, "FAILED"

    client = connect(cluster(play).url)
    client.say("start", gang=1, data=1)
    refused = client.until("refused")
    assert refused["about"] == "start", refused
    if error:
        assert (refused["code"], refused["message"]) == ("HVD-E0208", "no slots")
    else:
        assert refused["code"] == "HVD-E0218" and "ended with exit code 125" in refused["message"], refused
    ended(client, 125)


def test_bytes_that_the_cluster_has_dropped_are_missed(cluster, connect):
    def play(job):
        job.run()
        told = Told(job)
        told.say({"type": "ready", "gang": 1, "workers": []})
        told.say({"type": "report", "gang": 1, "worker": 0, "rank": 0, "n": 1, "metrics": {}}, lost=1000)
        wait_until(lambda: job.stops == 1)
        told.say(STOPPED)
        job.end(143, "STOPPED")

    client = connect(cluster(play).url)
    client.say("start", gang=1, data=1)
    client.until("ready")
    refused = client.until("refused")
    assert (refused["about"], refused["code"]) == ("start", "HVD-E0305"), refused
    result = client.job.wait(60)
    assert "dropped 1000 bytes of what workers sent" in result.errors and result.code != 0, result.errors


@pytest.mark.parametrize("message", [b"no message\n", b'{"type":"report","blob":3}\nabc', b'{"type":"data","blob":70000}\n'])
def test_what_is_no_message_stops_the_job(cluster, connect, message):
    def play(job):
        job.run()
        Told(job).say_bytes(message)
        wait_until(lambda: job.stops == 1)
        job.end(143, "STOPPED")

    client = connect(cluster(play).url)
    client.say("start", gang=1, data=1)
    refused = client.until("refused")
    assert (refused["about"], refused["code"]) == ("start", "HVD-E0207"), refused
    assert client.job.wait(60).code != 0


def test_a_slow_client_gets_no_more_than_its_window_and_then_the_rest(cluster, connect):
    blob, count = b"x" * (64 << 10), 1200

    def play(job):
        job.run()
        told = Told(job)
        told.hold()
        for at in range(count):
            told.say({"type": "data", "gang": 1, "worker": 0, "rank": 0, "data": at}, blob)
        told.release()
        told.say(STOPPED)
        job.end(0)

    client = connect(cluster(play).url)
    client.say("start", gang=1, data=1)
    got, without = 0, 0
    while got + len(blob) < 64 << 20:
        message = client.until("data")
        got, without = got + message["bytes"], without + 1
        assert message["data"] == without - 1
    assert without < count
    client.say("credit", bytes=got)
    for at in range(without, count):
        message = client.until("data")
        assert message["data"] == at
    client.until("stopped")
    ended(client, 0)
