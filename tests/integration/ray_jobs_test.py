"""`hvdray run --ray --ray-mode jobs` on a real cluster: a Ray job for each node and one for the driver,
no Python of ours. After each test the fixture looks for processes and jobs that are left."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import resource
import signal
import socket
import threading
import time

import pytest
from ray import CPUS, HEAD, NODES

from hosts_processes import send, wait_until
from make_ray import inside_network_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = ROOT / "tests/integration/workers/horovod_collectives.py"
SLEEPER = ("/bin/bash", "-c", "echo up $HOROVOD_RANK; exec -a of-the-test sleep 600")
WORKER = ("sh", "-c", "echo $HOROVOD_RANK of $HOROVOD_SIZE $HOROVOD_LOCAL_RANK on $HOROVOD_HOSTNAME "
          "nice $(nice) ray $(env | grep -c ^RAY_) omp ${OMP_NUM_THREADS-none}")
FIRST_PORT, PORTS = 20000, 12000  # that clients propose
LATE_S = 30  # an agent without a driver


@pytest.fixture
def start(hvdray_at_ray, ray_cluster):
    return lambda *words, **kwargs: hvdray_at_ray.job("--ray-address", ray_cluster.url, "--ray-mode",
                                                      "jobs", *words, **kwargs)


@pytest.fixture
def run(start):
    return lambda *words, timeout=120, **kwargs: start(*words, **kwargs).wait(timeout)


def sleepers(ray):
    return [(name, pid) for name, alive in ray.foreign_processes(*ray.nodes).items()
            for pid, line in alive.items() if line.startswith("of-the-test")]


def processes(ray, needle):
    return [pid for alive in ray.foreign_processes(*ray.nodes).values()
            for pid, line in alive.items() if needle in line]


def four_sleep(start, ray, *words):
    job = start("--num-hosts", 2, "--num-slots", 2, *words, "--", *SLEEPER)
    wait_until(lambda: len(sleepers(ray)) == 4, "four workers", 60)
    return job


def nobody_is_left(ray, within=10):
    wait_until(lambda: not sleepers(ray) and not ray.jobs("RUNNING"), "nobody is left", within)


def ours(ray):
    """{submission id: entry} of our jobs, those that have ended too."""
    return {job["submission_id"]: job for job in ray.call("GET", "/api/jobs/")
            if (job["submission_id"] or "").startswith("hvd-")}


# ---- what a job gets


def test_four_workers_on_two_nodes_without_python(run, ray_cluster):
    before = ours(ray_cluster)
    result = run("--num-hosts", 2, "--num-slots", 2, "--", *WORKER)
    assert result.code == 0, result.errors
    ids = {entry["node_id"]: name for name, entry in ray_cluster.node_table()}
    rows = [re.fullmatch(rf"\[\d\]<stdout>:(\d) of 4 (\d) on (\w+) nice {os.nice(0)} ray 0 omp none",
                         line).groups() for line in sorted(result.text.splitlines())]
    assert [(int(rank), int(local)) for rank, local, _ in rows] == [(0, 0), (1, 1), (2, 0), (3, 1)]
    hosts = [ids[node] for _, _, node in rows]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    new = {name: job for name, job in ours(ray_cluster).items() if name not in before}
    assert len(new) == 3 and all("python" not in job["entrypoint"] for job in new.values())
    wait_until(lambda: all(job["status"] == "SUCCEEDED" for name, job in ours(ray_cluster).items()
                           if name in new), "all three have ended well", 10)


def test_the_exit_code_is_the_workers_own(run):
    result = run("-np", 2, "--", "sh", "-c", "exit $((7 * HOROVOD_RANK))")
    assert result.code == 7, result.errors


def test_each_rank_gets_its_own_gpus(run):
    text = "echo gpus $CUDA_VISIBLE_DEVICES"
    words = ("-np", 4, "--use-gpu", "--num-hosts", 2)
    all_of_them = run(*words, "--", "sh", "-c", text)
    assert all_of_them.code == 0, all_of_them.errors
    assert {len(line.split()[-1].split(",")) for line in all_of_them.text.splitlines()} == {2}
    own = run(*words, "--gpu-visibility", "rank", "--", "sh", "-c", text)
    lines = sorted(own.text.splitlines())
    assert own.code == 0 and len(lines) == 4 and "," not in own.text, own.errors
    for first, second in ((0, 1), (2, 3)):
        assert lines[first].split()[-1] != lines[second].split()[-1]
    without = run("-np", 1, "--", "sh", "-c", "echo none${CUDA_VISIBLE_DEVICES}")
    assert without.text == "[0]<stdout>:none\n", without.text


def test_horovod_works_over_nodes_of_different_size(run, horovod_python):
    result = run("-np", 5, "--strategy", "SPREAD", "--", horovod_python, COLLECTIVES, "basic",
                 "process_sets", timeout=180)
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == [f"[{rank}]<stdout>:ok" for rank in range(5)]


def test_named_nodes_keep_their_order(run, ray_cluster):
    third, second = ray_cluster.address("h3"), ray_cluster.address("h2")
    result = run("-H", f"{third}:1,{second}:2", "--", "sh", "-c", "hostname -I; echo $HOROVOD_RANK")
    assert result.code == 0, result.errors
    for rank, address in enumerate((third, second, second)):
        assert f"[{rank}]<stdout>:{address}" in result.text, result.text


def test_files_go_there_and_reports_come_back(run, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/data.txt").write_text("of the folder\n")
    report = tmp_path / "report.json"
    result = run("--num-hosts", 2, "--working-dir", tmp_path / "work", "--report", report, "-x",
                 "WORD=hello", "--", "sh", "-c", "echo $WORD; cat data.txt")
    assert result.code == 0, result.errors
    assert result.text.count("hello") == 2 and result.text.count("of the folder") == 2
    assert json.loads(report.read_text())["exit"]["code"] == 0


def test_two_jobs_at_once_do_not_meet(start):
    jobs = [start("-np", 3, "--", "sh", "-c", f"sleep 1; echo job {number} of $HOROVOD_SIZE")
            for number in range(2)]
    for number, job in enumerate(jobs):
        result = job.wait(90)
        assert result.code == 0, result.errors
        assert result.text.count(f"job {number} of 3") == 3


def test_the_older_ray_runs_such_jobs_too(request, old_ray_cluster):
    from conftest import Hvdray, checked  # pylint: disable=import-outside-toplevel
    guard = checked(Hvdray(request.config.getoption("--bin-dir"), old_ray_cluster.hosts))
    tool = next(guard)
    result = tool.go("--ray-address", old_ray_cluster.url, "--ray-mode", "jobs", "--num-hosts", 2,
                     "--", "sh", "-c", "echo rank $HOROVOD_RANK of $HOROVOD_SIZE on $(hostname -I)",
                     env=old_ray_cluster.client_environment(), timeout=120)
    assert result.code == 0, result.errors
    lines = [line.split() for line in sorted(result.text.splitlines())]
    assert [words[1] for words in lines] == ["0", "1"] and lines[0][-1] != lines[1][-1]
    assert next(guard, None) is None


# ---- stopping and leaving


def test_ctrl_c_ends_the_workers_in_good_order(start, ray_cluster):
    job = start("--num-hosts", 2, "--", "bash", "-c",
                "trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    wait_until(lambda: len(processes(ray_cluster, "echo told")) >= 2, "two workers", 60)
    time.sleep(0.5)
    os.kill(job.pid, signal.SIGINT)
    result = job.wait()
    assert result.code == 130, result.errors
    assert result.text.count("told") == 2, result.text


def test_a_second_ctrl_c_ends_it_at_once(start, ray_cluster):
    job = start("--num-hosts", 2, "--grace", 60, "--", "bash", "-c",
                "trap '' TERM; echo up; while :; do sleep 0.1; done")
    wait_until(lambda: len(processes(ray_cluster, "trap '' TERM")) >= 2, "two workers", 60)
    time.sleep(0.5)
    os.kill(job.pid, signal.SIGINT)
    time.sleep(3)
    assert job.process.poll() is None and processes(ray_cluster, "trap '' TERM"), "grace is long"
    began = time.monotonic()
    os.kill(job.pid, signal.SIGINT)
    result = job.wait(40)
    assert result.code == 130, result.errors
    assert time.monotonic() - began < 20, "far below the grace"
    wait_until(lambda: not processes(ray_cluster, "trap '' TERM"), "nobody is left", 10)


def test_a_job_that_is_left_alone_can_be_followed(run, hvdray_at_ray, ray_cluster):
    detached = run("--detach", "-np", 2, "--", "sh", "-c",
                   "sleep 2; echo late $HOROVOD_RANK; sleep 1; exit 5")
    assert detached.code == 0 and "hvdray follow" in detached.errors, detached.errors
    result = hvdray_at_ray.run("follow", detached.text.strip(), "--ray-address", ray_cluster.url)
    assert result.code == 5, result.errors
    assert "[0]<stdout>:late 0" in result.text and "[1]<stdout>:late 1" in result.text


@pytest.mark.parametrize("which", ["driver", "seat"])
def test_a_stop_at_ray_itself_ends_the_whole_job(start, ray_cluster, which):
    job = four_sleep(start, ray_cluster)
    (driver,) = [entry["submission_id"] for entry in ray_cluster.jobs("RUNNING")
                 if (entry["metadata"] or {}).get("hvdray_job_id")]
    ray_cluster.call("POST", f"/api/jobs/{driver}{'-s1' if which == 'seat' else ''}/stop")
    result = job.wait(60)
    assert result.code in (125, 143), (result.code, result.errors)
    nobody_is_left(ray_cluster)


# ---- whoever is killed


@pytest.mark.parametrize("victim", ["driver", "agent", "keeper", "supervisor", "driver's supervisor"])
def test_whoever_is_killed_nobody_is_left(start, ray_cluster, victim):
    job = four_sleep(start, ray_cluster)
    agents = processes(ray_cluster, "hvdray-agent seat")
    (driver,) = processes(ray_cluster, "hvdray-agent drive")
    by_name = {name: [pid for pid in agents if name_of(pid) == name]
               for name in ("hvdray-front", "hvdray-keeper", "hvdray-agent")}
    assert all(len(pids) == 2 for pids in by_name.values()), by_name
    pid = {"driver": driver, "agent": by_name["hvdray-agent"][0],
           "keeper": by_name["hvdray-keeper"][0],
           "supervisor": parent_of(by_name["hvdray-front"][0]),
           "driver's supervisor": parent_of(driver)}[victim]
    os.kill(pid, signal.SIGKILL)
    result = job.wait(60)
    assert result.code == 125, (result.code, result.errors)
    nobody_is_left(ray_cluster)


@pytest.mark.parametrize("where", ["of a seat", "of the head"])
def test_a_killed_raylet_ends_the_job(start, ray_cluster, where):
    job = four_sleep(start, ray_cluster)
    node = HEAD if where == "of the head" else next(n for n, _ in sleepers(ray_cluster) if n != HEAD)
    began = time.monotonic()
    ray_cluster.kill_raylet(node)
    if node != HEAD:
        result = job.wait(60)
        assert result.code == 125 and ray_cluster.address(node) in result.errors, result.errors
    wait_until(lambda: not sleepers(ray_cluster), "no worker is left", 10)
    assert time.monotonic() - began < 20
    if node == HEAD:
        job.kill()  # Ray's own tables take a minute, and that wait is another test's
        job.wait()


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


# ---- what is refused, and what does not come


def test_elastic_options_are_refused(run, ray_cluster):
    result = run("-np", 2, "--min-np", 1, "--", "true")
    assert result.code == 2 and "--ray-mode pg" in result.errors, result.errors
    assert not ray_cluster.jobs()


def test_what_does_not_fit_is_refused_or_waited_for(run, start, ray_cluster):
    result = run("--num-hosts", 40, "--", "true")
    assert result.code == 2 and "[HVD-E0219]" in result.errors, result.errors
    job = four_sleep(start, ray_cluster)
    wait_until(lambda: sum(used_cpus(ray_cluster).values()) >= 4, "Ray's table knows of it", 15)
    waiting = run("-np", len(NODES) * CPUS, "--placement-group-timeout", 3, "--", "true")
    assert waiting.code == 125 and "[HVD-E0208]" in waiting.errors, waiting.errors
    assert "waiting for room since 1 s" in waiting.errors
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait().code == 143


def used_cpus(ray):
    status = ray.call("GET", "/api/cluster_status")["data"]["clusterStatus"]
    return {node: usage["CPU"][0]
            for node, usage in status["loadMetricsReport"]["usageByNode"].items()}


@contextlib.contextmanager
def full_node(ray):
    """h3 has nothing free. Yields the job that is in the way."""
    blocker = ray.submit("exec sleep 300", entrypoint_num_cpus=CPUS,
                         entrypoint_label_selector={"ray.io/node-id": ray.node_id("h3")})
    wait_until(lambda: ray.jobs("RUNNING"), "the node is taken", 60)
    yield blocker
    ray.call("POST", f"/api/jobs/{blocker}/stop")


@pytest.mark.parametrize("client", ["stays", "leaves"])
def test_a_seat_that_comes_late_finds_nobody_and_leaves(hvdray, ray_cluster, client):
    words = ("--ray-mode", "jobs", "--num-hosts", len(NODES), "--num-slots", CPUS,
             "--placement-group-timeout", 12)
    with full_node(ray_cluster) as blocker:
        with Rosy(ray_cluster) as rosy:
            more = ("--detach",) if client == "leaves" else ()
            result = hvdray.go("--ray-address", rosy.url, *words, *more, "--", *SLEEPER,
                               env=ray_cluster.client_environment(), timeout=90)
        if client == "stays":
            assert result.code == 125 and "[HVD-E0208]" in result.errors, result.errors
            assert f"no agent within 12 s on 1 of 4 nodes: {ray_cluster.address('h3')}" in \
                result.errors
            assert "waiting for Ray's jobs on 1 of 4 nodes since 5 s" in result.errors
        else:
            assert ray_cluster.wait_for_job(result.text.strip())["driver_exit_code"] == 125
        wait_until(lambda: [job["submission_id"] for job in ray_cluster.jobs("RUNNING")] ==
                   [blocker], "those that came have left", 10)
        assert not sleepers(ray_cluster)
        (late,) = ray_cluster.jobs("PENDING")
    entry = ray_cluster.wait_for_job(late["submission_id"], LATE_S + 30)
    assert not sleepers(ray_cluster)
    if client == "stays":
        # Its stop waited at Ray until it ran.
        assert entry["status"] in ("STOPPED", "SUCCEEDED"), entry
        return
    assert (entry["status"], entry["driver_exit_code"]) == ("SUCCEEDED", 0), entry
    logs = ray_cluster.call("GET", f"/api/jobs/{late['submission_id']}/logs")["logs"]
    assert "the run is gone" in logs, logs


def test_when_ray_refuses_a_seats_job_none_of_them_is_left(hvdray, ray_cluster):
    with Rosy(ray_cluster, refused=b"-s1") as rosy:
        result = hvdray.go("--ray-address", rosy.url, "--ray-mode", "jobs", "--num-hosts", 3, "--",
                           *SLEEPER, env=ray_cluster.client_environment(), timeout=90)
    assert result.code == 125 and "of the test" in result.errors, result.errors
    nobody_is_left(ray_cluster)


class Rosy:
    """The dashboard, except that it says that nothing is in use. refused: in a submission."""

    def __init__(self, ray, refused=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kind = self.headers.get("Content-Type")
                if self.path.startswith("/api/v0/logs/stream") or (refused and refused in body):
                    status, text = 500, b"RuntimeError: of the test"
                else:
                    status, text = ray.request(self.command, self.path, body,
                                               {"Content-Type": kind} if kind else None)
                if self.path.startswith("/api/cluster_status"):
                    text = re.sub(rb'"CPU": \[[0-9.]+,', b'"CPU": [0.0,', text)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


# ---- ports


@contextlib.contextmanager
def taken(ray, numbers):
    """Listeners on the head that accept nobody."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    def listen():
        found = []
        for number in numbers:
            found.append(socket.socket())
            found[-1].bind((ray.address(HEAD), number))
            found[-1].listen(1)
        return found

    sockets = inside_network_of(ray.hosts[HEAD].holder, listen)
    try:
        yield
    finally:
        for listener in sockets:
            listener.close()


