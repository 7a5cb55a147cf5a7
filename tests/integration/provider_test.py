# SPDX-License-Identifier: Apache-2.0
"""The AWS provider against moto, through tests/tools/provider_probe: what exists in the account afterwards is read by
Amazon's own library, and what Ray would make of the same file by Ray itself."""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import time

import pytest

FILE = """
cluster_name: small
max_workers: 5
provider:
    type: aws
    region: us-west-2
    availability_zone: us-west-2b,us-west-2a
auth: {ssh_user: ubuntu}
head_node_type: head
available_node_types:
    head:
        resources: {CPU: 1}
        node_config:
            InstanceType: m5.large
            ImageId: ami-0b294f219d14e6a82
            BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 140}}]
    gpu:
        max_workers: 4
        resources: {}
        node_config:
            InstanceType: g4dn.xlarge
            ImageId: ami-0b294f219d14e6a82
            InstanceMarketOptions: {MarketType: spot}
            TagSpecifications:
            - {ResourceType: instance, Tags: [{Key: team, Value: vision}]}
"""
INSTANCES = """
result = [{"id": i["InstanceId"], "type": i["InstanceType"], "state": i["State"]["Name"],
           "zone": i["Placement"]["AvailabilityZone"], "spot": i.get("InstanceLifecycle") == "spot",
           "tags": {t["Key"]: t["Value"] for t in i.get("Tags", [])}}
          for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]
          if i["State"]["Name"] != "terminated"]
"""
RESOURCES = """
def names(call, key, **words):
    try:
        return call(**words)[key]
    except iam.exceptions.NoSuchEntityException:
        return None
profile = names(iam.get_instance_profile, "InstanceProfile", InstanceProfileName="ray-autoscaler-v1")
role = names(iam.list_attached_role_policies, "AttachedPolicies", RoleName="ray-autoscaler-v1")
result = {"keys": [k["KeyName"] for k in ec2.describe_key_pairs()["KeyPairs"]],
          "groups": [g for g in ec2.describe_security_groups()["SecurityGroups"]
                     if g["GroupName"] != "default"],
          "roles": profile and [r["RoleName"] for r in profile["Roles"]],
          "policies": role and sorted(p["PolicyName"] for p in role)}
"""
THROTTLED = {"status": 503, "code": "RequestLimitExceeded", "message": "Request limit exceeded."}
NO_CAPACITY = {"status": 500, "code": "InsufficientInstanceCapacity", "message": "We do not have enough g4dn.xlarge."}
QUOTA = {"status": 400, "code": "VcpuLimitExceeded", "message": "You have requested more vCPU capacity than 4."}
NOT_FOUND = {"status": 400, "code": "InvalidInstanceID.NotFound", "message": "The instance ID does not exist"}


class Probe:
    """Runs provider_probe on a file of the test's own."""

    def __init__(self, binary, cloud, folder):
        self.binary, self.cloud, self.home = binary, cloud, folder / "home"
        self.home.mkdir()
        self.file = folder / "cluster.yaml"
        self.file.write_text(FILE)
        self.notes = ""

    def popen(self, *words, **environment):
        return subprocess.Popen([self.binary, self.file, *map(str, words)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=self.cloud.environment(self.home, **environment))

    def run(self, *words, **environment):
        """The JSON that a successful call prints."""
        process = self.popen(*words, **environment)
        out, self.notes = process.communicate(timeout=120)
        assert process.returncode == 0, self.notes
        return json.loads(out)

    def fail(self, *words, **environment):
        """What a call that fails says."""
        process = self.popen(*words, **environment)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 1, out
        return errors

    def edit(self, old, new):
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))


@pytest.fixture
def probe(request, aws_cloud, tmp_path):
    binary = pathlib.Path(request.config.getoption("--bin-dir")) / "provider_probe"
    return Probe(binary, aws_cloud, tmp_path)


def ids(nodes):
    return sorted(node["id"] for node in nodes)


