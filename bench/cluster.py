# SPDX-License-Identifier: Apache-2.0
"""Clusters from a file: hvdray up and down against Ray's own on the same hosts, which have real sshd and real
Ray (root), and the launcher's processor time for 100 nodes that are processes of this machine."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from harness import ROOT, Measure, Series, ended, kill_session, processor_split
from remote_site import Hosts, HostsError

NODES = ("h1", "h2", "h3", "h4")
HEAD = NODES[0]
PATIENCE_S = 180
RAY = "--object-store-memory=80000000 --num-cpus=1"
SIMULATED = 100
# Ray's daemons, however they were started; what a user would not want to find after `down`.
RAYS_OWN = ("/raylet/raylet", "/gcs/gcs_server", "site-packages/ray/", "ray-dashboard", "ray::")


# `ray stop`, which start commands and `ray down` call, ends every Ray that it sees in the process table, and hosts
# and the rest of this machine share one: as the only change to Ray, it sees the processes of its own host alone.
HOSTS_RAY = """#!{python}
import os
import sys

import ray  # brings its psutil
import psutil

everywhere, here = psutil.process_iter, os.readlink("/proc/self/ns/net")


def of_this_host(*words, **names):
    for process in everywhere(*words, **names):
        try:
            if os.readlink(f"/proc/{{process.pid}}/ns/net") == here:
                yield process
        except OSError:
            continue


psutil.process_iter = of_this_host
from ray.scripts.scripts import main

sys.exit(main())
"""


class Site:
    """A head and three workers with Ray on the PATH of a login, and a file for each of the two tools."""

    def __init__(self, context):
        found = subprocess.run([ROOT / "tools/ray_env.sh"], capture_output=True, text=True)
        if found.returncode != 0:
            raise HostsError(found.stderr.strip().splitlines()[-1])
        self.context, self.venv = context, found.stdout.strip()
        self.hosts = Hosts(count=len(NODES))
        self.name = f"bench-{os.getpid()}"

    def __enter__(self):
        self.hosts.up()
        self.folder = self.hosts.state / "cluster"
        (self.folder / "code").mkdir(parents=True)
        (self.folder / "code/train.py").write_text("print()\n")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/ray").write_text(HOSTS_RAY.format(python=f"{self.venv}/bin/python"))
        (self.folder / "bin/ray").chmod(0o755)
        for name in NODES:
            (self.home(name) / ".bashrc").write_text(
                f"export PATH={self.folder}/bin:{self.venv}/bin:$PATH\n"
                "export RAY_enable_worker_prestart=0 RAY_prestart_worker_first_driver=0\n")
        # All hosts and the launcher share /tmp, where Ray keeps one file of its state here and one on the head.
        self.hosts.run(["sh", "-ec", "mkdir -p /tmp/ray; mount -t tmpfs tmpfs /tmp/ray"], on=HEAD, check=True)
        self.ours = self.write("ours.yaml", "")
        self.rays = self.write("rays.yaml", " --autoscaling-config=~/ray_bootstrap_config.yaml")
        return self

    def __exit__(self, *_):
        self.hosts.down()
        for path in pathlib.Path("/tmp/ray").glob(f"cluster-{self.name}.*"):
            path.unlink(missing_ok=True)

    def home(self, name):
        return self.hosts.folder(name) / "home"

    def write(self, name, autoscaling):
        head, *workers = (self.hosts[node].address for node in NODES)
        lines = {
            "cluster_name": self.name,
            "provider": f"{{type: local, head_ip: {head}, worker_ips: [{', '.join(workers)}]}}",
            "auth": f"{{ssh_user: root, ssh_private_key: {self.hosts.key}}}",
            "file_mounts": f'{{"/run/code": {self.folder}/code}}',
            "setup_commands": '["echo one >>~/log", "echo two >>~/log"]',
            "head_start_ray_commands": f'["ray stop", "ray start --head --port=6379 --node-ip-address={head} '
                                       f'--temp-dir=/run/ray {RAY}{autoscaling}"]',
            "worker_start_ray_commands": f'["ray stop", "ray start --address=$RAY_HEAD_IP:6379 {RAY}"]'}
        path = self.folder / name
        path.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
        return path

    def start(self, words):
        env = self.hosts.environment()
        env["RAY_USAGE_STATS_ENABLED"] = "0"
        return subprocess.Popen(self.hosts.command([str(word) for word in words], cwd=str(self.folder)),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=env, start_new_session=True)

    def run(self, words):
        """Seconds, or None if it fails."""
        began = time.monotonic()
        process = self.start(words)
        try:
            code = ended(process, PATIENCE_S)
            return time.monotonic() - began if code == 0 else None
        finally:
            if process.poll() is None:
                kill_session(process.pid)
                process.wait()

    def hvdray(self, *words):
        return self.run([self.context.hvdray, *words])

    def alive(self):
        """How many nodes the head's dashboard lists as alive, which is also what hvdray asks."""
        answer = self.hosts.run(["curl", "-s", "-m", "2", "http://127.0.0.1:8265/api/v0/nodes?limit=100"], on=HEAD)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            nodes = json.loads(answer.stdout)["data"]["result"]["result"]
            return sum(node["state"] == "ALIVE" for node in nodes)
        return 0

    def ray_up(self, workers):
        """(Seconds until `ray up` has returned, seconds until so many workers have joined); None: it never did."""
        began = time.monotonic()
        process = self.start([f"{self.venv}/bin/ray", "up", "-y", "--no-config-cache", self.rays])
        returned = joined = None
        try:
            while time.monotonic() - began < PATIENCE_S and None in (returned, joined):
                if returned is None and process.poll() is not None:
                    if process.returncode != 0:
                        break
                    returned = time.monotonic() - began
                if returned is not None and joined is None and self.alive() >= 1 + workers:
                    joined = time.monotonic() - began
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                kill_session(process.pid)
            process.wait()
        return returned, joined

    def rays_left(self):
        """Processes of Ray on all hosts."""
        lines = [line for name in NODES for line in self.hosts.processes(name).values()]
        return sum(any(sign in line for sign in RAYS_OWN) for line in lines)

    def forget(self):
        """As if no tool had ever been here."""
        self.hosts.kill_leftovers()
        for name in NODES:
            for trace in (".hvdray", ".cache/hvdray", ".ray", "log", "ray_bootstrap_config.yaml",
                          "ray_bootstrap_key.pem"):
                path = self.home(name) / trace
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            self.hosts.run(["sh", "-c", "rm -rf /run/ray /run/code /tmp/ray/cluster-*"], on=name)


