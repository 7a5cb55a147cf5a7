# SPDX-License-Identifier: Apache-2.0
"""Which process it was that wrote something down, and whether it lives: its number alone comes again."""

from __future__ import annotations

import os
import time
from typing import Any, Optional

STALE_S = 120.0  # without a sign of life, a process on another machine is dead


def start_of(pid: int) -> Optional[str]:
    """When the process began. None: there is none, or it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def sign_of_life() -> dict[str, Any]:
    """Of this process, for is_living()."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    pid = os.getpid()
    return {"boot": boot, "space": os.readlink("/proc/self/ns/pid"), "pid": pid, "start": start_of(pid), "alive": time.time()}


def is_living(told: Optional[dict[str, Any]], mine: dict[str, Any]) -> bool:
    """`told`, `mine`: signs of life, of that process and of this one."""
    if told is None:
        return False
    if (told["boot"], told["space"]) == (mine["boot"], mine["space"]):
        return bool(start_of(told["pid"]) == told["start"])
    return bool(time.time() - told["alive"] < STALE_S)
