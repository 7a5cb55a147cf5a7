# SPDX-License-Identifier: Apache-2.0
"""The bash in which a chapter's commands run, and what it leaves behind."""

import ctypes
import os
import pathlib
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a learner uses of the checkout.
CHECKOUT = ("README.md", "configs", "docs", "examples", "pyproject.toml", "python", "quickstart", "tools")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PR_SET_CHILD_SUBREAPER = 36
# In mounts of its own: what chapters leave in these places is seen, and no other test's is.
# The build may lie in /tmp itself, so it comes first.
START = """
mount --bind "$3" "$2/build/release" && mount --bind "$1/tmp" /tmp &&
mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/netns && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && cd "$2" && exec bash --noprofile --norc
"""
PRIVATE = ("tmp", "run/netns", "dev/shm")
MOST_OUTPUT = 256 << 10  # bytes of one command
SHOWN = 10_000  # bytes of it that a message has
CONTROL = 9  # the descriptor in bash that says a command is over


class ShellError(Exception):
    """A command that did not end, or that ended the shell."""


class ChapterShell:
    """One bash with a copy of the checkout in a folder of its own. Needs root. The process that makes it becomes the parent
    of what its commands leave running, so it can have one at a time."""

    def __init__(self, bin_dir, limit):
        if os.geteuid() != 0:
            raise ShellError("chapters run as root: each has mounts of its own, and some make hosts")
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="hvdray-course-", dir="/var/tmp"))  # /tmp is the chapter's
        self.home = self.base / "a learner"
        self.tree = self.home / "hvdray"
        self.packages = pathlib.Path(bin_dir).resolve().parent / "packages"  # of ctest's fixture `wheel`
        self.code = 0  # of the last command
        self._make_folders()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._output, output = os.pipe()
        self._control, control = os.pipe()
        os.set_blocking(self._output, False)
        os.set_blocking(self._control, False)
        self._others = processes_below(os.getpid())
        try:
            # A caller in the background may ignore signals, and then so would all that a bash starts.
            start = f"exec {CONTROL}>&{control} {control}>&-;{START}"
            self._bash = subprocess.Popen(["env", "--default-signal", "unshare", "--mount", "bash", "-c", start, "bash", self.base, self.tree,
                                           pathlib.Path(bin_dir).resolve().parent],
                                          stdin=subprocess.PIPE, stdout=output, stderr=output, env=self._environment(),
                                          pass_fds=[control], start_new_session=True)
        finally:
            os.close(output)
            os.close(control)
        self.limit = max(limit, 60)
        try:
            self.run("set -m")  # what runs in the background heeds Ctrl-C's signal, as at a terminal
        except ShellError:
            self.close()
            raise
        self.limit = limit

    def _make_folders(self):
        (self.base / "tmp").mkdir()
        (self.base / "tmp").chmod(0o1777)
        self.tree.mkdir(parents=True)
        for name in CHECKOUT:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / name, self.tree / name)
        (self.tree / "build/release").mkdir(parents=True)
        for path in self.packages.glob("hvdray-*.whl"):
            (self.tree / path.name).symlink_to(pathlib.Path("build/release/packages", path.name))

    def _environment(self):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        # pip gets what the wheel needs from the folder that has it, so that no chapter needs an index.
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (self.tree / "build/release/packages").as_uri()}
        return {**pip, "PATH": PATH, "HOME": str(self.home), "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash", "TERM": "dumb",
                "LANG": "C.UTF-8", "XDG_CACHE_HOME": cache}

    def folder(self):
        """Where bash is."""
        return pathlib.Path(os.readlink(f"/proc/{self._bash.pid}/cwd"))

    def run(self, command):
        """Runs a command. Returns what it printed, as lines, and keeps its exit code."""
        script = (f"{{ (exit {self.code}); eval {shlex.quote(command)}; }} </dev/null {CONTROL}>&-\n"
                  f"echo $? >&{CONTROL}\n")
        self._bash.stdin.write(script.encode())
        self._bash.stdin.flush()
        output, answer = bytearray(), bytearray()
        deadline = time.monotonic() + self.limit
        with selectors.DefaultSelector() as selector:
            for descriptor, data in ((self._output, output), (self._control, answer)):
                selector.register(descriptor, selectors.EVENT_READ, data)
            while not answer.endswith(b"\n"):
                left = deadline - time.monotonic()
                events = selector.select(max(0, left))
                if not events or left < 0:
                    raise ShellError(f"did not end within {self.limit:g} s{so_far(output)}")
                for key, _ in events:
                    if not drain(key.fd, key.data) and key.fd == self._control:
                        drain(self._output, output)
                        raise ShellError(f"ended the chapter's bash{so_far(output)}")
                check_size(output)
        drain(self._output, output)
        check_size(output)
        self.code = int(answer)
        return lines_of(output)

    def left(self, within):
        """What the chapter has left, a line each, after waiting for processes that are ending."""
        found = []
        deadline = time.monotonic() + within
        while running := self._running() - {self._bash.pid}:
            if time.monotonic() > deadline:
                found += sorted(f"process {command_line(pid)}, pid {pid}" for pid in running)
                break
            time.sleep(0.05)
        for place in PRIVATE:
            folder = pathlib.Path(f"/proc/{self._bash.pid}/root") / place
            if folder.is_dir():
                kind = "network namespace" if place == "run/netns" else "file"
                found += [f"{kind} /{place}/{path.name}" for path in sorted(folder.iterdir())]
        return found

    def close(self):
        """Ends all that still runs, and removes the folder."""
        while running := self._running():
            for pid in running:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
        self._bash.stdin.close()
        self._bash.wait()
        os.close(self._output)
        os.close(self._control)
        shutil.rmtree(self.base)

    def _running(self):
        """Living processes of the chapter, with bash."""
        running = set()
        for pid in processes_below(os.getpid()) - self._others:
            if state(pid) != "Z":
                running.add(pid)
            elif pid != self._bash.pid:
                try:
                    os.waitpid(pid, os.WNOHANG)  # if it has become our child
                except ChildProcessError:
                    pass
        if self._bash.poll() is not None:
            running.discard(self._bash.pid)
        return running


def drain(descriptor, data):
    """Reads what is there, until it is too much. False at the end of the stream."""
    while len(data) <= MOST_OUTPUT:
        try:
            piece = os.read(descriptor, 65536)
        except BlockingIOError:
            return True
        if not piece:
            return False
        data += piece
    return True


def check_size(output):
    if len(output) > MOST_OUTPUT:
        raise ShellError(f"printed more than {MOST_OUTPUT >> 10} KiB{so_far(output)}")


def lines_of(output):
    text = output.decode(errors="backslashreplace")
    return text.removesuffix("\n").split("\n") if text else []


def so_far(output):
    if not output:
        return " and printed nothing"
    return f"; it had printed:\n{output[:SHOWN].decode(errors='backslashreplace')}" + ("\n…" if len(output) > SHOWN else "")


def stat_fields(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def state(pid):
    fields = stat_fields(pid)
    return fields[0] if fields else "Z"


def command_line(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "?"
    return b" ".join(words).decode(errors="replace").strip()[:200]


def processes_below(pid):
    """The descendants of a process."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_fields(name)):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = set(), [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