def up_and_down(context):
    ups = {name: Series(name) for name in ("hvdray", "ray up, until two workers have joined")}
    returns = Series("ray up, until it returns")
    second = Series("hvdray")
    downs = {name: Series(name) for name in ("hvdray", "ray down")}
    left = {name: Series(name) for name in ("hvdray", "ray down")}
    with Site(context) as site:
        for number in range(context.rounds(3) + 1):
            site.forget()
            ours = site.hvdray("up", "--yes", site.ours)
            again = [site.hvdray("up", "--yes", site.ours) for _ in range(3)]
            our_down = site.hvdray("down", "--yes", site.ours)
            our_left = site.rays_left()
            site.forget()
            returned, joined = site.ray_up(workers=2)
            ray_down = site.run([f"{site.venv}/bin/ray", "down", "-y", site.rays])
            ray_left = site.rays_left()
            if number == 0:
                continue  # warms the page cache for both
            for series, value in ((ups["hvdray"], ours), (returns, returned),
                                  (ups["ray up, until two workers have joined"], joined),
                                  (downs["hvdray"], our_down), (downs["ray down"], ray_down),
                                  (left["hvdray"], our_left), (left["ray down"], ray_left)):
                series.values.append(value)
            second.values += again
    return [
        Measure("cluster: up of a head and 3 workers on-prem, from nothing → all that the tool starts have joined",
                "s", [*ups.values(), returns], "≤ 0.5 × ray up, whose third worker never comes"),
        Measure("cluster: up with nothing to do, 4 hosts", "s", [second], "≤ 1 s"),
        Measure("cluster: down", "s", list(downs.values())),
        Measure("cluster: processes of Ray that run after down", "processes", list(left.values()), "0"),
    ]


# ---- 100 nodes that are processes of this machine

