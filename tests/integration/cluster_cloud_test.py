# SPDX-License-Identifier: Apache-2.0
"""`hvdray up` and `hvdray down` at AWS: moto's instances are sshd hosts with real Ray. What is made, kept, replaced and
removed there, and that a run killed anywhere is finished by the next.

Not tested here: the calls to AWS one by one (provider_test.py), the set-up of hosts (cluster_up_test.py)."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from at_terminal import Terminal
from documents_flow import monitor_submit_attach
from hosts_processes import send, wait_until

NAMES = ("h1", "h2", "h3")
RAY = "--object-store-memory=80000000 --num-cpus=1"
IMAGE = "ami-0b294f219d14e6a82"


class Cluster:
    """A cluster file for AWS, and hvdray at the launcher's place."""

    def __init__(self, cloud_hosts, binary, venv, folder):
        self.cloud_hosts, self.hosts, self.cloud = cloud_hosts, cloud_hosts.hosts, cloud_hosts.cloud
        self.binary, self.venv, self.folder = binary, venv, folder
        for name in self.hosts.hosts:
            (self.home(name) / ".bashrc").write_text(
                f"export PATH={venv}/bin:$PATH\n"
                "export RAY_enable_worker_prestart=0 RAY_prestart_worker_first_driver=0\n")
        self.write()

    def home(self, name):
        return self.hosts.folder(name) / "home"

    def write(self, name="cluster.yaml", workers=2, most=None, setup="echo set-up >>~/log", machine="m5.large",
              worker_machine="m5.large", head_option="", ray="ray start", provider="region: us-west-2"):
        start = (f"{ray} --head --port=6379 --node-ip-address={self.cloud_hosts.private('h1')} "
                 f"--temp-dir=/run/ray {RAY}{head_option}")
        most = workers if most is None else most
        (self.folder / name).write_text(f"""cluster_name: cloud-test
provider: {{type: aws, {provider}}}
auth: {{ssh_user: root}}
max_workers: {most}
head_node_type: head
available_node_types:
    head:
        node_config: {{InstanceType: {machine}, ImageId: {IMAGE}}}
        resources: {{CPU: 1}}
    worker:
        node_config: {{InstanceType: {worker_machine}, ImageId: {IMAGE}}}
        resources: {{CPU: 1}}
        min_workers: {workers}
        max_workers: {most}
setup_commands: ["{setup}"]
head_setup_commands: []
head_start_ray_commands: ["ray stop", "{start}"]
worker_start_ray_commands: ["ray stop", "{ray} --address=$RAY_HEAD_IP:6379 {RAY}"]
""")

    def start(self, *words, **io):
        io = io or {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return self.hosts.popen([self.binary, *words], cwd=str(self.folder), env=self.cloud_hosts.environment(), **io)

    def go(self, *words, code=0, timeout=400, **environment):
        result = self.hosts.run([self.binary, *words], cwd=str(self.folder), timeout=timeout,
                                env=self.cloud_hosts.environment(**environment))
        assert result.returncode == code, result.stdout + result.stderr
        return result

    def instances(self, *states):
        """id -> (state, kind, status tag), oldest first."""
        rows = self.cloud.boto("""
rows = []
for page in ec2.get_paginator("describe_instances").paginate():
    for reservation in page["Reservations"]:
        for each in reservation["Instances"]:
            tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", [])}
            rows.append([each["InstanceId"], each["State"]["Name"], tags.get("ray-node-type"),
                         tags.get("ray-node-status"), str(each["LaunchTime"])])
result = sorted(rows, key=lambda row: row[4])""")
        return {row[0]: tuple(row[1:4]) for row in rows if not states or row[1] in states}

    def report(self):
        return json.loads((self.folder / "report").read_text())

    def tag(self, ids, key, value):
        self.cloud.boto(f'result = str(ec2.create_tags(Resources={ids}, Tags=[{{"Key": "{key}", "Value": "{value}"}}]))')

    def tags(self):
        """Of each instance that runs."""
        return self.cloud.boto("""
result = [{tag["Key"]: tag["Value"] for tag in each["Tags"]}
          for page in ec2.get_paginator("describe_instances").paginate()
          for reservation in page["Reservations"] for each in reservation["Instances"]
          if each["State"]["Name"] == "running"]""")

    def ray_processes(self, name):
        return [pid for pid, line in self.hosts.processes(name).items() if "/raylet/raylet" in line or
                "/gcs/gcs_server" in line]

    def log(self, name):
        path = self.home(name) / "log"
        return path.read_text().split() if path.exists() else []

    def reinstall(self, *names, is_lost=True):
        """A machine ends with what runs and, if it is lost, with what lies on it."""
        for name in names or self.hosts.hosts:
            while alive := [pid for pid, line in self.hosts.processes(name).items() if "/ray/" in line or "ray::" in line]:
                send(alive, signal.SIGKILL)
                wait_until(lambda pids=alive, host=name: not set(pids) & set(self.hosts.processes(host)), "end of Ray")
            for left in (".hvdray", ".ray", "log") if is_lost else ():
                subprocess.run(["rm", "-rf", self.home(name) / left], check=True)


@pytest.fixture(scope="module")
def cluster(request, cloud_hosts_set, ray_venv, tmp_path_factory):
    """One account for all tests of this file, which build on each other in this order."""
    cloud_hosts_set.cloud.reset()
    binary = os.path.abspath(os.path.join(request.config.getoption("--bin-dir"), "hvdray"))
    made = Cluster(cloud_hosts_set, binary, ray_venv, tmp_path_factory.mktemp("cloud"))
    yield made
    made.reinstall()


def read_until(process, words):
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without {words!r}: {said}")


def test_a_dry_run_makes_nothing(cluster):
    result = cluster.go("up", "--dry-run", "cluster.yaml")
    assert "head (head): create 1" in result.stdout
    assert "workers (worker): create 2" in result.stdout
    assert not cluster.instances()
    assert not [call for call in cluster.cloud.calls() if call["action"].startswith(("Create", "Run"))]
    assert not list((cluster.cloud_hosts.home / ".ssh").glob("*.pem"))


def test_without_a_terminal_only_yes_makes_machines(cluster):
    assert "--yes" in cluster.go("up", "cluster.yaml", code=2).stderr
    assert not cluster.instances()


@pytest.mark.parametrize("line", ["created", "creating head", "creating worker", "setup: ", "Ray is up"])
def test_up_that_is_killed_makes_nothing_twice(cluster, line):
    """Machines whose making was cut off are there for the next run, with the key that logs in to them."""
    with cluster.start("up", "--yes", "cluster.yaml") as process:
        read_until(process, line)
        process.kill()
    assert len(cluster.instances("pending", "running")) <= 3, line


def test_up_starts_ray_on_every_machine(cluster):
    result = cluster.go("up", "--yes", "cluster.yaml")
    instances = cluster.instances("pending", "running")
    assert len(instances) == 3, "whatever was killed before"
    assert sorted(kind for _, kind, _ in instances.values()) == ["head", "worker", "worker"]
    assert {status for _, _, status in instances.values()} == {"up-to-date"}
    assert result.stdout.count("has joined") == 2
    assert result.stdout.count("  up\n") == 3
    assert {word for name in NAMES for word in cluster.log(name)} == {"set-up"}
    (key,) = (cluster.cloud_hosts.home / ".ssh").glob("*.pem")
    assert key.stat().st_mode & 0o777 == 0o600
    for line in cluster.hosts.processes("h1").values():
        assert "autoscaling-config" not in line


def test_the_flow_of_the_documents(cluster):
    monitor_submit_attach(cluster, len(NAMES))


def test_a_second_up_changes_nothing(cluster):
    before, calls = cluster.instances(), len(cluster.cloud.calls())
    result = cluster.go("up", "cluster.yaml", "--yes")
    assert "head (head): keep 1" in result.stdout
    assert "workers (worker): keep 2" in result.stdout
    assert result.stdout.count(": keep") >= 3
    assert cluster.instances() == before
    assert [call["action"] for call in cluster.cloud.calls()[calls:]
            if not call["action"].startswith(("Describe", "Get"))] == []


def test_a_worker_that_the_cloud_took_away_is_replaced(cluster):
    before = cluster.instances("running")
    lost = [name for name, (_, kind, _) in before.items() if kind == "worker"][-1]
    cluster.cloud.boto(f'result = str(ec2.terminate_instances(InstanceIds=["{lost}"]))')
    cluster.reinstall("h3")
    result = cluster.go("up", "--yes", "cluster.yaml")
    after = cluster.instances("running")
    assert len(after) == 3 and len(set(after) - set(before)) == 1
    assert "workers (worker): keep 1, create 1" in result.stdout
    assert result.stdout.count("has joined") == 1


def test_no_capacity_is_told_and_the_others_come_up(cluster):
    before = cluster.instances("running")
    cluster.write(workers=3)
    refusal = {"status": 500, "code": "InsufficientInstanceCapacity", "message": "We have no more of them."}
    cluster.cloud.set_faults(RunInstances=[refusal] * 40)
    result = cluster.go("up", "--yes", "cluster.yaml", code=125)
    cluster.cloud.set_faults()
    assert "We have no more of them." in result.stderr
    assert re.search(r"^worker .* failed: ", result.stdout, re.M)
    assert cluster.instances("running") == before
    cluster.write()


def test_workers_go_before_the_head(cluster):
    result = cluster.go("down", "--yes", "--workers-only", "cluster.yaml")
    assert [kind for _, kind, _ in cluster.instances("running").values()] == ["head"]
    assert cluster.ray_processes("h1"), "the head was to stay"
    assert "stopping" in result.stdout
    for name in ("h2", "h3"):
        cluster.reinstall(name, is_lost=False)


def test_stopped_machines_are_started_again(cluster):
    before = cluster.instances()
    stopped = list(cluster.instances("stopped"))
    cluster.tag(stopped, "hvdray-lease-end", 1)  # as a lease that ended leaves it
    result = cluster.go("up", "--yes", "cluster.yaml")
    assert "workers (worker): start 2" in result.stdout
    assert [tags["hvdray-lease-end"] for tags in cluster.tags() if "hvdray-lease-end" in tags] == ["0", "0"]
    assert set(cluster.instances("running")) == {name for name, (state, _, _) in before.items() if state != "terminated"}


def test_the_lease_is_in_the_tags(cluster):
    assert "no node has a lease" in cluster.go("down", "--yes", "--expired", "cluster.yaml").stdout
    began = time.time()
    cluster.go("up", "--yes", "--lease", "1h", "cluster.yaml")
    (end,) = {tags.get("hvdray-lease-end") for tags in cluster.tags()}
    assert began + 3599 <= int(end) <= time.time() + 3601
    assert "its lease ends at" in cluster.go("down", "--yes", "--expired", "cluster.yaml").stdout
    cluster.go("up", "--yes", "--lease", "0", "cluster.yaml")
    assert {tags.get("hvdray-lease-end") for tags in cluster.tags()} == {"0"}
    assert "no node has a lease" in cluster.go("down", "--yes", "--expired", "cluster.yaml").stdout
    assert len(cluster.instances("running")) == len(NAMES)


def test_down_that_is_killed_is_finished_by_the_next(cluster):
    for line in ("stop this", "stopping"):
        with cluster.start("down", "--yes", "cluster.yaml") as process:
            read_until(process, line)
            process.kill()
    # Nor does it need somebody who reads what it says.
    with cluster.start("down", "--yes", "cluster.yaml", "--report", "report", "--events", "events") as process:
        process.stdout.close()
    assert process.wait(60) == 141
    assert {(node["need"], node["state"]) for node in cluster.report()["nodes"]} <= {("end", "stopped")}
    events = [json.loads(line) for line in (cluster.folder / "events").read_text().splitlines()]
    assert (events[0]["schema"], events[-1]["exit"]["code"]) == ("hvdray.cluster_events/1", 141)
    assert not cluster.instances("pending", "running", "stopping")
    assert not cluster.ray_processes("h1"), "the head's Ray was ended before its machine"


def test_down_twice_is_fine_and_purge_leaves_nothing(cluster):
    stopped = cluster.instances("stopped")
    said = cluster.go("down", "--yes", "cluster.yaml").stdout
    assert stopped and all(name in said for name in stopped) and "down --purge cluster.yaml" in said, said
    assert "No nodes remaining." not in said
    # A head in another region: the profile is the same.
    east = 'import boto3\neast = boto3.client("ec2", endpoint_url=ec2.meta.endpoint_url, region_name="us-east-1")\n'
    (user,) = cluster.cloud.boto(east + f"""
arn = iam.list_instance_profiles()["InstanceProfiles"][0]["Arn"]
made = east.run_instances(ImageId="{IMAGE}", MinCount=1, MaxCount=1, IamInstanceProfile={{"Arn": arn}})
result = [each["InstanceId"] for each in made["Instances"]]""")
    result = cluster.go("down", "--yes", "--purge", "cluster.yaml")
    assert f"instance profile ray-autoscaler-v1: kept, used by {user} in us-east-1" in result.stdout
    cluster.cloud.boto(east + f'result = str(east.terminate_instances(InstanceIds=["{user}"]))')
    assert "instance profile ray-autoscaler-v1: deleted" in cluster.go("down", "--yes", "--purge", "cluster.yaml").stdout
    assert "security group ray-autoscaler-cloud-test: deleted" in result.stdout
    assert not cluster.instances("pending", "running", "stopping", "stopped")
    left = cluster.cloud.boto("""
result = [[group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]],
          [key["KeyName"] for key in ec2.describe_key_pairs()["KeyPairs"]],
          [profile["InstanceProfileName"] for profile in iam.list_instance_profiles()["InstanceProfiles"]]]""")
    assert left == [["default"], [], []]
    assert not list((cluster.cloud_hosts.home / ".ssh").glob("*.pem"))


def test_the_heads_autoscaler_gets_what_ray_would_give_it(cluster):
    """Ray itself must read it; that it starts workers by it is Ray's part."""
    cluster.reinstall(*NAMES)
    cluster.write(workers=0, most=2, setup="ls ~/ray_bootstrap_key.pem >>~/log", head_option=" --autoscaling-config=~/ray_bootstrap_config.yaml",
                  ray="ls ~/ray_bootstrap_config.yaml ~/ray_bootstrap_key.pem >>~/log && exit 7; ray start")
    result = cluster.go("up", "--yes", "cluster.yaml", code=125)
    assert "autoscaler" in result.stdout
    assert len(cluster.instances("running")) == 1, "workers are the autoscaler's"
    home = cluster.home("h1")
    for name in ("ray_bootstrap_config.yaml", "ray_bootstrap_key.pem"):
        assert (home / name).stat().st_mode & 0o777 == 0o600
    config = json.loads((home / "ray_bootstrap_config.yaml").read_text())
    worker = config["available_node_types"]["worker"]["node_config"]
    assert worker["KeyName"] and worker["SubnetIds"] and worker["SecurityGroupIds"]
    assert "IamInstanceProfile" in config["available_node_types"]["head"]["node_config"]
    assert config["auth"]["ssh_private_key"] == "~/ray_bootstrap_key.pem"
    assert config["head_setup_commands"] == ["ls ~/ray_bootstrap_key.pem >>~/log"], "and it was there then"
    assert re.search("i-[0-9a-f]+ run on: ", result.stderr)
    cluster.go("down", "--yes", "--purge", "cluster.yaml")
    cluster.write()


def test_a_machine_type_that_is_mistyped_is_told_before_anything_is_made(cluster):
    cluster.write(name="wrong.yaml", machine="m5.lagre")
    assert "m5.lagre" in cluster.go("up", "--yes", "wrong.yaml", "--report", "report", code=2).stderr
    assert (cluster.report()["exit"]["code"], cluster.report()["nodes"]) == (2, [])
    assert not cluster.instances("pending", "running")


def test_a_file_mount_that_is_not_there_is_told_before_anything_is_made(cluster):
    path = cluster.folder / "wrong.yaml"
    path.write_text((cluster.folder / "cluster.yaml").read_text() + 'file_mounts: {"~/data": /no/such}\n')
    assert "/no/such" in cluster.go("up", "--yes", "wrong.yaml", "--report", "report", code=2).stderr
    assert cluster.report()["exit"]["code"] == 2
    assert not cluster.instances("pending", "running")


def test_ctrl_c_at_the_question_changes_nothing(cluster):
    (cluster.folder / "report").unlink()
    terminal = Terminal(lambda **io: cluster.start("up", "cluster.yaml", "--report", "report", **io))
    terminal.wait_for("Do this to cluster")
    terminal.type("\x03")
    terminal.wait_for("interrupted; nothing was changed")
    assert terminal.code() == cluster.report()["exit"]["code"] == 130
    assert not cluster.instances("pending", "running")


def test_credentials_that_aws_refuses_are_told(cluster):
    result = cluster.go("up", "--yes", "cluster.yaml", code=2, AWS_SECRET_ACCESS_KEY="wrong")
    assert "HVD-E0230" in result.stderr


def test_ctrl_c_while_machines_start_says_how_to_go_on(cluster):
    with cluster.start("up", "--yes", "cluster.yaml", "--report", "report") as process:
        said = read_until(process, "creating worker")
        process.send_signal(signal.SIGINT)
        said += process.stdout.read()
    assert process.returncode == cluster.report()["exit"]["code"] == 130, said
    assert "hvdray down" in said
    cluster.go("down", "--yes", "--purge", "cluster.yaml")
    assert not cluster.instances("pending", "running", "stopped")
