#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# moto 5.2.5: what it lets happen to EC2 instances that EC2 does not, so that a test against it proves less than it seems.
#
# Expected: RunInstances with the ClientToken of an earlier call returns the instances of that call; a terminated instance can't be started;
# an instance type or a key pair that does not exist is refused; UserData of more than 16 KB too.
# Seen: one token used twice starts two instances; StartInstances makes a terminated instance "running" again; the type "p99.large", the key
# pair "absent" and 20,000 bytes of UserData are taken. A security group's duplicate rule and DryRun are answered as EC2 does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check 'moto[ec2]==5.2.5' boto3
cd "$folder"
env AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 venv/bin/python - <<'PROGRAM'
import boto3
import moto
from botocore.exceptions import ClientError


def refused(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


with moto.mock_aws():
    ec2 = boto3.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]

    def run(**more):
        return ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, **more)["Instances"][0]["InstanceId"]

    first, second = run(ClientToken="one"), run(ClientToken="one")
    print("one token, two instances:", first != second)
    assert first != second
    ec2.terminate_instances(InstanceIds=[first])
    ec2.start_instances(InstanceIds=[first])
    state = ec2.describe_instances(InstanceIds=[first])["Reservations"][0]["Instances"][0]["State"]["Name"]
    print("terminated, then started:", state)
    assert state == "running"
    for odd in {"InstanceType": "p99.large"}, {"KeyName": "absent"}, {"UserData": "x" * 20_000}:
        run(**odd)
        print("taken:", *odd)
    group = ec2.create_security_group(GroupName="g", Description="d")["GroupId"]
    rule = {"GroupId": group, "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8"}
    said = [refused(ec2.authorize_security_group_ingress, **rule) for _ in range(2)]
    said.append(refused(ec2.run_instances, ImageId=image, MinCount=1, MaxCount=1, DryRun=True))
    print("refused:", said)
    assert said == [None, "InvalidPermission.Duplicate", "DryRunOperation"]
PROGRAM
echo "as described"
