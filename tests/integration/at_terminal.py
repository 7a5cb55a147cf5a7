# SPDX-License-Identifier: Apache-2.0
"""A command at a pseudo terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Terminal:
    """A command at a real terminal; what it shows and its exit code. `start` gets the arguments of Popen."""

    def __init__(self, start, rows=30, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = start(stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead)
        os.close(slave)
        self.shown = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def wait_for(self, pattern, within=40):
        """The match of the pattern in what was shown since the last one."""
        deadline = time.monotonic() + within
        while True:
            if found := re.search(pattern.encode(), self.shown, re.S):
                self.shown = self.shown[found.end():]
                return found
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            try:
                more = os.read(self.master, 65536) if ready else b""
            except OSError:  # the last process at the terminal has gone
                more = b""
            assert more, f"no {pattern!r} in {self.shown[-3000:]!r}"
            self.shown += more

    def code(self, within=20):
        """The exit code; reads on, or the other side could not write its last words."""
        deadline = time.monotonic() + within
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self.master], [], [], 0.1)[0]:
                    self.shown += os.read(self.master, 65536)
        os.close(self.master)
        return self.process.poll()
