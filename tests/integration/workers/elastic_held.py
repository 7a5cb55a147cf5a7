# SPDX-License-Identifier: Apache-2.0
"""Connections of a worker's own, which nobody may touch: a listening socket with an echo behind it, an echo
held to every other worker, and one kept open to the rendezvous. What happens to them goes into the log."""

import os
import socket
import threading
import time

from elastic_log import FOLDER, PLAN, log


def listens_on():
    """An address that workers on other hosts reach: that of the interface which Gloo uses."""
    import psutil
    name = os.environ.get("HOROVOD_GLOO_IFACE") or "lo"
    return next(a.address for a in psutil.net_if_addrs()[name] if a.family == socket.AF_INET)


def is_alive(pid):
    """Not one that is just dying: its sockets are closed a little before it is seen to be dead."""
    for _ in range(250):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    return False
        except OSError:
            return False
        time.sleep(0.02)
    return True


class Held:
    def __init__(self):
        self.listener = socket.create_server((listens_on(), 0))
        self.echoes = {}  # pid: socket
        threading.Thread(target=self._accept, daemon=True).start()
        address, port = self.listener.getsockname()
        file = FOLDER / f"{os.getpid()}.echo"
        (FOLDER / f"{file.name}.new").write_text(f"{address} {port}")
        (FOLDER / f"{file.name}.new").rename(file)
        self.rendezvous = None
        if PLAN["hold"] == "all":
            self.rendezvous = socket.create_connection(
                (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                 int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])), timeout=60)

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(peer,), daemon=True).start()

    @staticmethod
    def _echo(peer):
        with peer:
            while data := peer.recv(64):
                peer.sendall(data)

    def ping(self, step):
        """Every connection once; those to workers that live must work for ever."""
        for file in FOLDER.glob("*.echo"):
            pid = int(file.name.removesuffix(".echo"))
            if pid == os.getpid():
                continue
            try:
                if pid not in self.echoes:
                    address, port = file.read_text().split()
                    self.echoes[pid] = socket.create_connection((address, int(port)), timeout=60)
                    log("held", pid_of_peer=pid)
                self.echoes[pid].sendall(b"%d" % step)
                if self.echoes[pid].recv(64) != b"%d" % step:
                    raise ConnectionError("closed")
            except OSError as error:
                self._broken(pid, error)
        if self.rendezvous is not None:
            self._ask_rendezvous()

    def _broken(self, pid, error):
        self.echoes.pop(pid, None)
        # The kernel closes what a killed process holds before it is gone itself.
        deadline = time.monotonic() + 1
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_alive(pid):
            log("broken", what=f"echo of {pid}", why=str(error))

    def _ask_rendezvous(self):
        try:
            self.rendezvous.sendall(b"GET /elastic_held/none HTTP/1.1\r\nHost: x\r\n"
                                    b"Content-Length: 0\r\n\r\n")
            if b"404" not in self.rendezvous.recv(4096):
                raise ConnectionError("no answer")
        except OSError as error:
            log("broken", what="rendezvous", why=str(error))
            self.rendezvous = None

    def close(self):
        """The own listener must still take connections at the end."""
        try:
            with socket.create_connection(self.listener.getsockname(), timeout=60) as own:
                own.sendall(b"last")
                good = own.recv(64) == b"last"
        except OSError as error:
            good = False
            log("broken", what="own listener", why=str(error))
        log("unbroken" if good else "broken", what="own listener", echoes=len(self.echoes))
        (FOLDER / f"{os.getpid()}.echo").unlink()
