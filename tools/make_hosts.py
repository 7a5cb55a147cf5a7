#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes test hosts on one machine: a real OpenSSH server per network namespace, all on a bridge.

    tools/make_hosts.py up --count 8 --state DIR [--interface h3=ens5] [--behind h8=h7]
                           [--delay-ms h5=50]
    tools/make_hosts.py exec --state DIR [--on h3] -- ssh h1 true
    tools/make_hosts.py down --state DIR

or `with Hosts(count=8) as hosts: hosts.run(["ssh", "h1", "true"])`. Needs root, and the `test` set
of tools/install_packages.sh. The next `up` removes the remains of a killed maker, whatever its state;
hosts made by the command `up` stay until `down`.

Hosts are h1..hN. A namespace `launcher` stands for the user's machine. The bridges have their own
namespace, so the machine's own network gets no device, address or route. Each
host has its own name (UTS), mounts, shared memory, sshd, host key and log, /etc/hosts, /etc/passwd
and /etc/nsswitch.conf; root's home is DIR/home on all of them, with contents in DIR/<host>/home.
All share /tmp, the rest of the file tree and the process table, so tests count leftovers from
outside. Keys, client configuration and known hosts are in DIR; ~/.ssh is neither read nor written.

A host `behind` another is on a second bridge, to which only the other is attached. The launcher
has no route to it (ProxyJump reaches it); the other hosts reach it through its jump host, unless
routed=False. tools/slow_link.py adds `delay_ms` to every round trip: not all kernels have netem.

