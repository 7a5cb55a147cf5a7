#!/usr/bin/env python3
"""Fails on an include that points up or sideways between the rooms, or on a third-party header outside
its adapter. The rooms and their arrows: docs/architecture.md."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Room -> rooms that it may include.
ARROWS = {
    "base": {"base"},
    "rendezvous": {"rendezvous", "base"},
    "cluster": {"cluster", "base"},
    "collective": {"collective", "base"},
    "launcher": {"launcher", "rendezvous", "cluster", "base"},
    "cmd": {"cmd", "launcher", "rendezvous", "cluster", "base"},
    "examples": {"examples", "digits", "collective", "base"},
}

# collective links alone: of base only these.
COLLECTIVE_BASE = {"status.h", "result.h", "types.h", "error_code.h", "environ.h", "fd.h", "log.h",
                   "http_client.h"}

# Header prefix -> files that may include it.
THIRD_PARTY = {
    "event2/": {"base/loop.cc", "bench/evhttp_baseline.cc"},
    "nlohmann/": {"base/json.h"},
    "yaml-cpp/": {"base/yaml.cc"},
    "httplib.h": {"base/http_client.cc", "base/web_client.cc"},
    "pugixml.hpp": {"base/xml.cc"},
    "zip.h": {"base/zip.cc"},
    "openssl/": {"base/digest.cc", "base/tls_session.cc"},
    "libssh2": {"cluster/ssh/ssh_session.cc", "cluster/ssh/ssh_session_auth.cc"},
    "curl/": {"base/curl_client.cc"},
    "gloo/": {"collective/gloo_communicator.cc"},
    "nccl.h": {"collective/nccl_communicator.cc"},
}
CLI11_ROOMS = ("cmd/", "bench/", "examples/", "tools/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def problems(path):
    name = path.relative_to(ROOT).as_posix()
    room = name.split("/", 1)[0]
    for bracket, header in INCLUDE.findall(path.read_text()):
        for prefix, allowed in THIRD_PARTY.items():
            if header.startswith(prefix) and name not in allowed and not name.startswith("tests/"):
                yield f"{name}: {header} belongs in {', '.join(sorted(allowed))} only"
        if header.startswith("CLI/") and not name.startswith(CLI11_ROOMS):
            yield f"{name}: CLI11 belongs in cmd only"
        if bracket != '"' or room not in ARROWS:
            continue
        target = header.split("/", 1)[0]
        if target in ARROWS and target not in ARROWS[room]:
            yield f"{name}: {room} may not include {header}"
        if room == "collective" and target == "base" and header[5:] not in COLLECTIVE_BASE:
            yield f"{name}: collective uses base core and the HTTP client only, not {header}"


def main():
    found = []
    for room in list(ARROWS) + ["bench", "tests"]:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".h", ".cc"):
                found += problems(path)
    print("\n".join(found) if found else "includes point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