def test_plan_makes_nothing_and_prepare_makes_it_once(probe, aws_cloud):
    plan = probe.run("plan")
    before = aws_cloud.boto(RESOURCES)
    assert before == {"keys": [], "groups": [], "roles": None, "policies": None}
    made = {(step["action"], step["what"]) for step in plan["steps"]}
    assert {("create", "key pair"), ("create", "security group"), ("create", "instance profile")} <= made

    first = probe.run("prepare")
    there = aws_cloud.boto(RESOURCES)
    assert there["keys"] == ["ray-autoscaler_us-west-2"]
    assert there["roles"] == ["ray-autoscaler-v1"]
    assert there["policies"] == ["AmazonEC2FullAccess", "AmazonS3FullAccess"]
    (group,) = there["groups"]
    assert group["GroupName"] == "ray-autoscaler-small"
    assert {tag["Key"]: tag["Value"] for tag in group["Tags"]}.items() >= {
        "ray-autoscaler": "true", "ray-cluster-name": "small"}.items()
    rules = {(rule["IpProtocol"], rule.get("FromPort")): rule for rule in group["IpPermissions"]}
    assert rules["tcp", 22]["IpRanges"][0]["CidrIp"] == "0.0.0.0/0"
    assert [pair["GroupId"] for rule in group["IpPermissions"] if rule["IpProtocol"] == "-1"
            for pair in rule["UserIdGroupPairs"]] == [group["GroupId"]]
    key = pathlib.Path(first["private_key_path"])
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and "PRIVATE KEY" in key.read_text()

    second = probe.run("prepare")
    assert {step["action"] for step in second["steps"]} == {"keep"}
    assert second["nodes"] == first["nodes"]
    assert aws_cloud.boto(RESOURCES) == there


RAY = """
import json, os, sys, yaml
sys.path.append(sys.argv[2])   # boto3, which Ray's environment lacks
import warnings; warnings.simplefilter("ignore")
from ray.autoscaler._private.util import fillout_defaults, hash_launch_conf, prepare_config
from ray.autoscaler._private.aws.config import bootstrap_aws
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
config = prepare_config(yaml.safe_load(open(sys.argv[1])))
config = AWSNodeProvider.fillout_available_node_types_resources(config)
config = bootstrap_aws(config)
head = config["available_node_types"][config["head_node_type"]]["node_config"] | config["head_node"]
provider = AWSNodeProvider(config["provider"], config["cluster_name"])
nodes = {name: kind["node_config"] for name, kind in config["available_node_types"].items()}
live = {i: provider.node_tags(i) for i in provider.non_terminated_nodes({})}
os.write(3, json.dumps({
    "head": head, "nodes": nodes, "live": live, "auth": config["auth"],
    "head_hash": hash_launch_conf(head, config["auth"]),
    "hashes": {name: hash_launch_conf(node, config["auth"]) for name, node in nodes.items()},
    "resources": {name: kind["resources"] for name, kind in config["available_node_types"].items()}}).encode())
os._exit(0)
"""


def ask_ray(request, probe, aws_cloud):
    """What the real Ray makes of the same file in the same account."""
    ray = request.config.getoption("--ray-venv")
    if not ray:
        pytest.skip("no Ray: --ray-venv")
    (boto,) = (aws_cloud.venv / "lib").glob("python*/site-packages")
    read_end, write_end = os.pipe()
    environment = aws_cloud.environment(probe.home, AWS_DEFAULT_REGION="us-west-2")
    done = subprocess.run(["bash", "-c", f'exec "$@" 3>&{write_end}', "-", f"{ray}/bin/python", "-c", RAY,
                           probe.file, boto], env=environment, pass_fds=[write_end], capture_output=True,
                          text=True, timeout=240)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as answer:
        text = answer.read()
    assert text, done.stdout + done.stderr
    return json.loads(text)


