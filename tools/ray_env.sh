#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with unmodified Ray for the tests' clusters and prints its directory,
# which is in the user's cache. hvdray itself does not need it: a client has no Ray.
# Usage: tools/ray_env.sh [VERSION]     default 2.60.0; 2.40.0 is the older version tested
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=${1:-2.60.0}
cache=$(cache_folder)
python=/usr/bin/python3
tag=$($python -c 'import sys; print(f"py{sys.version_info[0]}{sys.version_info[1]}")')
venv=$cache/ray-$version-$tag

# Requirements that Ray does not pin, and whose later releases break it.
pins=()
case "$version" in
  2.40.0) pins=('click<8.2' 'setuptools<80') ;;  # `ray start` copies click's options; pkg_resources
esac

exec 9>"$cache/ray-$version.lock"
flock 9  # concurrent runs make it once

if [[ -x $venv/bin/ray && -f $venv/.complete ]]; then
  echo "$venv"
  exit 0
fi

rm -rf "$venv"
echo "== installing Ray $version (once)" >&2
$python -m venv "$venv" >&2
log=$cache/ray-$version.log
if ! "$venv/bin/pip" install --disable-pip-version-check -q "ray[default]==$version" "${pins[@]}" \
     >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "$0: Ray $version was not installed; whole log: $log" >&2
  exit 1
fi
"$venv/bin/ray" --version >&2
touch "$venv/.complete"
echo "$venv"