def test_when_no_proposed_port_is_free_the_driver_says_so(run, ray_cluster):
    with taken(ray_cluster, range(FIRST_PORT, FIRST_PORT + PORTS)):
        result = run("-np", 2, "--", *SLEEPER)
    assert result.code == 125 and "[HVD-E0502]" in result.errors, result.errors
    assert re.search(rf"{ray_cluster.address(HEAD)}: none of the ports \d+, \d+, \d+", result.errors)
    assert len([line for line in result.errors.splitlines() if "HVD-E" in line]) == 1
    nobody_is_left(ray_cluster)


def test_a_port_that_a_silent_stranger_has_is_one_more_try(run, ray_cluster):
    # Of three ports one is free with a chance of 7 in 8, which the driver's log tells.
    with taken(ray_cluster, [p for p in range(FIRST_PORT, FIRST_PORT + PORTS) if p % 2]):
        for _ in range(20):
            before = ours(ray_cluster)
            result = run("--num-hosts", 2, "--", *WORKER)
            (driver,) = [name for name in ours(ray_cluster) if name not in before
                         and not re.search(r"-s\d+$", name)]
            tried = ray_cluster.call("GET", f"/api/jobs/{driver}/logs")["logs"].count("hvdray: port ")
            if tried == 3:
                assert result.code == 125
            else:
                assert result.code == 0, result.errors
            if tried in (1, 2):
                return
    pytest.fail("twenty times all of the ports were free, or none")
