# SPDX-License-Identifier: Apache-2.0
"""`hvdray status --ray` and `hvdray slots --ray` against dashboards that answer well, wrongly, slowly,
or not at all. Each fault is one line with the address, and an exit code that says whose turn it is."""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from fault_server import WELL, FaultServer, answer, cut, dripping, silent

TOKEN = "geheim-0123456789"
TRACEBACK = ('Traceback (most recent call last):\n  File "/ray/x.py", line 3, in f\n    g()\n'
             "RuntimeError: GCS is not there\n")


@pytest.fixture
def serve():
    servers = []

    def start(answers=None, **kwargs):
        servers.append(FaultServer(answers, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def ask(hvdray, tmp_path):
    """Runs a command with nothing of this machine's own Ray in its environment."""

    def run(command, *words, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("RAY_", "HVDRAY_"))}
        environment.update(HOME=str(tmp_path), **variables)
        return hvdray.run(command, *words, env=environment)

    run.hvdray = hvdray
    return run


def refused(result, code, label, *said):
    """One line of error and at most a hint; nothing on stdout; the token nowhere."""
    assert (result.code, result.text) == (code, ""), result.errors
    lines = result.errors.splitlines()
    assert len(lines) <= 2 and lines[0].endswith(f"[{label}]"), result.errors
    assert all(line.startswith("  hint: ") for line in lines[1:]), result.errors
    assert TOKEN not in result.errors
    for words in said:
        assert words in result.errors, result.errors


def test_jobs_are_those_of_hvdray(serve, ask):
    def job(name, status, **more):
        return {"type": "SUBMISSION", "submission_id": name, "status": status, "entrypoint": "x",
                "start_time": 1, "metadata": {"hvdray_job_id": name}, **more}

    server = serve({"/api/jobs/": answer(body=[
        job("hvd-1", "FAILED", end_time=61_001, driver_exit_code=3), job("mine", "RUNNING", metadata={}),
        job("hvd-2", "RUNNING", start_time=2)])})
    page = json.loads(ask("jobs", "--ray-address", server.url, "--json").text)
    assert [(job["id"], job["status"], job["exit_code"]) for job in page["jobs"]] == [
        ("hvd-2", "RUNNING", None), ("hvd-1", "FAILED", 3)]
    result = ask("jobs", "--ray-address", server.url)
    assert (result.code, result.errors) == (0, "")
    assert "exit code 3" in result.text and "took 61 s" in result.text and "mine" not in result.text


def test_status_and_slots_of_a_dashboard_that_is_well(serve, ask):
    server = serve()
    result = ask("status", "--ray-address", server.url)
    assert (result.code, result.errors) == (0, "")
    assert result.text.startswith(
        f"Ray 2.60.0 at {server.url}: 1 node, in use 1/4 CPU, 2/2 GPU, 0.5/3 my_res\n"), result.text
    page = json.loads(ask("slots", "--ray-address", server.url, "--json",
                          "--resources-per-slot", "my_res=1").text)
    assert page["slots"] == 2 and page["hosts"][0]["free"]["my_res"] == 2.5
    page = json.loads(ask("slots", "--ray", "--json", "--use-gpu",
                          HVDRAY_RAY_ADDRESS=server.url, HVDRAY_CPUS_PER_SLOT="0.5").text)
    assert page["slot"] == {"CPU": 0.5, "GPU": 1.0}
    assert (page["slots"], page["hosts"][0]["slots_when_idle"]) == (0, 2)
    page = json.loads(ask("slots", "--ray-address", server.url, "--json",
                          "--label-selector", "zone=!a").text)
    assert page["slots"] == 0


def test_requests_carry_our_name_the_token_and_what_a_proxy_wants(serve, ask):
    server = serve()
    assert ask("status", "--ray", RAY_ADDRESS=server.url, RAY_AUTH_TOKEN=TOKEN,
               RAY_JOB_HEADERS='{"X-Team": "vision"}').code == 0
    assert len(server.requests) == 3
    for _, _, headers in server.requests:
        assert headers["user-agent"].startswith("hvdray/")
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert headers["x-team"] == "vision"
        assert headers["host"] == f"127.0.0.1:{server.port}"
    server.requests.clear()
    assert ask("status", "--ray-address", server.url, "--ray-headers",
               '{"authorization": "Basic abc"}', RAY_AUTH_TOKEN=TOKEN).code == 0
    assert server.requests[0][2]["authorization"] == "Basic abc"
    assert server.requests[0][2]["x-ray-authorization"] == f"Bearer {TOKEN}"


def test_a_dashboard_behind_a_path_is_found_there(serve, ask):
    server = serve({"/team/ray" + path: reply for path, reply in WELL.items()})
    assert ask("status", "--ray-address", server.url + "/team/ray/").code == 0
    assert all(target.startswith("/team/ray/api/") for _, target, _ in server.requests)


@pytest.mark.parametrize("token", ["", TOKEN], ids=["no_token", "token"])
@pytest.mark.parametrize("status, said", [
    (401, "Unauthorized: Missing authentication token"),
    (403, "Forbidden: Invalid authentication token"),
])
def test_who_is_not_let_in_learns_where_a_token_comes_from(serve, ask, status, said, token):
    server = serve({"/api/version": answer(status, f"{said}, not {TOKEN}" if token else said, "text/plain")})
    result = ask("status", "--ray-address", server.url, **({"RAY_AUTH_TOKEN": token} if token else {}))
    refused(result, 2, "HVD-E0217", server.url, said, "~/.ray/auth_token",
            "rejects the token of RAY_AUTH_TOKEN" if token else "requires a token")


# What is answered to the question for the version, and to the second one: was it Ray at all?
@pytest.mark.parametrize("reply, first, later, said", [
    (answer(500, TRACEBACK, "text/plain"), (125, "HVD-E0218"), (125, "HVD-E0218"),
     "RuntimeError: GCS is not there"),
    (answer(500), (125, "HVD-E0218"), (125, "HVD-E0218"), "answers 500"),
    (answer(502, "<html>Bad Gateway</html>", "text/html"), (2, "HVD-E0216"), (2, "HVD-E0216"), "502"),
    (answer(200, "garbage"), (2, "HVD-E0216"), (125, "HVD-E0218"), "the answer is not Ray's"),
    (answer(200, "[]"), (2, "HVD-E0216"), (125, "HVD-E0218"), "the answer is not Ray's"),
    (answer(200, b"\xff\x00\x80" * 1000, "application/octet-stream"), (2, "HVD-E0216"),
     (125, "HVD-E0218"), "the answer is not Ray's"),
    (answer(200, "<!DOCTYPE html><title>Log in", "text/html"), (2, "HVD-E0216"),
     (125, "HVD-E0218"), "a web page"),
    (answer(302, headers=["Location: https://login.example.com/?ticket=7"]), (2, "HVD-E0216"),
     (2, "HVD-E0216"), "redirects to https://login.example.com/ "),
    (answer(404, "404: Not Found", "text/plain"), (2, "HVD-E0216"), (125, "HVD-E0218"), "404"),
    (cut(b""), (2, "HVD-E0216"), (125, "HVD-E0218"), "closed"),
    (cut(b"SSH-2.0-OpenSSH_9.2\r\n"), (2, "HVD-E0216"), (125, "HVD-E0218"), "closed"),
    (cut(b"\x00\x00\x18\x04\x00\x00\x00\x00\x00"), (2, "HVD-E0216"), (125, "HVD-E0218"), "closed"),
    (cut(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"version\""), (2, "HVD-E0216"),
     (125, "HVD-E0218"), "closed in the middle of the answer"),
    (cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"ver\r\n"), (2, "HVD-E0216"),
     (125, "HVD-E0218"), "closed in the middle of the answer"),
], ids=["traceback", "bare_500", "gateway", "garbage", "other_json", "bytes", "page", "redirect",
        "not_found", "closed", "ssh", "grpc", "cut", "cut_chunk"])
