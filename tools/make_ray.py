#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a real Ray cluster on one machine: a head and more nodes, a network namespace each.

    tools/make_ray.py up --nodes 3 --state DIR [--ray-venv DIR] [--no-token] [--gpus h3=2]
    tools/make_ray.py exec --state DIR [--on h2] -- hvdray run --ray-address http://10.64.0.1:8265 …
    tools/make_ray.py down --state DIR

or `with RayCluster(venv) as ray: ray.call("GET", "/api/version")`. The machines come from
tools/make_hosts.py (root; sshd on each; `cut`, `freeze`, leftovers): h1 is the head, h2 … the other
nodes, the last of them spares that run no Ray until start_node(). The client runs at `launcher`,
which reaches the dashboard and has no token in its home.

Each node has its own session directory, /run/ray (DIR/<host>/ray from outside). The nodes' PATH has
no Ray, as on clusters with Ray in a virtual environment. Processes are ended by pid, because `ray
stop` would end every Ray of the machine. tools/ray_env.sh makes the virtual environment.
"""

import argparse
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import threading
import time

from hosts_processes import HostsError, finish, send, start, wait_until
from make_hosts import LAUNCHER, Hosts, pairs

HEAD = "h1"
GCS_PORT, DASHBOARD_PORT = 6379, 8265
FOLDER = "/run/ray"  # short, because paths of the sockets below have at most 107 bytes
OBJECT_STORE_BYTES = 80_000_000
CLONE_NEWNET = 0x40000000
# Ray's own processes on a node, including idle workers.
RAYS_OWN = re.compile(r"site-packages/ray/|-m ray\.util\.client\.server|^ray-dashboard-|"
                      r"^ray::(IDLE|DashboardAgent|RuntimeEnvAgent)|"
                      r"multiprocessing\.(forkserver|resource_tracker)")


class RayCluster:
    """A cluster from up() to down(); also a context manager. One thread. Errors: HostsError.

    workers: nodes besides the head; spares: machines without Ray at first. gpus, labels: by host
    name; gpus is a number, labels {"name": "value"} (Ray 2.60). environment: for every node's Ray,
    such as {"RAY_health_check_period_ms": "1000"}. autoscaling: a function that makes the head's
    cluster file from {host name: address}; the file's node types are `head` and `worker`, its
    instances the hosts' names.
    """

    def __init__(self, venv, workers=3, spares=0, state=None, token=True, cpus=2, gpus=None,
                 labels=None, dashboard_host="0.0.0.0", environment=None,
                 autoscaling=None):
        self.venv = pathlib.Path(venv).resolve()
        self.hosts = Hosts(count=1 + workers + spares, state=state)
        self.token = secrets.token_hex(32) if token else ""
        self._make_cluster_file = autoscaling
        self._told_to_end = set()  # pids of raylets
        self._settings = {"cpus": cpus, "gpus": gpus or {}, "labels": labels or {},
                          "dashboard_host": dashboard_host, "environment": environment or {},
                          "started": [f"h{n}" for n in range(1, workers + 2)]}

    @classmethod
    def attach(cls, folder):
        """A cluster that another process made, to inspect, break or remove it."""
        hosts = Hosts.attach(folder)
        try:
            saved = json.loads((pathlib.Path(folder) / "ray.json").read_text())
        except (OSError, ValueError) as error:
            raise HostsError(f"{folder}: hosts without Ray: {error}") from error
        ray = cls(saved.pop("venv"))
        ray.hosts, ray.token, ray._settings = hosts, saved.pop("token"), saved
        return ray

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    # ---- making and removing

    def up(self, keep=False):
        """Makes hosts and cluster. keep: both outlive this process, until down()."""
        if not (self.venv / "bin/ray").exists():
            raise HostsError(f"{self.venv}: no Ray there; tools/ray_env.sh makes it and prints where")
        self.hosts.up(keep=keep)
        try:
            if self._make_cluster_file:
                addresses = {name: host.address for name, host in self.hosts.hosts.items()}
                path = self.hosts.state / "autoscaling.yaml"
                path.write_text(self._make_cluster_file(addresses))
                self._settings["cluster_file"] = str(path)
            saved = {"venv": str(self.venv), "token": self.token, **self._settings}
            (self.hosts.state / "ray.json").write_text(json.dumps(saved))
            self.start()
        except BaseException:
            self.down()
            raise

    def down(self):
        """Kills all processes on the hosts, including Ray, and removes the hosts."""
        self.hosts.down()

    def start(self):
        """Starts Ray on the head, then on the others; returns when all accept work."""
        self._start_ray([HEAD])
        self._start_ray([name for name in self._settings["started"] if name != HEAD])
        self.wait_for_nodes()

    def start_node(self, *names):
        """Adds nodes: spares, or ended ones. Returns when Ray lists them as alive."""
        self._start_ray(names)
        self.wait_for_nodes()

    def _start_ray(self, names, tries=3):
        """`ray start` gives its raylet 30 s to register, which a busy machine may not keep; that node is then begun anew."""
        for name in names:
            if name not in self._settings["started"]:
                self._settings["started"].append(name)
        late = []
        for name, process in [(name, self._begin(name)) for name in names]:
            try:
                finish([(f"start Ray on {name}", process)])
            except HostsError as error:
                late.append((name, error))
        if late and tries == 1:
            raise HostsError("\n".join(str(error) for _, error in late))
        for name, error in late:
            print(f"{error}\nRay on {name} is started once more", file=sys.stderr)
            self._end_ray(name)
        if late:
            self._start_ray([name for name, _ in late], tries - 1)

    def _begin(self, name):
        settings = self._settings
        self.hosts.run(["sh", "-ec", f"mkdir -p '{self.folder(name)}' {FOLDER}; mountpoint -q "
                        f"{FOLDER} || mount --bind '{self.folder(name)}' {FOLDER}; "
                        f"rm -rf {FOLDER}/*"], on=name, check=True)
        address = self.address(name)
        argv = [self.venv / "bin/ray", "start", f"--node-ip-address={address}",
                f"--temp-dir={FOLDER}", f"--object-store-memory={OBJECT_STORE_BYTES}",
                f"--num-cpus={settings['cpus']}", "--disable-usage-stats", "--log-color=false"]
        if name == HEAD:
            argv += ["--head", f"--port={GCS_PORT}", f"--dashboard-port={DASHBOARD_PORT}",
                     f"--dashboard-host={settings['dashboard_host']}"]
            if settings.get("cluster_file"):
                argv.append(f"--autoscaling-config={settings['cluster_file']}")
        else:
            argv.append(f"--address={self.address(HEAD)}:{GCS_PORT}")
        if settings["gpus"].get(name):
            argv.append(f"--num-gpus={settings['gpus'][name]}")
        if settings["labels"].get(name):
            argv.append("--labels=" + ",".join(
                f"{key}={value}" for key, value in settings["labels"][name].items()))
        return start(self.hosts.command(argv, on=name, cwd="/"), env=self._environment(name))

    def _environment(self, name):
        # Without prestarted workers the first job of each test file starts seconds sooner.
        names = {"HOME": str(self.hosts.state / "home"), "LANG": "C.UTF-8", "USER": "root",
                 "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "RAY_AUTH_MODE": "token" if self.token else "disabled",
                 "RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0",
                 **self._settings["environment"]}
        if self._settings.get("cluster_file"):
            names |= {"RAY_CLOUD_INSTANCE_ID": name,
                      "RAY_NODE_TYPE_NAME": "head" if name == HEAD else "worker"}
        if self.token:
            path = self.hosts.folder(name) / "home/.ray/auth_token"
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.token)
            path.chmod(0o600)
        return names

    # ---- using

    @property
    def nodes(self):
        """Names of the hosts that run or should run Ray."""
        return list(self._settings["started"])

    @property
    def url(self):
        """The dashboard's URL for `launcher` and the nodes."""
        return f"http://{self.address(HEAD)}:{DASHBOARD_PORT}"

    def address(self, name):
        return self.hosts[name].address

    def folder(self, name):
        """A node's session directory as seen from outside; contains session_latest/logs."""
        return self.hosts.folder(name) / "ray"

    def logs(self, name=HEAD):
        """The log directory of a node's newest session."""
        return max(self.folder(name).glob("session_2*"), key=lambda path: path.name) / "logs"

    def client_environment(self, base=None):
        """For a client at the launcher: the token, and no Ray variables of the caller."""
        names = {name: value for name, value in (os.environ if base is None else base).items()
                 if not name.startswith("RAY_")}
        return {**names, **({"RAY_AUTH_TOKEN": self.token} if self.token else {})}

    def request(self, method, path, body=None, headers=None, timeout=60, token=None):
        """One request to the dashboard, from the launcher's network if it listens there. Returns (status, bytes)."""
        token = self.token if token is None else token
        sent = {"User-Agent": "hvdray-test", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            sent["Content-Type"], body = "application/json", json.dumps(body)

        is_hidden = self._settings["dashboard_host"] == "127.0.0.1"
        place, address = (HEAD, "127.0.0.1") if is_hidden else (LAUNCHER, self.address(HEAD))

        def exchange():
            link = http.client.HTTPConnection(address, DASHBOARD_PORT, timeout=timeout)
            with contextlib.closing(link):
                link.request(method, path, body, sent)
                answer = link.getresponse()
                return answer.status, answer.read()

        return inside_network_of(self.hosts[place].holder, exchange)

    def call(self, method, path, body=None, **kwargs):
        """As request(), but returns the JSON of a 200. Errors: HostsError for any other status."""
        status, text = self.request(method, path, body, **kwargs)
        if status != 200:
            raise HostsError(f"{method} {path}: {status}: {text.decode(errors='replace')[-500:]}")
        return json.loads(text)

    def node_table(self):
        """[(host name, entry of /api/v0/nodes)] of the nodes that Ray believes alive.

        A host appears twice until Ray notices that its former raylet died.
        """
        entries = self.call("GET", "/api/v0/nodes?limit=1000")["data"]["result"]["result"]
        names = {host.address: name for name, host in self.hosts.hosts.items()}
        return sorted(((names[entry["node_ip"]], entry) for entry in entries
                       if entry["state"] == "ALIVE"), key=lambda pair: pair[0])

    def node_id(self, name):
        return dict(self.node_table())[name]["node_id"]

    def jobs(self, *states):
        """Jobs in these states; no states: jobs that have not ended."""
        wanted = states or ("PENDING", "RUNNING")
        return [job for job in self.call("GET", "/api/jobs/") if job["status"] in wanted]

    def groups(self):
        """Placement groups that have not been removed."""
        table = self.call("GET", "/api/v0/placement_groups?detail=True&limit=1000")
        return [entry for entry in table["data"]["result"]["result"] if entry["state"] != "REMOVED"]

    def submit(self, entrypoint, **fields):
        """Submits a job; returns its submission id."""
        answer = self.call("POST", "/api/jobs/", {"entrypoint": entrypoint, **fields})
        return answer["submission_id"]

    def wait_for_job(self, submission_id, within=120):
        """Waits until the job has ended; returns its entry."""
        def job():
            return self.call("GET", f"/api/jobs/{submission_id}")

        wait_until(lambda: job()["status"] in ("SUCCEEDED", "FAILED", "STOPPED"),
                   f"end of job {submission_id}", within)
        return job()

    def wait_for_nodes(self, within=180):
        """Returns when exactly the started nodes are alive and the head accepts jobs."""
        def all_there():
            with contextlib.suppress(OSError, HostsError, ValueError, KeyError):
                return [name for name, _ in self.node_table()] == sorted(self.nodes)
            return False

        wait_until(all_there, f"nodes {self._settings['started']}; see {self.hosts.state}/h*/ray",
                   within)

    # ---- breaking and mending

    def ray_processes(self, name):
        """Ray's own processes on a node: {pid: command line}."""
        return {pid: line for pid, line in self.hosts.processes(name).items()
                if RAYS_OWN.search(line)}

    def foreign_processes(self, *names):
        """Processes on the nodes other than sshd and Ray's own: {host: {pid: command line}}.

        No names: all hosts, including the launcher.
        """
        found = {}
        for name, alive in self.hosts.leftovers(*names).items():
            rest = {pid: line for pid, line in alive.items() if not RAYS_OWN.search(line)}
            if rest:
                found[name] = rest
        return found

    def raylet(self, name):
        """The pid of a node's raylet; None without one."""
        return next((pid for pid, line in self.hosts.processes(name).items()
                     if line.split(" ", 1)[0].endswith("/raylet/raylet")), None)

    def gcs_server(self):
        return next((pid for pid, line in self.hosts.processes(HEAD).items()
                     if line.split(" ", 1)[0].endswith("/gcs/gcs_server")), None)

    def kill_raylet(self, name, signo=signal.SIGKILL):
        raylet = self.raylet(name)
        if signo != signal.SIGSTOP:
            self._told_to_end.add(raylet)
        send([raylet], signo)

    def remove_node(self, name):
        """Ends a node as `ray stop` on it would, and forgets it."""
        self._settings["started"].remove(name)
        if raylet := self.raylet(name):
            send([raylet], signal.SIGTERM)
            wait_until(lambda: self.raylet(name) is None, f"end of the raylet on {name}")
        self._end_ray(name)

    def _end_ray(self, name):
        def none_left():
            alive = self.ray_processes(name)
            send(alive, signal.SIGKILL)
            return not alive

        wait_until(none_left, f"end of Ray on {name}")

    def heal(self, nodes):
        """Restores Ray on exactly these nodes after tests froze, cut, killed or added some."""
        for name in self.hosts.hosts:
            self.hosts.thaw(name)
        self.hosts.mend()
        if self.gcs_server() is None or self.raylet(HEAD) is None:
            self.restart(nodes)
            return
        for name in self.hosts.hosts:
            raylet = self.raylet(name)  # one that was sent SIGTERM may still be busy with its end
            if (name not in nodes or raylet is None or raylet in self._told_to_end
                    or self._is_given_up(name)):
                self._end_ray(name)
        self._told_to_end.clear()
        self._settings["started"] = list(nodes)
        self._start_ray([name for name in nodes if self.raylet(name) is None])
        self.wait_for_nodes()

    def restart(self, nodes):
        """Ends Ray everywhere and restarts it on these nodes; jobs and groups are lost."""
        for name in self.hosts.hosts:
            self._end_ray(name)
        self._settings["started"] = list(nodes)
        self.start()

    def _is_given_up(self, name):
        """Ray believes the node dead; its raylet will exit as soon as it learns that."""
        return name not in dict(self.node_table())


def inside_network_of(pid, function):
    """Runs the function in another process's network namespace; the calling thread keeps its own."""
    outcome = []

    def work():
        with open(f"/proc/{pid}/ns/net", encoding="ascii") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                outcome.append(OSError(ctypes.get_errno(), "setns"))
                return
        try:
            outcome.append(function())
        except Exception as error:  # pylint: disable=broad-except  # raised again below
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make a cluster that stays until `down`")
    up.add_argument("--nodes", type=int, default=3, help="besides the head")
    up.add_argument("--spares", type=int, default=0, help="machines without Ray")
    up.add_argument("--cpus", type=int, default=2, help="per node")
    up.add_argument("--gpus", action="append", default=[], metavar="HOST=COUNT")
    up.add_argument("--no-token", action="store_true")
    up.add_argument("--dashboard-host", default="0.0.0.0")
    up.add_argument("--ray-venv", default="", help="default: made by tools/ray_env.sh")
    run = commands.add_parser("exec", help="run a command on a host (default: the launcher)")
    run.add_argument("--on", default=LAUNCHER)
    run.add_argument("argv", nargs="+")
    down = commands.add_parser("down", help="remove it, even if its maker was killed")
    for command in (up, run, down):
        command.add_argument("--state", required=True)
    return parser.parse_args()


def main():
    args = parse_args()
    try:
        if args.command == "up":
            script = pathlib.Path(__file__).resolve().with_name("ray_env.sh")
            venv = args.ray_venv or subprocess.check_output([script], text=True).strip()
            gpus = {name: int(count) for name, count in pairs(args.gpus).items()}
            started = time.monotonic()
            # Ray's Python leaves directories in /tmp when it is killed.
            ray = RayCluster(venv, args.nodes, args.spares, args.state, not args.no_token,
                             args.cpus, gpus, dashboard_host=args.dashboard_host, environment={"TMPDIR": FOLDER})
            ray.up(keep=True)
            print(f"{1 + args.nodes} nodes in {time.monotonic() - started:.1f} s; from `launcher`: "
                  f"{ray.url}" + (f"\nRAY_AUTH_TOKEN={ray.token}" if ray.token else ""))
        elif args.command == "exec":
            ray = RayCluster.attach(args.state)
            environment = ray.hosts.environment(ray.client_environment())
            os.execvpe("nsenter", ray.hosts.command(args.argv, args.on), environment)
        elif os.path.exists(args.state):
            Hosts.attach(args.state).down()
        else:
            print(f"{args.state} does not exist; nothing to remove")
    except (HostsError, ValueError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")


if __name__ == "__main__":
    main()
