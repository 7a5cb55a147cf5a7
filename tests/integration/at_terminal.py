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

    def wait_for(self, pattern, within=60):
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

    def code(self, within=60):
        """The exit code; reads on, or the other side could not write its last words."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            is_over = self.process.poll() is not None
            more = b""
            with contextlib.suppress(OSError):
                if select.select([self.master], [], [], 0 if is_over else 0.1)[0]:
                    more = os.read(self.master, 65536)
            self.shown += more
            if is_over and not more:
                break
        os.close(self.master)
        return self.process.poll()


class Screen:
    """What a terminal of this size has on it after some bytes. Knows what hvdray sends, and no other sequence."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines, self.row, self.column = [""], 0, 0  # all lines, those that scrolled away included
        self.wraps = self.has_cursor = True

    def feed(self, shown):
        for part in re.findall(r"\x1b\[\??\d*[A-Za-z]|\x1b.?|[\r\n]|[^\x1b\r\n]+", shown.decode()):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part[0] == "\x1b":
                self.obey(part[2:])
            else:
                self.put(part)
        return self

    def obey(self, order):
        here = self.lines[self.row][:self.column]
        if order.endswith("A"):
            self.row = max(self.row - int(order[:-1] or 1), len(self.lines) - self.rows, 0)
        elif order == "J":
            self.lines[self.row:] = [here]
        elif order == "K":
            self.lines[self.row] = here
        elif order in ("?7l", "?7h"):
            self.wraps = order == "?7h"
        elif order in ("?25l", "?25h"):
            self.has_cursor = order == "?25h"
        else:
            assert order.endswith("m"), f"what is ESC [ {order}?"

    def put(self, text):
        line = self.lines[self.row].ljust(self.column)
        line = line[:self.column] + text + line[self.column + len(text):]
        assert len(line) <= self.columns or self.wraps
        self.lines[self.row], self.column = line, self.column + len(text)
        while self.wraps and len(self.lines[self.row]) > self.columns:
            self.lines[self.row:self.row + 1] = [self.lines[self.row][:self.columns], self.lines[self.row][self.columns:]]
            self.row, self.column = self.row + 1, self.column - self.columns

    @property
    def is_sane(self):
        """A shell can go on here: on a line of its own, the last one, with a cursor and line wrap."""
        at_end = self.row == len(self.lines) - 1 and self.column == 0 and not self.lines[-1]
        return at_end and self.wraps and self.has_cursor