def test_each_fault_is_one_line(serve, ask, reply, first, later, said):
    server = serve({"/api/version": reply})
    refused(ask("status", "--ray-address", server.url), *first, server.url, said)
    server = serve({"/api/v0/nodes": reply})
    refused(ask("slots", "--ray-address", server.url), *later, server.url, said)


@pytest.mark.parametrize("reply", [
    silent,
    dripping(b"HTTP/1.1 200 OK\r\nX-Header: "),
    dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
    dripping(b"HTTP/1.1 200 OK\r\n\r\n"),
], ids=["silent", "drips_header", "drips_body", "drips_without_end"])
def test_a_slow_dashboard_costs_no_more_than_the_limit(serve, ask, reply):
    server = serve({"/api/cluster_status": reply})
    began = time.monotonic()
    refused(ask("status", "--ray-address", server.url, "--timeout", "3s"), 125, "HVD-E0218",
            server.url, "query resource usage: no complete answer within 3 s")
    assert time.monotonic() - began < 30


def test_an_answer_without_end_is_given_up(serve, ask):
    def flood(connection, ending):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not ending.is_set():
            connection.sendall(b"x" * 65536)

    server = serve({"/api/version": flood})
    refused(ask("status", "--ray-address", server.url), 2, "HVD-E0216", "answer larger than 67108864 bytes")


