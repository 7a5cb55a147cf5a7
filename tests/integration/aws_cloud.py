# SPDX-License-Identifier: Apache-2.0
"""AWS for tests, on loopback: cloud/moto_aws.py in a process of its own, and how to ask and upset it."""

import json
import os
import pathlib
import subprocess
import urllib.request

import pytest

SERVER = pathlib.Path(__file__).resolve().parent / "cloud/moto_aws.py"


class AwsCloud:
    def __init__(self, venv):
        self.venv = pathlib.Path(venv)
        # Nothing of the caller's own account may be seen by moto.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
        self.process = subprocess.Popen([self.venv / "bin/python", SERVER], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, "moto did not start"

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)

    def _post(self, path, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        urllib.request.urlopen(urllib.request.Request(self.url + path, body, method="POST")).close()

    def reset(self):
        """An empty account, no faults, no calls."""
        self._post("/_/reset")

    def set_faults(self, **faults):
        """`faults`: action -> list; see cloud/moto_aws.py."""
        self._post("/_/faults", faults)

    def calls(self, action=None):
        """What was called so far: [{"action", "fields"}]."""
        with urllib.request.urlopen(self.url + "/_/calls") as answer:
            calls = json.load(answer)
        return [call for call in calls if action in (None, call["action"])]

    def environment(self, home, **more):
        """For a client of ours. `home` gets its ~/.ssh and has its ~/.aws."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return kept | {"HOME": str(home), "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "testing",
                       "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"} | more

    def boto(self, script):
        """Runs `script` with boto3's clients `ec2` and `iam` of this account and returns what it leaves in `result`. The
        library is Amazon's, so it sees what AWS has, whatever ours made of it."""
        request = urllib.request.Request(self.url + "/_/boto", script.encode(), method="POST")
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


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
