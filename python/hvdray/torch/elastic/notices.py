# SPDX-License-Identifier: Apache-2.0
"""The launcher's news of hosts that come or go, as Horovod's workers take them: a frame has HMAC-SHA256, length, pickle.

Nothing is unpickled but numbers and texts, and that only after the HMAC was right.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import os
import pickle
import secrets
import socket
import socketserver
import struct
import threading
from typing import Any, Optional

from .. import _place

_LONGEST = 1 << 16
_NETWORK = "horovod.runner.common.util.network"
_SERVICE = "worker notification service"

_listeners: list[Any] = []
_lock = threading.Lock()
_server: Optional[socketserver.ThreadingTCPServer] = None


def listen(state: Any) -> None:
    """Tells the state's on_hosts_updated() from now on. Only elastic jobs have news."""
    with _lock:
        _listeners.append(state)
        if _place.is_elastic():
            _start()


def forget(state: Any) -> None:
    with _lock:
        _listeners.remove(state)


def _start() -> None:
    """Once per process, which its slot's place in the job is known by."""
    global _server
    if _server is not None:
        return
    key = secrets.token_bytes(32)
    address = _own_address()
    _server = socketserver.ThreadingTCPServer((address, 0), _Connection)
    _server.daemon_threads = True
    _server.key = key
    threading.Thread(target=_server.serve_forever, name="hvdray notices", daemon=True).start()
    value = pickle.dumps(({"hvdray": [(address, _server.server_address[1])]}, key), 4)
    slot = f"{os.environ['HOROVOD_HOSTNAME']}:{os.environ['HOROVOD_LOCAL_RANK']}"
    _place.ask("PUT", f"worker_addresses/{slot}", base64.b64encode(value))


def _own_address() -> str:
    """The one by which this host reaches the rendezvous, so the launcher reaches it there, too."""
    rendezvous = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(rendezvous)
        return str(probe.getsockname()[0])


class _Connection(socketserver.StreamRequestHandler):
    timeout = 20

    def handle(self) -> None:
        key: bytes = self.server.key
        head = self.rfile.read(36)
        if len(head) < 36:
            return
        (length,) = struct.unpack("=i", head[32:])
        if not 0 < length <= _LONGEST:
            return
        body = self.rfile.read(length)
        if not hmac.compare_digest(head[:32], hmac.new(key, body, hashlib.sha256).digest()):
            return
        answer = self._answer(_Reader(io.BytesIO(body)).load())
        self.wfile.write(hmac.new(key, answer, hashlib.sha256).digest() + struct.pack("=i", len(answer)) + answer)

    def _answer(self, request: Any) -> bytes:
        if isinstance(request, _HostsUpdated):
            with _lock:
                for listener in _listeners:
                    listener.on_hosts_updated(request.timestamp, int(request.res))
            return _pickle_of("AckResponse", {})
        address = self.client_address[0]
        return _pickle_of("PingResponse", {"service_name": _SERVICE, "source_address": address})


class _Ping:
    pass


class _HostsUpdated:
    timestamp: int
    res: int


_CLASSES: dict[tuple[str, str], Any] = {
    (_NETWORK, "PingRequest"): _Ping,
    ("horovod.runner.elastic.worker", "HostsUpdatedRequest"): _HostsUpdated,
    ("horovod.runner.elastic.worker", "HostUpdateResult"): int,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is not expected")
        return _CLASSES[module, name]


def _pickle_of(name: str, fields: dict[str, str]) -> bytes:
    """Of an instance of a class that need not be there: protocol 2, in its opcodes."""
    state = pickle.dumps(fields, 2)[2:-1]  # without PROTO and STOP
    return b"\x80\x02c" + f"{_NETWORK}\n{name}\n".encode() + b")\x81" + state + b"b."