def test_nobody_there_is_exit_2(ask):
    refused(ask("status", "--ray-address", "http://127.0.0.1:1"), 2, "HVD-E0216",
            "no Ray dashboard answers at http://127.0.0.1:1: connection refused", "8265")
    refused(ask("slots", "--ray-address", "http://no-such-host.invalid"), 2, "HVD-E0216",
            "no address for the name no-such-host.invalid")


@pytest.mark.parametrize("words, variables, said", [
    ((), {}, "no cluster given"),
    (("--ray-address", "10.0.0.10:6379"), {}, "write http://10.0.0.10:8265"),
    (("--ray-address", "ray://head:10001"), {}, "write http://head:8265"),
    (("--ray",), {"HVDRAY_RAY_ADDRESS": "auto"}, "env HVDRAY_RAY_ADDRESS: "),
    (("--ray", "--ray-headers", "{"), {}, "--ray-headers"),
    (("--ray", "--timeout", "0"), {}, "--timeout"),
    (("--ray", "extra", "extra"), {}, "extra"),
    (("--ray",), {"RAY_AUTH_TOKEN_PATH": "/nowhere/token"}, "RAY_AUTH_TOKEN_PATH: /nowhere/token"),
    (("--ray",), {"RAY_AUTH_TOKEN": "two words"}, "RAY_AUTH_TOKEN: not a Ray token"),
], ids=["which", "gcs", "client", "auto", "headers", "timeout", "extra", "token_file", "token"])
def test_what_is_wrong_here_is_exit_2_and_asks_nobody(ask, words, variables, said):
    for command in ("status", "slots"):
        result = ask(command, *words, **variables)
        assert (result.code, result.text) == (2, ""), result.errors
        assert said in result.errors and "two words" not in result.errors, result.errors


def test_inside_a_node_rays_own_variable_names_the_host(ask):
    result = ask("status", "--ray", "--timeout", "2s", RAY_ADDRESS="127.0.0.1:6379")
    assert "RAY_ADDRESS=127.0.0.1:6379 is a GCS address: asking the dashboard at " \
           "http://127.0.0.1:8265" in result.errors


@pytest.mark.parametrize("words, said", [
    (("--cpus-per-slot", "0"), "a slot has no resources"),
    (("--resources-per-slot", "my_res"), "--resources-per-slot must be NAME=AMOUNT"),
    (("--resources-per-slot", "my_res=-1"), "must be from 0 to"),
    (("--gpus-per-slot", "1"), "--gpus-per-slot has no effect without --use-gpu"),
    (("--use-gpu", "--gpus-per-slot", "0.5"), "must be a whole number of at least 1"),
    (("--label-selector", "zone"), "must be NAME=VALUE"),
    (("--gpus-per-slot", "-1"), "--gpus-per-slot"),
])
def test_a_slot_of_nothing_is_exit_2(ask, words, said):
    result = ask("slots", "--ray", *words)
    assert (result.code, result.text) == (2, "") and said in result.errors, result.errors


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """name -> (certificate, key): well is for 127.0.0.1, other for another name."""
    if shutil.which("openssl") is None:
        pytest.fail("needs openssl")
    folder = tmp_path_factory.mktemp("certificates")
    made = {}
    for name, subject in (("well", "IP:127.0.0.1"), ("other", "DNS:ray.example.com")):
        made[name] = (folder / f"{name}.pem", folder / f"{name}.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=test", "-addext", f"subjectAltName={subject}",
                        "-out", made[name][0], "-keyout", made[name][1]], check=True, capture_output=True)
    return made