@pytest.mark.rest
def test_ray_sees_the_same_cluster(request, probe, aws_cloud):
    prepared = probe.run("prepare")
    created = probe.run("create", "head", "head", 1, "r1")["nodes"]
    theirs = ask_ray(request, probe, aws_cloud)
    head, _, gpu = prepared["nodes"]
    assert (head["kind"], gpu["node_type"]) == ("head", "gpu")
    assert head["node_config"] == theirs["head"]
    assert gpu["node_config"] == theirs["nodes"]["gpu"]
    assert head["launch_hash"] == theirs["head_hash"]
    assert gpu["launch_hash"] == theirs["hashes"]["gpu"]
    assert head["resources"] == theirs["resources"]["head"]
    assert gpu["resources"] == theirs["resources"]["gpu"]
    assert prepared["private_key_path"] == theirs["auth"]["ssh_private_key"]
    assert list(theirs["live"]) == ids(created)
    (tags,) = theirs["live"].values()
    assert tags["ray-node-name"] == "ray-small-head" and tags["ray-launch-config"] == theirs["head_hash"]


SCALARS = """
            CpuOptions: {CoreCount: 0x2, ThreadsPerCore: 0b1}
            BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 1_40, Iops: 05670, Encrypted: no}}]
            MetadataOptions: {HttpPutResponseHopLimit: 1:1}
            EnclaveOptions: {Enabled: off}
            TagSpecifications: [{ResourceType: instance, Tags: [{Key: n, Value: 1e3}, {Key: y, Value: 123e45}]}]
"""


def test_scalars_of_yaml_1_1_have_rays_launch_hash(request, probe, aws_cloud):
    block = "            BlockDeviceMappings: [{DeviceName: /dev/sda1, Ebs: {VolumeSize: 140}}]\n"
    probe.edit(block, SCALARS[1:])
    prepared = probe.run("prepare")
    theirs = ask_ray(request, probe, aws_cloud)
    assert prepared["nodes"][0]["node_config"] == theirs["head"]
    assert prepared["nodes"][0]["launch_hash"] == theirs["head_hash"]


def test_the_text_parameters_are_those_of_amazons_model(aws_cloud):
    source = (pathlib.Path(__file__).resolve().parents[2] / "cluster/file/cluster_schema.cc").read_text()
    table = source.split("kAwsText[] = {")[1].split("};")[0]
    ours = set(re.findall(r'"(\w+)"', table))
    theirs = json.loads(subprocess.run([aws_cloud.venv / "bin/python", "-c", """
import json
import botocore.session
model = botocore.session.get_session().get_service_model("ec2")
kinds = {}
def walk(shape, name, above=()):
    if shape.name in above:
        return
    if shape.type_name == "structure":
        for key, member in shape.members.items():
            walk(member, key, (*above, shape.name))
    elif shape.type_name == "list":
        walk(shape.member, name, (*above, shape.name))
    else:
        kinds.setdefault(name, set()).add(shape.type_name)
walk(model.operation_model("RunInstances").input_shape, "")
walk(model.shape_for("IpPermission"), "")
print(json.dumps({name: sorted(kind) for name, kind in kinds.items()}))
"""], check=True, capture_output=True, text=True).stdout)
    texts = {name for name, kinds in theirs.items() if kinds in (["string"], ["timestamp"])}
    assert ours == texts - {"ClientToken"} | {"SubnetIds"}
    assert all(len(kinds) == 1 for kinds in theirs.values())


def test_node_config_is_sent_as_amazons_library_sends_it(probe, aws_cloud):
    config = {
        "InstanceType": "p4d.24xlarge", "ImageId": "ami-1", "KeyName": "k ü &=", "EbsOptimized": True,
        "SecurityGroups": ["g-1", "g-2"], "UserData": "#!/bin/sh\necho ä\n",
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 140, "Encrypted": False}},
                                {"DeviceName": "/dev/sdb", "NoDevice": ""}],
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "subnet-1", "Groups": ["sg-1", "sg-2"],
                               "InterfaceType": "efa",
                               "Ipv6Addresses": [{"Ipv6Address": "::1"}],
                               "PrivateIpAddresses": [{"Primary": True, "PrivateIpAddress": "10.0.0.1"}]}],
        "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.5"}},
        "IamInstanceProfile": {"Arn": "arn:aws:iam::1:instance-profile/x"},
        "TagSpecifications": [{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "b"}]}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "LicenseSpecifications": [{"LicenseConfigurationArn": "arn"}],
        "Placement": {"GroupName": "g", "PartitionNumber": 3},
        "CpuOptions": {"CoreCount": 4}, "Monitoring": {"Enabled": True}}
    file = {"cluster_name": "form", "max_workers": 1, "provider": {"type": "aws", "region": "us-west-2"},
            "auth": {"ssh_user": "ubuntu"}, "head_node_type": "t",
            "available_node_types": {"t": {"resources": {}, "node_config": config}}}
    probe.file.write_text(json.dumps(file))
    ours = probe.run("form", "t")
    theirs = json.loads(subprocess.run(
        [aws_cloud.venv / "bin/python", "-c", """
import base64, json, sys
import botocore.session, botocore.serialize
operation = botocore.session.get_session().get_service_model("ec2").operation_model("RunInstances")
config = json.load(sys.stdin)
config |= {"MinCount": 1, "MaxCount": 1}
config["UserData"] = base64.b64encode(config["UserData"].encode()).decode()
form = botocore.serialize.create_serializer("ec2").serialize_to_request(config, operation)["body"]
print(json.dumps({key: str(value) for key, value in form.items() if key not in ("Action", "Version", "MinCount", "MaxCount")}))
"""], input=json.dumps(config), check=True, capture_output=True, text=True).stdout)
    assert ours == theirs


