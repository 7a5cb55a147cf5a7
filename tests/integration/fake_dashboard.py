# SPDX-License-Identifier: Apache-2.0
"""A Ray dashboard that is well, with a driver that a test plays: packages, jobs, and the files of a
session's logs directory, as hvdray run --ray meets them."""

import http.server
import io
import json
import struct
import threading
import time
import urllib.parse
import zipfile

from fault_server import NODES, VERSION
from hosts_processes import looks

HEAD = "f547dcca0000"
LIMIT = 100 << 20
IDLE = {"result": True, "data": {"clusterStatus": {
    "loadMetricsReport": {"usageByNode": {HEAD: {"CPU": [0.0, 4.0], "GPU": [0.0, 2.0]}}},
    "autoscalerReport": {"activeNodes": {"node" + "F547dcca" * 7: 1}, "pendingNodes": [],
                         "pendingLaunches": {}, "failedNodes": []}}}}
def v2(node_type=""):
    """With autoscaler v2 as Ray 2.60 has it: no report, and what is in use as text for people."""
    lines = "1.0/4.0 CPU (0.0 used of 2.0 reserved in placement groups)\n0.0/2.0 GPU"
    return {"status": {"result": True, "data": {"clusterStatus": None}},
            "summary": {"data": {"summary": [{"raylet": {"nodeId": HEAD, "nodeTypeName": node_type}}],
                                 "nodeLogicalResources": {HEAD: lines}}}}


def record(kind, data):
    return struct.pack("<BI", kind, len(data)) + data


def places(stream, np, *parts):
    """Whose the bytes of the stream's next record are: (rank, count), nobody's with rank -1."""
    return record(4, struct.pack("<BI", stream, np) + b"".join(
        struct.pack("<iI", rank, count) for rank, count in parts))


def last_record(code, error=None):
    return record(3, json.dumps({"exit_code": code, "error": error}).encode())


class PlayedJob:
    """One job: what the test says of it is what the dashboard answers."""

    def __init__(self, body):
        self.body = body
        self.status, self.message, self.error_type, self.code = "PENDING", "", None, None
        self.node = None
        self.stops = 0
        self.files = {}  # name in the logs directory -> bytes

    @property
    def id(self):
        return self.body["submission_id"]

    def run(self):
        self.node, self.status = HEAD, "RUNNING"

    def write(self, suffix, data):
        name = f"hvdray_{self.id}.{suffix}"
        self.files[name] = self.files.get(name, b"") + data

    def end(self, code, status=None):
        self.write("stream", last_record(code))
        self.code, self.status = code, status or ("FAILED" if code else "SUCCEEDED")

    def answer(self):
        return {"type": "SUBMISSION", "job_id": None, "submission_id": self.id, "driver_info": None,
                "status": self.status, "entrypoint": self.body["entrypoint"],
                "message": self.message, "error_type": self.error_type, "start_time": 1,
                "end_time": None, "metadata": self.body.get("metadata"), "runtime_env": {},
                "driver_agent_http_address": None, "driver_node_id": self.node,
                "driver_exit_code": self.code}


