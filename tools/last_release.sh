#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds hvdray and hvdray-agent of the last release from its commit (tools/last_release.txt), for the tests that run them against
# today's, and prints their directory, which is in the user's cache.
# Usage: tools/last_release.sh
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
source "$tree/tools/machine.sh"

read -r version commit <"$tree/tools/last_release.txt"
cache=$(cache_folder)
folder=$cache/release-$version-${commit:0:8} log=$cache/release-$version.log

make() {
  rm -rf "$folder"
  mkdir -p "$folder/source"
  git -C "$tree" archive "$commit" | tar -x -C "$folder/source"
  # The compiler's name is part of the key of ccache: the other builds call it c++.
  cmake -S "$folder/source" -B "$folder/source/build" -G Ninja -DCMAKE_CXX_COMPILER=c++ -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DHVDRAY_UNITY=ON -DHVDRAY_TESTS=OFF -DHVDRAY_WERROR=OFF \
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  cmake --build "$folder/source/build" --target hvdray hvdray-agent
  mv "$folder/source/build/bin" "$folder/source/configs" "$folder"
  rm -rf "$folder/source"
  touch "$folder/.complete"
}

exec 9>"$folder.lock"
flock 9  # concurrent runs make it once
if [[ ! -f $folder/.complete ]]; then
  git -C "$tree" cat-file -e "$commit^{commit}" 2>/dev/null || {
    echo "$0: this clone lacks commit $commit, the release $version: git fetch --unshallow" >&2
    exit 1
  }
  echo "== building hvdray $version, the last release (once)" >&2
  # In a shell of its own, because errors do not end one whose status is asked for.
  (set -e; make) >"$log" 2>&1 &
  wait $! || { tail -n 10 "$log" >&2; echo "$0: no hvdray $version; whole log: $log" >&2; exit 1; }
fi
exec 9>&-
printf '%s\n' "$folder/bin"