def test_the_same_request_creates_nothing_twice(probe, aws_cloud):
    first = probe.run("create", "worker", "gpu", 3, "up-1")
    assert len(first["nodes"]) == 3 and first["shortfall"] == ""
    again = probe.run("create", "worker", "gpu", 3, "up-1")
    assert ids(again["nodes"]) == ids(first["nodes"])
    there = aws_cloud.boto(INSTANCES)
    assert ids(there) == ids(first["nodes"])
    assert {node["zone"] for node in there} == {"us-west-2b"} and all(node["spot"] for node in there)
    for node in there:
        assert node["tags"]["team"] == "vision"
        assert node["tags"]["Name"] == "ray-small-worker"
        assert node["tags"]["ray-node-status"] == "uninitialized"
        assert node["tags"]["ray-user-node-type"] == "gpu"


def test_a_lost_answer_creates_nothing_twice(probe, aws_cloud):
    aws_cloud.set_faults(RunInstances=[{"is_lost": True}], CreateSecurityGroup=[{"is_lost": True}],
                         CreateInstanceProfile=[{"is_lost": True}], CreateRole=[{"is_lost": True}],
                         AddRoleToInstanceProfile=[{"is_lost": True}])
    created = probe.run("create", "head", "head", 1, "up-1")
    assert len(aws_cloud.calls("RunInstances")) == 2
    assert ids(aws_cloud.boto(INSTANCES)) == ids(created["nodes"])
    there = aws_cloud.boto(RESOURCES)
    assert len(there["groups"]) == 1 and there["roles"] == ["ray-autoscaler-v1"]


@pytest.mark.rest
def test_throttling_is_waited_out(probe, aws_cloud):
    aws_cloud.set_faults(DescribeInstances=[THROTTLED] * 3, RunInstances=[THROTTLED] * 2)
    created = probe.run("create", "head", "head", 1, "up-1")
    assert len(aws_cloud.calls("RunInstances")) == 3
    assert ids(aws_cloud.boto(INSTANCES)) == ids(created["nodes"])


def test_where_there_is_no_capacity_the_next_zone_is_tried(probe, aws_cloud):
    aws_cloud.set_faults(RunInstances=[NO_CAPACITY])
    probe.run("create", "worker", "gpu", 2, "up-1")
    assert {node["zone"] for node in aws_cloud.boto(INSTANCES)} == {"us-west-2a"}


def test_fewer_machines_are_taken_where_there_are_not_enough(probe, aws_cloud):
    # Three in neither zone, one in the first, the others nowhere.
    aws_cloud.set_faults(RunInstances=[NO_CAPACITY] * 2 + [{}] + [QUOTA] * 9)
    outcome = probe.run("create", "worker", "gpu", 3, "up-1")
    assert len(outcome["nodes"]) == 1
    assert "VcpuLimitExceeded: You have requested more vCPU capacity than 4." in outcome["shortfall"]
    assert "HVD-E0232" in outcome["shortfall"]
    aws_cloud.set_faults()
    assert len(probe.run("create", "worker", "gpu", 3, "up-1")["nodes"]) == 3
    assert len(aws_cloud.boto(INSTANCES)) == 3


