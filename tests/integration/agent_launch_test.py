# SPDX-License-Identifier: Apache-2.0
"""`hvdray-agent launch` without Ray: the pipe's other end is played by the test, agents and workers
are real. On a real cluster: ray_*_test.py."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from hosts_processes import wait_until
from pretend_ray import RAYS_PYTHON, Node, PretendRay


@pytest.fixture
def launch(hvdray, tmp_path):
    """Makes jobs: launch(settings, nodes=[...]); the rest as PretendRay."""
    made = []

    def make(settings, nodes=None, **more):
        settings = {"num_proc": 2, "grace": 2, **settings}
        nodes = [Node(1, 2), Node(2, 2)] if nodes is None else nodes
        folder = tmp_path / f"job{len(made)}"
        folder.mkdir()
        made.append(PretendRay(hvdray, folder, settings, nodes, **more))
        return made[-1]

    yield make
    for job in made:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and did not hear all
            job.job.process.stdin.close()


def shell(script):
    return ["/bin/sh", "-c", script]


def workers(job):
    return job.job.find("of-the-test")


def wait_gone(job):
    """Workers of an agent that was killed end by its keeper, which may take longer than the driver."""
    wait_until(lambda: not workers(job), "the workers' end")


SLEEPERS = ["/bin/bash", "-c", "echo up $HOROVOD_RANK; exec -a of-the-test sleep 600"]


def wait_up(job, count):
    job.wait_for(lambda: job.out.count("up ") == count and len(workers(job)) == count,
                 what=f"{count} workers")


# ---- static jobs

def test_a_job_runs_on_the_slots_that_it_gets(launch):
    job = launch({"num_proc": 4, "command": shell(
        "echo $HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK "
        "$HOROVOD_HOSTNAME; echo to stderr >&2")})
    assert job.wait() == 0, job.said()
    lines = sorted(job.out.splitlines())
    first, second = job.nodes
    assert lines == [f"[0]<stdout>:0/4 0 0 {first.id}", f"[1]<stdout>:1/4 1 0 {first.id}",
                     f"[2]<stdout>:2/4 0 1 {second.id}", f"[3]<stdout>:3/4 1 1 {second.id}"]
    share, *lines = sorted(job.err.splitlines(), key=lambda line: not line.startswith("hvdray: OMP_NUM_THREADS="))
    assert share.startswith("hvdray: OMP_NUM_THREADS="), job.err
    assert sorted(lines) == [f"[{rank}]<stderr>:to stderr" for rank in range(4)]
    assert job.end == {"exit_code": 0, "error": None}
    assert [kind for kind, _ in job.orders].count("endpoint") == 2


def test_ranks_follow_one_another_on_each_node_whatever_the_order_of_bundles(launch):
    job = launch({"num_proc": 4, "command": shell("echo $HOROVOD_RANK $HOROVOD_HOSTNAME")})
    first, second = job.nodes
    job.used = lambda node: node.cpus  # as far as the driver knows: it asks for single slots
    job.place = lambda body: [second, first, second, first]
    assert job.wait() == 0, job.said()
    assert sorted(line.split(":")[1] for line in job.out.splitlines()) == [
        f"0 {second.id}", f"1 {second.id}", f"2 {first.id}", f"3 {first.id}"]


def test_workers_have_their_nodes_environment_with_the_jobs_over_it(launch):
    job = launch({"num_proc": 1, "env": ["GIVEN=by -x"], "command": shell(
        "echo $OF_NODE/$GIVEN/$HOROVOD_OF_CLIENT/${RAY_OF_NODE-none}")})
    assert job.wait() == 0, job.said()
    assert job.out == "[0]<stdout>:here/by -x/yes/none\n"


def test_rays_own_python_is_the_last_on_the_path_of_workers(launch):
    script = shell("echo $PATH")
    node = launch({"num_proc": 1, "command": script})
    given = launch({"num_proc": 1, "env": ["PATH=/mine:/bin"], "command": script})
    for job in node, given:
        assert job.wait() == 0, job.said()
    assert node.out == f"[0]<stdout>:{os.environ['PATH']}:{os.path.dirname(RAYS_PYTHON)}\n"
    assert given.out == f"[0]<stdout>:/mine:/bin:{os.path.dirname(RAYS_PYTHON)}\n"


def test_gpus_of_the_endpoint_are_the_workers(launch):
    script = shell("echo $CUDA_VISIBLE_DEVICES")
    host = launch({"num_proc": 2, "gpus_per_slot": 1.0, "command": script})
    rank = launch({"num_proc": 2, "gpus_per_slot": 1.0, "gpu_visibility": "rank", "command": script})
    for job in host, rank:
        assert job.wait() == 0, job.said()
    assert sorted(host.out.splitlines()) == ["[0]<stdout>:0,1", "[1]<stdout>:0,1"]
    assert sorted(rank.out.splitlines()) == ["[0]<stdout>:0", "[1]<stdout>:1"]


def test_any_bytes_arrive_whole(launch):
    job = launch({"num_proc": 1, "command": shell(
        "head -c 5000000 /dev/zero | tr '\\0' x; echo; printf '\\377\\000\\n'")})
    assert job.wait() == 0
    out = b"".join(part for kind, part in job.records() if kind == 1)
    assert out == b"[0]<stdout>:" + b"x" * 5000000 + b"\n[0]<stdout>:\xff\x00\n"
    assert job.log_text().isascii()


BURSTS = """for i in 1 2 3; do
head -c 20000000 /dev/zero | tr '\\0' $i; echo; until [ -e go$i ]; do sleep 0.01; done; done"""


def burst(job):
    """Three lines of 20 MB, each once the one before is in a file that is done."""
    for i in range(1, 4):
        job.wait_for(job.stream_file(i).exists, what=f"file {i}")
        (job.folder / f"go{i}").touch()


@pytest.mark.rest
def test_a_long_stream_is_in_several_files(launch):
    job = launch({"num_proc": 1, "command": shell(BURSTS)})
    burst(job)
    assert job.wait() == 0, job.said()[-1000:]
    assert job.out == "".join(f"[0]<stdout>:{str(i) * 20000000}\n" for i in range(1, 4))


def test_beyond_the_limit_the_oldest_output_is_dropped_and_that_is_said(launch):
    job = launch({"num_proc": 1, "ray_log_limit": 45e6, "command": shell(BURSTS)})
    burst(job)
    assert job.wait() == 0, job.said()[-1000:]
    assert job.err.count("MiB of output") == 1 and "--ray-log-limit" in job.err
    assert job.out.endswith("3\n") and "[0]<stdout>:1" not in job.out
    files = (job.folder / "logs").glob("*.stream*")
    assert sum(file.stat().st_size for file in files) < 45e6
    assert "dropping output" in job.log_text()


def test_the_first_failure_ends_the_job_with_its_code_and_its_report(launch):
    job = launch({"report": "mine.json", "events": "e", "trace": "t",
                 "junit": "j", "command": shell(
                     "[ $HOROVOD_RANK = 1 ] && { echo oh no >&2; exit 7; }; exec sleep 600")})
    assert job.wait() == 7, job.said()
    assert "oh no" in job.err and "rank 1" in job.err
    assert job.end["error"]["code"] == "HVD-E0303"
    files = f"hvdray_{job.job_id}"
    report = json.loads((job.folder / "logs" / f"{files}.report.json").read_text())
    assert report["exit"]["code"] == 7 and report["exit"]["origin"] == "worker"
    assert report["job_id"] == job.job_id
    for suffix in "events.jsonl", "trace.json", "junit.xml":
        assert (job.folder / "logs" / f"{files}.{suffix}").stat().st_size > 0
    assert not (job.folder / "mine.json").exists()


def test_a_command_that_is_not_there_is_127(launch):
    job = launch({"num_proc": 1, "command": ["of-nobody"]})
    assert job.wait() == 127, job.said()


def test_a_killed_agent_ends_the_job_and_names_the_host(launch):
    job = launch({"num_proc": 4, "heartbeat_timeout": 600, "command": SLEEPERS})
    wait_up(job, 4)
    job.kill_node(job.nodes[1])
    assert job.wait() == 125, "no silence is waited for: " + job.said()
    assert "127.0.0.1-02020202" in job.end["error"]["message"]
    wait_gone(job)


@pytest.mark.rest
def test_a_stall_of_the_driver_of_six_seconds_costs_a_static_job_nothing(launch):
    job = launch({"num_proc": 2, "command": shell(
        "echo up $HOROVOD_RANK; until [ -e go ]; do sleep 0.1; done; echo done")})
    job.wait_for(lambda: job.out.count("up ") == 2, what="workers")
    os.kill(job.job.process.pid, signal.SIGSTOP)
    time.sleep(6.5)
    os.kill(job.job.process.pid, signal.SIGCONT)
    (job.folder / "go").touch()
    assert job.wait() == 0, job.said()
    assert job.out.count("done") == 2


def test_agents_that_hear_nothing_from_the_driver_say_so_in_their_logs_and_in_the_report(launch):
    job = launch({"num_proc": 2, "heartbeat_timeout": 5, "command": SLEEPERS, "report": "r"},
                nodes=[Node(1, 1), Node(2, 1)])
    wait_up(job, 2)
    agents = [endpoint["agent"] for endpoint in job.endpoints.values()]
    os.kill(job.job.process.pid, signal.SIGSTOP)
    for agent in agents:
        assert agent.wait(60) == 125
    os.kill(job.job.process.pid, signal.SIGCONT)
    assert job.wait() == 125, job.said()
    for number in 0, 1:
        assert "link to the launcher: silent for " in job.endpoint_log(number).read_text()
    report = json.loads((job.folder / "logs" / f"hvdray_{job.job_id}.report.json").read_text())
    assert any(words in report["exit"]["error"]["message"] for words in (
        "heard nothing from the launcher for ", "link to the launcher: silent for ")), job.said()
    wait_gone(job)


HELLO = """import struct, sys, time
text = b'{"min": 7, "max": 9, "build": "hvdray 9.0.0"}'
body = struct.pack("<I", len(text)) + text
sys.stdout.buffer.write(b"HVDRAY-AGENT/1 77 " + b"0" * 32 + b"\\n")
sys.stdout.buffer.write(struct.pack("<IHHII", 0x52445648, 1, 1, len(body), 0) + body)
sys.stdout.flush()
time.sleep(60)
"""


def test_an_agent_of_another_build_ends_the_job_and_both_builds_are_named(launch, hvdray):
    job = launch({"num_proc": 4, "command": SLEEPERS})
    endpoint, processes = job.on_endpoint, []

    def other_build(body):
        if body["endpoint"] != 1:
            return endpoint(body)
        words = body["argv"]
        there = words[words.index("--dial") + 1].split(",")[0]
        hello = subprocess.Popen([sys.executable, "-c", HELLO], stdout=subprocess.PIPE)
        link = subprocess.Popen(
            ["openssl", "s_client", "-tls1_3", "-quiet", "-connect", there, "-psk", body["stdin"],
             "-psk_identity", "hvdray-endpoint-1"], stdin=hello.stdout, stdout=subprocess.DEVNULL,
            stderr=job.log)
        processes.extend([hello, link])
        job.tell({"endpoint": {"endpoint": 1, "state": "started", "node_id": job.nodes[1].id,
                           "ip": "127.0.0.1", "hostname": "here", "gpus": [], "pid": link.pid}})
    job.on_endpoint = other_build
    assert job.wait() == 125, job.said()
    for process in processes:
        process.kill()
        process.wait()
    said = job.end["error"]
    assert said["code"] == "HVD-E0206" and "'hvdray 9.0.0' there" in said["message"], job.said()
    assert "127.0.0.1-02020202" in said["message"] and not said["retriable"]
    assert hvdray.run("--version", binary=hvdray.agent).text.strip() in job.log_text()
    assert not workers(job)


def test_a_endpoint_that_never_begins_is_an_error_with_rays_words(launch):
    job = launch({"num_proc": 1, "command": ["true"]})
    job.on_endpoint = lambda body: job.tell({"endpoint": {
        "endpoint": body["endpoint"], "state": "ended", "text": "RuntimeEnvSetupError: no space left"}})
    assert job.wait() == 125, job.said()
    assert "RuntimeEnvSetupError: no space left" in job.end["error"]["message"]


def test_an_agent_that_never_dials_is_given_up_after_the_start_timeout(launch):
    job = launch({"num_proc": 1, "command": ["true"], "start_timeout": 0.5})
    job.on_endpoint = lambda body: job.tell({"endpoint": {
        "endpoint": body["endpoint"], "state": "started", "node_id": job.nodes[0].id, "ip": "127.0.0.1",
        "hostname": "here", "gpus": [], "pid": 2}})
    assert job.wait() == 125, job.said()


@pytest.mark.rest
def test_the_time_that_ray_takes_to_start_an_actor_is_not_the_starts(launch):
    job = launch({"num_proc": 1, "command": shell("echo up"), "start_timeout": 5})
    endpoint = job.on_endpoint
    job.on_endpoint = lambda body: threading.Timer(7, endpoint, [body]).start()
    assert job.wait() == 0, job.said()
    assert job.out == "[0]<stdout>:up\n"


def lose_second_node(job):
    """Has the second endpoint's node die right after its agent was started, which has not come to dial the driver."""
    endpoint, agent, idle = job.on_endpoint, job.agent, job.folder / "idle"
    idle.write_text("#!/bin/sh\nexec sleep 600\n")
    idle.chmod(0o755)

    def lose(body):
        job.agent = idle if body["endpoint"] == 1 else agent
        endpoint(body)
        if body["endpoint"] == 1:
            job.kill_node(job.nodes[1])
    job.on_endpoint = lose


