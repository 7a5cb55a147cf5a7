# SPDX-License-Identifier: Apache-2.0
"""Who gets Ray's token and the job's package: only those whom nobody else can replace. The dashboards here
write down what they are told."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from hosts_processes import wait_until

TOKEN = "geheim-0123456789"
NOBODY = 65534

# argv: the file to write to, address, port, uid, the token that it wants ("": none).
DASHBOARD = """
import http.server, json, os, sys
log = open(sys.argv[1], "a", buffering=1)
os.setuid(int(sys.argv[4]))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = " ".join(self.headers.values())
        print(json.dumps([self.client_address[0], self.command, self.path, told, len(body)]), file=log)
        node = {"node_id": "f5" * 28, "node_ip": "10.0.0.10", "is_head_node": True, "state": "ALIVE",
                "resources_total": {"CPU": 4.0}, "labels": {}}
        used = {"loadMetricsReport": {"usageByNode": {node["node_id"]: {"CPU": [0.0, 4.0]}}}}
        page = {"version": "4", "ray_version": "2.60.0", "ray_commit": "b7", "session_name": "s", "result": True,
                "data": {"clusterStatus": used, "result": {"total": 1, "result": [node]}, "summary": [],
                         "nodeLogicalResources": {}}}
        is_denied = sys.argv[5] not in told
        text = b"Unauthorized" if is_denied else json.dumps([] if "jobs" in self.path else page).encode()
        self.send_response(401 if is_denied else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_PUT = do_POST = answer
server = http.server.ThreadingHTTPServer((sys.argv[2], int(sys.argv[3])), Handler)
print("ready", file=log)
server.serve_forever()
"""


class Dashboard:
    def __init__(self, path, start, address, port, uid, token):
        self.path, self.port = path, port
        self.process = start([sys.executable, "-c", DASHBOARD, str(path), address, str(port), str(uid), token])
        wait_until(lambda: path.exists() and "ready" in path.read_text(), "a dashboard")

    def requests(self):
        """[(client, method, path, headers, bytes of body)]"""
        return [json.loads(line) for line in self.path.read_text().splitlines() if line != "ready"]

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def dashboard(tmp_path):
    """dashboard(port, uid, ...) -> one on this machine, or where `start` starts it."""
    made = []

    def make(port, uid=0, token=TOKEN, start=subprocess.Popen, address="127.0.0.1"):
        made.append(Dashboard(tmp_path / f"requests{len(made)}", start, address, port, uid, token))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def on_head(hosts, dashboard):
    """A dashboard at all addresses of h1."""
    return lambda **how: dashboard(8265, address="0.0.0.0", start=lambda argv: hosts.popen(argv, on="h1"), **how)


@pytest.fixture
def file(hosts, tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(f"cluster_name: t\nprovider: {{type: local, head_ip: {hosts['h1'].address}, worker_ips: []}}\n"
                    "auth: {ssh_user: root}\n")
    return path


@pytest.fixture
def client(hvdray_at_launcher):
    names = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "HVDRAY_"))}
    hvdray_at_launcher.environment = {**names, "RAY_AUTH_TOKEN": TOKEN}
    return hvdray_at_launcher


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


COMMANDS = [("status", "{}"), ("status", "--cluster", "{}"), ("jobs", "--cluster", "{}"), ("slots", "--cluster", "{}"),
            ("run", "--cluster", "{}", "-np", "1", "true")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: "_".join(words[:2]))
def test_the_address_in_a_cluster_file_gets_no_token_before_ssh_knows_the_head(client, on_head, file, command):
    head = on_head()
    result = client.run(*(word.format(file) for word in command))
    told = head.requests()
    assert told and all(TOKEN not in headers for peer, _, _, headers, _ in told if peer != "127.0.0.1"), told
    assert any(TOKEN in headers for peer, _, _, headers, _ in told if peer == "127.0.0.1"), result.errors
    assert TOKEN not in result.errors + result.text


def test_without_ssh_to_the_head_nobody_gets_the_token(client, on_head, file):
    head = on_head()
    file.write_text(file.read_text().replace("ssh_user: root", "ssh_user: stranger"))
    for command in COMMANDS[1:]:
        result = client.run(*(word.format(file) for word in command))
        assert result.code != 0, result.errors
        assert all(TOKEN not in headers for _, _, _, headers, _ in head.requests()), command


def test_an_address_in_the_files_run_section_gets_no_token_and_a_flags_does(client, on_head, file, hosts):
    head = on_head()
    url = f"http://{hosts['h1'].address}:8265"
    file.write_text(file.read_text() + f"hvdray:\n  run: {{ray_address: '{url}'}}\n")
    result = client.run("run", "--cluster", file, "-np", "1", "true")
    assert result.code == 2 and "clear text" in result.errors, result.errors
    assert all(TOKEN not in headers for _, _, _, headers, _ in head.requests())
    assert client.run("jobs", "--ray-address", url).code == 0
    assert any(TOKEN in headers for _, _, _, headers, _ in head.requests())


@pytest.mark.parametrize("command", [("status",), ("jobs",), ("slots",), ("run", "-np", "1", "true"),
                                     ("stop", "--ray", "x"), ("follow", "x"), ("logs", "x")], ids=lambda words: words[0])
def test_another_users_port_gets_no_token(hvdray, dashboard, command, tmp_path):
    other = dashboard(free_port(), NOBODY)
    url = f"127.0.0.1:{other.port}"
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_AUTH_TOKEN": TOKEN,
                   "RAY_ADDRESS": f"http://{url}"}
    for named in ([], ["--ray-address", f"http://{url}"], ["--ray-address", f"http://localhost:{other.port}"]):
        words = [*named] if named else (["--ray"] if command[0] not in ("stop", "follow", "logs") else [])
        result = hvdray.run(command[0], *words, *command[1:], env=environment)
        assert result.code == 2 and "another user (uid 65534)" in result.errors, result.errors
    assert other.requests() == []
    ours = dashboard(free_port())
    hvdray.run(command[0], "--ray-address", f"http://127.0.0.1:{ours.port}", *command[1:], env=environment)
    assert TOKEN in ours.requests()[0][3]


def test_another_users_port_gets_no_package_and_who_trusts_it_says_so(hvdray, dashboard, tmp_path):
    port = free_port()
    other = dashboard(port, NOBODY, token="")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    assert hvdray.run("jobs", "--ray-address", f"http://127.0.0.1:{port}", env=environment).code == 0
    result = hvdray.go("--ray-address", f"http://127.0.0.1:{port}", "-np", "1", "true", env=environment)
    assert result.code == 2 and "no token and no package" in result.errors, result.errors
    assert {method for _, method, *_ in other.requests()} == {"GET"}
    environment["RAY_AUTH_TOKEN"] = TOKEN
    assert hvdray.run("jobs", "--ray-address", f"http://127.0.0.1:{port}", env=environment).code == 2
    assert all(TOKEN not in headers for *_, headers, _ in other.requests())
    assert hvdray.run("jobs", "--ray-address", f"http://127.0.0.1:{port}", "--no-peer-check",
                      env=environment).code == 0
    assert TOKEN in other.requests()[-1][3]


def test_another_users_port_at_the_end_of_the_tunnel_gets_nothing(client, on_head, file):
    head = on_head(uid=NOBODY)
    for command in COMMANDS[:4]:
        result = client.run(*(word.format(file) for word in command))
        assert result.code != 0 and "another user there (uid 65534)" in result.errors, result.errors
    assert all(TOKEN not in headers for _, _, _, headers, _ in head.requests())
    assert client.run("jobs", "--cluster", file, "--no-peer-check").code == 0
    assert TOKEN in head.requests()[-1][3]


def listeners(hosts):
    """The ports at which the launcher listens."""
    lines = hosts.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], check=True).stdout.splitlines()
    return [int(words[1].rsplit(":", 1)[1], 16) for words in map(str.split, lines)
            if len(words) > 7 and words[3] == "0A"]


def test_a_tunnel_opens_no_port_and_leaves_no_name(client, on_head, file, hosts):
    head = on_head()
    before = listeners(hosts)
    job = client.start("monitor", file, "--json")
    found = job.wait_for(lambda: [line for line in job.processes().values() if "HVDRAY-TUNNEL" in line], what="ssh")
    path = found[0].split(" -L ")[1].split(":")[0]
    assert path.startswith("/")
    job.wait_for(lambda: any(TOKEN in headers for _, _, _, headers, _ in head.requests()), what="a request")
    assert listeners(hosts) == before
    job.kill()
    job.wait()
    assert not os.path.exists(os.path.dirname(path)), "though it was killed"


def test_the_forwarded_dashboard_is_for_this_user_only(client, on_head, file, hosts):
    head = on_head(token="")
    job = client.start("dashboard", file, "-p", "9265")
    assert job.process.stdout.readline() == b"http://127.0.0.1:9265\n", job.wait().errors
    ask = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9265/as-{}').status)"
    assert hosts.run([sys.executable, "-c", ask.format("root")]).stdout == "200\n"
    refused = hosts.run([sys.executable, "-c", "import os; os.setuid(65534); " + ask.format("nobody")])
    assert refused.returncode != 0
    paths = [path for _, _, path, _, _ in head.requests()]
    assert "/as-root" in paths and "/as-nobody" not in paths
    job.process.send_signal(signal.SIGINT)
    assert job.wait().code == 130
