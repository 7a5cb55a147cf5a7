"""Where remote jobs are measured: tools/make_hosts.py's hosts, and how launchers reach them."""

import os
import select
import subprocess
import sys
import time

from harness import ROOT, timed, which
from launch import environment

sys.path.insert(0, str(ROOT / "tools"))

from make_hosts import Hosts, HostsError  # noqa: E402,F401  pylint: disable=wrong-import-position

# One connection a host and nothing else: what sshd and the cheapest client cost.
SSH_TO_ALL = 'for h; do ssh -n "$h" true & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'


class Site:
    """`count` hosts with a real sshd each, from `with` to its end, whatever ends it. Needs root.

    Commands run at the launcher's place, where ssh knows all hosts and their keys.
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
        """Contender -> command line that runs `words` `slots` times on each host."""
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
        """harness.timed at the launcher's place; the next one finds the hosts quiet again."""
        value = timed(self.hosts.command(command), timeout, env=self.env, **kwargs)
        self.settle()
        return value

    def settle(self):
        """Returns when nothing but the listening sshd runs on any host: by itself, else killed."""
        self.hosts.leftovers(within=2)
        self.hosts.kill_leftovers()

    def start(self, command):
        return subprocess.Popen([str(word) for word in self.hosts.command(command)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=self.env, start_new_session=True)

    def wait_for(self, process, command_line, count, within):
        """Whether `count` processes of that command line run on the hosts while `process` lives."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline and process.poll() is None:
            alive = self.hosts.leftovers(*self.names)
            lines = [line for host in alive.values() for line in host.values()]
            if lines.count(command_line) == count:
                return True
            time.sleep(0.1)
        return False

    def sent_bytes(self):
        """Bytes that have left the launcher's place so far, headers included."""
        done = self.hosts.run(["cat", "/sys/class/net/eth0/statistics/tx_bytes"], check=True)
        return int(done.stdout)


def seconds_until_dead(pids, limit):
    """Seconds from now to the death of the last of them, and how many outlive the limit."""
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
