# SPDX-License-Identifier: Apache-2.0
"""A dashboard that misbehaves on order: raw HTTP on loopback, a thread a connection."""

import json
import socket
import ssl
import threading

VERSION = {"version": "4", "ray_version": "2.60.0", "ray_commit": "b7", "session_name": "session_1"}
NODES = {"result": True, "msg": "", "data": {"result": {"total": 1, "result": [
    {"node_id": "f547dcca0000", "node_ip": "10.0.0.10", "is_head_node": True, "state": "ALIVE",
     "resources_total": {"CPU": 4.0, "GPU": 2.0, "my_res": 3.0}, "labels": {"zone": "a"}}]}}}
STATUS = {"result": True, "data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": {
    "f547dcca0000": {"CPU": [1.0, 4.0], "GPU": [2.0, 2.0], "myRes": [0.5, 3.0]}}}}}}


def answer(status=200, body=b"", kind="application/json", reason="Said", headers=()):
    """The bytes of one whole answer."""
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    lines = [f"HTTP/1.1 {status} {reason}", f"Content-Type: {kind}", f"Content-Length: {len(body)}",
             *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


WELL = {"/api/version": answer(body=VERSION), "/api/v0/nodes": answer(body=NODES),
        "/api/cluster_status": answer(body=STATUS)}


class FaultServer:
    """`answers`: path without query -> bytes, or a function of (connection, request) that does what
    it likes and closes. Requests come as (method, target, {lower-case header: value})."""

    def __init__(self, answers=None, certificate=None):
        self.answers = dict(WELL, **(answers or {}))
        self.requests = []
        self.context = None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self.ending = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.ending.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as lines:
                while self._one(connection, lines):
                    pass
        except OSError:
            pass

    def _one(self, connection, lines):
        words = lines.readline().decode("latin-1").split()
        if len(words) != 3:
            return False
        headers = {}
        while (line := lines.readline().decode("latin-1").strip()):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self.requests.append((words[0], words[1], headers))
        reply = self.answers.get(words[1].partition("?")[0], answer(404, "404: Not Found", "text/plain"))
        if callable(reply):
            reply(connection, self.ending)
            return False
        connection.sendall(reply)
        return True


def silent(_connection, ending):
    ending.wait(60)


def dripping(head, pause=0.02):
    """Sends `head`, then a byte now and then for ever."""

    def drip(connection, ending):
        connection.sendall(head)
        while not ending.wait(pause):
            connection.sendall(b"x")

    return drip


def cut(part):
    """Sends `part` and closes."""
    return lambda connection, _: connection.sendall(part)
