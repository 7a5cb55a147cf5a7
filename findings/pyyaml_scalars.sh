#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyYAML 6.0.2, with which Ray reads cluster files: words of a valid file that are no text, or raise, without looking so.
#
# Expected: a lone "=" is text, and so is what merely resembles a number ("0_", "0x_").
# Seen: "0_" is 0 and "1__0" is 10. "1:30" is 90 but "0:30" is text, and "1:30.5" is 90.5. "1e3" is text, "1.e+3" is 1000.0.
# "0x_" and "0b_" match the patterns of integers and then raise ValueError; a lone "=" raises ConstructorError. So a tag or a
# name of such a form must be quoted in a cluster file, or `ray up` ends with a traceback.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check PyYAML==6.0.2
"$folder/venv/bin/python" - <<'PYTHON'
import yaml

print("PyYAML", yaml.__version__)
READ = {"0_": 0, "1__0": 10, "1:30": 90, "0:30": "0:30", "1:30.5": 90.5, "1:60": "1:60", "190:20:30": 685230,
        "1e3": "1e3", "1.e+3": 1000.0, "08": "08", "0o17": "0o17", ".5_": 0.5}
RAISED = {"0x_": ValueError, "0b_": ValueError, "=": yaml.constructor.ConstructorError}
for text, value in READ.items():
    found = yaml.safe_load(f"tag: {text}")["tag"]
    print(f"{text:>10} -> {found!r}")
    assert found == value and type(found) is type(value), (text, found)
for text, kind in RAISED.items():
    try:
        found = yaml.safe_load(f"tag: {text}")
    except kind as error:
        print(f"{text:>10} -> {type(error).__name__}")
    else:
        raise AssertionError((text, found))
PYTHON
echo "as described"
