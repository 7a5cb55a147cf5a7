# SPDX-License-Identifier: Apache-2.0
"""`hvdray serve` with real workers: gangs one after another, data both ways, objects, and every way to end.

Not here: other hosts, and the reader of each message (tests/unit/engine).
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import socket
import sys
import threading

import pytest

from hosts_processes import send, wait_until

WORKER = [sys.executable, str(pathlib.Path(__file__).parent / "workers/channel_worker.py")]
KINDS = ("hello", "ready", "data", "stopped", "refused", "warmed", "flushed", "bye")


class Client:
    """A client of `hvdray serve`, which runs as a job of the tool."""

    def __init__(self, tool, *options, worker=WORKER, np=2, path=None, **popen):
        self.box = []
        if path is None:
            self.socket, other = socket.socketpair()
            self.job = tool.start("serve", "-np", np, *options, "--control-fd", other.fileno(), "--", *worker,
                                  pass_fds=[other.fileno()], **popen)
            other.close()
        else:
            self.job = None
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(str(path))
        self.socket.settimeout(60)
        self.stream = self.socket.makefile("rwb")

    def say(self, kind, blob=b"", **message):
        message = {"type": kind, **message}
        if blob:
            message["blob"] = len(blob)
        self.stream.write(json.dumps(message).encode() + b"\n" + blob)
        self.stream.flush()

    def pass_memory(self, number, memory):
        head = json.dumps({"type": "put", "object": number, "memory": True}).encode() + b"\n"
        socket.send_fds(self.socket, [head], [memory])

    def hear(self):
        """The next message; None: the connection has ended."""
        try:
            line = self.stream.readline()
        except ConnectionResetError:
            line = b""
        if not line:
            return None
        message = json.loads(line)
        message["blob"] = self.stream.read(message.get("blob", 0))
        message["bytes"] = len(line) + len(message["blob"])
        return message

    def until(self, kind, where=lambda message: True):
        """The next message of that kind; others are kept for later."""
        for index, message in enumerate(self.box):
            if message["type"] == kind and where(message):
                return self.box.pop(index)
        while True:
            message = self.hear()
            assert message is not None, f"the end instead of {kind}; {self.box[-5:]}"
            if message["type"] == kind and where(message):
                return message
            if message["type"] in KINDS:
                self.box.append(message)

    def begin(self):
        self.say("hello", protocol=1, client="test")
        return self.until("hello")

    def start(self, gang, np=2, **more):
        self.say("start", gang=gang, np=np, **more)
        return self.until("ready")

    def answers(self, count):
        return sorted((self.until("data") for _ in range(count)), key=lambda message: message["rank"])

    def refused(self, kind, **message):
        self.say(kind, **message)
        return self.until("refused")

    def stop(self, gang, **more):
        self.say("stop", gang=gang, **more)
        return self.until("stopped")

    def end(self, code=0):
        self.say("bye")
        assert self.until("bye")["exit"] == code
        assert self.hear() is None
        result = self.job.wait()
        assert result.code == code, result.errors
        return result


@pytest.fixture
def client(hvdray):
    client = Client(hvdray)
    client.begin()
    yield client
    client.socket.close()


def test_gangs_follow_each_other_on_the_same_agent(hvdray, client):
    agents = []
    for gang in (1, 2, 5):
        ready = client.start(gang, env={"X": f"gang {gang}"}, data={"call": gang}, blob=b"abc")
        assert [worker["rank"] for worker in ready["workers"]] == [0, 1]
        assert {worker["python"] for worker in ready["workers"]} == {sys.version.split()[0]}
        for rank, answer in enumerate(client.answers(2)):
            assert answer["gang"] == gang
            assert answer["data"] == {"rank": rank, "got": {"call": gang}, "bytes": 3, "x": f"gang {gang}"}
        client.say("send", gang=gang, to=[1], data="only you")
        assert client.until("data")["rank"] == 1
        agents.append(sorted(client.job.find("hvdray-agent")))
        stopped = client.stop(gang)
        assert (stopped["gang"], stopped["exit"]["code"]) == (gang, 0)
        assert len(stopped["workers"]) == 2
    assert agents[0] and agents[0] == agents[1] == agents[2]
    client.end()


def test_a_gang_may_be_smaller_and_not_larger_than_the_slots(client):
    assert client.refused("start", gang=1, np=3)["code"] == "HVD-E0103"
    assert len(client.start(2, np=1)["workers"]) == 1
    client.stop(2)
    client.say("start", gang=3)
    assert len(client.until("ready")["workers"]) == 2
    client.stop(3)
    client.end()


def test_requests_at_the_wrong_time_are_refused_and_change_nothing(client):
    assert "does not run" in client.refused("send", gang=1, to="all", data=1)["message"]
    client.start(3)
    assert "is still running" in client.refused("start", gang=4, np=2)["message"]
    assert "no rank 2" in client.refused("send", gang=3, to=[2], data=1)["message"]
    assert "not started" in client.refused("stop", gang=9)["message"]
    client.stop(3)
    client.say("stop", gang=3)  # it has ended meanwhile: no error
    assert "numbers must increase" in client.refused("start", gang=3, np=2)["message"]
    client.start(10)
    client.end()


def test_a_client_may_ask_ahead(client):
    """It does not wait for the end of one gang before it asks for the next: refused, or started, never lost."""
    client.start(1)
    ended, gang = 0, 1
    client.say("stop", gang=1, grace_s=0)
    while ended < 20:
        gang += 1
        client.say("start", gang=gang, np=1)
        message = client.hear()
        while message["type"] not in ("refused", "stopped", "ready"):
            message = client.hear()
        ended += message["type"] == "stopped"
        if message["type"] == "ready":
            client.say("stop", gang=message["gang"], grace_s=0)
    client.say("bye")
    client.until("bye")
    assert client.job.wait().code == 0


def test_a_worker_that_fails_ends_its_gang_and_not_the_session(client):
    client.start(1)
    client.say("send", gang=1, to=[1], data={"exit": 7})
    stopped = client.until("stopped")
    assert stopped["exit"]["code"] == 7
    assert stopped["first_failure"]["rank"] == 1
    assert stopped["first_failure"]["last_stderr"] == ["ending as told"]
    client.start(2)
    client.stop(2)
    client.end()


def test_a_stop_may_interrupt_first(client):
    client.start(1)
    client.say("send", gang=1, to="all", data={"sleep": 60})  # they do not read `end`
    stopped = client.stop(1, interrupt=True, grace_s=60)
    assert stopped["exit"]["code"] == 0
    assert [worker["signal"] for worker in stopped["workers"]] == ["SIGINT"] * 2
    client.end()


def test_large_data_arrives_whole_and_interleaved(client):
    size = 20_000_001  # A worker that gets no processor for a while still has its turn.
    client.start(1)
    client.say("send", gang=1, to="all", data={"say": size})
    got = {0: b"", 1: b""}
    turns = []
    while any(len(content) < size for content in got.values()):
        piece = client.until("data")
        assert piece["of"] == size and piece["at"] == len(got[piece["rank"]])
        got[piece["rank"]] += piece["blob"]
        turns.append(piece["rank"])
        client.say("credit", bytes=piece["bytes"])
    assert got == {0: b"\1" * size, 1: b"\2" * size}
    assert turns != sorted(turns) and turns != sorted(turns, reverse=True)
    client.stop(1)
    client.end()


def test_a_client_that_takes_nothing_stops_the_worker_and_loses_nothing(client):
    size = 100 << 20  # above the window of 64 MiB
    client.start(1, np=1)
    client.say("send", gang=1, to=[0], data={"say": size})
    taken = credit = 0
    while taken < 64 << 20:
        piece = client.until("data")
        taken, credit = taken + len(piece["blob"]), credit + piece["bytes"]
    while select.select([client.socket], [], [], 1.0)[0]:  # what was on its way comes, and no more
        piece = client.until("data")
        taken, credit = taken + len(piece["blob"]), credit + piece["bytes"]
    assert taken < size
    client.say("credit", bytes=credit)
    while taken < size:
        piece = client.until("data")
        taken += len(piece["blob"])
        client.say("credit", bytes=piece["bytes"])
    assert taken == size
    client.stop(1)
    client.end()


def test_what_workers_printed_before_they_answer_can_be_read_after_a_flush(client):
    lines = 1_000_000  # far more than pipes and windows hold
    client.start(1)
    output = client.job.process.stdout.fileno()
    client.say("send", gang=1, to="all", data={"print": lines})
    # Nobody reads: no answer overtakes what is held back.
    while select.select([client.socket], [], [], 1.0)[0]:
        assert client.hear()["type"] == "event"
    said = []

    def read(until):
        while not until.is_set() or select.select([output], [], [], 0)[0]:
            if select.select([output], [], [], 0.05)[0]:
                said.append(os.read(output, 1 << 16))

    is_flushed = threading.Event()
    reader = threading.Thread(target=read, args=[is_flushed])
    reader.start()
    client.answers(2)
    client.say("flush")
    client.until("flushed")
    is_flushed.set()
    reader.join()
    told = b"".join(said).decode().splitlines()
    for rank in range(2):
        tag = f"[{rank}]<stdout>:"
        assert [line[len(tag):] for line in told if line.startswith(tag)] == [str(k) for k in range(lines)]
    client.stop(1)
    client.end()


def test_a_worker_that_does_not_read_stops_the_client_and_loses_nothing(client):
    client.start(1, np=1)
    client.say("send", gang=1, to=[0], data={"sleep": 2})
    count = 400  # 25 MB: more than all that lies between
    for number in range(count):
        client.say("send", gang=1, to=[0], data=number, blob=b"x" * 65536)
    assert client.until("data")["data"]["got"] == {"sleep": 2}
    for number in range(count):
        answer = client.until("data")["data"]
        assert (answer["got"], answer["bytes"]) == (number, 65536)
    client.stop(1)
    client.end()


def test_a_signal_reaches_one_rank(client):
    client.start(1)
    client.say("signal", gang=1, to=[1], signo=signal.SIGKILL)
    stopped = client.until("stopped")
    assert stopped["first_failure"]["rank"] == 1
    assert stopped["first_failure"]["signal"] == "SIGKILL"
    client.end()


def test_no_grace_ends_who_hears_no_sigterm(client):
    client.start(1, data={"deaf": 1})
    client.answers(2)
    stopped = client.stop(1, grace_s=0)
    assert {worker["signal"] for worker in stopped["workers"]} == {"SIGKILL"}
    client.end()


def test_a_worker_is_told_to_end_on_its_channel_too(client):
    client.start(1, data={"deaf": 1})
    client.answers(2)
    stopped = client.stop(1, grace_s=60)
    assert {worker["exit_code"] for worker in stopped["workers"]} == {0}
    assert client.end().text.count("told to end within 60") == 2


def test_a_restart_gives_the_data_again(hvdray):
    client = Client(hvdray, "--max-restarts", "1")
    client.begin()
    client.start(1, data="first")
    assert [answer["data"]["got"] for answer in client.answers(2)] == ["first"] * 2
    client.say("send", gang=1, to=[0], data={"exit": 1})
    client.until("ready")
    assert [answer["data"]["got"] for answer in client.answers(2)] == ["first"] * 2
    assert client.stop(1)["restarts"] == 1
    client.end()


# ---- objects

def test_an_object_is_there_once_and_workers_map_it(hvdray):
    client = Client(hvdray, np=4)
    client.begin()
    content = random.Random(1).randbytes(48 << 20)
    digest = hashlib.sha256(content).hexdigest()
    client.say("put", object=1, blob=content)
    client.say("put", object=2)
    client.start(1, np=4, objects=[1, 2], data="go")
    for rank in range(4):
        got = [client.until("data", lambda message, rank=rank: message["rank"] == rank)["data"] for _ in range(3)]
        assert got[:2] == [[1, len(content), digest, "sealed"], [2, 0, hashlib.sha256().hexdigest(), "sealed"]]
        assert got[2]["got"] == "go"
    assert len(content) <= shared_memory(client.job) < 1.2 * len(content)
    client.say("put", object=3, blob=b"three")
    client.say("send", gang=1, to=[2], objects=[3], data=3)
    assert client.until("data")["data"][:2] == [3, 5]
    assert client.until("data")["data"]["got"] == 3
    # The next gang on these hosts has them at once.
    client.stop(1)
    client.start(2, np=1, objects=[1])
    assert client.until("data")["data"][2] == digest
    client.stop(2)
    client.end()


def sealed(content, seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE):
    memory = os.memfd_create("test-object", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(memory, content)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    return memory


def agents_that_have(client, memory):
    """The agents that hold this very memory."""
    def has(path):
        with contextlib.suppress(FileNotFoundError):  # it is closed in this moment
            return "test-object" in os.readlink(path) and os.path.samestat(os.stat(path), os.fstat(memory))
        return False

    return [pid for pid in client.job.find("hvdray-agent")
            if any(map(has, pathlib.Path(f"/proc/{pid}/fd").iterdir()))]


def test_an_object_in_the_clients_memory_is_not_copied(hvdray):
    client = Client(hvdray, "-H", "localhost:1,127.0.0.1:1")
    client.begin()
    client.start(1)  # by now the agents have said that they share this machine's memory
    for number, content in ((3, b"three"), (7, random.Random(1).randbytes(300_000)), (8, b"")):
        memory = sealed(content)
        client.pass_memory(number, memory)
        client.say("send", gang=1, to="all", objects=[number], data=number)
        told = [number, len(content), hashlib.sha256(content).hexdigest(), "sealed"]
        assert [client.until("data")["data"] for _ in range(4)].count(told) == 2
        assert len(agents_that_have(client, memory)) == (2 if content else 0)
        client.say("drop", object=number)
        wait_until(lambda memory=memory: not agents_that_have(client, memory), "the end of a dropped object")
    client.stop(1)
    client.end()


def test_an_object_may_be_sent_and_dropped_in_the_write_that_brings_its_memory(hvdray):
    client = Client(hvdray, "-H", "localhost:1,127.0.0.1:1")
    client.begin()
    client.start(1)
    for number in range(1, 201):
        content = number.to_bytes(3, "big")
        burst = ({"type": "put", "object": number, "memory": True},
                 {"type": "send", "gang": 1, "to": "all", "objects": [number], "data": number}, {"type": "drop", "object": number})
        with os.fdopen(sealed(content), "rb") as memory:
            socket.send_fds(client.socket, ["".join(json.dumps(line) + "\n" for line in burst).encode()], [memory.fileno()])
        told = [number, 3, hashlib.sha256(content).hexdigest(), "sealed"]
        assert [client.until("data")["data"] for _ in range(4)].count(told) == 2
    client.stop(1)
    client.end()


def test_a_host_that_does_not_share_the_memory_gets_a_copy(hvdray, tmp_path):
    """One agent of two is in a space of processes of its own, as in a container."""
    build = pathlib.Path(hvdray.binary).parent
    shutil.copy(build / "hvdray", tmp_path)
    wrapper = tmp_path / "hvdray-agent"
    wrapper.write_text(f"""#!/bin/sh