def test_on_demand_machines_stand_in_for_spot_ones_if_allowed(probe, aws_cloud):
    aws_cloud.set_faults(RunInstances=[NO_CAPACITY] * 2)
    outcome = probe.run("create", "worker", "gpu", 1, "up-1", "on-demand")
    assert outcome["shortfall"] == "" and "on-demand" in probe.notes
    assert [node["spot"] for node in aws_cloud.boto(INSTANCES)] == [False]


@pytest.mark.rest
def test_a_machine_that_is_not_visible_yet_is_listed_and_tagged(probe, aws_cloud):
    nothing = {"status": 200, "body": "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"}
    # Prepare, the look for earlier machines, and the list after.
    aws_cloud.set_faults(DescribeInstances=[{}, {}, nothing])
    created = probe.run("create", "head", "head", 1, "up-1")
    assert ids(created["listed"]) == ids(created["nodes"])
    assert created["listed"][0]["state"] == "pending"
    aws_cloud.set_faults(CreateTags=[NOT_FOUND] * 2)
    probe.run("tag", created["nodes"][0]["id"], "ray-node-status=up-to-date", "extra=1")
    assert len(aws_cloud.calls("CreateTags")) == 3
    (node,) = aws_cloud.boto(INSTANCES)
    assert (node["tags"]["ray-node-status"], node["tags"]["extra"]) == ("up-to-date", "1")


def test_spot_machines_are_terminated_and_others_stopped_and_started_again(probe, aws_cloud):
    (head,) = probe.run("create", "head", "head", 1, "up-1")["nodes"]
    (spot,) = probe.run("create", "worker", "gpu", 1, "up-2")["nodes"]
    removed = probe.run("remove", head["id"], spot["id"])
    assert {node["id"]: node["is_stopped"] for node in removed} == {head["id"]: True, spot["id"]: False}
    assert [(node["id"], node["state"]) for node in probe.run("list")] == [(head["id"], "stopped")]
    started = probe.run("start", "head", "head", 1, "up-3")
    assert ids(started["nodes"]) == [head["id"]]
    assert [node["state"] for node in aws_cloud.boto(INSTANCES)] == ["running"]
    assert probe.run("start", "head", "head", 1, "up-4")["nodes"] == []
    probe.edit("type: aws", "type: aws\n    cache_stopped_nodes: false")
    assert probe.run("remove", head["id"]) == [{"id": head["id"], "is_stopped": False}]
    assert probe.run("list") == [] == aws_cloud.boto(INSTANCES)


@pytest.mark.rest
def test_purge_leaves_nothing_and_again_finds_nothing(probe, aws_cloud):
    (head,) = probe.run("create", "head", "head", 1, "up-1")["nodes"]
    probe.run("terminate", head["id"])
    # A machine that is ending still holds the group.
    in_use = {"status": 400, "code": "DependencyViolation", "message": "sg has a dependent object"}
    aws_cloud.set_faults(DeleteSecurityGroup=[in_use])
    assert {(step["action"], step["what"]) for step in probe.run("purge")} == {
        ("delete", "key pair"), ("delete", "security group"), ("delete", "instance profile"), ("delete", "role")}
    assert "waiting until nothing uses sg-" in probe.notes
    assert aws_cloud.boto(RESOURCES) == {"keys": [], "groups": [], "roles": None, "policies": None}
    assert list((probe.home / ".ssh").iterdir()) == []
    assert probe.run("purge") == []


@pytest.mark.rest
def test_purge_removes_no_key_file_but_the_one_that_up_wrote_here(probe, aws_cloud):
    probe.run("prepare")
    (key,) = (probe.home / ".ssh").glob("*.pem")
    key.chmod(0o600)
    key.write_text("a key of my own\n")
    (step,) = [step for step in probe.run("purge") if step["what"] == "key pair"]
    assert step["action"] == "delete" and "stays: not written by hvdray up here" in step["detail"]
    assert key.read_text() == "a key of my own\n"
    (probe.home / ".ssh" / (key.name + ".hvdray")).unlink()
    probe.run("prepare")
    assert probe.run("purge")
    assert key.read_text() == "a key of my own\n"