def test_a_bundle_that_is_lost_before_the_start_is_waited_for_and_its_place_is_the_new_one(launch):
    job = launch({"num_proc": 4, "command": shell("echo up $HOROVOD_HOSTNAME")},
                nodes=[Node(1, 2), Node(2, 2), Node(3, 2)])
    lose_second_node(job)
    job.wait_for(lambda: "replace the slots" in job.err, what="the loss is told")
    assert "127.0.0.1-02020202" in job.err
    job.make_group_again(job.orders[1][1])
    assert job.wait() == 0, job.said()
    first, _, third = job.nodes
    assert sorted(line.split(" ")[1] for line in job.out.splitlines()) == (
        [first.id] * 2 + [third.id] * 2)
    assert [body["endpoint"] for kind, body in job.orders if kind == "endpoint"] == [0, 1, 2, 3]


@pytest.mark.rest
def test_a_lost_bundle_for_which_there_is_no_room_in_time_is_an_error_worth_another_try(launch):
    job = launch({"num_proc": 4, "command": SLEEPERS, "placement_group_timeout": 5})
    lose_second_node(job)
    assert job.wait() == 125, job.said()
    assert "127.0.0.1-02020202" in job.err
    assert job.end["error"]["code"] == "HVD-E0208", job.said()  # no_capacity: retryable
    assert not workers(job)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_an_actor_that_dies_before_the_start_is_replaced_if_ray_sees_why_in_time(launch, is_noticed):
    job = launch({"num_proc": 4, "command": shell("echo up"), "placement_group_timeout": 60 if is_noticed else 5},
                nodes=[Node(1, 2), Node(2, 2), Node(3, 2)])
    endpoint = job.on_endpoint
    job.on_endpoint = lambda body: endpoint(body) if body["endpoint"] != 1 else job.tell({"endpoint": {
        "endpoint": 1, "state": "ended", "text": "ActorDiedError: The actor died because of its node"}})
    job.wait_for(lambda: "replace the slots" in job.err, what="the loss is told")
    if is_noticed:
        job.kill_node(job.nodes[1])
        job.make_group_again(job.orders[1][1])
        assert job.wait() == 0, job.said()
        assert job.out.count("up") == 4
        return
    assert job.wait() == 125, job.said()
    assert job.end["error"]["code"] == "HVD-E0218", job.said()  # ray_failed: retryable
    assert "The actor died because of its node" in job.end["error"]["message"]


