# SPDX-License-Identifier: Apache-2.0
"""Slots become lanes: which slots each of the trials that run side by side has."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Optional

from .._binary import find_binary
from .._launcher import _options_text, _refusal_of
from ._errors import SpecError, TuneError
from ._spec import Search

Hosts = list[tuple[str, int]]  # slots by host
MAX_LANES = 64
_NO_NUMBER = "the number of workers is not given"  # hvdray run, where no option, file or batch system has hosts


def lanes_of(search: Search) -> list[str]:
    """For each lane, its `hosts` option. Raises HvdrayError."""
    slots = _slots(search)
    if slots is None:  # this machine
        slots = [("localhost", search.np * (search.max_concurrent or max(cpus() // search.np, 1)))]
    lanes = partition(slots, search.np, search.num_hosts)
    if not lanes:
        there = ", ".join(f"{host}:{count}" for host, count in slots)
        shape = f"{search.np} slots" + (f" on {search.num_hosts} hosts" if search.num_hosts else "")
        raise SpecError(f"a trial needs {shape}, and there are {there}", hint="change run: in the file of the search",
                        path=("run",))
    count = min(search.max_concurrent or MAX_LANES, search.trials, len(lanes))
    return [",".join(f"{host}:{slots}" for host, slots in lane) for lane in lanes[:count]]


def partition(slots: Hosts, np: int, num_hosts: Optional[int]) -> list[Hosts]:
    """As many lanes as fit. Without `num_hosts` one is on one host if that has room, else on what is left over."""
    if num_hosts is not None:
        each = np // num_hosts
        room = {host: count // each for host, count in slots}
        lanes = []
        while sum(count > 0 for count in room.values()) >= num_hosts:
            chosen = sorted(room, key=lambda host: -room[host])[:num_hosts]  # stable: as the hosts are written
            for host in chosen:
                room[host] -= 1
            lanes.append([(host, each) for host in room if host in chosen])
        return lanes
    lanes = [[(host, np)] for host, count in slots for _ in range(count // np)]
    lane: Hosts = []
    for host, left in ((host, count % np) for host, count in slots):
        while left:
            taken = min(left, np - sum(count for _, count in lane))
            lane.append((host, taken))
            left -= taken
            if sum(count for _, count in lane) == np:
                lanes.append(lane)
                lane = []
    return lanes


def cpus() -> int:
    """Of this machine, as `hvdray run` counts them: no more than a container's quota leaves."""
    words = [find_binary(), "check", "-H", "localhost:1", "--json"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        return int(json.loads(done.stdout)["hosts"][0]["cpus"]) or 1
    except (ValueError, LookupError):
        return len(os.sched_getaffinity(0))


def _slots(search: Search) -> Optional[Hosts]:
    """As `hvdray run` would have them: of options, files or a batch system. None: they are not given."""
    binary = find_binary()
    text = _options_text(search.run)
    read, write = os.pipe()
    with open(write, "wb") as pipe:
        try:
            pipe.write(text)  # less than a pipe holds, as the file of a search is
        finally:
            pipe.close()
    try:
        words = [binary, "run", "-f", f"/dev/fd/{read}", "--dry-run", "--print-plan=json", "--", "true"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, pass_fds=[read], check=False)
    except OSError as error:
        raise TuneError(f"can't start {binary}: {error.strerror}") from None
    finally:
        os.close(read)
    if done.returncode == 0:
        return [(host["host"], host["workers"]) for host in json.loads(done.stdout)["hosts"]]
    if _NO_NUMBER in done.stderr:
        return None
    refusal = _refusal_of(done.stderr.strip().replace("hvdray run: ", "", 1), text, {})
    found = re.match(r"options(?:\['(\w+)'\])?: (?=unknown key '(\w+)'|)", refusal.message)
    key = (found[1] or found[2] or "") if found is not None else ""
    message = refusal.message[found.end() if found is not None else 0 :]
    what = "run." if key and message.startswith(key) else "run: "
    raise SpecError(what + message, code=refusal.code, hint=refusal.hint, path=("run", key))


def without_slots(options: dict[str, Any]) -> dict[str, Any]:
    """What is left of the options of a trial once its lane has slots."""
    return {name: value for name, value in options.items() if name not in ("hosts", "hostfile", "slots_per_host")}