mkdir {tmp_path}/first 2>/dev/null && exec {build}/hvdray-agent "$@"
exec unshare --pid --fork --kill-child --mount-proc {build}/hvdray-agent "$@"
""")
    wrapper.chmod(0o755)
    client = Client(hvdray, "-H", "localhost:1,127.0.0.1:1", binary=str(tmp_path / "hvdray"))
    client.begin()
    client.start(1)
    content = random.Random(2).randbytes(3_000_001)
    memory = sealed(content)
    client.pass_memory(2, memory)
    client.say("put", object=3, blob=b"not overtaken")
    client.say("send", gang=1, to="all", objects=[2, 3])
    got = [client.until("data")["data"] for _ in range(6)]
    assert got.count([2, len(content), hashlib.sha256(content).hexdigest(), "sealed"]) == 2, got
    assert got.count([3, 13, hashlib.sha256(b"not overtaken").hexdigest(), "sealed"]) == 2, got
    assert len(agents_that_have(client, memory)) == 1
    client.stop(1)
    client.end()


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW])
def test_memory_that_could_change_is_refused(client, seals):
    client.pass_memory(1, sealed(b"open", seals))
    refused = client.until("refused")
    assert refused["about"] == "put" and "not sealed memory" in refused["message"], refused
    assert "no object 1" in client.refused("start", gang=1, np=1, objects=[1])["message"]
    client.pass_memory(1, sealed(b"sealed"))
    client.start(2, np=1, objects=[1])
    assert client.until("data")["data"][:2] == [1, 6]
    client.end()


@pytest.mark.parametrize("message, said", [({}, "without a descriptor"), ({"blob": b"x"}, "memory and a blob")])
def test_memory_that_does_not_come_ends_the_connection(client, message, said):
    client.say("put", object=1, memory=True, **message)
    refused = client.until("refused")
    assert refused["about"] is None and said in refused["message"], refused
    client.until("bye")


def test_descriptors_that_no_request_takes_end_the_connection(client):
    for _ in range(70):
        socket.send_fds(client.socket, [b'{"type":"drop","object":1}\n'], [0])
    refused = client.until("refused")
    assert refused["about"] is None and "descriptors" in refused["message"], refused
    client.until("bye")


@pytest.mark.parametrize("way", ["blob", "memory"])
def test_an_object_above_the_limit_of_file_sizes_is_refused(hvdray, way):
    """For the kernel, sealed memory is a file."""
    client = Client(hvdray, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    client.begin()
    client.start(1)
    content = b"x" * (2 << 20)
    if way == "memory":  # it is there already, and needs no other
        client.pass_memory(1, sealed(content))
        client.say("send", gang=1, to=[0], objects=[1])
        assert client.until("data")["data"][:2] == [1, 2 << 20]
        client.stop(1)
    else:
        client.say("put", object=1, blob=content)
        assert "File too large" in client.until("refused")["message"]
        client.until("stopped")
    client.start(2)
    client.stop(2)
    client.end()


def test_objects_that_are_not_there_are_refused(client):
    client.say("put", object=1, blob=b"one")
    assert "no object 2" in client.refused("start", gang=1, np=1, objects=[2])["message"]
    client.start(2, np=1, objects=[1])
    assert "part of the start" in client.refused("drop", object=1)["message"]
    assert "numbers must increase" in client.refused("put", object=1, blob=b"again")["message"]
    client.stop(2)
    client.say("drop", object=1)
    assert "no object 1" in client.refused("start", gang=3, np=1, objects=[1])["message"]
    client.end()


def shared_memory(job):
    """Bytes in memory that has a descriptor and that processes of the job have open or mapped."""
    pieces = {}
    for pid in job.processes():
        for path in [*pathlib.Path(f"/proc/{pid}/fd").iterdir(), *pathlib.Path(f"/proc/{pid}/map_files").iterdir()]:
            with contextlib.suppress(FileNotFoundError):
                if "memfd:" in os.readlink(path):
                    pieces[os.stat(path).st_ino] = os.stat(path).st_blocks * 512
    return sum(pieces.values())


# ---- ends

def test_bye_ends_a_gang_that_runs(client):
    client.start(1)
    client.say("bye")
    assert client.until("stopped")["gang"] == 1
    assert client.until("bye")["exit"] == 0
    assert client.job.wait().code == 0


def test_the_end_of_the_connection_ends_all(client):
    client.start(1)
    client.socket.shutdown(socket.SHUT_RDWR)
    assert client.job.wait().code == 0


CLIENT = """
import os, socket, subprocess, sys, time
ours, its = socket.socketpair()
subprocess.Popen([sys.argv[1], "serve", "-np", "2", "--control-fd", str(its.fileno()), "--", *sys.argv[3:]],
                 pass_fds=[its.fileno()])