def test_purge_keeps_what_another_cluster_uses(probe, aws_cloud):
    probe.run("prepare")
    probe.edit("cluster_name: small", "cluster_name: other")
    probe.run("create", "head", "head", 1, "up-1")
    probe.edit("cluster_name: other", "cluster_name: small")
    steps = {step["what"]: step for step in probe.run("purge")}
    assert steps["security group"]["action"] == "delete"
    (node,) = aws_cloud.boto(INSTANCES)
    for what in ("key pair", "instance profile"):
        assert (steps[what]["action"], steps[what]["detail"]) == ("keep", "used by " + node["id"])
    there = aws_cloud.boto(RESOURCES)
    assert there["keys"] == ["ray-autoscaler_us-west-2"] and there["roles"] == ["ray-autoscaler-v1"]


@pytest.mark.rest
def test_prepare_killed_after_each_call_goes_on_and_makes_nothing_twice(probe, aws_cloud):
    actions = ["CreateKeyPair", "CreateInstanceProfile", "CreateRole", "AttachRolePolicy", "AddRoleToInstanceProfile",
               "CreateSecurityGroup", "AuthorizeSecurityGroupIngress"]
    for action in actions:
        # The call happens, its answer never comes, it is asked again: the process is killed while it waits to ask once more.
        before = len(aws_cloud.calls(action))
        aws_cloud.set_faults(**{action: [{"is_lost": True}] + [THROTTLED] * 9})
        process = probe.popen("prepare")
        deadline = time.monotonic() + 60
        while len(aws_cloud.calls(action)) < before + 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.communicate()
    aws_cloud.set_faults()
    probe.run("prepare")
    there = aws_cloud.boto(RESOURCES)
    # The key of the lost answer is of no use to anybody: Ray's rule takes the next name.
    assert there["keys"] == ["ray-autoscaler_us-west-2", "ray-autoscaler_1_us-west-2"]
    (group,) = there["groups"]
    assert len(group["IpPermissions"]) == 2
    assert there["roles"] == ["ray-autoscaler-v1"]
    assert there["policies"] == ["AmazonEC2FullAccess", "AmazonS3FullAccess"]
    probe.run("purge")
    assert aws_cloud.boto(RESOURCES) == {"keys": [], "groups": [], "roles": None, "policies": None}


def test_credentials_of_the_machine_are_signed_with_their_token(probe, aws_cloud):
    assert probe.run("list", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_EC2_METADATA_DISABLED="",
                     AWS_EC2_METADATA_SERVICE_ENDPOINT=aws_cloud.url) == []


def test_credentials_of_a_profile_are_found(probe):
    folder = probe.home / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("[work]\naws_access_key_id = testing\naws_secret_access_key=testing\n")
    environment = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    assert probe.run("list", AWS_PROFILE="work", **environment) == []
    errors = probe.fail("list", AWS_PROFILE="play", **environment)
    assert "AWS_PROFILE is play, which is in neither" in errors and "HVD-E0102" in errors
    errors = probe.fail("list", **environment)
    assert "no AWS credentials found" in errors and "HVD-E0230" in errors


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


KEYS = """echo '{"Version": 1, "AccessKeyId": "testing", "SecretAccessKey": "testing"}'\n"""


