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
    "cluster/file": ("base",),
    "cluster/transport": ("base",),
    "cluster/ssh": ("cluster/transport", "base"),
    "cluster/cloud": ("cluster/transport", "cluster/file", "base"),
    "wire": ("rendezvous", "base"),
    "agent": ("wire", "cluster/transport", "rendezvous", "base"),
    "launcher/job": ("wire", "rendezvous", "base"),
    "launcher/driver": ("launcher/job", "wire", "base"),
    "launcher/report": ("launcher/driver", "launcher/job", "wire", "rendezvous", "base"),
    "launcher/engine": ("launcher/report", "launcher/driver", "launcher/job", "agent", "wire", "cluster/transport",
                        "rendezvous", "base"),
    "launcher/plan": ("launcher/engine", "launcher/report", "launcher/job", "agent", "cluster/cloud", "cluster/ssh",
                      "cluster/transport", "cluster/file", "base"),
    "cluster/up": ("launcher/plan", "launcher/engine", "launcher/report", "launcher/driver", "launcher/job",
                   "cluster/cloud", "cluster/ssh", "cluster/transport", "cluster/file", "base"),
    "cluster/ray": ("cluster/up", "launcher/plan", "launcher/engine", "launcher/report", "launcher/job", "agent",
                    "wire", "cluster/transport", "base"),
    "cluster/access": ("cluster/ray", "cluster/up", "launcher/plan", "launcher/engine", "launcher/report",
                       "launcher/job", "cluster/cloud", "cluster/transport", "cluster/file", "rendezvous", "base"),
    "cmd": ("cluster/access", "cluster/ray", "cluster/up", "launcher/plan", "launcher/engine", "launcher/report",
            "launcher/driver", "launcher/job", "agent", "collective/bench", "rendezvous", "base"),
}

WHAT_IT_IS = {
    "base": "event loop, errors, library adapters",
    "rendezvous": "key-value store, relay",
    "collective": "collectives for programs",
    "collective/bench": "measures them",
    "cluster/file": "what a cluster file says",
    "cluster/transport": "local, command, staging",
    "cluster/ssh": "ssh_config, libssh2",
    "cluster/cloud": "machines of a cloud",
    "wire": "what launcher and agent say",
    "agent": "what runs on a host",
    "launcher/job": "options, hosts, placement",
    "launcher/driver": "decisions, pure",
    "launcher/report": "output, verdict, reports",
    "launcher/engine": "applies decisions",
    "launcher/plan": "whose hosts, how reached",
    "cluster/up": "up, down, a node's steps",
    "cluster/ray": "client, broker, jobs on Ray",
    "cluster/access": "exec, rsync, logs, status",
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