def test_a_bundle_that_moves_while_the_job_waits_is_waited_for(launch):
    job = launch({"num_proc": 2, "command": shell("echo up $HOROVOD_HOSTNAME")},
                nodes=[Node(1, 1), Node(2, 1), Node(3, 1)])
    first, second, third = job.nodes
    reserve = job.on_reserve

    def move(body):
        job.groups[body["name"]] = {"bundles": body["bundles"], "nodes": [first, third]}
        job.tell({"group": {"name": body["name"], "state": "rescheduling", "reason": "",
                            "text": "", "bundles": [first.id, ""]}})
        del job.groups[body["name"]]
        threading.Timer(1.5, reserve, [body]).start()
    job.on_reserve = move
    assert job.wait() == 0, job.said()
    assert job.out.count("up") == 2


# ---- slots

def test_slots_that_are_packed_are_a_bundle_for_each_node(launch):
    job = launch({"num_proc": 5, "command": shell("echo $HOROVOD_RANK on $HOROVOD_HOSTNAME")},
                nodes=[Node(1, 2), Node(2, 4)])
    assert job.wait() == 0, job.said()
    (reserve,) = [body for kind, body in job.orders if kind == "reserve"]
    assert (reserve["bundles"], reserve["strategy"]) == ([{"CPU": 4}, {"CPU": 1}], "PACK")
    assert sorted(line.split(":")[1] for line in job.out.splitlines()) == [
        *(f"{rank} on {job.nodes[1].id}" for rank in range(4)), f"4 on {job.nodes[0].id}"]