def test_https_is_believed_only_with_a_certificate_that_is_known(serve, ask, certificates, tmp_path):
    server = serve(certificate=certificates["well"])
    refused(ask("status", "--ray-address", server.url), 2, "HVD-E0216",
            "its certificate is not signed by an authority that this host trusts", "--ray-verify FILE")
    for verify in (certificates["well"][0], "false"):
        result = ask("status", "--ray-address", server.url, HVDRAY_RAY_VERIFY=str(verify))
        assert result.code == 0, result.errors
    assert ask("status", "--ray-address", server.url, SSL_CERT_FILE=str(certificates["well"][0])).code == 0
    refused(ask("status", "--ray-address", server.url, SSL_CERT_FILE="/nowhere.pem", SSL_CERT_DIR=""), 2,
            "HVD-E0104", "SSL_CERT_FILE: /nowhere.pem: No such file or directory", "without it, the system's are used")
    bare = 'for place in /etc/ssl /usr/lib/ssl; do mount -t tmpfs none $place; done; exec "$@"'
    refused(ask.hvdray.run("-m", "sh", "-c", bare, "sh", ask.hvdray.binary, "status", "--ray-address", server.url, binary="unshare",
                           env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}),
            2, "HVD-E0216", "this host has no certificates of authorities")
    folder = tmp_path / "authorities"
    folder.mkdir()
    shutil.copy(certificates["well"][0], folder / "ca.pem")
    subprocess.run(["openssl", "rehash", folder], check=True)
    assert ask("status", "--ray-address", server.url, SSL_CERT_FILE="/nowhere.pem", SSL_CERT_DIR=str(folder)).code == 0
    assert ask("status", "--ray-address", server.url, "--ray-verify", folder).code == 0
    other = serve(certificate=certificates["other"])
    refused(ask("status", "--ray-address", other.url, "--ray-verify", certificates["other"][0]), 2,
            "HVD-E0216", "its certificate is for another name")
    refused(ask("status", "--ray-address", server.url, "--ray-verify", certificates["well"][1]), 2,
            "HVD-E0104", "no certificates in PEM form")
    refused(ask("status", "--ray-address", server.url, "--ray-verify", "/nowhere.pem"), 2,
            "HVD-E0104", "/nowhere.pem")


class Proxy:
    """Every tunnel that it is asked for leads to `port` here."""

    def __init__(self, port, answer=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.asked, self.answer, self.port = [], answer, port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://me:pass%20word@127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.asked.append(head.decode())
            client.sendall(self.answer)
            if b" 200 " not in self.answer:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.port))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_an_https_dashboard_is_reached_through_the_proxy_that_the_environment_names(
        serve, ask, certificates):
    server = serve(certificate=certificates["other"])
    words = ("status", "--ray-address", f"https://ray.example.com:{server.port}", "--ray-verify",
             certificates["other"][0])
    proxy = Proxy(server.port)
    result = ask(*words, HTTPS_PROXY=proxy.url)
    assert result.code == 0, result.errors
    assert proxy.asked[0].startswith(f"CONNECT ray.example.com:{server.port} HTTP/1.1\r\n")
    login = base64.b64encode(b"me:pass word").decode()
    assert f"Proxy-Authorization: Basic {login}" in proxy.asked[0]
    closed = Proxy(server.port, b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                                b"Content-Length: 0\r\n\r\n")
    result = ask(*words, HTTPS_PROXY=closed.url)
    assert result.code == 2 and "407" in result.errors, result.errors
    assert "pass" not in result.errors
    assert ask(*words, HTTPS_PROXY=proxy.url, no_proxy="example.com").code == 2
    for each in proxy, closed:
        each.listener.close()


def test_https_to_a_server_without_tls_says_so(serve, ask):
    server = serve()
    for _ in range(4):  # it reads a line first, and a greeting of TLS ends one by chance only
        refused(ask("status", "--timeout", "2s", "--ray-address",
                    server.url.replace("http:", "https:")), 2, "HVD-E0216", "does not speak TLS",
                "http:// only")


def test_help_names_the_options_of_run(ask):
    for command in ("status", "slots"):
        page = ask(command, "--help")
        assert page.code == 0 and page.errors == ""
        for option in ("--ray-address", "--ray-verify", "--ray-headers", "--json"):
            assert re.search(rf"^\s+{option}\b", page.text, re.M), page.text
