#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with moto's server, the AWS of the tests, and prints its directory, which is in the user's
# cache.
# Usage: tools/moto_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=5.2.5
cache=$(cache_folder)
python=/usr/bin/python3
tag=$($python -c 'import sys; print(f"py{sys.version_info[0]}{sys.version_info[1]}")')
venv=$cache/moto-$version-$tag

exec 9>"$cache/moto-$version.lock"
flock 9  # concurrent runs make it once

if [[ -x $venv/bin/moto_server && -f $venv/.complete ]]; then
  echo "$venv"
  exit 0
fi

rm -rf "$venv"
echo "== installing moto $version (once)" >&2
$python -m venv "$venv" >&2
log=$cache/moto-$version.log
if ! "$venv/bin/pip" install --disable-pip-version-check -q "moto[server]==$version" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "$0: moto $version was not installed; whole log: $log" >&2
  exit 1
fi
touch "$venv/.complete"
echo "$venv"
