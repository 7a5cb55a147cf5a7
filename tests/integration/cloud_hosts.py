# SPDX-License-Identifier: Apache-2.0
"""AWS whose instances are hosts of tools/make_hosts.py: what moto says about one is true of an sshd that answers.

The n-th living instance is host h<n>: its public address is the host's own, its private one is a second address of the
host. moto listens at the launcher, for it and for the hosts. All hosts accept the keys of all key pairs that an instance
was made with, and the launcher's ssh has no key and no known host of its own."""

import os
import pathlib

import pytest

from aws_cloud import AwsCloud
from make_hosts import LAUNCHER, Hosts

INSTANCES = 4
USER = "root"
TAGS = {"ray-cluster-name": "", "ray-node-type": "worker", "ray-user-node-type": "worker",
        "ray-node-status": "up-to-date", "ray-launch-config": "none", "Name": "made by a test"}


class CloudHosts:
    """`cloud`: the AWS; `hosts`: the Hosts; `home`: HOME of hvdray at the launcher."""

    def __init__(self, venv, count=INSTANCES):
        self.hosts = Hosts(count=count)
        self.hosts.up()
        try:
            first, second, *_ = self.hosts["h1"].address.split(".")
            self.pairs = [(host.address, f"{first}.{second}.200.{host.number}")
                          for host in self.hosts.hosts.values()]
            self._add_address(LAUNCHER, f"{first}.{second}.200.254")
            for name, (_, private) in zip(self.hosts.hosts, self.pairs):
                self._add_address(name, private)
            self.cloud = AwsCloud(venv, self.hosts)
            self.cloud.set_addresses(self.pairs)
        except BaseException:
            self.hosts.down()
            raise
        self.home = self.hosts.folder(LAUNCHER) / "home"
        (self.home / ".ssh/config").write_text("Host *\n  BatchMode yes\n  HashKnownHosts no\n")

    def close(self):
        self.cloud.close()
        self.hosts.down()

    def _add_address(self, name, address):
        self.hosts.run(["ip", "addr", "add", f"{address}/24", "dev", self.hosts[name].interface], on=name, check=True)

    def public(self, name):
        return self.pairs[self.hosts[name].number - 1][0]

    def private(self, name):
        return self.pairs[self.hosts[name].number - 1][1]

    def environment(self, **more):
        """For a client of ours at the launcher."""
        return self.cloud.environment(self.hosts.state / "home", **more)

    def run_instance(self, cluster, kind="worker", key_name=None, **tags):
        """Starts an instance with Ray's tags, as an `up` would; returns its id. `tags`: with _ for -."""
        tags = TAGS | {"ray-cluster-name": cluster, "ray-node-type": kind, "ray-user-node-type": kind} | {
            name.replace("_", "-"): value for name, value in tags.items()}
        key = f'KeyName="{key_name}", ' if key_name else ""
        return self.cloud.boto(f"""
made = ec2.run_instances(ImageId="ami-0b294f219d14e6a82", MinCount=1, MaxCount=1, InstanceType="m5.large", {key}
    TagSpecifications=[{{"ResourceType": "instance", "Tags": [
        {{"Key": key, "Value": value}} for key, value in {tags!r}.items()]}}])
result = made["Instances"][0]["InstanceId"]""")

    def save_key(self, name):
        """Makes a key pair at AWS, and its private half a file of the launcher, as an `up` would."""
        path = self.home / f".ssh/{name}.pem"
        path.write_text(self.cloud.boto(f'result = ec2.create_key_pair(KeyName="{name}")["KeyMaterial"]'))
        path.chmod(0o600)
        return path


@pytest.fixture(scope="session")
def cloud_hosts_set(request):
    if os.geteuid() != 0:
        pytest.skip("hosts need root: network namespaces, mounts, sshd")
    venv = request.config.getoption("--moto-venv")
    if not venv:
        pytest.skip("no moto: --moto-venv (tools/moto_env.sh)")
    made = CloudHosts(pathlib.Path(venv))
    yield made
    made.close()


@pytest.fixture
def cloud_hosts(cloud_hosts_set):
    """An empty account whose first INSTANCES instances are h1, h2, …"""
    cloud_hosts_set.cloud.reset()
    for path in (cloud_hosts_set.home / ".ssh").iterdir():
        if path.name != "config":
            path.unlink()
    return cloud_hosts_set
