# SPDX-License-Identifier: Apache-2.0
"""python/hvdray/_ray_driver.py on real Ray: what it is told and what it tells, and what stays after it.

The C++ side is played by the test: a program of ours instead of hvdray-agent carries the pipe
to a socket of the test (as `hvdray-agent launch`), or is an agent of a few lines of shell.
"""

import contextlib
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import uuid
import zipfile

import pytest
from ray import CPUS, GPUS, HEAD, NODES

from hosts_processes import command_line, process_state, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = ROOT / "python/hvdray/_ray_driver.py"

PROGRAM = r"""#!/bin/sh
if [ "$1" = launch ]; then exec /usr/bin/python3 "$(dirname "$0")/launch.py" "$2"; fi
# AGENT FOLDER NAME WORDS...: says what it got, lives until its stdin ends.
read -r key
ps -o ni= -o pgid= -p $$ | { read -r nice group
  echo "$$ $PPID $nice $group $(awk '/SigBlk/ {print $2}' /proc/$$/status) $key $*" >"$2/$3.new"; }
mv "$2/$3.new" "$2/$3"
cat >/dev/null
echo "agent $3: stdin has ended" >&2
touch "$2/$3.ended"
exit 7
"""

LAUNCH = r"""
import json, os, signal, socket, sys, threading
job = json.load(open(os.path.join(sys.argv[1], "job.json")))
link = socket.socket(socket.AF_UNIX)
link.connect(job["socket"])
print("the launcher is there", file=sys.stderr, flush=True)
def upward():
    for line in sys.stdin.buffer:
        link.sendall(line)
    link.sendall(b'{"eof": 0}\n')
threading.Thread(target=upward, daemon=True).start()
for line in link.makefile("rb"):
    order = json.loads(line)
    if "exit" in order:
        os._exit(order["exit"])
    if "kill" in order:
        os.kill(os.getpid(), order["kill"])
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
os._exit(99)
"""

# Whoever started this shell is a worker of Ray's: its interpreter has what is needed.
ENTRYPOINT = r"""
python=$(readlink /proc/$PPID/exe)
site=$(sed -n 's|^.* \(/.*\)/ray/_raylet\.so$|\1|p' /proc/$PPID/maps | head -n 1)
PYTHONPATH=$PYTHONPATH:$site exec "$python" .hvdray/ray_driver.py
"""