its.close()
ours.sendall(b'{"type":"hello","protocol":1}\\n{"type":"start","gang":1,"np":2}\\n')
while b'"ready"' not in ours.recv(65536):
    pass
if sys.argv[2] == "fork" and os.fork() == 0:
    os.setsid()
    os.environ.clear()
    time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["alone", "fork"])
def test_nothing_outlives_a_client_that_is_killed(hvdray, kind):
    """fork: a child of the client's holds the socket open."""
    job = hvdray.start("-c", CLIENT, hvdray.binary, kind, *WORKER, binary=sys.executable)
    assert job.process.stdout.readline() == b"ready\n"
    children = [pid for pid in job.find(CLIENT.strip()[:20]) if pid != job.pid]
    os.kill(job.pid, signal.SIGKILL)
    wait_until(lambda: set(job.processes()) <= set(children), within=30, what="the end of all but the fork")
    job.kill()


@pytest.mark.parametrize("what", ["serve", "hvdray-agent", "channel_worker"])
def test_nothing_is_left_whatever_is_killed(client, what):
    client.start(1)
    victim = client.job.pid if what == "serve" else client.job.find(what)[-1]
    os.kill(victim, signal.SIGKILL)
    if what == "channel_worker":
        assert client.until("stopped")["first_failure"]["signal"] == "SIGKILL"
        client.end()
    elif what == "hvdray-agent":
        client.until("stopped")
        assert "lost" in client.refused("start", gang=2, np=1)["message"]
        client.end()
    assert not client.job.survivors(within=30)