# ssh's last word is the command for the host.
FAKE_SSH = """#!/bin/sh
for word; do :; done
exec /bin/sh -c "$word"
"""

# Starts what the node script looks for: processes with the arguments of Ray's, and a dashboard that lists them.
FAKE_RAY = """#!/bin/sh
[ "$1" = start ] || exit 0
node=${{HVDRAY_NODE##*/}}
loop=': <{folder}/never' # a pipe that nobody opens for writing
if [ "$2" = --head ]; then
  setsid sh -c "$loop" {folder}/gcs/gcs_server </dev/null >/dev/null 2>&1 &
  setsid python3 {folder}/dashboard/dashboard.py --port={port} </dev/null >/dev/null 2>&1 &
fi
setsid sh -c "$loop" {folder}/raylet/raylet --node_id=id-$node --node_ip_address=$node </dev/null >/dev/null 2>&1 &
echo $node >{folder}/nodes/$node
"""

FAKE_DASHBOARD = """import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        nodes = [{"node_id": "id-" + n, "node_ip": n, "state": "ALIVE"} for n in os.listdir(FOLDER + "/nodes")]
        body = json.dumps({"data": {"result": {"result": nodes}}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""


class Simulation:
    """SIMULATED nodes over a shell that runs a host's command here, with a Ray that only looks like one."""

    PORT = 18265

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hvdray-bench-cluster-"))
        for name in ("bin", "nodes", "dashboard", "home/.ssh", "site/ray-2.60.0.dist-info"):
            (self.folder / name).mkdir(parents=True)
        os.mkfifo(self.folder / "never")
        self._program("bin/ssh", FAKE_SSH)
        self._program("bin/ray", FAKE_RAY.format(folder=self.folder, port=self.PORT))
        (self.folder / "dashboard/dashboard.py").write_text(
            FAKE_DASHBOARD.replace("FOLDER", repr(str(self.folder))).replace("PORT", str(self.PORT)))
        (self.folder / "site/ray-2.60.0.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n")
        (self.folder / "home/.bashrc").write_text(
            f"export PATH={self.folder}/bin:$PATH PYTHONPATH={self.folder}/site\n")
        # Addresses for documentation: nothing answers there, so that only the shell can have reached them.
        hosts = [f"192.0.2.{number}" for number in range(1, SIMULATED + 1)]
        self.file = self.folder / "cluster.yaml"
        self.file.write_text(
            f"cluster_name: bench-{os.getpid()}\n"
            f"provider: {{type: local, head_ip: {hosts[0]}, worker_ips: [{', '.join(hosts[1:])}]}}\n"
            "auth: {ssh_user: root}\nsetup_commands: [\"true\", \"true\"]\n"
            "head_start_ray_commands: [ray start --head]\n"
            "worker_start_ray_commands: [ray start --address=$RAY_HEAD_IP:6379]\n")
        self.env = {**os.environ, "HOME": str(self.folder / "home"), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        return self

    def __exit__(self, *_):
        self.run("down")
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run(self, command):
        """(processor seconds of hvdray's process, wall seconds), or None if it fails."""
        words = [self.context.hvdray, command, "--yes", "--ssh-transport", "openssh", self.file]
        began = time.monotonic()
        process = subprocess.Popen([str(word) for word in words], env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            split = processor_split(process, 600)
            return split and (split[0], time.monotonic() - began)
        finally:
            kill_session(process.pid)
            process.wait()


def many(context):
    first, second, wall = Series("hvdray up"), Series("hvdray up, nothing to do"), Series("hvdray up")
    for _ in range(context.rounds(3)):
        with Simulation(context) as simulation:
            up = simulation.run("up")
            again = simulation.run("up") if up else None
            first.values.append(up and up[0])
            wall.values.append(up and up[1])
            second.values.append(again and again[0])
    what = f"cluster: {SIMULATED} simulated nodes on this machine, from nothing"
    return [Measure(f"{what}: processor time of hvdray's own process", "s", [first, second], "≤ 3 s"),
            Measure(f"{what}: wall time, the nodes' own work on these cores included", "s", [wall])]


MEASURES = {"cluster.up": up_and_down, "cluster.many": many}
