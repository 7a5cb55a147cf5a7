# SPDX-License-Identifier: Apache-2.0
"""Namespaces, bridges, addresses and faults of test hosts. For tools/make_hosts.py."""

import dataclasses
import ipaddress
import os
import pathlib
import re
import sys

from hosts_processes import HostsError, call

NETNS_FOLDER = pathlib.Path("/run/netns")
SLOW_LINK = pathlib.Path(__file__).resolve().with_name("slow_link.py")
INNER = "inner0"  # a jump host's interface to those behind it
MAX_HOSTS = 250
LAUNCHER_NUMBER = 254

FAULTS = """
table bridge faults {
  set all_from { type ifname; }
  set all_to { type ifname; }
  set ip_from { type ifname; }
  set ip_to { type ifname; }
  chain in {
    type filter hook prerouting priority -300;
    iifname @all_from drop
    iifname @ip_from ether type { ip, ip6 } drop
  }
  chain out {
    type filter hook postrouting priority 300;
    oifname @all_to drop
    oifname @ip_to ether type { ip, ip6 } drop
  }
}
"""


@dataclasses.dataclass
class Host:
    name: str
    number: int  # 0: the launcher
    interface: str = "eth0"
    jump: str = ""  # the host in front of this one
    delay_ms: float = 0  # added to a round trip
    address: str = ""
    ports: list = dataclasses.field(default_factory=list)  # its ends in the bridges' namespace
    holder: int = 0  # pid of the process that keeps its mounts


def free_range():
    """The first two numbers of a /16 in 10.0.0.0/8 that overlaps no route of this machine.

    The hosts' packets can't leave the namespaces anyway, but an address in a log is then unambiguous.
    """
    taken = []
    for line in call(["ip", "-4", "route", "show", "table", "all"]).splitlines():
        found = re.match(r"(?:[a-z]+ )?(\d+\.\d+\.\d+\.\d+(?:/\d+)?)", line)
        if found:
            taken.append(ipaddress.ip_network(found[1], strict=False))
    for second in range(64, 256):
        if not any(ipaddress.ip_network(f"10.{second}.0.0/16").overlaps(net) for net in taken):
            return f"10.{second}"
    raise HostsError("no 10.x.0.0/16 is free of routes")


class HostNetwork:
    """The links of one prefix's hosts. routed: hosts reach hosts behind a jump host without ssh."""

    def __init__(self, prefix, launcher, hosts, routed):
        self.prefix = prefix
        self.launcher = launcher
        self.hosts = hosts  # by name, without the launcher
        self.routed = routed
        self.jumps = sorted({host.jump for host in hosts.values() if host.jump})
        self._faults = {}

    def netns(self, name):
        return f"{self.prefix}-{name}"

    def netns_path(self, name):
        return str(NETNS_FOLDER / self.netns(name))

    def make(self):
        """Makes namespaces, bridges and devices, and sets the hosts' address and ports."""
        network = free_range()
        for host in [self.launcher, *self.hosts.values()]:
            # The first bridge has 10.x.0.0/24, the one behind host j 10.x.j.0/24; host n's address ends in n.
            bridge = self.hosts[host.jump].number if host.jump else 0
            host.address = f"{network}.{bridge}.{host.number or LAUNCHER_NUMBER}"
            host.ports = [f"p{host.number}"]
            if host.name in self.jumps:
                host.ports.append(f"q{host.number}")
        names = ["net", self.launcher.name, *self.hosts]
        call(["ip", "-batch", "-"], input="".join(f"netns add {self.netns(n)}\n" for n in names))
        bridges = ["bridge0", *(f"bridge{self.hosts[jump].number}" for jump in self.jumps)]
        self._ip_net("".join(f"link add name {b} type bridge\nlink set {b} up\n" for b in bridges))
        for host in [self.launcher, *self.hosts.values()]:
            self._make_links(host)
        self._nft(FAULTS)

    def _make_links(self, host):
        bridges = [self.hosts[host.jump].number if host.jump else 0, host.number]
        pairs = ""
        for device, port in zip((host.interface, INNER), host.ports):
            if host.delay_ms and device == host.interface:
                call([sys.executable, str(SLOW_LINK), str(host.delay_ms / 2),
                      f"{self.netns_path(host.name)}:{device}", f"{self.netns_path('net')}:{port}"])
            else:
                pairs += (f"link add name {device} netns {self.netns(host.name)} type veth "
                          f"peer name {port} netns {self.netns('net')}\n")
        call(["ip", "-batch", "-"], input=pairs)
        self._ip_net("".join(f"link set {port} master bridge{bridge} up\n"
                             for port, bridge in zip(host.ports, bridges)))

    def ip_commands(self, host):
        """Commands for `ip -batch` inside the host: addresses and routes."""
        lines = ["link set lo up", f"addr add {host.address}/24 dev {host.interface}",
                 f"link set {host.interface} up"]
        if host.jump and self.routed:
            lines.append(f"route add {self._inner_range(host.jump, 0, 16)} via "
                         f"{self._inner_address(host.jump)}")
        for jump in [] if host.jump else self.jumps:
            if jump == host.name:
                lines += [f"addr add {self._inner_address(jump)}/24 dev {INNER}",
                          f"link set {INNER} up"]
            elif self.routed and host is not self.launcher:
                number = self.hosts[jump].number
                lines.append(f"route add {self._inner_range(jump, number, 24)} via "
                             f"{self.hosts[jump].address}")
        return "\n".join(lines) + "\n"

    def _inner_address(self, jump):
        number = self.hosts[jump].number
        return ".".join([*self.hosts[jump].address.split(".")[:2], str(number), str(number)])

    def _inner_range(self, jump, third, bits):
        return ".".join([*self.hosts[jump].address.split(".")[:2], str(third), f"0/{bits}"])

    def set_fault(self, name, sets):
        """Adds all ports of a host to the named nftables sets, which drop frames; () undoes it."""
        self._faults[name] = sets
        script = "".join(f"flush set bridge faults {kind}\n"
                         for kind in ("all_from", "all_to", "ip_from", "ip_to"))
        for broken, kinds in self._faults.items():
            ports = ", ".join(f'"{port}"' for port in self.hosts[broken].ports)
            script += "".join(f"add element bridge faults {kind} {{ {ports} }}\n" for kind in kinds)
        self._nft(script)

    def broken(self):
        return [name for name, sets in self._faults.items() if sets]

    def _ip_net(self, commands):
        call(["ip", "-n", self.netns("net"), "-batch", "-"], input=commands)

    def _nft(self, script):
        call(["ip", "netns", "exec", self.netns("net"), "nft", "-f", "-"], input=script)


def names_of(prefix):
    """Paths of all network namespaces with a prefix, from any process."""
    return [str(path) for path in NETNS_FOLDER.glob(f"{prefix}-*")]


def delete_netns(path):
    try:
        call(["ip", "netns", "del", os.path.basename(path)])
    except HostsError:
        if os.path.exists(path):  # if not, another sweep was faster
            raise