def test_where_ray_has_no_room_for_a_nodes_bundle_single_slots_are_asked_for(launch):
    job = launch({"num_proc": 4, "command": shell("echo up $HOROVOD_RANK")},
                nodes=[Node(1, 4), Node(2, 1)])
    # Somebody was faster: the first node has room for three, as Ray knows and the driver does not.
    reserve = job.on_reserve
    def late(body):
        job.nodes[0].cpus = 3
        reserve(body)
    job.on_reserve = late
    assert job.wait() == 0, job.said()
    asked = [body["bundles"] for kind, body in job.orders if kind == "reserve"]
    assert asked == [[{"CPU": 4}], [{"CPU": 1}] * 4]
    released = [body["name"] for kind, body in job.orders if kind == "release"]
    assert released == [f"hvdray-{job.job_id}"]
    assert sorted(job.out.splitlines()) == [f"[{rank}]<stdout>:up {rank}" for rank in range(4)]


def test_too_few_slots_in_time_is_125_and_says_what_is_missing(launch):
    job = launch({"num_proc": 4, "command": ["true"], "placement_group_timeout": 1.5, "report": "r"},
                nodes=[Node(1, 2), Node(2, 1)])
    assert job.wait() == 125
    assert job.end["error"]["code"] == "HVD-E0208" and job.end["error"]["retriable"]
    assert "4 slots of 1 CPU each" in job.end["error"]["message"]
    assert "hvdray: waiting for a placement group" in job.err
    assert "--placement-group-timeout" in job.err
    report = json.loads((job.folder / "logs" / f"hvdray_{job.job_id}.report.json").read_text())
    assert report["exit"]["error"]["code"] == "HVD-E0208"


