# SPDX-License-Identifier: Apache-2.0
"""ray_driver.py and Ray as a test plays them: speaks the pipe of `hvdray-agent launch`, has nodes
with CPUs, and starts real agents that dial the driver over loopback."""

import json
import os
import signal
import struct
import subprocess
import threading
import time

from conftest import MARK

RAYS_PYTHON = "/of-ray/bin/python"
KEY = "0123456789abcdef" * 4


class Node:
    def __init__(self, number, cpus, ip="127.0.0.1"):
        self.id = f"{number:02x}" * 16
        self.ip, self.cpus, self.is_alive, self.leaves_at = ip, cpus, True, None


class PretendRay:
    """One job. Settings: those of job.json by their names there; durations in seconds."""

    def __init__(self, hvdray, folder, settings, nodes=(), job=None, text=None, says_hello=True):
        self.folder, self.nodes = folder, list(nodes)
        self.groups, self.endpoints, self.lock = {}, {}, threading.RLock()
        self.orders = []  # as they came
        self.is_watched = False
        self.job_id = f"hvd-pretended-{os.getpid()}-{id(self):x}"
        os.makedirs(folder / "logs")
        times = {"grace", "timeout", "start_timeout", "elastic_timeout", "heartbeat_timeout",
                 "placement_group_timeout"}
        settings = {name: int(value * 1e9) if name in times else value
                    for name, value in settings.items()}
        whole = {"job_id": self.job_id, "build": "hvdray of a test", "key": KEY,
                 "options": {"schema": "hvdray.spec/2", "settings": settings},
                 "environment": [["HOROVOD_OF_CLIENT", "yes"]], **(job or {})}
        (folder / "job.json").write_text(json.dumps(whole) if text is None else text)
        self.log = open(folder / "log", "wb")
        self.job = hvdray.start("launch", folder, binary=hvdray.agent, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=self.log)
        self.agent = hvdray.agent
        threading.Thread(target=self.listen, daemon=True).start()
        if says_hello:
            self.tell({"hello": {"ray": "2.60.0", "python": "3.11.7", "node_id": "head",
                                 "node_ip": "127.0.0.1", "logs": str(folder / "logs"),
                                 "submission_id": "s", "raylet_pid": 1}})

    # ---- what Ray does

    def tell(self, message):
        with self.lock:
            try:
                self.job.process.stdin.write(json.dumps(message).encode() + b"\n")
                self.job.process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the launcher has ended

    def listen(self):
        for line in self.job.process.stdout:
            for kind, body in json.loads(line).items():
                with self.lock:
                    self.orders.append((kind, body))
                    getattr(self, "on_" + kind)(body)
        with self.lock:  # what ray_driver.py does when the launcher has ended
            for number in list(self.endpoints):
                self.end_endpoint(number)

    def used(self, node):
        return sum(bundle["CPU"] for group in self.groups.values()
                   for bundle, at in zip(group["bundles"], group["nodes"]) if at is node)

    def tell_nodes(self):
        if self.is_watched:
            self.tell({"nodes": [
                {"id": node.id, "ip": node.ip, "is_alive": node.is_alive,
                 "total": {"CPU": node.cpus}, "labels": {},
                 "free": {"CPU": node.cpus - self.used(node)} if node.is_alive else {},
                 **({} if node.leaves_at is None else {"leaves_at": node.leaves_at})}
                for node in self.nodes]})

    def place(self, body):
        """A node for each bundle, or None."""
        free = {node: node.cpus - self.used(node) for node in self.nodes
                if node.is_alive and node.leaves_at is None}
        places = []
        selectors = body.get("selectors") or [{}] * len(body["bundles"])
        for bundle, selector in zip(body["bundles"], selectors):
            fits = [node for node in free if free[node] >= bundle["CPU"]
                    and selector.get("ray.io/node-id", node.id) == node.id
                    and not ("SPREAD" in body["strategy"] and node in places)]
            if not fits:
                return None
            free[fits[0]] -= bundle["CPU"]
            places.append(fits[0])
        return places

    def tell_group(self, name, state, **more):
        nodes = self.groups.get(name, {}).get("nodes", [])
        self.tell({"group": {"name": name, "state": state, "reason": "", "text": "",
                             "bundles": [node.id for node in nodes], **more}})

    def on_rest(self, _):
        self.is_watched = False

    def on_watch(self, _):
        self.is_watched = True
        self.tell_nodes()

    def on_reserve(self, body):
        places = self.place(body)
        if places is None:
            is_large = all(node.cpus < body["bundles"][0]["CPU"] for node in self.nodes)
            return self.tell_group(body["name"], "pending",
                                   reason="INFEASIBLE" if is_large else "NO_RESOURCES")
        self.groups[body["name"]] = {"bundles": body["bundles"], "nodes": places}
        self.tell_group(body["name"], "created")
        self.tell_nodes()

    def on_release(self, body):
        if self.groups.pop(body["name"], None):
            self.tell_nodes()

    def on_endpoint(self, body):
        environment = dict(os.environ, **{MARK: self.job.mark}, RAY_OF_NODE="1", OF_NODE="here")
        words = {"@gpus": "0,1", "@raylet": str(os.getpid()), "@python": RAYS_PYTHON}
        argv = [words.get(word, word) for word in body["argv"]]
        assert argv[0] == ".hvdray/hvdray-agent"
        log = open(self.endpoint_log(body["endpoint"]), "wb")
        agent = subprocess.Popen([str(self.agent), *argv[1:]], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=log, env=environment,
                                 cwd=self.folder, start_new_session=True)
        agent.stdin.write(body["stdin"].encode() + b"\n")
        agent.stdin.flush()
        node = self.groups[body["name"]]["nodes"][body["bundles"][0]]
        self.endpoints[body["endpoint"]] = {"agent": agent, "node": node}
        self.tell({"endpoint": {"endpoint": body["endpoint"], "state": "started", "node_id": node.id,
                            "ip": node.ip, "hostname": "here", "gpus": ["0", "1"],
                            "pid": agent.pid}})
        threading.Thread(target=self.watch_endpoint, args=(body["endpoint"], agent), daemon=True).start()

    def watch_endpoint(self, number, agent):
        code = agent.wait()
        with self.lock:
            self.endpoints.pop(number, None)
            said = self.endpoint_log(number).read_text(errors="replace").strip()
            self.tell({"endpoint": {"endpoint": number, "state": "ended",
                                "text": f"the agent ended: exit code {code}"
                                        + (": " + said.splitlines()[-1] if said else "")}})

    def on_close_endpoint(self, body):
        self.end_endpoint(body["endpoint"])

    def end_endpoint(self, number):
        """As ray.kill() does: the actor's process group dies, the keeper has left it."""
        endpoint = self.endpoints.get(number)
        if endpoint:
            endpoint["agent"].stdin.close()
            try:
                os.killpg(endpoint["agent"].pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill_node(self, node):
        with self.lock:
            node.is_alive = False
            for number, endpoint in list(self.endpoints.items()):
                if endpoint["node"] is node:
                    self.end_endpoint(number)
            for name, group in list(self.groups.items()):
                if node in group["nodes"]:
                    self.tell_group(name, "rescheduling")
                    del self.groups[name]
            self.tell_nodes()

    def drain(self, node, leaves_at):
        with self.lock:
            node.leaves_at = leaves_at
            self.tell_nodes()

    def make_group_again(self, body):
        """What Ray does for a group that has lost a bundle, once there is room."""
        with self.lock:
            self.on_reserve(body)

    def add_node(self, node):
        with self.lock:
            self.nodes.append(node)
            self.tell_nodes()

    def signal(self):
        self.tell({"signal": int(signal.SIGTERM)})

    def vanish(self):
        """ray_driver.py is killed, and Ray ends its actors."""
        with self.lock:
            self.job.process.stdin.close()
            for number in list(self.endpoints):
                self.end_endpoint(number)

    # ---- what the test sees

    def records(self):
        """[(kind, bytes)] of the stream's files."""
        path = self.stream_file()
        data = path.read_bytes() if path.exists() else b""
        found = []
        while len(data) >= 5:
            kind, length = struct.unpack("<BI", data[:5])
            if len(data) < 5 + length:
                break
            found.append((kind, data[5:5 + length]))
            data = data[5 + length:]
            if kind == 5:
                data = self.stream_file(int(found.pop()[1])).read_bytes()
        return found

    def stream_file(self, number=0):
        suffix = f".{number}" if number else ""
        return self.folder / "logs" / f"hvdray_{self.job_id}.stream{suffix}"

    def text(self, kind):
        return b"".join(part for k, part in self.records() if k == kind).decode(errors="replace")

    @property
    def out(self):
        return self.text(1)

    @property
    def err(self):
        return self.text(2)

    def endpoint_log(self, number):
        return self.folder / f"endpoint{number}.log"

    def log_text(self):
        return "".join(path.read_text(errors="replace")
                       for path in [self.folder / "log", *self.folder.glob("endpoint*.log")])

    def wait_for(self, predicate, within=60, what="condition"):
        deadline = time.monotonic() + within
        while not predicate():
            assert self.job.process.poll() is None, f"ended before {what}: {self.said()}"
            assert time.monotonic() < deadline, f"not within {within} s: {what}: {self.said()}"
            time.sleep(0.01)

    def said(self):
        return f"\n--- log\n{self.log_text()}\n--- out\n{self.out}\n--- err\n{self.err}"

    def wait(self, timeout=60):
        """The exit code; the stream's last record says the same."""
        try:
            code = self.job.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.job.kill()
            raise AssertionError(f"not ended after {timeout} s{self.said()}") from None
        records = self.records()
        assert records and records[-1][0] == 3, f"no end{self.said()}"
        self.end = json.loads(records[-1][1])
        assert self.end["exit_code"] == code, self.said()
        return code