class FakeDashboard:
    """`on_job`: called with each PlayedJob on a thread of its own once it is submitted."""

    def __init__(self, on_job=None, nodes=None, status=None, summary=None, forgets=()):
        self.nodes, self.status = nodes or NODES, status or IDLE
        self.summary = summary or {"data": {"summary": [], "nodeLogicalResources": {}}}
        self.on_job, self.forgets = on_job, set(forgets)
        self.packages, self.jobs, self.requests, self.lost_streams = {}, {}, [], 0
        self.lost_suffix = ""  # of the files whose streams are cut
        self.streamed = []  # names of files, each time one is read along
        self.before_answer = None  # called once a job is there; true: its submission is not answered
        self.ending = threading.Event()
        self.threads = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.handle(self, b"")

            def do_PUT(self):
                outer.handle(self, self.body())

            do_POST = do_PUT

            def body(self):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def say(self, status, body, kind="application/json"):
                if not isinstance(body, bytes):
                    body = json.dumps(body).encode() if not isinstance(body, str) else body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that goes away

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def close(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(10)
        self.server.shutdown()
        self.server.server_close()

    def handle(self, call, body):
        path, _, query = call.path.partition("?")
        self.requests.append((call.command, path))
        words = dict(urllib.parse.parse_qsl(query))
        if path in self.forgets:
            return call.say(404, "404: Not Found", "text/plain")
        if path == "/api/version":
            return call.say(200, VERSION)
        if path == "/api/v0/nodes":
            return call.say(200, self.nodes)
        if path == "/api/cluster_status":
            return call.say(200, self.status)
        if path == "/nodes" and words.get("view") == "summary":
            return call.say(200, self.summary)
        if path == "/api/v0/placement_groups":
            return call.say(200, {"data": {"result": {"result": []}}})
        if path.startswith("/api/packages/gcs/"):
            return self.package(call, urllib.parse.unquote(path[18:]), body)
        if path == "/api/jobs/" and call.command == "POST":
            return self.submit(call, json.loads(body))
        if path == "/api/jobs/":
            return call.say(200, [job.answer() for job in self.jobs.values()])
        if path.startswith("/api/jobs/"):
            return self.job(call, urllib.parse.unquote(path[10:]))
        if path.startswith("/api/v0/logs/"):
            return self.log(call, path[13:], words)
        return call.say(404, "404: Not Found", "text/plain")

    def package(self, call, name, body):
        if call.command == "GET":
            there = name in self.packages
            return call.say(200 if there else 404,
                            {} if there else f"Package gcs://{name} does not exist", "text/plain")
        if len(body) > LIMIT:
            return call.say(413, f"Maximum request body size {LIMIT} exceeded.", "text/plain")
        self.packages[name] = body
        return call.say(200, b"")

    def submit(self, call, body):
        job = PlayedJob(body)
        for uri in [body["runtime_env"]["working_dir"], *body["runtime_env"]["py_modules"]]:
            assert not uri.startswith("gcs://") or uri[6:] in self.packages, uri
        self.jobs[job.id] = job
        if self.before_answer and self.before_answer():
            call.close_connection = True
        else:
            call.say(200, {"job_id": job.id, "submission_id": job.id})
        if self.on_job:
            thread = threading.Thread(target=self.on_job, args=(job,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def job(self, call, name):
        stop = name.endswith("/stop")
        job = self.jobs.get(name.removesuffix("/stop"))
        if job is None:
            return call.say(404, f"Job {name} does not exist", "text/plain")
        if not stop:
            return call.say(200, job.answer())
        job.stops += 1
        return call.say(200, {"stopped": job.status in ("PENDING", "RUNNING")})

    def log(self, call, kind, words):
        name, job = words["filename"], None
        for known in self.jobs.values():
            if name in known.files and words["node_id"] == known.node:
                job = known
        if job is None:
            return call.say(500, "Traceback\nFileNotFoundError: no such file", "text/plain")
        if kind == "file":
            return call.say(200, job.files[name], "text/plain")
        self.streamed.append(name)
        call.send_response(200)
        call.send_header("Content-Type", "text/plain")
        call.send_header("Transfer-Encoding", "chunked")
        call.end_headers()
        sent, lose = 0, self.lost_streams > 0 and name.endswith(self.lost_suffix)
        while not self.ending.is_set():
            data = job.files[name][sent:]
            if lose and data:
                # Half of what there is, and the connection is gone.
                self.lost_streams -= 1
                half = data[:max(1, len(data) // 2)]
                call.wfile.write(b"%x\r\n%s\r\n" % (len(half), half))
                call.wfile.flush()
                call.close_connection = True
                return
            if data:
                call.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                call.wfile.flush()
                sent += len(data)
            time.sleep(0.02)

    def files_of(self, name):
        """Name -> (permission bits, bytes) of a package."""
        with zipfile.ZipFile(io.BytesIO(self.packages[name])) as archive:
            return {entry.filename: (entry.external_attr >> 16 & 0o777, archive.read(entry))
                    for entry in archive.infolist()}

    def job_file(self):
        """hvdray_job/job.json of the only job."""
        (job,) = self.jobs.values()
        return json.loads(self.files_of(f"hvdray_job_{job.id}.zip")["hvdray_job/job.json"][1])


def wait_until(condition, within=60.0):
    for _ in looks(within, least=0.01):
        if condition():
            return
    raise AssertionError("not in time")
