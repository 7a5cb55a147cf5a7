# SPDX-License-Identifier: Apache-2.0
"""AWS for tests, on loopback: cloud/moto_aws.py in a process of its own, and how to ask and upset it."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from make_hosts import LAUNCHER  # noqa: E402  pylint: disable=wrong-import-position
from make_ray import inside_network_of  # noqa: E402  pylint: disable=wrong-import-position

SERVER = pathlib.Path(__file__).resolve().parent / "cloud/moto_aws.py"


class AwsCloud:
    """hosts: those of tools/make_hosts.py, to whose launcher and hosts it listens, and to nobody else; None: it listens
    on loopback."""

    def __init__(self, venv, hosts=None):
        self.venv = pathlib.Path(venv)
        self.hosts = hosts
        # Nothing of the caller's own account may be seen by moto.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
        popen, words = (hosts.popen, [hosts[LAUNCHER].address, hosts.state / "authorized_keys"]) if hosts else (subprocess.Popen, [])
        self.process = popen([self.venv / "bin/python", SERVER, *words], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, "moto did not start"

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)

    def _ask(self, path, body=None):
        """The answer to a POST of `body`, or to a GET."""
        request = urllib.request.Request(self.url + path, body, method="GET" if body is None else "POST")

        def ask():
            with urllib.request.urlopen(request) as answer:
                return answer.read()

        return inside_network_of(self.hosts[LAUNCHER].holder, ask) if self.hosts else ask()

    def reset(self):
        """An empty account, no faults, no calls."""
        self._ask("/_/reset", b"")

    def set_faults(self, **faults):
        """`faults`: action -> list; see cloud/moto_aws.py."""
        self._ask("/_/faults", json.dumps(faults).encode())

    def set_addresses(self, pairs):
        """Instances that are made from now on get these: [(public, private)]."""
        self._ask("/_/addresses", json.dumps(pairs).encode())

    def calls(self, action=None):
        """What was called so far: [{"action", "fields"}]."""
        return [call for call in json.loads(self._ask("/_/calls")) if action in (None, call["action"])]

    def environment(self, home, **more):
        """For a client of ours. `home` gets its ~/.ssh and has its ~/.aws."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return kept | {"HOME": str(home), "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "testing",
                       "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"} | more

    def boto(self, script):
        """Runs `script` with boto3's clients `ec2` and `iam` of this account and returns what it leaves in `result`. The
        library is Amazon's, so it sees what AWS has, whatever ours made of it."""
        return json.loads(self._ask("/_/boto", script.encode()))


@pytest.fixture(scope="session")
def aws_server(request):
    venv = request.config.getoption("--moto-venv")
    if not venv:
        pytest.skip("no moto: --moto-venv (tools/moto_env.sh)")
    cloud = AwsCloud(venv)
    yield cloud
    cloud.close()


@pytest.fixture
def aws_cloud(aws_server):
    aws_server.reset()
    return aws_server
