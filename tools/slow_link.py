#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network link with a delay: a TAP device in each of two network namespaces, and frames held in between.

Does the work of netem on kernels built without it; the frames come from the kernel's own TCP.
Usage: slow_link.py DELAY_MS NETNS:DEVICE NETNS:DEVICE
Each way takes DELAY_MS. Returns when both devices exist, and leaves a process in the second
namespace that carries the frames.
"""

import collections
import ctypes
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME_BYTES = 65536
MAX_HELD = 20_000  # frames each way; more are dropped, as a full router does


def enter(path):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as netns:
        if libc.setns(netns.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"enter {path}")


def open_tap(place):
    """The descriptor stays bound to its namespace, whichever one this process enters later."""
    netns, _, device = place.rpartition(":")
    enter(netns)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def read_frames(fd, held, due):
    for _ in range(64):  # at most, so that one direction never starves the other
        try:
            frame = os.read(fd, FRAME_BYTES)
        except OSError:  # no more frames, or the device is down
            return
        if len(held) < MAX_HELD:
            held.append((due, frame))


def write_due(fd, held, now):
    while held and held[0][0] <= now:
        try:
            os.write(fd, held[0][1])
        except OSError:
            pass  # the device is down: the frame is lost, as on a real link
        held.popleft()


def carry(one, other, delay):
    """Never returns. The delay is constant, so frames are due in order of arrival."""
    ways = [(one, other, collections.deque()), (other, one, collections.deque())]
    while True:
        now = time.monotonic()
        dues = [held[0][0] for _, _, held in ways if held]
        timeout = max(0.0, min(dues) - now) if dues else None
        readable, _, _ = select.select([one, other], [], [], timeout)
        now = time.monotonic()
        for source, target, held in ways:
            if source in readable:
                read_frames(source, held, now + delay)
            write_due(target, held, now)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    delay = float(sys.argv[1]) / 1000
    one, other = open_tap(sys.argv[2]), open_tap(sys.argv[3])
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a real link does not wait for a busy processor
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    carry(one, other, delay)


if __name__ == "__main__":
    main()
