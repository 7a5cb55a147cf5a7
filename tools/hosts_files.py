# SPDX-License-Identifier: Apache-2.0
"""The files of tools/make_hosts.py: keys, accounts, names, and what sshd and ssh read."""

import pathlib
import shutil

from hosts_processes import finish, start


class HostFiles:
    """Creates the contents of one state directory. `hosts` have name, address and jump; so has `launcher`."""

    def __init__(self, state, hosts, launcher):
        self.state = pathlib.Path(state)
        self.hosts = hosts
        self.launcher = launcher

    @property
    def key(self):
        return self.state / "id_ed25519"

    @property
    def ssh_config(self):
        return self.state / "ssh_config"

    @property
    def known_hosts(self):
        return self.state / "known_hosts"

    def folder(self, name):
        return self.state / name

    def write(self):
        (self.state / "home").mkdir()  # only a mount point
        keys = [("client key", self.start_keygen(self.key))]
        for host in [self.launcher, *self.hosts]:
            folder = self.folder(host.name)
            for part in ("home/.ssh", "etc", "cgroup"):
                (folder / part).mkdir(parents=True)
            (folder / "home").chmod(0o700)
            (folder / "home/.ssh").chmod(0o700)
            keys.append((f"host key of {host.name}", self.start_keygen(folder / "host_key")))
        finish(keys)
        shutil.copy(f"{self.key}.pub", self.state / "authorized_keys")
        self._write_etc()
        self._write_client_config()
        self.write_known_hosts()
        for host in self.hosts:
            self._write_sshd_config(host)

    @staticmethod
    def start_keygen(path):
        return start(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)])

    def renew_host_key(self, name):
        for suffix in ("", ".pub"):
            (self.folder(name) / f"host_key{suffix}").unlink()
        finish([(f"new host key of {name}", self.start_keygen(self.folder(name) / "host_key"))])

    def write_known_hosts(self):
        lines = ""
        for host in self.hosts:
            kind, key = (self.folder(host.name) / "host_key.pub").read_text().split()[:2]
            lines += f"{host.name},{host.address} {kind} {key}\n"
        self.known_hosts.write_text(lines)

    def _write_etc(self):
        everyone = [self.launcher, *self.hosts]
        names = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + "".join(
            f"{host.address} {host.name}\n" for host in everyone)
        accounts = self._accounts()
        passwords = "".join(f"{row[0]}:*:19000:0:99999:7:::\n" for row in accounts)
        for host in everyone:
            etc = self.folder(host.name) / "etc"
            (etc / "hosts").write_text(names)
            (etc / "passwd").write_text("".join(f"{':'.join(row)}\n" for row in accounts))
            (etc / "shadow").write_text(passwords)
            (etc / "shadow").chmod(0o600)
            # Without a name server an unknown name fails at once, not after a timeout.
            (etc / "nsswitch.conf").write_text(
                "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")

    def _accounts(self):
        """The machine's accounts, with another home for root and without passwords."""
        rows = [line.split(":") for line in pathlib.Path("/etc/passwd").read_text().splitlines()
                if line.count(":") == 6]
        for row in rows:
            if row[0] == "root":
                row[5:7] = [str(self.state / "home"), "/bin/bash"]
        return rows

    def _write_sshd_config(self, host):
        folder = self.folder(host.name)
        (folder / "sshd_config").write_text(
            f"ListenAddress 0.0.0.0\nHostKey {folder}/host_key\nPidFile {folder}/sshd.pid\n"
            f"AuthorizedKeysFile {self.state}/authorized_keys\nUsePAM no\nUseDNS no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nLogLevel VERBOSE\nSubsystem sftp internal-sftp\n"
            "StrictModes no\n")  # the directory may be below /tmp, which is world-writable

    def _write_client_config(self):
        """For `ssh -F`, and as ~/.ssh/config of each host's own home."""
        text = "".join(f"Host {host.name}\n  ProxyJump {host.jump}\n"
                       for host in self.hosts if host.jump)
        text += (f"Host *\n  User root\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
                 f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
                 "  BatchMode yes\n")
        self.ssh_config.write_text(text)
        for host in [self.launcher, *self.hosts]:
            shutil.copy(self.ssh_config, self.folder(host.name) / "home/.ssh/config")
