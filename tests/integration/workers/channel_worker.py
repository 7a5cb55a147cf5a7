# SPDX-License-Identifier: Apache-2.0
"""A worker that answers on its channel, with nothing but the standard library.

What it gets as data it sends back; of an object it tells number, size, hash, and whether it can be changed. A request
{"say": N} makes it send a blob of N bytes, {"print": N} makes it print N lines, {"exit": N} makes it end, {"sleep": true} makes it read no more.
"""

import hashlib
import json
import mmap
import os
import signal
import socket
import sys
import time

channel = socket.socket(fileno=int(os.environ["HVDRAY_CHANNEL_FD"]))
rank = int(os.environ["HVDRAY_RANK"])


def send(blob=b"", **message):
    if blob:
        message["blob"] = len(blob)
    channel.sendall(json.dumps(message).encode() + b"\n" + blob)


def told_of(number, descriptor):
    size = os.fstat(descriptor).st_size
    content = mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) if size else b""
    told = [number, size, hashlib.sha256(content).hexdigest()]
    if size:
        content[0:1] = b"!"  # in this process alone
    try:
        os.pwrite(descriptor, b"!", 0)
        told.append("changed")
    except OSError:
        told.append("sealed")
    return told


def act_on(data, blob):
    if isinstance(data, dict) and "say" in data:
        return send(blob=bytes([rank + 1]) * data["say"], type="data", data=data)
    if isinstance(data, dict) and "print" in data:
        print("\n".join(map(str, range(data["print"]))), flush=True)
    if isinstance(data, dict) and "exit" in data:
        print("ending as told", file=sys.stderr)
        sys.exit(data["exit"])
    if isinstance(data, dict) and "sleep" in data:
        until = time.monotonic() + data["sleep"]
        while time.monotonic() < until:  # short naps: a signal just before one does not cut it short
            time.sleep(0.05)
    if isinstance(data, dict) and "deaf" in data:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send(type="data", data={"rank": rank, "got": data, "bytes": len(blob), "x": os.environ.get("X")})


send(type="hello", protocol=1, client="test", python=sys.version.split()[0])
buffer, descriptors = b"", []
while True:
    piece, more, _, _ = socket.recv_fds(channel, 65536, 16)
    descriptors += more
    if not piece:
        break
    buffer += piece
    while b"\n" in buffer:
        line, rest = buffer.split(b"\n", 1)
        head = json.loads(line)
        if len(rest) < head.get("blob", 0):
            break
        blob, buffer = rest[:head.get("blob", 0)], rest[head.get("blob", 0):]
        if head["type"] == "object":
            send(type="data", data=told_of(head["object"], descriptors.pop(0)))
        elif head["type"] == "end":
            print("told to end within", head["grace_s"], flush=True)
            sys.exit(0)
        else:
            act_on(head.get("data"), blob)
