#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings other minor versions of Python than this Debian's, for the tests of the package hvdray, into the user's cache, and
# prints their interpreters, separated by commas: the oldest version supported, of Debian 11, and that of Debian 13. Each is a
# virtual environment with cloudpickle, but without pip: PYTHONPATH is to hold the wheels beside it, in ../wheels.
# One that can't be had here is left out, and a line on stderr says so: other machines' mirrors may not have it.
# Usage: tools/other_pythons.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

cache=$(cache_folder)

# An unpacked interpreter finds its modules by its own path, and its libraries by what is written into it here. It keeps this
# machine's C library, unless its own is newer.
unpack() {  # unpack VERSION APT ROOT
  local version=$1 apt=$2 root=$3 package libc loader folders
  local program=$root/usr/bin/python$version
  libc=$(echo "$apt"/archives/libc6_*.deb)
  for package in "$apt"/archives/*.deb; do
    [[ $package == "$libc" ]] || dpkg-deb --extract "$package" "$root"
  done
  folders=$(find "$root" -maxdepth 3 -type d -path '*/lib/*-linux-gnu' | paste -sd:)
  if dpkg --compare-versions "$(dpkg-deb --field "$libc" Version)" gt "$(dpkg-query -W -f '${Version}' libc6)"; then
    dpkg-deb --extract "$libc" "$root"
    folders=$(find "$root" -maxdepth 3 -type d -path '*/lib/*-linux-gnu' | paste -sd:)
    loader=$(find "$root" -type f -name 'ld-linux-*.so.*' -print -quit)
    patchelf --set-interpreter "$loader" "$program"
  fi
  patchelf --force-rpath --set-rpath "$folders" "$program"
  "$program" -m compileall -q "$root/usr/lib/python$version" >/dev/null || true  # some are of a wrong syntax on purpose
}

make() {  # make SUITE VERSION FOLDER
  local suite=$1 version=$2 folder=$3
  rm -rf "$folder"
  mkdir -p "$folder/root"
  apt_apart "$folder/apt" "$suite" --yes --download-only install "python$version-venv"  # and what it needs
  unpack "$version" "$folder/apt" "$folder/root"
  rm -rf "$folder/apt"
  ln -s root/usr/share/python-wheels "$folder/wheels"
  "$folder/root/usr/bin/python$version" -m venv --without-pip "$folder/venv"
  PYTHONPATH=$(echo "$folder"/wheels/*.whl | tr ' ' :) \
    "$folder/venv/bin/python" -m pip install -q --disable-pip-version-check 'cloudpickle>=2.2'
  touch "$folder/.complete"
}

found=()
for which in bullseye:3.9 trixie:3.13; do
  suite=${which%:*} version=${which#*:}
  folder=$cache/python-$version log=$cache/python-$version.log
  exec 9>"$folder.lock"
  flock 9  # concurrent runs make it once
  if [[ ! -f $folder/.complete ]]; then
    echo "== Python $version of Debian's $suite (once)" >&2
    # In a shell of its own, because errors do not end one whose status is asked for.
    (set -e; make "$suite" "$version" "$folder") >"$log" 2>&1 &
    wait $! || { echo "$0: no Python $version: $(tail -n 1 "$log"); whole log: $log" >&2; continue; }
  fi
  found+=("$folder/venv/bin/python")
done
exec 9>&-
(IFS=,; echo "${found[*]}")