def test_credentials_come_from_a_process_and_from_the_aws_cli(probe):
    folder = probe.home / ".aws"
    folder.mkdir()
    process = program(probe.home / "bin dir/keys", 'test "$1" = "a b" || { echo "no such key" >&2; exit 3; }\n' + KEYS)
    (folder / "config").write_text(
        f"[profile own]\ncredential_process = '{process}' 'a b'\n"
        f"[profile bad]\ncredential_process = '{process}' other\n"
        "[profile sso]\nsso_session = s\n[sso-session s]\nsso_start_url = https://x\n")
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    assert probe.run("list", AWS_PROFILE="own", **none) == []
    errors = probe.fail("list", AWS_PROFILE="bad", **none)
    assert "exited with code 3: no such key" in errors and "HVD-E0230" in errors, errors
    bare = {"PATH": str(program(probe.home / "tools/aws", "exit 255\n").parent), **none}
    errors = probe.fail("list", AWS_PROFILE="sso", **bare)
    assert "aws sso login --profile sso" in errors, errors
    program(probe.home / "tools/aws", 'test "$*" = "configure export-credentials --profile sso --format process" || exit 3\n'
            + KEYS)
    assert probe.run("list", AWS_PROFILE="sso", **bare) == []
    (probe.home / "tools/aws").unlink()
    errors = probe.fail("list", AWS_PROFILE="sso", **bare)
    assert "no AWS CLI here" in errors and "aws configure export-credentials --profile sso" in errors, errors


def test_wrong_and_expired_credentials_are_told_without_the_secret(probe, aws_cloud):
    errors = probe.fail("list", AWS_SECRET_ACCESS_KEY="not-the-secret")
    assert "SignatureDoesNotMatch" in errors and "from the environment" in errors
    assert "not-the-secret" not in errors
    expired = {"status": 400, "code": "RequestExpired", "message": "Request has expired."}
    aws_cloud.set_faults(DescribeInstances=[expired] * 3)
    errors = probe.fail("list")
    assert "RequestExpired: Request has expired." in errors and "clock" in errors
    assert len(aws_cloud.calls("DescribeInstances")) == 2
    denied = {"status": 403, "code": "UnauthorizedOperation", "message": "You are not authorized."}
    aws_cloud.set_faults(RunInstances=[denied])
    assert "UnauthorizedOperation" in probe.fail("create", "head", "head", 1, "up-1")
    assert aws_cloud.boto(INSTANCES) == []


def test_a_mistyped_region_is_told(probe):
    probe.edit("region: us-west-2", "region: us-wset-2")
    probe.edit("    availability_zone: us-west-2b,us-west-2a\n", "")
    # Unreachable on purpose: the name does not exist, and nothing may leave this machine.
    errors = probe.fail("list", AWS_ENDPOINT_URL="", AWS_ENDPOINT_URL_EC2="http://ec2.us-wset-2.invalid")
    assert "no address for the name ec2.us-wset-2.invalid" in errors
    assert "did you mean us-west-2?" in errors


def test_wrong_types_and_subnets_are_told_before_anything_is_made(probe, aws_cloud):
    probe.edit("InstanceType: g4dn.xlarge", "InstanceType: g4nd.xlarge")
    assert "node type gpu: no InstanceType g4nd.xlarge in us-west-2" in probe.fail("prepare")
    probe.edit("InstanceType: g4nd.xlarge", "InstanceType: g4dn.xlarge")
    probe.edit("us-west-2b,us-west-2a", "us-west-2z")
    errors = probe.fail("prepare")
    assert "no usable subnet in us-west-2z" in errors and "us-west-2a, us-west-2b" in errors
    assert aws_cloud.boto(RESOURCES)["groups"] == []


@pytest.mark.rest
def test_an_interrupt_ends_a_call_that_waits(probe, aws_cloud):
    aws_cloud.set_faults(DescribeInstances=[THROTTLED] * 100)
    process = probe.popen("list")
    deadline = time.monotonic() + 60
    while len(aws_cloud.calls("DescribeInstances")) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(aws_cloud.calls("DescribeInstances")) < 9, errors


def test_an_interrupt_ends_a_credential_process_that_hangs(probe):
    started = probe.home / "started"
    process = program(probe.home / "keys", f"echo $$ > {started}.new; mv {started}.new {started}; sleep 1000\n")
    (probe.home / ".aws").mkdir()
    (probe.home / ".aws/config").write_text(f"[profile own]\ncredential_process = {process}\n")
    listing = probe.popen("list", AWS_PROFILE="own", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    listing.send_signal(signal.SIGINT)
    _, errors = listing.communicate(timeout=60)
    assert listing.returncode == 1 and "cancelled" in errors, errors
    words = pathlib.Path(f"/proc/{started.read_text().strip()}/cmdline")
    while words.exists() and words.read_bytes():
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.02)