def test_what_no_node_can_hold_fails_fast_where_none_can_be_added(launch):
    job = launch({"num_proc": 1, "cpus_per_slot": 64.0, "placement_group_timeout": 600, "command": ["true"]},
                job={"can_grow": False})
    assert job.wait() == 125
    assert job.end["error"]["code"] == "HVD-E0219"


def test_slots_that_come_late_are_taken(launch):
    job = launch({"num_proc": 2, "command": shell("echo up $HOROVOD_RANK")}, nodes=[Node(1, 1)])
    job.wait_for(lambda: "waiting for a placement group" in job.err, what="a word")
    with job.lock:
        job.nodes.append(Node(2, 1))
        job.tell_nodes()
        reserve = next(body for kind, body in job.orders if kind == "reserve")
        job.on_reserve(reserve)
    assert job.wait() == 0, job.said()
    assert job.out.count("up") == 2


def test_a_group_that_ray_refuses_is_its_word(launch):
    job = launch({"num_proc": 1, "command": ["true"]})
    job.on_reserve = lambda body: job.tell_group(body["name"], "failed", text="ValueError: no")
    assert job.wait() == 125
    assert "ValueError: no" in job.end["error"]["message"]
    assert job.end["error"]["code"] == "HVD-E0218"


def test_a_runtime_environment_is_that_of_the_agents(launch):
    env = {"uv": ["x"], "env_vars": {"A": "1"}}
    job = launch({"num_proc": 2, "runtime_env": json.dumps(env), "command": ["true"]})
    assert job.wait() == 0, job.said()
    assert [body["runtime_env"] for kind, body in job.orders if kind == "endpoint"] == [env]


def test_nobody_asks_for_nodes_and_groups_once_the_agents_of_a_static_job_are_in(launch):
    job = launch({"num_proc": 4, "command": shell("echo up")})
    assert job.wait() == 0, job.said()
    kinds = [kind for kind, _ in job.orders]
    assert kinds.count("rest") == 1 and kinds.index("rest") > max(
        place for place, kind in enumerate(kinds) if kind == "endpoint")


# ---- stops