A few dozen hosts that all talk to each other fill the kernel's single neighbour table (1024).
"""

import argparse
import contextlib
import dataclasses
import fcntl
import glob
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from hosts_files import HostFiles
from hosts_network import MAX_HOSTS, Host, HostNetwork, delete_netns, names_of
from hosts_processes import (HostsError, command_line, finish, kill_all_inside, looks, pids_inside,
                             process_state, send, start, wait_until)

LINK = "/run/hvdray-hosts-"  # + prefix: a link to the state directory, for the sweep
LAUNCHER = "launcher"
SSHD = "/usr/sbin/sshd"
HIDDEN = ("/run", "/dev/shm", "/var/log")  # each host mounts its own
_numbers = itertools.count()  # no prefix is used twice by one process

# Runs in a host's fresh mount, UTS and IPC namespaces. The sleeping process keeps them alive.
HOST_INIT = r"""
cd "$FOLDER"
ip -batch ip.batch
echo "$NAME" >/proc/sys/kernel/hostname
[ -z "$FORWARD" ] || echo 1 >/proc/sys/net/ipv4/ip_forward
umount -l /run/netns   # this copy would keep other runs' namespaces alive
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p -m 755 /run/sshd
mount -t tmpfs -o mode=755 tmpfs /var/log
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --rbind /sys/fs/cgroup cgroup
mount -t sysfs sysfs /sys   # /sys/class/net shows the namespace that mounted it
mount --rbind cgroup /sys/fs/cgroup
umount -l cgroup
mount --bind home "$STATE/home"
for file in etc/*; do mount --bind "$file" "/$file"; done
setsid sleep infinity </dev/null >/dev/null 2>&1 &
echo $! >holder.pid
"""

def remove(prefix, state):
    """Removes everything with the prefix, from any process, and returns when it is gone."""
    while paths := names_of(prefix):  # a command of a killed maker may still be adding namespaces
        kill_all_inside(paths)
        for path in paths:
            delete_netns(path)
    # The link goes first: a sweep that finds a link without a directory takes the hosts for abandoned.
    pathlib.Path(LINK + prefix).unlink(missing_ok=True)
    if (load_state(state) or {}).get("prefix") != prefix:
        return  # the directory is gone, or belongs to another maker by now

    def is_gone():  # the maker's last process may still be writing
        shutil.rmtree(state, ignore_errors=True)
        return not os.path.exists(state)

    wait_until(is_gone, f"removal of {state}")


def load_state(folder):
    try:
        return json.loads((pathlib.Path(folder) / "state.json").read_text())
    except (OSError, ValueError):
        return None


def is_unmade(folder):
    """Its maker was killed before it had made anything else."""
    return set(os.listdir(folder)) <= {"state.json.new"}


def lock(folder, how):
    """Returns a descriptor with a lock of the state directory. Its maker holds it exclusively while it lives: sweeps in
    other PID namespaces see that, where its pid is nobody's or another's. Errors: BlockingIOError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def is_held(folder):
    try:
        os.close(lock(folder, fcntl.LOCK_SH))  # shared: two sweeps don't take each other for the maker
    except BlockingIOError:
        return True
    return False


def sweep():
    """Removes hosts whose maker was killed. Returns their prefixes."""
    swept = []
    for link in glob.glob(LINK + "*"):
        with contextlib.suppress(FileNotFoundError):
            folder = os.readlink(link)
            state = load_state(folder)
            if state and (state["kept"] or is_held(folder)):
                continue
            swept.append(link[len(LINK):])
            remove(swept[-1], folder)
    return swept


class Hosts:
    """Test hosts, from up() to down(); also a context manager. One thread. Errors: HostsError.

    state: a directory that is missing or empty; None: a temporary one. down() removes it.
    interfaces, behind, delay_ms: by host name, as in the module's docstring.
    """

    def __init__(self, count=8, state=None, interfaces=None, behind=None, delay_ms=None,
                 routed=True):
        if not 1 <= count <= MAX_HOSTS:
            raise HostsError(f"count {count}: 1 to {MAX_HOSTS}")
        self.state = pathlib.Path(state).resolve() if state else None
        self.launcher = Host(LAUNCHER, 0)
        self.hosts = {f"h{n}": Host(f"h{n}", n) for n in range(1, count + 1)}
        for field, values in (("interface", interfaces), ("jump", behind), ("delay_ms", delay_ms)):
            for name, value in (values or {}).items():
                setattr(self[name], field, value)
        for host in self.hosts.values():
            jump = self.hosts.get(host.jump)
            if host.jump and (jump is None or jump.jump):
                raise HostsError(f"{host.name} behind {host.jump}: not a host on the first bridge")
        if self.launcher.jump:
            raise HostsError("the launcher can't be behind a host")
        self._routed = routed
        self.prefix = ""  # of its namespaces' names, while it is up
        self._held = None  # the state directory's descriptor, while this process made it and lives
        self._network = None
        self._files = None

    @classmethod
    def attach(cls, folder):
        """Hosts that another process made, to run commands on them or to remove them."""
        state = load_state(folder)
        if state is None:
            raise HostsError(f"{folder}: contains no hosts; `up` makes them")
        hosts = cls(count=1, state=folder)
        hosts.hosts = {entry["name"]: Host(**entry) for entry in state["hosts"]}
        hosts.launcher = hosts.hosts.pop(LAUNCHER)
        hosts._routed = state["routed"]
        hosts._bind(state["prefix"])
        return hosts

    def _bind(self, prefix):
        self.prefix = prefix
        self._network = HostNetwork(prefix, self.launcher, self.hosts, self._routed)
        self._files = HostFiles(self.state, list(self.hosts.values()), self.launcher)

    def __getitem__(self, name):
        if name == LAUNCHER:
            return self.launcher
        if name not in self.hosts:
            raise HostsError(f"no host {name}: h1 to h{len(self.hosts)}")
        return self.hosts[name]

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    # ---- making and removing

    def up(self, keep=False):
        """Makes the hosts. keep: they outlive this process, and sweeps keep them."""
        missing = [name for name in ("ip", "nft", "nsenter", "unshare", "ssh-keygen", SSHD)
                   if not shutil.which(name)]
        if missing:
            raise HostsError(f"not installed: {', '.join(missing)}: tools/install_packages.sh test")
        if os.geteuid() != 0:
            raise HostsError("hosts need root: network namespaces, mounts, sshd. Without it, take machines of your own "
                             "where `ssh NAME true` works")
        sweep()
        self._claim()
        try:
            self._network.make()
            self._files.write()
            self._start_hosts()
            self._save(kept=keep)
        except BaseException:
            self.down()
            raise

    def down(self):
        """Kills all processes on the hosts and removes the hosts; a second call does nothing."""
        if self.prefix:
            remove(self.prefix, self.state)
            self.prefix = ""
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def _claim(self):
        base = self.state or pathlib.Path(tempfile.gettempdir()).resolve()
        hider = next((top for top in HIDDEN if base.is_relative_to(top)), None)
        if hider:
            raise HostsError(f"{base}: hosts have their own {hider}; choose another directory")
        if " " in str(base):
            raise HostsError(f"{base}: sshd takes no path with a blank; choose another directory")
        while True:
            prefix = f"hvt{os.getpid()}x{next(_numbers)}"
            if not os.path.lexists(LINK + prefix) and not names_of(prefix):
                break
        self.state = self.state or pathlib.Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=base))
        self.state.mkdir(parents=True, exist_ok=True)
        if any(self.state.iterdir()):
            hint = f": `down --state {self.state}` removes the hosts there" if load_state(self.state) else ""
            raise HostsError(f"{self.state} is not empty{hint}")
        self.state.chmod(0o755)
        self._bind(prefix)
        self._held = lock(self.state, fcntl.LOCK_EX)
        self._save(kept=False)  # before the link, because sweeps follow it
        os.symlink(self.state, LINK + prefix)

    def _save(self, kept):
        text = json.dumps({"prefix": self.prefix, "kept": kept, "routed": self._routed,
                           "hosts": [dataclasses.asdict(host) for host in self._all()]}, indent=1)
        temporary = self.state / "state.json.new"
        temporary.write_text(text)
        temporary.rename(self.state / "state.json")

    def _all(self):
        return [self.launcher, *self.hosts.values()]

    def _start_hosts(self):
        started = []
        for host in self._all():
            (self.folder(host.name) / "ip.batch").write_text(self._network.ip_commands(host))
            forwards = self._routed and host.name in self._network.jumps
            environment = {**os.environ, "NAME": host.name, "STATE": str(self.state),
                           "FOLDER": str(self.folder(host.name)),
                           "FORWARD": "1" if forwards else ""}
            argv = ["nsenter", f"--net={self._network.netns_path(host.name)}",
                    "unshare", "--mount", "--uts", "--ipc", "sh", "-ec", HOST_INIT]
            started.append((f"start {host.name}", start(argv, env=environment)))
        finish(started)
        for host in self._all():
            host.holder = int((self.folder(host.name) / "holder.pid").read_text())
        self.start_sshd(*self.hosts)

    # ---- using

    @property
    def key(self):
        return self._files.key

    @property
    def ssh_config(self):
        return self._files.ssh_config

    @property
    def known_hosts(self):
        return self._files.known_hosts

    def folder(self, name):
        """A host's own directory: home/, sshd.log, sshd_config and etc/. The host sees changes to files
        in etc/ that are made in place (not by replacing a file).
        """
        return self._files.folder(name)

    def host_list(self, slots=1, names=None):
        return ",".join(f"{name}:{slots}" for name in names or self.hosts)

    def command(self, argv, on=LAUNCHER, cwd=None):
        """The command line that runs argv on a host; its process becomes argv and keeps the pid."""
        return ["nsenter", "-t", str(self[on].holder), "-n", "-m", "-u", "-i",
                f"--wdns={cwd or os.getcwd()}", "--", *map(str, argv)]

    def environment(self, base=None):
        """An environment for command(): the hosts' home, and no ssh-agent of this machine."""
        names = dict(os.environ if base is None else base)
        for name in [name for name in names if name.startswith("SSH_")]:
            del names[name]
        return {**names, "HOME": str(self.state / "home"), "USER": "root", "LOGNAME": "root"}

    def popen(self, argv, on=LAUNCHER, cwd=None, env=None, **kwargs):
        return subprocess.Popen(self.command(argv, on, cwd), env=self.environment(env), **kwargs)

    def run(self, argv, on=LAUNCHER, cwd=None, env=None, **kwargs):
        """subprocess.run on a host; captures output as text by default."""
        if "stdout" not in kwargs and "stderr" not in kwargs:
            kwargs.setdefault("capture_output", True)
        kwargs.setdefault("text", True)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(argv, on, cwd), env=self.environment(env),
                              check=kwargs.pop("check", False), **kwargs)

    def processes(self, name):
        """All living processes in the host's network namespace: {pid: command line}."""
        return {pid: command_line(pid) for pid in pids_inside([self._network.netns_path(name)])
                if pid != self[name].holder}

    def leftovers(self, *names, within=0.0):
        """Living processes other than the listening sshd: {host: {pid: command line}}.

        Waits at most `within` seconds until there are none, then returns {}. No names: all hosts.
        """
        for _ in looks(within, least=0.02):
            found = {}
            for name in names or [host.name for host in self._all()]:
                alive = self.processes(name)
                alive.pop(self._sshd_pid(name), None)
                if alive:
                    found[name] = alive
            if not found:
                break
        return found

    def kill_leftovers(self):
        """Sends SIGKILL to the processes that leftovers() finds, until it finds none."""
        def none_left():
            alive = self.leftovers()
            for found in alive.values():
                send(found, signal.SIGKILL)
            return not alive

        wait_until(none_left, "death of leftovers on the hosts")

    # ---- breaking and mending

    def _sshd_pid(self, name):
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self.folder(name) / "sshd.pid").read_text())
            return pid if pid in self.processes(name) else None
        return None

    def stop_sshd(self, name):
        """Connections are refused from now on; open ones continue."""
        pid = self._sshd_pid(name)
        if pid is not None:
            send([pid], signal.SIGKILL)
            wait_until(lambda: pid not in self.processes(name), f"end of sshd on {name}")

    def start_sshd(self, *names):
        """Starts sshd on hosts where none listens; returns when all listen."""
        stopped = [name for name in names if self._sshd_pid(name) is None]
        for name in stopped:
            (self.folder(name) / "sshd.pid").unlink(missing_ok=True)
        finish([(f"start sshd on {name}", start(self.command(
            ["sh", "-c", 'exec "$0" "$@" >/dev/null 2>&1', SSHD, "-f",
             self.folder(name) / "sshd_config", "-E", self.folder(name) / "sshd.log"],
            on=name, cwd="/"), env=self.environment())) for name in stopped])
        for name in stopped:  # sshd writes its pid once it listens
            wait_until(lambda name=name: self._sshd_pid(name),
                       f"sshd on {name}; see {self.folder(name)}")

    def change_host_key(self, name):
        """Gives a host another key, as if the host were replaced; known_hosts keeps the old key."""
        self.stop_sshd(name)
        self._files.renew_host_key(name)
        self.start_sshd(name)

    def trust_host_keys(self):
        """Rewrites known_hosts with the hosts' current keys."""
        self._files.write_known_hosts()

    def cut(self, name):
        """Silently drops every frame from and to a host, including ARP."""
        self._network.set_fault(self[name].name, ("all_from", "all_to"))

    def blackhole_one_way(self, name, drop="from"):
        """Drops only IP packets from (or to) a host; the other direction and ARP still work."""
        if drop not in ("from", "to"):
            raise HostsError(f"drop {drop!r}: expected from or to")
        self._network.set_fault(self[name].name, (f"ip_{drop}",))

    def mend(self, *names):
        """Undoes cut and blackhole_one_way. No names: all hosts."""
        for name in names or self._network.broken():
            self._network.set_fault(self[name].name, ())

    @contextlib.contextmanager
    def mounted(self, name, path, options):
        """Mounts a tmpfs over a host's directory, with options such as "size=64k" (a full disk) or "noexec"."""
        self.run(["mkdir", "-p", path], on=name, check=True)
        self.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], on=name, check=True)
        try:
            yield
        finally:
            self.run(["umount", "-l", path], on=name, check=True)

    def freeze(self, name):
        """Sends SIGSTOP to every process of a host; its kernel still accepts connections."""
        def all_stopped():
            running = [pid for pid in self.processes(name) if process_state(pid) not in "TtZX"]
            send(running, signal.SIGSTOP)
            return not running

        wait_until(all_stopped, f"all of {name} stopped")

    def thaw(self, name):
        send(self.processes(name), signal.SIGCONT)


def pairs(values):
    found = dict(value.partition("=")[::2] for value in values)
    for name, value in found.items():
        if not value:
            raise HostsError(f"'{name}': expected HOST=VALUE")
    return found


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make hosts that stay until `down`")
    up.add_argument("--count", type=int, default=8)
    up.add_argument("--interface", action="append", default=[], metavar="HOST=NAME")
    up.add_argument("--behind", action="append", default=[], metavar="HOST=JUMP")
    up.add_argument("--delay-ms", action="append", default=[], metavar="HOST=MS")
    up.add_argument("--unrouted", action="store_true",
                    help="reach hosts behind others by ProxyJump only")
    run = commands.add_parser("exec", help="run a command on a host (default: the launcher)")
    run.add_argument("--on", default=LAUNCHER)
    run.add_argument("argv", nargs="+")
    down = commands.add_parser("down", help="remove them, even if their maker was killed")
    for command in (up, run, down):
        command.add_argument("--state", required=True)
    return parser.parse_args()


def main():
    args = parse_args()
    try:
        if args.command == "up":
            delays = {name: float(ms) for name, ms in pairs(args.delay_ms).items()}
            hosts = Hosts(args.count, args.state, pairs(args.interface), pairs(args.behind), delays,
                          routed=not args.unrouted)
            hosts.up(keep=True)
            print(f"{args.count} hosts; "
                  f"try: {sys.argv[0]} exec --state {hosts.state} -- ssh h1 hostname")
        elif args.command == "exec":
            hosts = Hosts.attach(args.state)
            os.execvpe("nsenter", hosts.command(args.argv, args.on), hosts.environment())
        elif os.path.isdir(args.state) and is_unmade(args.state):
            shutil.rmtree(args.state)
        elif os.path.exists(args.state):
            Hosts.attach(args.state).down()
        else:
            print(f"{args.state} does not exist; nothing to remove")
    except (HostsError, ValueError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")


if __name__ == "__main__":
    main()
