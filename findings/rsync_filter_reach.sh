#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rsync of Debian 12 (3.5.0): how far a pattern reaches depends on where it is written, in two ways that its syntax hides.
#
# Expected: a pattern of a per-directory filter file ("dir-merge,- .rules") speaks of what lies below that file's directory, as in
# .gitignore; and a file named on the command line is treated alike by --exclude and by a filter file that has the same pattern.
# Seen: 1. A pattern with a slash that is not its first is matched against the whole path from the transfer's root: "data/*" in
# logs/data/.rules leaves out what lies in logs/data itself, though there is no data below it. With a leading slash it does not.
# 2. --exclude='*.py' also drops a.py when it is the very file to be copied; '*.py' in a filter file beside it does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && apt-get download -q rsync=3.5.0+ds1-0+deb12u1 >/dev/null 2>&1 && dpkg -x rsync_*.deb root)
rsync=$folder/root/usr/bin/rsync
"$rsync" --version | sed -n 1p

copied() {  # copied WORD...: the files that arrive
  rm -rf "$folder/to"
  mkdir "$folder/to"
  "$rsync" -a "$@" "$folder/to/"
  (cd "$folder/to" && find . -type f ! -name .rules | sort | paste -sd' ')
}

mkdir -p "$folder/from/logs/data/deep"
touch "$folder/from/logs/data/"{a,deep/b}
for pattern in '/data/*' 'data/*'; do
  echo "$pattern" >"$folder/from/logs/data/.rules"
  found=$(copied '--filter=dir-merge,- .rules' "$folder/from/")
  echo "$pattern in logs/data/.rules: ${found:-nothing} arrives"
  case $pattern in
    '/data/*') [[ $found == "./logs/data/a ./logs/data/deep/b" ]] ;;
    'data/*') [[ -z $found ]] ;;
  esac
done

mkdir "$folder/single"
touch "$folder/single/a.py"
echo '*.py' >"$folder/single/.rules"
[[ -z $(copied --exclude='*.py' "$folder/single/a.py") ]]
echo "--exclude='*.py', a.py named: nothing arrives"
[[ $(copied '--filter=dir-merge,- .rules' "$folder/single/a.py") == ./a.py ]]
echo "*.py in .rules beside it, a.py named: it arrives"
echo "as described"