def package(ray, name, files):
    """Uploads files {path: (text, mode)} as a zip; returns its URI."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, (text, mode) in files.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    assert ray.request("PUT", f"/api/packages/gcs/{name}", buffer.getvalue())[0] == 200
    return f"gcs://{name}"


class Driver:
    """A job that runs the real ray_driver.py, and the test's end of its pipe."""

    def __init__(self, ray, folder):
        self.ray, self.folder, self.id = ray, folder, uuid.uuid4().hex[:12]
        self.said = []
        path = str(folder / "launch.socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(120)
            self.submission = self.submit(path)
            self.link = listener.accept()[0]
        self.link.settimeout(0.2)
        self.pending = b""
        self.hello = self.wait_for("hello")

    def submit(self, path):
        job = json.dumps({"job_id": self.id, "socket": path})
        program = package(self.ray, f"hvdray_{self.id}.zip", {
            ".hvdray/hvdray-agent": (PROGRAM, 0o755), ".hvdray/launch.py": (LAUNCH, 0o644),
            ".hvdray/ray_driver.py": (DRIVER.read_text(), 0o644)})
        private = package(self.ray, f"hvdray_job_{self.id}.zip",
                          {"hvdray_job/job.json": (job, 0o600)})
        return self.ray.submit(ENTRYPOINT, runtime_env={
            "working_dir": program, "py_modules": [private],
            "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "120"}})

    def tell(self, **order):
        self.link.sendall(json.dumps(order).encode() + b"\n")

    def hear(self):
        """Reads what has come, for at most 0.2 s."""
        with contextlib.suppress(TimeoutError, socket.timeout):
            self.pending += self.link.recv(1 << 20)
        *lines, self.pending = self.pending.split(b"\n")
        self.said += [json.loads(line) for line in lines]

    def wait_for(self, kind, within=60, **wanted):
        """The first message of the kind that was not taken yet, with these values in it."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for message in self.said:
                body = message.get(kind)
                if kind in message and all(body.get(key) == value for key, value in wanted.items()):
                    self.said.remove(message)
                    return body
            self.hear()
        raise AssertionError(f"no {kind} {wanted} within {within} s: {self.said}")

    def reserve(self, bundles, strategy="PACK", name="g", selectors=None, state="created"):
        self.tell(reserve={"name": name, "bundles": bundles, "strategy": strategy,
                           "selectors": selectors})
        return self.wait_for("group", name=name, state=state)

    def endpoint(self, number, bundles=(0,), words=(), group="g"):
        self.tell(endpoint={"endpoint": number, "name": group, "bundles": list(bundles),
                        "argv": [".hvdray/hvdray-agent", "agent", str(self.folder),
                                 f"endpoint{number}", *words], "stdin": "0123abcd"})

    def agent(self, number):
        """What the agent of an endpoint wrote down."""
        path = self.folder / f"endpoint{number}"
        wait_until(path.exists, f"agent of endpoint {number}")
        pid, parent, nice, group, blocked, key, words = path.read_text().split(" ", 6)
        return {"pid": int(pid), "parent": int(parent), "nice": nice, "group": int(group),
                "blocked": int(blocked, 16), "key": key, "words": words.split()}

    def end(self, code=0):
        self.tell(exit=code)
        return self.ray.wait_for_job(self.submission)

    def log(self):
        path = self.ray.logs(HEAD) / f"job-driver-{self.submission}.log"
        return path.read_bytes()


@pytest.fixture
def driver(ray_cluster, tmp_path):
    made = Driver(ray_cluster, tmp_path)
    yield made
    with contextlib.suppress(OSError):
        made.tell(exit=0)
    made.link.close()
    ray_cluster.wait_for_job(made.submission)


def is_alive(pid):
    return process_state(pid) not in "ZX"


def test_hello_says_where_the_driver_is(driver, ray_cluster):
    hello = driver.hello
    assert hello["ray"] == "2.60.0" and hello["python"].startswith("3.")
    assert hello["node_id"] == ray_cluster.node_id(HEAD)
    assert hello["node_ip"] == ray_cluster.address(HEAD)
    assert hello["submission_id"] == driver.submission
    assert hello["raylet_pid"] == ray_cluster.raylet(HEAD)
    # Its path on the node; from here it is another.
    assert hello["logs"].startswith("/run/ray/session_") and hello["logs"].endswith("/logs")
    assert (ray_cluster.logs(HEAD) / f"hvdray_{driver.id}.ray.log").exists()


def test_the_jobs_exit_code_is_drives(driver):
    assert driver.end(11)["driver_exit_code"] == 11
    assert all(byte < 128 for byte in driver.log())
    assert b"the launcher is there" in driver.log()


def test_a_drive_that_was_killed_gives_128_and_its_signal(driver):
    driver.reserve([{"CPU": 1}])
    driver.endpoint(0)
    pid = driver.agent(0)["pid"]
    driver.tell(kill=signal.SIGKILL)
    assert driver.ray.wait_for_job(driver.submission)["driver_exit_code"] == 137
    wait_until(lambda: not is_alive(pid), "end of the agent")


def test_nodes_are_told_at_once_and_when_they_change(driver, ray_cluster):
    def nodes(of):
        """A table in which `of(table)` is true; tables by host name."""
        names = {ray_cluster.address(name): name for name in ray_cluster.hosts.hosts}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            table = {names[node["ip"]]: node for node in driver.wait_for("nodes")}
            if of(table):
                return table
        raise AssertionError("no such table")

    driver.tell(watch={})
    first = nodes(len)
    assert sorted(first) == sorted(NODES)
    assert first["h4"]["total"]["GPU"] == GPUS["h4"] and first["h4"]["is_alive"]
    assert first["h2"]["id"] == ray_cluster.node_id("h2")
    assert first["h2"]["labels"]["ray.io/node-id"] == first["h2"]["id"]
    driver.reserve([{"CPU": 2, "GPU": 4}])
    less = nodes(lambda table: table["h4"]["free"].get("GPU", 0) == 0)
    assert less["h4"]["free"].get("CPU", 0) == 0 and less["h4"]["total"]["CPU"] == CPUS
    assert not [name for node in less.values() for name in node["total"] if "_group_" in name]
    ray_cluster.kill_raylet("h2", signal.SIGTERM)
    nodes(lambda table: not table["h2"]["is_alive"])


def test_a_group_that_fits_is_created_with_a_node_for_each_bundle(driver, ray_cluster):
    group = driver.reserve([{"CPU": 1}] * 3, "STRICT_SPREAD")
    ids = {entry["node_id"] for _, entry in ray_cluster.node_table()}
    assert len(set(group["bundles"])) == 3 and set(group["bundles"]) <= ids
    driver.tell(release={"name": "g"})
    driver.wait_for("group", name="g", state="removed")
    assert ray_cluster.groups() == []


def test_a_selector_names_the_node(driver, ray_cluster):
    wanted = ray_cluster.node_id("h3")
    group = driver.reserve([{"CPU": 1}], selectors=[{"ray.io/node-id": wanted}])
    assert group["bundles"] == [wanted]


def test_a_group_that_is_too_large_is_told_of_again_and_again(driver):
    pending = driver.reserve([{"CPU": CPUS + 1}], state="pending")
    assert pending["bundles"] == [""]
    while pending["reason"] != "INFEASIBLE":
        pending = driver.wait_for("group", name="g", state="pending")
    again = driver.wait_for("group", name="g", state="pending")
    assert again == pending


def test_a_group_that_must_wait_is_created_once_there_is_room(driver):
    driver.reserve([{"CPU": CPUS}] * 4, "STRICT_SPREAD", name="all")
    pending = driver.reserve([{"CPU": 1}], name="late", state="pending")
    while pending["reason"] != "NO_RESOURCES":
        pending = driver.wait_for("group", name="late", state="pending")
    driver.tell(release={"name": "all"})
    assert driver.wait_for("group", name="late", state="created")["bundles"] != [""]


def test_what_ray_does_not_take_is_a_failed_group(driver):
    assert "ValueError" in driver.reserve([{}], state="failed")["text"]
    assert "ValueError" in driver.reserve([{"CPU": 1}], "SIDEWAYS", state="failed")["text"]


def test_agents_are_children_of_actors_with_nothing_inherited_from_ray(driver, ray_cluster):
    group = driver.reserve([{"CPU": 1}] * 2, "STRICT_SPREAD")
    for number in (0, 1):
        driver.endpoint(number, [number], ["@raylet", "@gpus"])
    for number in (0, 1):
        told = driver.wait_for("endpoint", endpoint=number, state="started")
        agent = driver.agent(number)
        assert told["pid"] == agent["pid"] and told["node_id"] == group["bundles"][number]
        assert told["ip"] == ray_cluster.address(told["hostname"]) and told["gpus"] == []
        assert agent["group"] == agent["parent"] != agent["pid"]
        assert agent["nice"] == str(os.nice(0)) and agent["blocked"] == 0 and agent["key"] == "0123abcd"
        assert agent["words"][3:] == [str(ray_cluster.raylet(told["hostname"]))]


def test_an_agents_gpus_are_those_of_all_its_bundles(driver):
    driver.reserve([{"CPU": 0.5, "GPU": 1}] * 4, "STRICT_PACK")
    driver.reserve([{"GPU": 2}], name="other")
    driver.endpoint(0, [0, 1, 2, 3], ["@gpus"])
    driver.endpoint(1, [0], ["@gpus"], group="other")
    told = [driver.wait_for("endpoint", endpoint=number, state="started") for number in (0, 1)]
    assert told[0]["hostname"] == "h4" and sorted(told[0]["gpus"]) == ["0", "1", "2", "3"]
    assert told[1]["hostname"] == "h3" and sorted(told[1]["gpus"]) == ["0", "1"]
    assert driver.agent(0)["words"][3:] == [",".join(told[0]["gpus"])]


def test_an_agent_that_ends_says_how(driver):
    driver.reserve([{"CPU": 1}])
    driver.tell(endpoint={"endpoint": 5, "name": "g", "bundles": [0], "stdin": "k",
                      "argv": ["/bin/sh", "-c", "echo no such host >&2; exit 9"]})
    assert driver.wait_for("endpoint", endpoint=5, state="ended")["text"] == (
        "the agent ended: exit code 9: no such host")
    driver.tell(endpoint={"endpoint": 6, "name": "g", "bundles": [0], "argv": ["/no/such"], "stdin": "k"})
    assert "FileNotFoundError" in driver.wait_for("endpoint", endpoint=6, state="ended")["text"]


def started(driver, number=0):
    driver.reserve([{"CPU": 1}], name=f"g{number}")
    driver.endpoint(number, group=f"g{number}")
    return driver.wait_for("endpoint", endpoint=number, state="started"), driver.agent(number)


def test_a_endpoint_that_is_given_up_takes_its_agent_with_it(driver):
    _, agent = started(driver)
    driver.tell(close_endpoint={"endpoint": 0})
    driver.wait_for("endpoint", endpoint=0, state="ended")
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")
    started(driver, 1)  # and others go on


def test_a_killed_actor_ends_its_endpoint_and_its_agent(driver):
    _, agent = started(driver)
    assert "Endpoint" in command_line(agent["parent"])
    os.kill(agent["parent"], signal.SIGKILL)
    assert "ActorDiedError" in driver.wait_for("endpoint", endpoint=0, state="ended")["text"]
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")


def test_a_killed_raylet_ends_its_endpoints_and_empties_its_bundles(driver, ray_cluster):
    driver.reserve([{"CPU": 1}], selectors=[{"ray.io/node-id": ray_cluster.node_id("h2")}])
    driver.endpoint(0)
    told, agent = driver.wait_for("endpoint", endpoint=0, state="started"), driver.agent(0)
    assert told["hostname"] == "h2"
    ray_cluster.kill_raylet("h2")
    driver.wait_for("endpoint", endpoint=0, state="ended")
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")
    assert driver.wait_for("group", name="g", state="rescheduling")["bundles"] == [""]


def test_a_stop_is_passed_on_once_and_a_package_is_the_second(driver, ray_cluster):
    _, agent = started(driver)
    ray_cluster.call("POST", f"/api/jobs/{driver.submission}/stop")
    driver.wait_for("signal")
    time.sleep(1)  # nothing more comes while it lasts
    driver.hear()
    assert not [message for message in driver.said if "signal" in message or "eof" in message]
    assert is_alive(agent["pid"])
    package(ray_cluster, f"hvdray_now_{driver.id}.zip", {"now": ("", 0o644)})
    driver.wait_for("signal")
    assert ray_cluster.request("GET", f"/api/packages/gcs/hvdray_now_{driver.id}.zip")[0] == 404
    assert driver.end(143)["status"] == "STOPPED"
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")


def test_a_killed_driver_leaves_nothing(driver, ray_cluster):
    _, agent = started(driver)
    pid = next(pid for pid, line in ray_cluster.foreign_processes(HEAD)[HEAD].items()
               if line.endswith("ray_driver.py"))
    os.kill(pid, signal.SIGKILL)
    driver.wait_for("eof")  # the launcher hears of it on its stdin
    driver.tell(exit=0)
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")
    assert ray_cluster.wait_for_job(driver.submission)["driver_exit_code"] == -9


def test_rays_noise_is_not_in_the_jobs_log(driver, ray_cluster):
    driver.reserve([{"CPU": 1}] * 4, "STRICT_SPREAD")
    for number in range(4):
        driver.endpoint(number, [number])
    endpoints = {driver.wait_for("endpoint", endpoint=number, state="started")["hostname"]: number
             for number in range(4)}
    ray_cluster.kill_raylet("h2", signal.SIGTERM)
    driver.wait_for("endpoint", endpoint=endpoints["h2"], state="ended")
    driver.end(0)
    lines = [line for line in driver.log().decode("ascii").splitlines()
             if line and line not in ENTRYPOINT.splitlines()]
    assert len(lines) == 3 and "Runtime env is setting up" in lines[0], lines
    assert "the launcher is there" in lines and any("Running entrypoint" in line for line in lines)


def test_the_older_ray_runs_agents_too(old_ray_cluster, tmp_path):
    driver = Driver(old_ray_cluster, tmp_path)
    assert driver.hello["ray"] == "2.40.0"
    driver.tell(watch={})
    nodes = driver.wait_for("nodes")
    assert len(nodes) == 3 and all(node["free"]["CPU"] == CPUS for node in nodes)
    assert all(node["labels"]["ray.io/node_id"] == node["id"] for node in nodes)
    driver.reserve([{"CPU": 1, "GPU": 1}] * 2, "STRICT_PACK")
    driver.endpoint(0, [0, 1], ["@gpus"])
    told, agent = driver.wait_for("endpoint", endpoint=0, state="started"), driver.agent(0)
    assert sorted(told["gpus"]) == ["0", "1"] and agent["nice"] == str(os.nice(0))
    for host in {HEAD, told["hostname"]}:
        session = old_ray_cluster.logs(host).parent
        (folder,) = session.glob(f"runtime_resources/py_modules_files/*{driver.id}*/hvdray_job")
        assert not (folder / "job.json").exists(), "it has the key of the job's links"
    old_ray_cluster.call("POST", f"/api/jobs/{driver.submission}/stop")
    driver.wait_for("signal")
    assert driver.end(3)["status"] == "STOPPED"
    wait_until(lambda: not is_alive(agent["pid"]), "end of the agent")


RAY_THAT_TAKES_LONG = """
import pathlib, signal, sys, time
def linger():
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(60)
def init(**_):
    signal.signal(signal.SIGTERM, lambda signo, _: sys.exit(signo))  # as Ray's own does
    linger()
"""


RAY_OF_POLLS = """
import types
calls, fails = [], False
class state:
    @staticmethod
    def available_resources_per_node():
        calls.append("free")
        if fails:
            raise RuntimeError("GCS is busy")
        return {}
    state = types.SimpleNamespace(_global_state_accessor=types.SimpleNamespace(
        get_draining_nodes=lambda: {"n1": 5000}))
_private = types.SimpleNamespace(state=state)
def nodes():
    return [{"NodeID": "n1", "NodeManagerAddress": "10.0.0.1", "Alive": True, "Resources": {}}]
mailbox = set()
experimental = types.SimpleNamespace(internal_kv=types.SimpleNamespace(
    _internal_kv_exists=mailbox.__contains__, _internal_kv_del=mailbox.discard))
"""

POLLS = """
import time, ray, ray_driver
said = []
broker = ray_driver.Broker(said.append, "j")

ray.fails = True
broker.poll("watch", {})
assert not said and broker.due.keys() == {("watch", None)}, "it is asked for again"
ray.fails = False
broker.poll("watch", None)
assert said.pop() == {"nodes": [{"id": "n1", "ip": "10.0.0.1", "is_alive": True, "total": {},
                                 "free": {}, "labels": {}, "leaves_at": 5.0}]}
ray.fails = True
broker.poll("watch", None)
broker.failing["watch", None] -= ray_driver.POLL_LIMIT_S
try:
    broker.poll("watch", None)
    raise SystemExit("a Ray that never answers is gone")
except RuntimeError:
    pass
ray.fails = False
broker.on_rest({})
assert not broker.due, "nobody wants to know"
broker.poll("watch", {})
assert ("watch", None) in broker.due

ray.mailbox.add("gcs://hvdray_here_j.zip")
broker.client_at = 0
broker.poll("client", None)
assert not said and not ray.mailbox and time.monotonic() - broker.client_at < 60
broker.client_at -= ray_driver.CLIENT_S + 1
broker.poll("client", None)
assert said == [{"stop": {"signo": 15, "why": "the client has been gone for 60 s"}}], said
"""


RAY_WITH_A_SESSION = """
import types
def get(value):
    return value
_private = types.SimpleNamespace(worker=types.SimpleNamespace(
    _global_node=types.SimpleNamespace(get_session_dir_path=lambda: "session")))
"""

# A kill where the file is written and has no name, or not yet its own.
AGENT_FILES = """
import errno, os, signal, subprocess, ray_driver
os.mkdir("session")
agent = [b"#!/bin/sh\\necho " + b"x" * 100_000]
path = "session/hvdray-agent-1"

def is_whole():
    assert ray_driver.unpacked("1", agent) == path and os.listdir("session") == ["hvdray-agent-1"]
    assert os.stat(path).st_mode & 0o7777 == 0o755
    assert len(subprocess.run([path], check=True, capture_output=True).stdout) == 100_001
    assert ray_driver.unpacked("1", None) == path, "it is there"
    os.unlink(path)

def plant(spoil):
    with open(path, "w") as file:
        file.write("another user's")
    os.chmod(path, 0o755)
    spoil()

plant(lambda: os.chmod(path, 0o777))
is_whole()
plant(lambda: (os.rename(path, "elsewhere"), os.symlink("../elsewhere", path)))
is_whole()
if os.geteuid() == 0:
    plant(lambda: os.chown(path, 65534, 65534))
    is_whole()

if os.fork() == 0:
    os.fchmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    ray_driver.unpacked("1", agent)
assert os.WTERMSIG(os.wait()[1]) == signal.SIGKILL and os.listdir("session") == []
is_whole()

link = os.link
def late(source, target, **more):
    link(source, target, **more)  # another actor's
    return link(source, target, **more)
os.link = late
is_whole()

def refuse(*_, **more):
    raise OSError(errno.EOPNOTSUPP, "not here")
os.link = refuse
is_whole()
real, os.open = os.open, refuse
is_whole()
os.chmod = lambda *_: exit(3)
try:
    ray_driver.unpacked("1", agent)
except SystemExit:
    assert os.listdir("session") == []
"""


def with_ray(tmp_path, ray, program):
    """Runs it with ray_driver.py and that `ray` as its modules."""
    modules = tmp_path / "modules"
    (modules / "ray/util").mkdir(parents=True)
    (modules / "hvdray_job").mkdir()
    (modules / "ray/__init__.py").write_text(ray)
    (modules / "ray/util/__init__.py").write_text(
        "placement_group = placement_group_table = remove_placement_group = None\n")
    (modules / "ray/util/scheduling_strategies.py").write_text(
        "PlacementGroupSchedulingStrategy = None\n")
    (modules / "ray_driver.py").write_text(DRIVER.read_text())
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          cwd=tmp_path, env={"PYTHONPATH": str(modules)}, check=False)


def test_a_kill_leaves_no_agent_that_is_not_whole(tmp_path):
    done = with_ray(tmp_path, RAY_WITH_A_SESSION, AGENT_FILES)
    assert done.returncode == 0, done.stderr


def test_one_exception_in_a_poll_ends_no_job_and_a_client_that_vanishes_may(tmp_path):
    done = with_ray(tmp_path, RAY_OF_POLLS, POLLS)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("asking again: RuntimeError: GCS is busy") == 2, done.stderr


@pytest.mark.parametrize("linger", ["import", "init"])
def test_a_stop_before_there_is_a_drive_is_said_in_the_log(tmp_path, linger):
    modules = tmp_path / "modules"
    (modules / "ray/util").mkdir(parents=True)
    (modules / "hvdray_job").mkdir()
    (modules / "hvdray_job/job.json").write_text('{"job_id": "j"}')
    (modules / "ray/__init__.py").write_text(
        RAY_THAT_TAKES_LONG + ("linger()\n" if linger == "import" else ""))
    (modules / "ray/util/__init__.py").write_text(
        "placement_group = placement_group_table = remove_placement_group = None\n")
    (modules / "ray/util/scheduling_strategies.py").write_text(
        "PlacementGroupSchedulingStrategy = None\n")
    (modules / "ray_driver.py").write_text(DRIVER.read_text())
    with subprocess.Popen([sys.executable, str(modules / "ray_driver.py"), str(tmp_path / "is there")],
                          stderr=subprocess.PIPE, env={"PYTHONPATH": str(modules)}) as driver:
        wait_until((tmp_path / "is there").exists, "ray's beginning")
        driver.terminate()
        assert driver.wait(60) == 143
        assert driver.stderr.read() == (
            b"hvdray: ray_driver.py: stopped before it had joined the cluster\n")
