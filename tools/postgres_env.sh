#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian's PostgreSQL, for the tests of searches that several machines share, and prints its root directory, which is in
# the user's cache. The package installed would start a server.
# Usage: tools/postgres_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

cache=$(cache_folder)
folder=$cache/postgresql-15 log=$cache/postgresql-15.log

make() {
  local package
  rm -rf "$folder"
  mkdir -p "$folder/apt"
  cd "$folder/apt"
  apt_apart "$folder/apt" bookworm download postgresql-15 postgresql-client-15 libpq5
  for package in *.deb; do
    dpkg-deb --extract "$package" "$folder/root"
  done
  rm -rf "$folder/apt"
  touch "$folder/.complete"
}

exec 9>"$folder.lock"
flock 9  # concurrent runs make it once
if [[ ! -f $folder/.complete ]]; then
  echo "== unpacking PostgreSQL (once)" >&2
  # In a shell of its own, because errors do not end one whose status is asked for.
  (set -e; make) >"$log" 2>&1 &
  wait $! || { tail -n 10 "$log" >&2; echo "$0: no PostgreSQL; whole log: $log" >&2; exit 1; }
fi
exec 9>&-
printf '%s\n' "$folder/root"
