#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include that points up or sideways between the rooms (tools/rooms.py), on an arrow that
nothing uses, on a circle of files (a .cc counts with its .h) or of Python's modules, and on a third-party header outside its
adapter. An import inside a function counts, unless a comment on its line, or above it, says why it is there."""

import ast
import collections
import graphlib
import re
import sys

from rooms import ARROWS, INCLUDE, ROOT, arrows, sources

# Training programs link collective alone, so it may use only these headers of base.
COLLECTIVE_BASE = {"status.h", "result.h", "types.h", "error_code.h", "environ.h", "fd.h", "file.h",
                   "log.h",
                   "http_client.h", "name_service.h", "passed_descriptors.h", "secrets_equal.h", "signals.h", "text.h"}

# Header prefix -> files that may include it.
THIRD_PARTY = {
    "event2/": {"base/loop.cc", "bench/evhttp_baseline.cc"},
    "nlohmann/": {"base/json.h", "examples/serve/client.cc"},
    "yaml-cpp/": {"base/yaml.cc"},
    "httplib.h": {"base/http_client.cc"},
    "pugixml.hpp": {"base/xml.cc"},
    "zip.h": {"base/zip.cc"},
    "openssl/": {"base/digest.cc", "base/http_tls.cc", "base/tls_stream.cc"},
    "libssh2": {"cluster/ssh/ssh_session.cc"},
    "gloo/": {"collective/mesh.cc", "bench/collective_load.cc"},
    "nccl.h": {"collective/nccl_communicator.cc"},
}
WHY = re.compile("# (?!type:)")
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


def python_modules():
    """By name: its path."""
    for path in (ROOT / "python").glob("hvdray/**/*.py"):
        yield ".".join(path.relative_to(ROOT / "python").with_suffix("").parts).removesuffix(".__init__"), path


def imported(module, path):
    """Names of modules, and of what may be one. What only a type checker reads is left out."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    lines = path.read_text().splitlines()
    pending = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        pending += ast.iter_child_nodes(node)
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        if node.col_offset and (WHY.search(lines[node.lineno - 1]) or WHY.match(lines[node.lineno - 2].lstrip())):
            continue
        base = getattr(node, "module", None) or ""
        if getattr(node, "level", 0):
            base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base])])
        yield from (f"{base}.{name.name}".lstrip(".") for name in node.names)
        yield base


def wrong_circles():
    known = dict(python_modules())
    below = {module: {name for name in imported(module, path) if name in known and not module.startswith(f"{name}.")} - {module}
             for module, path in known.items()}
    yield from circle_in(below, "Python's modules import each other")
    below = collections.defaultdict(set)
    for path, name in sources():
        unit = name.rpartition(".")[0]
        below[unit] |= {header.rpartition(".")[0] for bracket, header in INCLUDE.findall(path.read_text())
                        if bracket == '"'}
        below[unit].discard(unit)
    yield from circle_in(below, "files include each other")


def circle_in(below, what):
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as error:
        yield f"{what}: " + " -> ".join(reversed(error.args[1]))


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
                if top == "examples" and bracket == '"' and not header.startswith(EXAMPLES):
                    yield f"{name}: examples may not include {header}"


def main():
    found = [*wrong_arrows(), *wrong_circles(), *wrong_headers()]
    print("\n".join(found) if found else "includes point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
