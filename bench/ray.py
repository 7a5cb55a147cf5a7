# SPDX-License-Identifier: Apache-2.0
"""Jobs on a real Ray cluster in network namespaces, made and removed here (needs root): hvdray, whose
client has no Ray, against Ray's own tools. The tables name each peer by its command."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

from harness import ROOT, Measure, Series, alternate, ended, kill_session, timed

sys.path.insert(0, str(ROOT / "tools"))

from hosts_processes import HostsError  # noqa: E402  pylint: disable=wrong-import-position
from make_ray import RayCluster  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE_S = 180
OUTPUT_MB = 100
SECOND_NODE = "h2"


class Site:
    """A head and one more node with tokens, and the launcher's machine, which has no Ray."""

    def __init__(self, context):
        venv = subprocess.run([ROOT / "tools/ray_env.sh"], capture_output=True, text=True)
        if venv.returncode != 0:
            raise HostsError(venv.stderr.strip().splitlines()[-1])
        self.context, self.venv = context, venv.stdout.strip()
        self.ray = RayCluster(self.venv, workers=1, cpus=4)

    def __enter__(self):
        self.ray.up()
        # Ray's own client must be told to use tokens.
        self.env = self.ray.hosts.environment(
            {**self.ray.client_environment(), "RAY_AUTH_MODE": "token"})
        return self

    def __exit__(self, *_):
        self.ray.down()

    def at_launcher(self, words):
        return self.ray.hosts.command([str(word) for word in words])

    def hvdray(self, options, words):
        return self.at_launcher([self.context.hvdray, "run", "--ray-address", self.ray.url, *options,
                                 "--", *words])

    def ray_job(self, words):
        """Ray's own client, which needs Ray installed at the launcher."""
        return self.at_launcher([f"{self.venv}/bin/ray", "job", "submit", "--address", self.ray.url,
                                 "--log-style", "record", "--log-color", "false", "--", *words])

    def timed(self, command):
        return timed(command, PATIENCE_S, env=self.env)

    def first_byte(self, command, wanted):
        """Seconds from the command to `wanted` on its stdout; None if it fails."""
        began = time.monotonic()
        process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        seen, at = b"", None
        try:
            while chunk := os.read(process.stdout.fileno(), 65536):
                seen = (seen + chunk)[-4096:]
                if at is None and wanted in seen:
                    at = time.monotonic() - began
            return at if process.wait() == 0 else None
        finally:
            kill_session(process.pid)
            process.stdout.close()

    def first_line_of_bare_job(self):
        """Seconds from the POST to the first line of output, read by Ray's quickest method."""
        began = time.monotonic()
        job = self.ray.submit("echo first-$((1))")  # the log contains the command too
        deadline = began + PATIENCE_S
        node = None
        while time.monotonic() < deadline:
            node = node or self.ray.call("GET", f"/api/jobs/{job}")["driver_node_id"]
            if node:
                status, text = self.ray.request(
                    "GET", f"/api/v0/logs/file?node_id={node}&filename=job-driver-{job}.log&lines=-1")
                if status == 200 and b"first-1" in text:
                    took = time.monotonic() - began
                    self.ray.wait_for_job(job)
                    return took
            time.sleep(0.02)
        return None


def starts(site):
    on_two = ["--num-hosts", 2, "--num-slots", 2]
    rows = alternate({
        "hvdray": lambda: site.timed(site.hvdray(on_two, ["/bin/true"])),
        "ray job submit -- echo hi": lambda: site.timed(site.ray_job(["echo", "hi"])),
    }, site.context.rounds(5))
    first = alternate({
        "hvdray": lambda: site.first_byte(site.hvdray(on_two, ["echo", "first-line"]), b"first-line"),
        "a bare job over REST": site.first_line_of_bare_job,
    }, site.context.rounds(5))
    return [Measure("ray: 4 × /bin/true on two nodes, command to prompt", "s", rows,
                    "≤ 0.7 × ray job submit"),
            Measure("ray: command to the first line of output, 4 ranks on two nodes", "s", first,
                    "≤ 2 s more than the bare job")]


