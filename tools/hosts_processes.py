# SPDX-License-Identifier: Apache-2.0
"""Finds processes by network namespace in /proc and kills them by pid. For tools/make_hosts.py."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time


class HostsError(RuntimeError):
    """The hosts can't be made or reached; the text names the attempt."""


PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with(maker):
    """A preexec_fn: kills the process when `maker`, the pid of its parent, dies.

    A sweep finds only processes inside a namespace; one that a killed maker had started might enter
    after the sweep. Children that it forks once inside live on.
    """
    def prepare():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != maker:
            os._exit(1)

    return prepare


def start(argv, **kwargs):
    """A Popen for finish(); it does not outlive this process."""
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, preexec_fn=die_with(os.getpid()), **kwargs)


def call(argv, **kwargs):
    done = subprocess.run(argv, capture_output=True, text=True, check=False,
                          preexec_fn=die_with(os.getpid()), **kwargs)
    if done.returncode != 0:
        raise HostsError(f"{' '.join(map(str, argv))}: exit {done.returncode}: "
                         f"{(done.stderr or done.stdout).strip()}")
    return done.stdout


def finish(started):
    """Waits for processes that run in parallel: [(what, Popen)]. Errors: HostsError naming all failures."""
    failures = []
    for what, process in started:
        out, err = process.communicate()
        if process.returncode != 0:
            said = (err or out or b"").decode().strip()
            failures.append(f"{what}: exit {process.returncode}: {said}")
    if failures:
        raise HostsError("\n".join(failures))


def start_time(pid):
    """Distinguishes a process from a later one with the same pid; None if no process has the pid."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def process_state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def inode(path):
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def pids_inside(netns_paths):
    """Living processes whose network namespace is mounted at one of the paths."""
    wanted = {inode(path) for path in netns_paths} - {None}
    return [int(entry) for entry in os.listdir("/proc")
            if entry.isdigit() and inode(f"/proc/{entry}/ns/net") in wanted
            and process_state(entry) not in "ZX"]


def command_line(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(
            errors="replace").strip()
    return ""


def send(pids, signo):
    for pid in pids:
        if pid > 1 and pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signo)


def looks(within, least=0.005):
    """Yields once for each look that a waiting caller may take, until `within` seconds have passed. Rests between looks,
    `least` seconds or four times as long as the last look took: what is waited for needs the processor more."""
    deadline = time.monotonic() + within
    while True:
        begun = time.monotonic()
        yield
        now = time.monotonic()
        if now > deadline:
            return
        time.sleep(min(max(least, 4 * (now - begun)), 0.5))


def wait_until(predicate, what, within=60.0):
    for _ in looks(within):
        if predicate():
            return
    raise HostsError(f"not within {within} s: {what}")


def kill_all_inside(netns_paths, within=60.0):
    """Returns when no process is left in the namespaces. Errors: HostsError after `within` seconds.

    Two scans in a row must find nothing: a process that forks and exits can slip through one.
    """
    empty_looks = 0
    for _ in looks(within):
        alive = pids_inside(netns_paths)
        send(alive, signal.SIGKILL)
        empty_looks = 0 if alive else empty_looks + 1
        if empty_looks == 2:
            return
    raise HostsError(f"not dead within {within} s: {alive}")
