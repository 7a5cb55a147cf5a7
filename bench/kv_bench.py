# SPDX-License-Identifier: Apache-2.0
"""Measures `hvdray rendezvous` against Horovod's own server, bare evhttp and a bare epoll loop.

All in one run, in alternating rounds, over 127.0.0.1: requests per second from 4 clients that open one
connection per request, the server's processor time per request, and its memory with 10,000 held requests.
"""
import json
import os
import signal
import subprocess

from harness import Measure, Series

THREADS = 4
SECONDS = 2

HOROVOD_SERVER = """
import sys
from horovod.runner.http.http_server import RendezvousHTTPServer, RendezvousHandler
server = RendezvousHTTPServer(("127.0.0.1", 0), RendezvousHandler, 0)
server.init([])
print("127.0.0.1", server.server_address[1], flush=True)
server.serve_forever()
"""


class Server:
    """A server process that prints "ADDRESS PORT" as its first line."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            self.stop()
            raise RuntimeError(f"{name} did not print its address and port")
        self.port = words[1]

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def load(kv_load, server, seconds):
    """Runs one round on one server; returns kv_load's result and the processor time per request."""
    cpu = server.cpu_seconds()
    out = subprocess.run([kv_load, "load", "--port", server.port, "--seconds", str(seconds),
                          "--threads", str(THREADS)],
                         check=False, capture_output=True, text=True, timeout=seconds + 60)
    result = json.loads(out.stdout)
    result["cpu_us_per_request"] = (
        (server.cpu_seconds() - cpu) * 1e6 / max(1, result["requests"]))
    return result


def hold(kv_load, command, count):
    """Measures held requests on a separate server; returns kv_load's result."""
    server = Server("hvdray that holds for 60 s", command)
    try:
        out = subprocess.run([kv_load, "hold", "--port", server.port, "--pid",
                              str(server.process.pid), "--count", str(count)],
                             check=False, capture_output=True, text=True, timeout=120)
        if not out.stdout:
            raise RuntimeError(out.stderr.strip())
        return json.loads(out.stdout)
    finally:
        server.stop()


def commands_of(context):
    found = {
        **{name: [hvdray, "rendezvous"] for name, hvdray in context.builds.items()},
        "bare evhttp": [context.bin_dir / "evhttp_baseline", "evhttp"],
        "bare epoll loop": [context.bin_dir / "evhttp_baseline", "epoll"],
    }
    if context.venv:
        found["Horovod RendezvousServer"] = [context.venv / "bin/python", "-c", HOROVOD_SERVER]
    return found


def measures(context):
    kv_load = context.bin_dir / "kv_load"
    servers = []
    rounds = {}
    try:
        for name, command in commands_of(context).items():
            servers.append(Server(name, command))
            rounds[name] = []
        for server in servers:  # warm-up, not counted
            load(kv_load, server, 0.3)
        for index in range(context.rounds(5)):
            # Reverse the order each time, so that warm-up and throttling affect all alike.
            for server in servers if index % 2 == 0 else reversed(servers):
                rounds[server.name].append(load(kv_load, server, SECONDS))
    finally:
        for server in servers:
            server.stop()
    held = hold(kv_load, ["env", "HVDRAY_KV_HOLD=60", context.hvdray, "rendezvous"], 10_000)
    note = (f"{held['held']} held, {held['answered_on_put']} answered on PUT in "
            f"{held['release_s']:.2f} s")

    def series(key):
        return [Series(name, [r[key] if r["errors"] == 0 else None for r in runs])
                for name, runs in rounds.items()]

    return [
        Measure("key-value server, 4 clients, one connection a request", "requests/s",
                series("requests_per_s"), "≥ 6 × Horovod's; stretch 7 ×"),
        Measure("the same: processor time of the server", "µs a request",
                series("cpu_us_per_request"), "≤ 1/7 of Horovod's; stretch 1/12"),
        Measure("10,000 held GETs, resident memory", "MB",
                [Series("hvdray", [held["rss_held_kib"] / 1024], note)], "< 100 MB"),
    ]
