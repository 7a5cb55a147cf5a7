#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# botocore 1.44.8: of [default] and [profile default] in one configuration file, the one that stands last replaces the other whole.
#
# Expected: one form always wins, wherever it stands, or keys of both are merged.
# Seen: the last section wins, so that the order of two sections decides the region; keys that only the first has are gone. A comment behind
# a value ("us-west-2  # Oregon") is part of the value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check botocore==1.44.8
cd "$folder"
printf '[default]\nregion = us-east-1\noutput = json\n[profile default]\nregion = eu-west-1\n' >profile_last
printf '[profile default]\nregion = eu-west-1\noutput = json\n[default]\nregion = us-east-1\n' >profile_first
printf '[default]\nregion = us-west-2  # Oregon\n' >comment
env -i PATH="$PATH" AWS_SHARED_CREDENTIALS_FILE=none venv/bin/python - <<'PROGRAM'
import os

import botocore.session

for file, region in (("profile_last", "eu-west-1"), ("profile_first", "us-east-1"), ("comment", "us-west-2  # Oregon")):
    os.environ["AWS_CONFIG_FILE"] = file
    session = botocore.session.Session()
    scoped = session.get_scoped_config()
    print(file, scoped)
    assert session.get_config_variable("region") == region and scoped == {"region": region}
PROGRAM
echo "as described"