def test_a_signal_ends_the_gang_and_then_the_session(client):
    client.start(1)
    client.job.process.send_signal(signal.SIGTERM)
    assert client.until("stopped")["exit"]["code"] == 143
    assert client.until("bye")["exit"] == 143
    assert client.job.wait().code == 143


def test_a_session_that_a_signal_has_ended_says_why_and_who_was_killed(hvdray):
    client = Client(hvdray, "--grace", 1)
    client.begin()
    client.start(1)
    client.say("send", gang=1, to="all", data={"deaf": True})
    client.answers(2)
    client.say("send", gang=1, to="all", data={"sleep": 3600})
    client.job.process.send_signal(signal.SIGTERM)
    assert client.until("bye")["exit"] == 143
    errors = client.job.wait().errors
    assert "hvdray: stopped by SIGTERM [HVD-E0307]\n" in errors
    assert "hvdray: killed, because they had not ended 1 s after SIGTERM: ranks 0,1\n" in errors


def test_a_gang_that_fails_before_all_its_hosts_are_known_ends_itself_alone(hvdray):
    """Its first host is enough for it, and has no such interface."""
    client = Client(hvdray, "-H", "localhost:1,127.0.0.1:1", "--network-interfaces", "nosuch0", np=2)
    client.begin()
    for gang in (1, 2):
        client.say("start", gang=gang, np=1)
        assert client.until("stopped")["exit"]["error"]["code"] == "HVD-E0210"
    client.end()