def test_a_stop_with_a_reason_says_it(launch):
    job = launch({"num_proc": 1, "command": SLEEPERS})
    wait_up(job, 1)
    job.tell({"stop": {"signo": int(signal.SIGTERM), "why": "the client has been gone for 60 s"}})
    assert job.wait() == 143, job.said()
    assert "hvdray: the client has been gone for 60 s: stopping the job\n" in job.err


def test_a_stop_ends_workers_with_their_grace_and_is_143(launch):
    job = launch({"num_proc": 2, "grace": 60, "command": shell(
        "trap 'echo bye $HOROVOD_RANK; exit 0' TERM; echo up $HOROVOD_RANK; "
        "while :; do sleep 0.1; done")})
    job.wait_for(lambda: job.out.count("up ") == 2, what="workers")
    job.signal()
    assert job.wait() == 143, job.said()
    assert job.out.count("bye") == 2


def test_the_second_stop_is_at_once(launch):
    job = launch({"num_proc": 2, "grace": 600, "command": shell(
        "trap '' TERM; echo up $HOROVOD_RANK; while :; do sleep 0.1; done")})
    job.wait_for(lambda: job.out.count("up ") == 2, what="workers")
    job.signal()
    job.wait_for(lambda: "SIGTERM" in job.err, what="the first stop")
    job.signal()
    assert job.wait() == 143


def test_signals_of_ray_itself_do_not_count(launch):
    job = launch({"num_proc": 1, "grace": 600, "command": SLEEPERS})
    wait_up(job, 1)
    for signo in signal.SIGTERM, signal.SIGINT, signal.SIGTERM:
        os.kill(job.job.pid, signo)
    time.sleep(0.3)
    assert workers(job)
    job.signal()
    assert job.wait() == 143


def test_a_stop_before_there_are_slots_ends_it_too(launch):
    job = launch({"num_proc": 64, "command": ["true"]})
    job.wait_for(lambda: "waiting for a placement group" in job.err, what="a word")
    job.signal()
    assert job.wait() == 143
    assert job.end["error"]["code"] == "HVD-E0307"


def test_without_ray_driver_the_job_ends(launch):
    job = launch({"num_proc": 2, "command": SLEEPERS})
    wait_up(job, 2)
    job.vanish()
    assert job.wait() == 125
    assert job.end["error"]["code"] == "HVD-E0218"
    wait_gone(job)


# ---- what can't be

def test_a_job_file_that_is_none_is_said_in_the_log(launch):
    for text, why in (("{", "invalid JSON at byte"), ("{}", "job_id must be a string"),
                      (json.dumps({"job_id": "j", "key": "k"}), "key must be 64 hex digits")):
        job = launch({"command": ["true"]}, text=text)
        assert job.job.process.wait(60) == 125
        assert why in job.log_text() and "/job.json" in job.log_text()


def test_a_client_of_another_build_is_named(launch, hvdray):
    text = json.dumps({"job_id": "j", "key": "0" * 64, "build": "hvdray 9.0.0 (later)",
                       "options": {"schema": "hvdray.spec/9", "settings": {}}})
    job = launch({"command": ["true"]}, text=text)
    assert job.job.process.wait(60) == 125
    build = hvdray.run("--version", binary=hvdray.agent).text.strip()
    assert "'hvdray 9.0.0 (later)'" in job.log_text() and f"'{build}'" in job.log_text()
    assert "HVD-E0206" in job.log_text()


def test_words_and_descriptors_that_are_wrong_are_2(hvdray, tmp_path):
    for words in ([], ["a", "b"], ["--help"]):
        result = hvdray.run("launch", *words, binary=hvdray.agent)
        assert result.code == 2 and b"ray_driver.py" in result.err
    result = hvdray.run("launch", tmp_path, binary=hvdray.agent)  # stdin is /dev/null
    assert result.code == 2 and b"pipes" in result.err


def test_logs_that_cannot_be_written_are_said(launch):
    job = launch({"command": ["true"]}, says_hello=False)
    job.tell({"hello": {"ray": "2.60.0", "python": "3.11.7", "node_id": "head",
                        "node_ip": "127.0.0.1", "logs": "/nowhere", "submission_id": "s",
                        "raylet_pid": 1}})
    assert job.job.process.wait(60) == 125
    assert "/nowhere" in job.log_text()


# ---- elastic jobs

