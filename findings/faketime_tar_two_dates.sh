#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tar under faketime of Debian 12 (0.9.10): files of one date get two dates in one archive.
#
# Expected: FAKETIME=+25h moves all files' times alike, or none.
# Seen: the library stands before fstat(), not before fstatat(). GNU tar 1.34 opens directories and files with contents and asks fstat(), so they
# are 25 h late in the archive; of empty files and links it knows only what fstatat() says, which is true. ls, stat, find and Python's os.fstat()
# (which calls fstat64()) see true times of all. Who compares archives made on "another day" finds them different, whatever was built.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q faketime=0.9.10-2.1 libfaketime=0.9.10-2.1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
library=$(find "$PWD/root" -name libfaketime.so.1)
tar --version | sed -n 1p

export TZ=UTC
later() { env LD_PRELOAD="$library" FAKETIME=+25h "$@"; }  # what the faketime command sets

mkdir files
echo text > files/full
touch files/empty
ln -s full files/link
touch --no-dereference --date '2020-01-01 00:00:00' files/* files
dates() { tar -tvf - --full-time | awk '{sub("files/", "", $6); print ($6 == "" ? "directory" : $6) "=" $4 "T" $5}' | sort | xargs; }
plain=$(tar -cf - files | dates)
shifted=$(later tar -cf - files | dates)
by_stat=$(later stat --format '%Y' files files/full files/empty files/link | sort -u)
by_fstat=$(later python3 -c 'import os; print(int(os.fstat(os.open("files/full", os.O_RDONLY)).st_mtime))')
printf 'without: %s\nwith:    %s\nstat: %s; os.fstat: %s\n' "$plain" "$shifted" "$by_stat" "$by_fstat"
given=2020-01-01T00:00:00 late=2020-01-02T01:00:00
[[ $plain == "directory=$given empty=$given full=$given link=$given" ]]
[[ $shifted == "directory=$late empty=$given full=$late link=$given" ]]
[[ $by_stat == 1577836800 && $by_fstat == 1577836800 ]]