def begin_a_long_stop(client, gang):
    """A gang of one worker that hears no SIGTERM, and a client that gives it an hour."""
    client.start(gang, np=1)
    for data in ({"deaf": True}, {"sleep": 3600}):
        client.say("send", gang=gang, to="all", data=data)
    client.until("data")
    client.say("stop", gang=gang, grace_s=3600)
    client.say("flush")
    client.until("flushed")  # requests are done in order: the stop is under way


def test_a_signal_ends_a_session_that_is_stopping_its_gang(hvdray):
    client = Client(hvdray, "--grace", 1, np=1)
    client.begin()
    begin_a_long_stop(client, 1)
    client.job.process.send_signal(signal.SIGTERM)
    assert client.until("stopped")["exit"]["code"] == 143
    assert client.until("bye")["exit"] == 143
    assert client.job.wait().code == 143


def test_a_signal_ends_a_session_whose_gang_has_failed(hvdray):
    """The gang's end keeps its cause; the session ends all the same."""
    client = Client(hvdray, "--grace", 3600)
    client.begin()
    client.start(1)
    client.say("send", gang=1, to=[1], data={"deaf": True})
    client.until("data")
    client.say("send", gang=1, to=[1], data={"sleep": 3600})
    client.say("send", gang=1, to=[0], data={"exit": 3})
    client.until("event", lambda event: event["event"] == "worker_exited" and event["exit_code"] == 3)
    client.job.process.send_signal(signal.SIGTERM)
    while b"repeat" not in client.job.process.stderr.readline():
        pass
    client.job.process.send_signal(signal.SIGINT)
    assert client.until("stopped")["exit"]["code"] == 3
    assert client.until("bye")["exit"] == 143
    assert client.job.wait().code == 143


