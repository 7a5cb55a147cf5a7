#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lintian of Debian 12 (2.116.3) takes a program linked with -static-pie for a shared library, and does not know a field of its dpkg.
#
# Expected: a static program in a package gives "statically-linked-binary", whether or not it is position independent; and fields that
# dpkg 1.21 documents (deb-src-control, Static-Built-Using since 1.21.3) are known.
# Seen: -static gives that tag. -static-pie gives "shared-library-lacks-prerequisites" instead, an override of the former is unused, and
# Static-Built-Using is an unknown field. Needs gcc.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export DEBIAN_FRONTEND=noninteractive
command -v lintian >/dev/null || { echo "$0: apt-get install lintian=2.116.3+deb12u1 first" >&2; exit 1; }
lintian --version
echo 'int main() { return 0; }' >program.c

tags() {  # tags OPTION: what lintian says of a package with a program that is linked so
  rm -rf package
  mkdir -p package/DEBIAN package/usr/bin
  gcc "$1" -fPIE -s -o package/usr/bin/program program.c
  printf '%s\n' 'Package: found' 'Version: 1' 'Architecture: amd64' 'Maintainer: A Person <person@example.org>' \
    'Static-Built-Using: glibc (= 2.36-9+deb12u10)' 'Description: a program' ' Of one line.' >package/DEBIAN/control
  dpkg-deb --root-owner-group -b package "$1.deb" >/dev/null
  lintian --allow-root --tags statically-linked-binary,shared-library-lacks-prerequisites,unknown-field "./$1.deb" | awk '{ print $3 }' |
    sort | paste -sd' '
}

static=$(tags -static) pie=$(tags -static-pie)
echo "-static: $static; -static-pie: $pie"
[[ $static == "statically-linked-binary unknown-field" ]]
[[ $pie == "shared-library-lacks-prerequisites unknown-field" ]]
