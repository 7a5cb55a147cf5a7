#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include that points up or sideways between the rooms (tools/rooms.py), on an arrow that
nothing uses, on a circle of files (a .cc counts with its .h), and on a third-party header outside its adapter."""

import collections
import graphlib
import sys

from rooms import ARROWS, INCLUDE, ROOT, arrows, sources

# Training programs link collective alone, so it may use only these headers of base.
COLLECTIVE_BASE = {"status.h", "result.h", "types.h", "error_code.h", "environ.h", "fd.h", "file.h",
                   "log.h",
                   "http_client.h", "passed_descriptors.h", "secrets_equal.h", "signals.h", "text.h"}

# Header prefix -> files that may include it.
THIRD_PARTY = {
    "event2/": {"base/loop.cc", "bench/evhttp_baseline.cc"},
    "nlohmann/": {"base/json.h", "examples/serve/client.cc"},
    "yaml-cpp/": {"base/yaml.cc"},
    "httplib.h": {"base/http_client.cc", "base/web_client.cc"},
    "pugixml.hpp": {"base/xml.cc"},
    "zip.h": {"base/zip.cc"},
    "openssl/": {"base/digest.cc", "base/tls_stream.cc"},
    "libssh2": {"cluster/ssh/ssh_session.cc"},
    "curl/": {"base/curl_client.cc"},
    "gloo/": {"collective/mesh.cc", "bench/collective_load.cc"},
    "nccl.h": {"collective/nccl_communicator.cc"},
}
CLI11_ROOMS = ("cmd/", "bench/", "examples/", "tools/")
EXAMPLES = ("collective/", "base/", "digits/")


def wrong_arrows():
    order = list(ARROWS)
    for room, below in ARROWS.items():
        for target in below:
            if order.index(target) >= order.index(room):
                yield f"tools/rooms.py: {room} -> {target} points up"
    found = arrows()
    for (room, target), uses in found.items():
        if target not in ARROWS[room]:
            yield from (f"{name}: {room} may not include {header}" for name, header in uses)
        if (room, target) == ("collective", "base"):
            yield from (f"{name}: collective uses base core and the HTTP client only, not {header}"
                        for name, header in uses if header[5:] not in COLLECTIVE_BASE)
    for room, below in ARROWS.items():
        yield from (f"tools/rooms.py: nothing uses {room} -> {target}"
                    for target in below if (room, target) not in found)


def circles():
    below = collections.defaultdict(set)
    for path, name in sources():
        unit = name.rpartition(".")[0]
        below[unit] |= {header.rpartition(".")[0] for bracket, header in INCLUDE.findall(path.read_text())
                        if bracket == '"'}
        below[unit].discard(unit)
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as error:
        yield "files that include each other: " + " -> ".join(reversed(error.args[1]))


def wrong_headers():
    for top in sorted({room.split("/")[0] for room in ARROWS} | {"bench", "examples", "tests"}):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            name = path.relative_to(ROOT).as_posix()
            for bracket, header in INCLUDE.findall(path.read_text()):
                for prefix, allowed in THIRD_PARTY.items():
                    if header.startswith(prefix) and name not in allowed and top != "tests":
                        yield f"{name}: {header} belongs in {', '.join(sorted(allowed))} only"
                if header.startswith("CLI/") and not name.startswith(CLI11_ROOMS):
                    yield f"{name}: CLI11 belongs in cmd only"
                if top == "examples" and bracket == '"' and not header.startswith(EXAMPLES):
                    yield f"{name}: examples may not include {header}"


def main():
    found = [*wrong_arrows(), *circles(), *wrong_headers()]
    print("\n".join(found) if found else "includes point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