VIOLATIONS = [
    b"nonsense\n", b"[]\n", b'{"no":"type"}\n', b'{"type":"start","gang":1,"np":1}\n', b'{"type":"hello","protocol":2}\n',
    b'{"type":"hello","protocol":1}\n{"type":"hello","protocol":1}\n', b'{"type":"hello","protocol":1}\n{"type":"sing"}\n',
    b'{"type":"hello","protocol":1}\n{"type":"start","gang":0,"np":1}\n',
    b'{"type":"hello","protocol":1}\n{"type":"credit","bytes":1}\n',
    b'{"type":"hello","protocol":1}\n{"type":"bye","blob":1}\n', b'{"type":"hello","blob":-1}\n', b"x" * (1 << 20)]


@pytest.mark.parametrize("words", VIOLATIONS, ids=range(len(VIOLATIONS)))
def test_what_is_no_request_ends_the_connection(hvdray, words):
    client = Client(hvdray)
    client.socket.sendall(words)
    assert client.until("refused")["about"] is None
    assert client.until("bye")
    client.job.wait()


# ---- a socket with a name

def test_clients_of_a_path_come_one_after_another(hvdray, tmp_path):
    path = tmp_path / "gangs.sock"
    job = hvdray.start("serve", "-np", "2", "--control", path, "--linger", "60", "--", *WORKER)
    job.wait_for(path.exists)
    assert path.stat().st_mode & 0o777 == 0o600
    first = Client(hvdray, path=path)
    pid = first.begin()["pid"]
    first.start(1)
    agents = sorted(job.find("hvdray-agent"))
    assert "another client" in Client(hvdray, path=path).until("refused")["message"]
    first.socket.close()
    first.stream.close()
    second = job.wait_for(lambda: greeted(hvdray, path), what="room for another client")
    second.start(1)
    assert sorted(job.find("hvdray-agent")) == agents and pid == job.pid
    job.process.send_signal(signal.SIGTERM)
    assert job.wait().code == 143
    assert not path.exists()


