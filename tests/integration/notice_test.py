# SPDX-License-Identifier: Apache-2.0
"""Notices that reach unmodified Horovod 0.28.1: its notification service registers at a relay, and what the
agent's notifier sends is what its listener hears."""

import os
import pathlib
import queue
import signal
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = ROOT / "tests/integration/workers/notified_worker.py"


class Talk:
    """A process that is spoken to by lines."""

    def __init__(self, hvdray, command, env=None):
        self.job = hvdray.start(*command[1:], binary=command[0], env=env, stdin=-1, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.job.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def hears(self, within=60):
        line = self.lines.get(timeout=within)
        assert line is not None, f"it ended: {self.job.process.stderr.read()}"
        return line

    def tell(self, line):
        self.job.process.stdin.write(line + "\n")
        self.job.process.stdin.flush()

    def end(self):
        """Its stderr, after an end in good order."""
        self.job.process.stdin.close()
        self.reader.join(timeout=60)
        assert self.job.process.wait(timeout=60) == 0
        return self.job.process.stderr.read()

    def close(self):
        self.job.process.stdin.close()
        self.job.process.wait(timeout=60)


@pytest.fixture
def peer(hvdray, request):
    talk = Talk(hvdray, [pathlib.Path(request.config.getoption("--bin-dir")).resolve() / "notice_peer"])
    yield talk
    talk.close()


@pytest.fixture
def worker(hvdray, horovod_python, peer):
    """Starts a worker that has registered; `extra` goes into its environment."""
    port = peer.hears().removeprefix("port ")
    talks = []

    def start(**extra):
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        env.update(HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1", HOROVOD_GLOO_RENDEZVOUS_PORT=port,
                   HOROVOD_HOSTNAME="testhost", HOROVOD_LOCAL_RANK="0", PYTHONDONTWRITEBYTECODE="1",
                   **extra)
        talk = Talk(hvdray, [horovod_python, WORKER], env=env)
        talks.append(talk)
        registered = peer.hears()
        assert registered.startswith("registered "), registered
        assert talk.hears() == "listening"
        talk.addresses = registered
        return talk

    yield start
    for talk in talks:
        talk.close()


def test_the_listener_hears_each_timestamp_and_code(peer, worker):
    one = worker()
    assert "127.0.0.1:" in one.addresses
    for timestamp, code in [(1700000000, 3), (1700000001, 1), (1700000002, 2), (1 << 33, 3)]:
        peer.tell(f"notify {timestamp} {code}")
        assert peer.hears() == f"notice {timestamp} ok"
        assert one.hears() == f"heard {timestamp} {code}"
    assert one.end() == "", "nothing went wrong on its side"
    assert peer.end() == ""


def test_one_interface_is_enough(peer, worker):
    one = worker(HOROVOD_GLOO_IFACE="lo")
    assert one.addresses.split()[1] == "lo"
    peer.tell("notify 1700000000 3")
    assert peer.hears() == "notice 1700000000 ok"
    assert one.hears() == "heard 1700000000 3"


def test_a_proxy_in_the_environment_does_no_harm(peer, worker):
    # no_proxy as agents give it to their workers; nothing listens at port 9.
    one = worker(http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9",
                 no_proxy="127.0.0.1", NO_PROXY="127.0.0.1")
    peer.tell("notify 1700000000 2")
    assert peer.hears() == "notice 1700000000 ok"
    assert one.hears() == "heard 1700000000 2"


def test_a_stopped_worker_is_given_up_in_time_and_hears_the_newest_later(peer, worker):
    one = worker(HOROVOD_GLOO_IFACE="lo")
    os.kill(one.job.pid, signal.SIGSTOP)
    try:
        for timestamp in (1700000001, 1700000002, 1700000003):
            peer.tell(f"notify {timestamp} 3")
        assert peer.hears() == "notice 1700000002 replaced by a newer notice [HVD-E0004]"
        lost = peer.hears(within=30)
        assert lost.startswith("notice 1700000001 127.0.0.1:"), lost
        assert "[HVD-E0005]" in lost
    finally:
        os.kill(one.job.pid, signal.SIGCONT)
    assert peer.hears() == "notice 1700000003 ok"
    heard = [one.hears(), one.hears()]
    # What was given up lay in the kernel; Horovod's own listener drops what is older than its last.
    assert sorted(heard) == ["heard 1700000001 3", "heard 1700000003 3"]


def test_a_worker_that_is_gone_is_known_at_once(peer, worker):
    one = worker()
    one.job.process.kill()
    one.job.process.wait()
    peer.tell("notify 1700000000 3")
    lost = peer.hears(within=30)
    assert "[HVD-E0202]" in lost, lost


def test_a_worker_that_has_not_registered_is_not_sought(peer):
    assert peer.hears().startswith("port ")
    peer.tell("notify 1700000000 3")
    assert peer.hears() == "notice 1700000000 unregistered"
