#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A program `ray` for clusters from a file where Ray itself is not what is tested: starts in 0.1 s. Its processes have the
names and options that real ones have in /proc, the GCS lists who is connected to it, and the dashboard answers as far as
`hvdray up`, `status`, `logs` and `stop` ask. Notes each call in ~/ray-calls.

`install(folder)` makes a directory with bin/ray, which reports itself as Ray 2.60.0."""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

PLACE = "/pretended/ray"


def install(folder):
    """The directory for PATH. `PYTHONPATH` has to name its parent's `lib`."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(__file__, folder / "bin/ray")
    (folder / "bin/ray").chmod(0o755)
    info = folder / "lib/ray-2.60.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n")
    return folder / "bin"


# ---- its processes

def gcs(port):
    """Lines of JSON: a node, which lives as long as its connection, or the question for all."""
    import threading
    nodes = {}

    def serve(link):
        mine = None
        with link, link.makefile("rw") as lines:
            for line in lines:
                said = json.loads(line)
                if "node_id" in said:
                    mine = said["node_id"]
                    nodes[mine] = {**said, "state": "ALIVE"}
                    lines.write("\n")
                else:
                    lines.write(json.dumps(list(nodes.values())) + "\n")
                lines.flush()
        if mine:
            nodes[mine].update(state="DEAD", state_message="it was ended", end_time_ms=int(time.time() * 1000))

    with socket.create_server(("", port)) as server:
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


def ask(address, **said):
    host, port = address.rsplit(":", 1)
    link = socket.create_connection((host, int(port)))
    lines = link.makefile("rw")
    lines.write(json.dumps(said) + "\n")
    lines.flush()
    return link, lines.readline()


def raylet(address, node_id, ip, is_head):
    link, _ = ask(address, node_id=node_id, node_ip=ip, is_head_node=is_head, resources_total={"CPU": 1.0}, labels={})
    link.recv(1)  # until the GCS goes
    sys.exit(1)


def dashboard(host, port, address):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            path, _, query = self.path.partition("?")
            words = dict(urllib.parse.parse_qsl(query))
            answers = {"/api/version": {"version": "4", "ray_version": "2.60.0", "session_name": "pretended"},
                       "/api/jobs/": [],
                       "/api/cluster_status": {"result": True, "data": {"clusterStatus": None}},
                       "/nodes": {"data": {"summary": [], "nodeLogicalResources": {}}},
                       "/api/v0/placement_groups": {"data": {"result": {"result": []}}}}
            if path == "/api/v0/nodes":
                wanted = words.get("filter_values", "")
                rows = [row for row in json.loads(ask(address)[1]) if wanted in ("", row["state"])]
                answers[path] = {"result": True, "data": {"result": {"total": len(rows), "result": rows}}}
            if path == "/api/v0/logs":
                answers[path] = {"result": True, "data": {"result": {"raylet": [f"log-of-{words['node_id']}"]}}}
            body = json.dumps(answers.get(path, {})).encode()
            self.send_response(200 if path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()


# ---- what is typed

def spawn(*words):
    subprocess.Popen([sys.executable, os.path.abspath(__file__), *words], start_new_session=True, stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def await_port(host, port):
    while True:
        try:
            return socket.create_connection((host, port)).close()
        except OSError:
            time.sleep(0.02)


def start(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--address")
    parser.add_argument("--node-ip-address", default=os.environ.get("PRETENDED_IP", "127.0.0.1"))
    parser.add_argument("--dashboard-host", default="127.0.0.1")
    parser.add_argument("--dashboard-port", type=int, default=8265)
    parser.add_argument("--include-dashboard", default="True")
    options = parser.parse_args(words)
    address = options.address or f"127.0.0.1:{options.port}"
    if options.head:
        spawn("gcs", f"{PLACE}/core/src/ray/gcs/gcs_server", f"--gcs_server_port={options.port}")
        await_port("127.0.0.1", options.port)
        left_out = [] if options.include_dashboard == "True" else ["--disable-frontend"]
        spawn("dashboard", f"{PLACE}/dashboard/dashboard.py", f"--host={options.dashboard_host}",
              f"--port={options.dashboard_port}", f"--gcs-address={address}", *left_out)
        if not left_out:
            await_port(options.dashboard_host, options.dashboard_port)
    spawn("raylet", f"{PLACE}/core/src/ray/raylet/raylet", f"--node_id={os.urandom(28).hex()}",
          f"--node_ip_address={options.node_ip_address}", f"--gcs-address={address}", "head" if options.head else "worker")


def main():
    def value(name):
        return next(word.split("=", 1)[1] for word in sys.argv if word.startswith(f"--{name}="))

    what = sys.argv[1]
    if what == "gcs":
        gcs(int(value("gcs_server_port")))
    elif what == "raylet":
        raylet(value("gcs-address"), value("node_id"), value("node_ip_address"), sys.argv[-1] == "head")
    elif what == "dashboard":
        if "--disable-frontend" in sys.argv:
            signal.pause()
        dashboard(value("host"), int(value("port")), value("gcs-address"))
    else:
        with open(pathlib.Path.home() / "ray-calls", "a", encoding="ascii") as calls:
            calls.write(" ".join(sys.argv[1:]) + "\n")
        if what == "start":
            start(sys.argv[2:])


if __name__ == "__main__":
    main()