def test_without_linger_the_first_client_is_the_last(hvdray, tmp_path):
    path = tmp_path / "gangs.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()  # nobody listens there
    job = hvdray.start("serve", "-np", "1", "--control", path, "--", *WORKER)
    client = job.wait_for(lambda: connected(hvdray, path), what="a listener")
    client.begin()
    client.say("bye")
    assert job.wait().code == 0
    assert not path.exists()


def greeted(tool, path):
    """A client that was let in; None: the last one's workers are still ending."""
    try:
        client = Client(tool, path=path)
        client.say("hello", protocol=1)
        return client if client.hear()["type"] == "hello" else None
    except OSError:
        return None


def connected(tool, path):
    try:
        return Client(tool, path=path)
    except OSError:
        return None


def test_a_path_that_is_taken_is_refused(hvdray, tmp_path):
    path = tmp_path / "gangs.sock"
    first = hvdray.start("serve", "-np", "1", "--control", path, "--", *WORKER)
    first.wait_for(lambda: connected(hvdray, path), what="a listener").socket.close()
    result = hvdray.run("serve", "-np", "1", "--control", path, "--", *WORKER)
    assert result.code == 2 and "another hvdray serve listens there" in result.errors
    # The first still waits for its client: those two only looked.
    client = first.wait_for(lambda: greeted(hvdray, path), what="room for a client")
    client.say("bye")
    assert first.wait().code == 0
    file = tmp_path / "file"
    file.write_text("mine")
    result = hvdray.run("serve", "-np", "1", "--control", file, "--", *WORKER)
    assert result.code == 2 and file.read_text() == "mine"


