#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# botocore 1.44.8: AWS_DEFAULT_PROFILE goes before AWS_PROFILE, and AWS_SECURITY_TOKEN counts as a session token.
#
# Expected: AWS_PROFILE, the only one of the two that AWS documents today, wins where both are set, as AWS_REGION does over
# AWS_DEFAULT_REGION in other SDKs; a variable by the old name of the token is ignored.
# Seen: the older variable decides whose machines are looked at; AWS_REGION is not read at all, AWS_DEFAULT_REGION alone is; the old token is sent
# where there is no new one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check botocore==1.44.8
cd "$folder"
printf '[profile old]\nregion = us-east-1\n[profile new]\nregion = eu-west-1\n' >config
env -i PATH="$PATH" AWS_SHARED_CREDENTIALS_FILE=none AWS_CONFIG_FILE=config venv/bin/python - <<'PROGRAM'
import os

import botocore.session

os.environ.update(AWS_DEFAULT_PROFILE="old", AWS_PROFILE="new")
session = botocore.session.Session()
print(session.profile, session.get_config_variable("region"))
assert (session.profile, session.get_config_variable("region")) == ("old", "us-east-1")
del os.environ["AWS_DEFAULT_PROFILE"]
os.environ["AWS_REGION"] = "ap-south-1"
assert botocore.session.Session().get_config_variable("region") == "eu-west-1"
os.environ.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="example", AWS_SECURITY_TOKEN="older")
del os.environ["AWS_PROFILE"]
token = botocore.session.Session().get_credentials().token
print(token)
assert token == "older"
PROGRAM
echo "as described"
