# SPDX-License-Identifier: Apache-2.0
"""The site of remote measurements: hosts from tools/make_hosts.py, and how launchers reach them."""

import os
import select
import subprocess
import sys
import time

from harness import ROOT, timed, which
from launch import environment

sys.path.insert(0, str(ROOT / "tools"))

from make_hosts import Hosts, HostsError  # noqa: E402,F401  pylint: disable=wrong-import-position

# Only one connection per host: the cost of sshd and the cheapest client.
SSH_TO_ALL = 'for h; do ssh -n "$h" true & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'


class Site:
    """`count` hosts with a real sshd each, for the duration of a `with` block. Needs root.

    Commands run at the launcher, where ssh knows all hosts and their keys.
    """

    def __init__(self, context, count):
        self.context = context
        self.hosts = Hosts(count=count)
        self.env = {}

    def __enter__(self):
        self.hosts.up()
        self.env = self.hosts.environment(environment(self.context))
        return self

    def __exit__(self, *_):
        self.hosts.down()

    @property
    def names(self):
        return list(self.hosts.hosts)

    def hvdray(self, slots, words, *options, build="hvdray"):
        return [self.context.builds[build], "run", "-H", self.hosts.host_list(slots), *options, "--",
                *words]

    def commands(self, slots, words):
        """{contender: command line that runs `words` `slots` times on each host}."""
        np = slots * len(self.names)
        found = {name: self.hvdray(slots, words, build=name) for name in self.context.builds}
        if which("mpirun.mpich"):
            found["hydra"] = ["mpirun.mpich", "-launcher", "ssh", "-f",
                              self._host_file("hydra", slots, ":"), "-n", np, *words]
        if which("mpirun.openmpi"):
            found["OpenMPI"] = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent",
                                "ssh", "--hostfile", self._host_file("openmpi", slots, " slots="),
                                "-np", np, *words]
        if self.context.venv:
            found["horovodrun"] = [self.context.venv / "bin/horovodrun", "-np", np, "-H",
                                   self.hosts.host_list(slots), *words]
        return found

    def ssh_to_all(self):
        return ["sh", "-c", SSH_TO_ALL, "sh", *self.names]

    def _host_file(self, kind, slots, separator):
        path = self.hosts.state / f"hosts.{kind}.{slots}"
        path.write_text("".join(f"{name}{separator}{slots}\n" for name in self.names))
        return path

    def timed(self, command, timeout=60, **kwargs):
        """harness.timed at the launcher; then waits until the hosts are quiet again."""
        value = timed(self.hosts.command(command), timeout, env=self.env, **kwargs)
        self.settle()
        return value

    def settle(self):
        """Returns when only the listening sshd runs on each host. Kills the rest after 2 s."""
        self.hosts.leftovers(within=2)
        self.hosts.kill_leftovers()

    def start(self, command):
        return subprocess.Popen([str(word) for word in self.hosts.command(command)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=self.env, start_new_session=True)

    def wait_for(self, process, command_line, count, within):
        """Waits until `count` processes with that command line run on the hosts. False: `process` ended
        or `within` seconds passed."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline and process.poll() is None:
            alive = self.hosts.leftovers(*self.names)
            lines = [line for host in alive.values() for line in host.values()]
            if lines.count(command_line) == count:
                return True
            time.sleep(0.1)
        return False

    def sent_bytes(self):
        """Bytes sent from the launcher so far, including headers."""
        done = self.hosts.run(["cat", "/sys/class/net/eth0/statistics/tx_bytes"], check=True)
        return int(done.stdout)


def seconds_until_dead(pids, limit):
    """Returns (seconds until the last of them died or the limit, number still alive)."""
    started = time.monotonic()
    waiting = select.poll()
    fds = set()
    try:
        for pid in pids:
            try:
                fds.add(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
        for fd in fds:
            waiting.register(fd, select.POLLIN)
        alive = len(fds)
        while alive and (left := started + limit - time.monotonic()) > 0:
            for fd, _ in waiting.poll(left * 1000):
                waiting.unregister(fd)
                alive -= 1
        return time.monotonic() - started, alive
    finally:
        for fd in fds:
            os.close(fd)
