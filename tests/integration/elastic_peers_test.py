# SPDX-License-Identifier: Apache-2.0
"""Bad hosts, bad discovery and bad peers of elastic jobs: said clearly, and the job unharmed by one of them."""

import base64
import os
import pickle
import shlex
import socket
import subprocess
import sys

import pytest
from elastic import NAMES, check_training

NOBODY = 65534
REMOVED = b"-1,-1,-1,-1,-1,-1"


def said(result, *words):
    for word in words:
        assert word in result.errors, result.errors


# ---- a script that fails at the first time ends the job

@pytest.mark.parametrize("command, words", [
    ("echo not today >&2; exit 3", ["not today"]),
    ("echo localhost:many", ["line 1"]),
    ("echo localhost", ["--slots-per-host"]),
    ("echo a:b:c:d", ["line 1"]),
    ("head -c 100000 /dev/urandom", ["line"]),
])
def test_a_script_that_fails_at_first(hvdray, command, words):
    result = hvdray.go("-np", 1, "--min-np", 1, "--host-discovery-script", command, "--", "true")
    assert result.code == 2, (result.code, result.errors)
    said(result, *words)
    assert len(result.err) < 20000


def test_a_script_that_hangs_at_first_is_ended_with_what_it_started(hvdray):
    result = hvdray.go("-np", 1, "--min-np", 1, "--discovery-timeout", 1, "--host-discovery-script",
                       "sleep 600 & sleep 601", "--", "true")
    assert result.code == 125, (result.code, result.errors)
    said(result, "--discovery-timeout")


def test_no_hosts_are_waited_for_up_to_the_elastic_timeout(hvdray):
    result = hvdray.go("-np", 1, "--min-np", 1, "--elastic-timeout", 2, "--host-discovery-script", "true",
                       "--", "true")
    assert result.code == 125
    said(result, "0 of 1 slots")


# ---- later, it is only a warning

@pytest.mark.parametrize("script", [
    "echo broken >&2; exit 3", "sleep 600", "echo 127.0.0.1:::", "kill -9 $$", "printf '\\000\\377\\n'"])
def test_a_script_that_goes_bad_harms_nobody(elastic, script):
    job = elastic()
    job.hosts(*NAMES[:2])
    bad = job.folder / "bad"
    command = f"if [ -e {shlex.quote(str(bad))} ]; then {script}; else {job.discovery}; fi"
    job.start("--host-discovery-script", command, "--discovery-timeout", 3, "-np", 2, "--min-np", 1,
              script=False)
    job.wait_steps(2)
    bad.touch()
    job.wait_steps(2, count=250)  # longer than the time limit of the script
    bad.unlink()
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job)


def test_a_host_that_is_listed_twice_is_one_host(elastic):
    job = elastic()
    job.hosts("localhost:1", "127.0.0.1:1", "localhost:2")
    job.start("-np", 2, "--min-np", 1)
    job.wait_steps(2, count=30)
    result = job.end()
    assert result.code == 0, result.errors
    check_training(job, 2)
    said(result, "localhost")


def test_an_unreachable_host_that_joins_costs_nothing(elastic):
    job = elastic()
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 1, "--events", job.folder / "events")
    job.wait_steps(2)
    job.hosts(*NAMES[:2], "no-such-host.invalid")
    job.wait_for(lambda: job.events("host_lost", host="no-such-host.invalid"), "it is given up")
    job.wait_steps(2)
    result = job.end()
    assert result.code == 0, result.errors
    assert len(check_training(job, 2)) == 1
    said(result, "no-such-host.invalid")


# ---- strangers and bad workers at the rendezvous

def rendezvous_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        env = dict(item.split(b"=", 1) for item in f.read().split(b"\0") if b"=" in item)
    return int(env[b"HOROVOD_GLOO_RENDEZVOUS_PORT"])


def ask(port, method, path, body=b"", timeout=30):
    """The status line and the body; b"" when the connection is closed silently."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as peer:
        peer.sendall(b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
            method.encode(), path.encode(), len(body), body))
        answer = b""
        try:
            while data := peer.recv(4096):
                answer += data
        except (ConnectionResetError, TimeoutError):
            pass
        return answer


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
peer.sendall(b"%s HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 1\\r\\n\\r\\nx" % sys.argv[2].encode())
try:
    data = peer.recv(4096)
except ConnectionResetError:
    data = b""
except TimeoutError:
    data = b"held"
sys.exit(0 if not data else 1)
"""


def test_a_process_of_another_user_is_not_heard(elastic):
    job = elastic()
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 1)
    job.wait_steps(2)
    port = rendezvous_of(job.living()[0]["pid"])
    for request in (f"GET /rank_and_size/{NAMES[0]}:0", f"GET /rank_and_size/{NAMES[1]}:0",
                    f"PUT /worker_addresses/{NAMES[0]}:0", "DELETE /global/0"):
        done = subprocess.run([sys.executable, "-c", STRANGER.format(user=NOBODY), str(port), request],
                              timeout=60, check=False)
        assert done.returncode == 0, request
    job.wait_steps(2)
    job.hosts(*NAMES[:3])  # and notices still go where they belong
    job.wait_steps(3)
    assert job.end().code == 0
    check_training(job, 3)


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [
    pickle.dumps(Evil()), pickle.dumps(({"lo": nested(200)}, b"k" * 32), 4),
    pickle.dumps(({"lo": [("127.0.0.1", 1)] * 100000}, b"k" * 32), 4), b"", b"\x80\x05garbage",
    pickle.dumps(({"lo": [("127.0.0.1", 99)]}, b"short"), 4)],
    ids=["forbidden", "deep", "long", "empty", "garbage", "short-key"])
def test_a_bad_registration_costs_one_request(elastic, value):
    job = elastic()
    job.hosts(*NAMES[:2])
    job.start("-np", 2, "--min-np", 1)
    job.wait_steps(2)
    port = rendezvous_of(job.living()[0]["pid"])
    body = base64.b64encode(value)
    answer = ask(port, "PUT", f"/worker_addresses/{NAMES[0]}:0", body)
    assert b" 200 " not in answer.splitlines()[0], answer
    assert not os.path.exists("evil")
    for slot in (f"{NAMES[1]}:0", "nowhere:7", f"{NAMES[0]}:99", "x"):
        answer = ask(port, "PUT", f"/worker_addresses/{slot}", body)
        assert b" 200 " not in answer.splitlines()[0], (slot, answer)
        answer = ask(port, "GET", f"/rank_and_size/{slot}")
        assert REMOVED in answer or b" 200 " not in answer.splitlines()[0], (slot, answer)
    job.hosts(*NAMES[:3])
    job.wait_steps(3)
    assert job.end().code == 0
    check_training(job, 3)