# ---- warm

# Its import is counted, and ends when the file `gate` is there.
GATED = """\
import os, time
with open('imports', 'a') as file: file.write('x')
while not os.path.exists('gate'): time.sleep(0.005)
"""


def test_hosts_warm_up_without_a_gang_and_gangs_wait_for_it(hvdray, tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    report = "import os, sys; os.environ['X'] = str('gated' in sys.modules); "
    worker = [sys.executable, "-c", report + f"exec(open({WORKER[1]!r}).read())"]
    client = Client(hvdray, worker=worker, cwd=tmp_path)
    client.begin()
    client.say("warm", preload=["gated"], env={"COLOUR": "red"})
    assert "still importing" in client.refused("warm", preload=["json"])["message"]
    client.say("start", gang=1, env={"COLOUR": "red"}, data="go")
    (tmp_path / "gate").touch()
    warmed = client.until("warmed")
    assert (warmed["is_warm"], warmed["why"], warmed["left"]) == (True, "", 0), warmed
    assert warmed["host"] == "localhost" and warmed["took_s"] >= 0
    client.until("ready")
    assert [answer["data"]["x"] for answer in client.answers(2)] == ["True", "True"]
    client.stop(1)
    client.start(2, env={"COLOUR": "red"}, data="go")
    assert [answer["data"]["x"] for answer in client.answers(2)] == ["True", "True"]
    assert (tmp_path / "imports").read_text() == "x"
    client.say("warm", preload=["gated"], env={"COLOUR": "red"})  # while a gang lives, and again
    assert client.until("warmed")["is_warm"]
    assert (tmp_path / "imports").read_text() == "x"
    client.stop(2)
    client.end()


def test_a_host_that_stays_cold_says_why(hvdray, client):
    client.say("warm", preload=["nowhere_at_all"])
    warmed = client.until("warmed")
    assert not warmed["is_warm"] and "nowhere_at_all" in warmed["why"] and warmed["left"] == 0
    client.start(1)
    client.stop(1)
    assert "start cold" in client.end().errors


def test_only_python_can_be_warm(hvdray):
    client = Client(hvdray, worker=["sleep", "60"])
    client.begin()
    client.say("warm", preload=["json"])
    warmed = client.until("warmed")
    assert (warmed["is_warm"], warmed["why"]) == (False, "sleep is not Python"), warmed
    client.end()


def test_the_launcher_ends_while_hosts_warm_up(hvdray, tmp_path):
    (tmp_path / "gated.py").write_text(GATED)
    client = Client(hvdray, worker=[sys.executable, "-c", ""], cwd=tmp_path)
    client.begin()
    client.say("warm", preload=["gated"])
    wait_until(lambda: (tmp_path / "imports").exists(), "the first import")
    client.end()
    assert not client.job.survivors(within=30)


# ---- secrets, and many ends

def test_the_environment_is_in_no_command_line(client):
    client.start(1, env={"X": "s3cret-value"}, data="s3cret-data")
    assert client.answers(2)[0]["data"]["x"] == "s3cret-value"
    lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in client.job.processes()]
    assert lines and not any(b"s3cret" in line for line in lines)
    client.stop(1)
    assert b"s3cret" not in client.end().err


def test_random_kills_leave_nothing(hvdray):
    dice = random.Random(20261125)
    for _ in range(20):
        client = Client(hvdray)
        client.begin()
        client.say("put", object=1, blob=b"x" * dice.randrange(1 << 20))
        client.say("start", gang=1, np=2, objects=[1])
        for _ in range(dice.randrange(7)):
            client.hear()
        alive = list(client.job.processes())
        send([dice.choice(alive)], signal.SIGKILL)  # what was just ending may have ended
        client.socket.close()
        client.stream.close()
        left = client.job.survivors(within=30)
        assert not left, left