GANG = {"num_proc": 2, "min_np": 1, "elastic_mode": "gang", "max_restarts": 20,
        "elastic_timeout": 60, "command": [
            "/bin/bash", "-c", "echo up $HOROVOD_RANK of $HOROVOD_SIZE on $HOROVOD_HOSTNAME; "
            "exec -a of-the-test sleep 600"]}


def wait_size(job, size):
    job.wait_for(lambda: len(workers(job)) == size and f"up {size - 1} of {size} " in job.out,
                 within=60, what=f"a gang of {size}")


def test_an_elastic_job_grows_by_a_node_that_comes_and_lives_without_one_that_goes(launch):
    job = launch(GANG, nodes=[Node(1, 1), Node(2, 1)])
    wait_size(job, 2)
    job.add_node(Node(3, 1))
    wait_size(job, 3)
    job.kill_node(job.nodes[0])
    job.wait_for(lambda: len(workers(job)) == 2 and job.out.count("up 1 of 2 ") == 2,
                 within=60, what="a gang of two again")
    job.signal()
    assert job.wait() == 143, job.said()
    assert not workers(job)


def test_an_elastic_job_takes_no_more_than_max_np(launch):
    job = launch({**GANG, "num_proc": 2, "max_np": 3}, nodes=[Node(1, 2), Node(2, 2), Node(3, 2)])
    wait_size(job, 3)
    assert sum(len(group["bundles"][0:1]) and int(group["bundles"][0]["CPU"])
               for group in job.groups.values()) == 3
    job.signal()
    assert job.wait() == 143


def test_an_elastic_job_takes_a_spare_node_for_one_that_failed(launch):
    job = launch({**GANG, "num_proc": 2, "min_np": 2, "max_np": 2, "record": "r",
                 "report": "r"}, nodes=[Node(1, 1), Node(2, 1), Node(3, 1)])
    wait_size(job, 2)
    job.kill_node(job.nodes[0])
    job.wait_for(lambda: job.out.count("up 1 of 2 ") == 2, within=60, what="a second gang")
    job.signal()
    assert job.wait() == 143
    files = job.folder / "logs" / f"hvdray_{job.job_id}"
    assert json.loads(pathlib.Path(f"{files}.report.json").read_text())["memberships"]
    assert pathlib.Path(f"{files}.record").stat().st_size > 0


def of_kind(job, kind):
    return [body for order, body in list(job.orders) if order == kind]


def test_an_elastic_job_below_np_stands_as_demand_until_nodes_come(launch):
    job = launch({**GANG, "num_proc": 3}, nodes=[Node(1, 1)])
    job.wait_for(lambda: len(of_kind(job, "reserve")) == 2, what="the node's group, and demand")
    demand = of_kind(job, "reserve")[1]
    assert (demand["bundles"], demand["strategy"]) == ([{"CPU": 1}] * 2, "PACK")
    job.add_node(Node(2, 2))
    wait_size(job, 3)
    assert [body["name"] for body in of_kind(job, "release")] == [demand["name"]]
    assert demand["name"] not in job.groups
    job.signal()
    assert job.wait() == 143, job.said()


def test_an_elastic_job_asks_for_no_nodes_where_none_can_come(launch):
    job = launch({**GANG, "num_proc": 3}, nodes=[Node(1, 1)], job={"can_grow": False})
    job.wait_for(lambda: of_kind(job, "reserve"), what="the node's group")
    job.add_node(Node(2, 2))
    wait_size(job, 3)
    assert len(of_kind(job, "reserve")) == 2, "one for each node"
    job.signal()
    assert job.wait() == 143, job.said()


def test_a_node_that_ray_drains_is_left_before_it_goes(launch):
    job = launch({**GANG, "num_proc": 2, "min_np": 1, "max_np": 2}, nodes=[Node(1, 1), Node(2, 1)])
    wait_size(job, 2)
    job.drain(job.nodes[1], time.time() + 300)
    job.wait_for(lambda: "leaves in " in job.err, what="a word")
    wait_size(job, 1)
    job.wait_for(lambda: [endpoint["node"] for endpoint in job.endpoints.values()] == job.nodes[:1],
                 what="the agent there to be gone")
    job.signal()
    assert job.wait() == 143, job.said()


def test_an_elastic_job_that_gets_no_slots_ends_in_time(launch):
    job = launch({**GANG, "elastic_timeout": 1}, nodes=[Node(1, 0)])
    assert job.wait() != 0
    assert job.end["error"]["message"]