def output(site):
    megabytes = 8 if site.context.is_quick else OUTPUT_MB
    # Lines of 64 bytes, in ASCII: Ray's viewers break on bytes that are not UTF-8.
    words = ["sh", "-c", f"base64 -w 63 /dev/zero | head -c {megabytes}000000"]

    def bytes_per_second(command):
        began = time.monotonic()
        process = subprocess.Popen(command, env=site.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        total, last = 0, began
        try:
            while True:
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
                chunk = os.read(process.stdout.fileno(), 1 << 20) if ready else b""
                if not chunk:
                    break
                total += len(chunk)
                last = time.monotonic()
            whole = total >= megabytes * 1_000_000
            return total / 1e6 / (last - began) if whole and ended(process, 60) == 0 else None
        finally:
            kill_session(process.pid)
            process.stdout.close()

    rows = alternate({
        "hvdray": lambda: bytes_per_second(site.hvdray(["-np", 1, "--tag-output", "none"], words)),
        "ray job submit": lambda: bytes_per_second(site.ray_job(words)),
    }, site.context.rounds(2), warmup=0)
    return [Measure(f"ray: {megabytes} MB of output from a rank to the client, start included", "MB/s",
                    rows, "≥ 3 × ray job submit")]


def lost(site, break_node):
    """Seconds from the break until the client names the node on its stderr, until client and job have
    ended, and until Ray's own table lists the node as dead."""
    node = site.ray.node_id(SECOND_NODE)
    name = site.ray.address(SECOND_NODE).encode()
    process = subprocess.Popen(
        site.hvdray(["--num-hosts", 2, "--num-slots", 1], ["sh", "-c", "echo up; exec sleep 600"]),
        env=site.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True)
    try:
        seen = b""
        while seen.count(b"up") < 2:
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                return None, None, None
            seen += chunk
        began = time.monotonic()
        break_node()
        named = end = theirs = None
        said = b""
        os.set_blocking(process.stderr.fileno(), False)
        while time.monotonic() - began < PATIENCE_S and None in (named, end, theirs):
            with contextlib.suppress(BlockingIOError):
                said += os.read(process.stderr.fileno(), 65536)
            if named is None and name in said:
                named = time.monotonic() - began
            if end is None and process.poll() is not None:
                end = time.monotonic() - began
            if theirs is None and is_dead(site.ray, node):
                theirs = time.monotonic() - began
            time.sleep(0.02)
        return named, end if process.returncode == 125 else None, theirs
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            if ended(process, 30) is None:
                kill_session(process.pid)
                process.wait()
        process.stdout.close()
        process.stderr.close()


def is_dead(ray, node):
    with contextlib.suppress(OSError, HostsError, ValueError):
        table = ray.call("GET", "/api/v0/nodes?limit=1000")["data"]["result"]["result"]
        return any(entry["node_id"] == node and entry["state"] == "DEAD" for entry in table)
    return False


def losses(site):
    measures = []
    for title, break_node, goal in (
            ("raylet of a node SIGKILLed", lambda: site.ray.kill_raylet(SECOND_NODE), "≤ 1.5 s"),
            ("a node cut off", lambda: site.ray.hosts.cut(SECOND_NODE), "≤ 16 s: 15 s of silence")):
        known = [Series("hvdray"), Series("Ray's own table")]
        end = Series("hvdray")
        for _ in range(site.context.rounds(3)):
            named, ended_at, in_table = lost(site, break_node)
            known[0].values.append(named)
            known[1].values.append(in_table)
            end.values.append(ended_at)
            site.ray.heal(site.ray.nodes)
        measures.append(Measure(f"ray: {title} → the client names it", "s", known, goal))
        measures.append(Measure(f"ray: {title} → the job has ended, and its client", "s", [end]))
    return measures


def on_site(function):
    def measure(context):
        with Site(context) as site:
            return function(site)
    return measure


MEASURES = {"ray.start": on_site(starts), "ray.output": on_site(output),
            "ray.losses": on_site(losses)}
