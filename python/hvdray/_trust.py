# SPDX-License-Identifier: Apache-2.0
"""Which places of the driver's path a worker may import from: a module that another user can put there would run as this one.

As base/path_walk.h: everything on the way belongs to this user or root and others may not write to it, but to sticky
directories; apart from those who can change the driver's own place already, who are told to the worker, and from what
lies below a directory that nobody else can enter.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Sequence

MAX_LINKS = 40  # the kernel's limit
Trustees = Sequence[Any]  # users; groups; whether anybody may write to directories that are not sticky
NOBODY: Trustees = ((), (), False)


def no_link(path: str, flags: int) -> int:
    """The opener of a file to write to: where others may write, one of them may have put a link in its place. Raises OSError."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def machine() -> str:
    """Equal for processes that see the same files: what the driver imports from, its workers here may."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip() + os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""


def trustees_of(path: str) -> Trustees:
    """Who can change what is at `path` here; without this user, whose number may be another's elsewhere."""
    users: set[int] = set()
    groups: set[int] = set()
    is_everybody = False
    place = os.path.realpath(path)
    while True:
        try:
            info = os.stat(place)
        except OSError:
            return NOBODY
        if not _is_ours(info.st_uid):
            users.add(info.st_uid)
        if _is_open_to_group(info):
            groups.add(info.st_gid)
        is_everybody |= info.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH
        if place == os.path.dirname(place):
            return sorted(users), sorted(groups), is_everybody
        place = os.path.dirname(place)


def distrust_of(path: str, trustees: Trustees = NOBODY) -> str:
    """Why nothing is to be imported from there: "another user owns /tmp/x"; "": nothing is wrong. Raises OSError."""
    place, parts, links = "/", _parts(os.path.abspath(path)), 0
    closed = ""  # the last directory on the way that nobody else can enter
    while True:
        info = os.lstat(place)
        is_below = closed and place.startswith(closed + "/")
        fault = _fault(info, (*trustees[:2], True) if is_below else trustees)
        if _may_own(info.st_uid, trustees) and not info.st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            closed = place
        is_sticky = _may_own(info.st_uid, trustees) and info.st_mode & stat.S_ISVTX
        if fault and not (parts and is_sticky):
            return f"{fault} {place}"
        if not parts:
            return ""
        entry = os.path.normpath(os.path.join(place, parts.pop(0)))
        link = os.lstat(entry)
        if not stat.S_ISLNK(link.st_mode):
            place = entry
            continue
        links += 1
        if (fault and not _may_own(link.st_uid, trustees)) or links > MAX_LINKS:
            return f"another user owns the link {entry}"
        target = os.readlink(entry)
        place = "/" if target.startswith("/") else place
        parts[:0] = _parts(target)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


def _fault(info: os.stat_result, trustees: Trustees) -> str:
    if not _may_own(info.st_uid, trustees):
        return "another user owns"
    if trustees[2] and not info.st_mode & stat.S_ISVTX:
        return ""
    is_open = info.st_mode & stat.S_IWOTH or (_is_open_to_group(info) and info.st_gid not in trustees[1])
    return "other users may write to" if is_open else ""


def _may_own(user: int, trustees: Trustees) -> bool:
    return _is_ours(user) or user in trustees[0]


def _is_ours(user: int) -> bool:
    # Who owns "/" could exchange all below it: in a user namespace, root may have another number.
    return user in (os.geteuid(), 0, os.stat("/").st_uid)


def _is_open_to_group(info: os.stat_result) -> bool:
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private(info.st_gid)


def _is_private(group: int) -> bool:
    """Root's group, or this user's own without other members."""
    import grp  # few workers need them
    import pwd

    try:
        entry = grp.getgrgid(group)
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return group == 0  # without names, as in many containers
    return (group == 0 or entry.gr_name == user) and set(entry.gr_mem) <= {user, "root"}
