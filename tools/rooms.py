# SPDX-License-Identifier: Apache-2.0
"""The rooms of the tree and the arrows between them, read from the includes.

A room may include itself and the rooms that ARROWS names. tools/check_includes.py enforces that,
tools/draw_rooms.py draws it for docs/architecture.md."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Room -> rooms that it may include, from the bottom up, so that no cycle is possible.
ARROWS = {
    "base": (),
    "rendezvous": ("base",),
    "collective": ("base",),
    "collective/bench": ("collective", "base"),
    "cluster": ("base",),
    "cluster/provider": ("cluster", "base"),
    "cluster/ssh": ("cluster", "base"),
    "cluster/ray": ("cluster", "base"),
    "wire": ("rendezvous", "base"),
    "agent": ("wire", "cluster/ray", "rendezvous", "base"),
    "launcher/job": ("wire", "cluster/ray", "rendezvous", "base"),
    "launcher/driver": ("launcher/job", "wire", "base"),
    "launcher/report": ("launcher/driver", "launcher/job", "wire", "rendezvous", "base"),
    "launcher/engine": ("launcher/report", "launcher/driver", "launcher/job", "agent", "wire", "cluster",
                        "rendezvous", "base"),
    "launcher/plan": ("launcher/engine", "launcher/report", "launcher/job", "agent", "cluster/ssh", "cluster/provider",
                      "cluster", "base"),
    "launcher/cluster": ("launcher/plan", "launcher/engine", "launcher/report", "launcher/driver", "launcher/job",
                         "cluster/ssh", "cluster/ray", "cluster/provider", "cluster", "base"),
    "launcher/ray": ("launcher/cluster", "launcher/plan", "launcher/engine", "launcher/report", "launcher/job", "agent",
                     "wire", "cluster/ray", "cluster", "base"),
    "cluster/access": ("launcher/ray", "launcher/cluster", "launcher/plan", "launcher/engine", "launcher/report",
                       "launcher/job", "cluster/ray", "cluster/provider", "cluster", "rendezvous", "base"),
    "cmd": ("cluster/access", "launcher/ray", "launcher/cluster", "launcher/plan", "launcher/engine", "launcher/report",
            "launcher/driver", "launcher/job", "agent", "cluster/ray", "collective/bench", "rendezvous",
            "base"),
}

WHAT_IT_IS = {
    "base": "event loop, errors, library adapters",
    "rendezvous": "key-value store, relay",
    "collective": "collectives for programs",
    "collective/bench": "measures them",
    "cluster": "hosts and how to reach them",
    "cluster/provider": "machines of a cloud",
    "cluster/ssh": "ssh_config, libssh2",
    "cluster/ray": "dashboard, placement groups",
    "wire": "what launcher and agent say",
    "agent": "what runs on a host",
    "launcher/job": "options, hosts, placement",
    "launcher/driver": "decisions, pure",
    "launcher/report": "output, verdict, reports",
    "launcher/engine": "applies decisions",
    "launcher/plan": "where hosts come from, how each is reached",
    "launcher/ray": "jobs on Ray",
    "launcher/cluster": "clusters up and down",
    "cluster/access": "exec, rsync, logs, status of a cluster",
    "cmd": "a file per command",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def room_of(name):
    """The room of a path below the root; None if the path is in no room."""
    parts = name.split("/")
    for room in ("/".join(parts[:2]), parts[0]):
        if room in ARROWS:
            return room
    return None


def sources():
    """Yields (path, its name below the root) for each source and header of the rooms."""
    for top in sorted({room.split("/")[0] for room in ARROWS}):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path, path.relative_to(ROOT).as_posix()


def arrows():
    """The includes between different rooms: {(from, to): [(file, header)]}."""
    found = {}
    for path, name in sources():
        for bracket, header in INCLUDE.findall(path.read_text()):
            room, target = room_of(name), room_of(header)
            if bracket == '"' and target not in (None, room):
                found.setdefault((room, target), []).append((name, header))
    return found
