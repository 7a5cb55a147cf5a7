# SPDX-License-Identifier: Apache-2.0
# Puts stdin into a file below the home directory. Arguments: target, mode, bytes, for what, name within a directory.
# Only a whole file gets the name, and until then nobody else can read it, or lead the copy elsewhere. A job's files
# that nobody needs any more go: those of 30 days ago.
#
# shellcheck shell=sh
cd || exit
if [ -d "$1" ] && [ -n "$5" ]; then
  set -- "$1/$5" "$2" "$3" "$4"
fi
if [ -d "$1" ]; then
  echo "a directory is there" >&2
  exit 1
fi
if [ "$4" = job ]; then
  umask 077
  find .cache/hvdray/jobs -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} + 2>/dev/null
fi
mkdir -p -- "$(dirname -- "$1")" &&
  t="$1.hvdray.$$" &&
  trap 'rm -f -- "$t"; [ "$4" != job ] || rmdir -- "$(dirname -- "$1")" 2>/dev/null' EXIT &&
  rm -f -- "$t" &&
  (umask 077; set -C; cat >"$t") &&
  [ "$(wc -c <"$t")" -eq "$3" ] &&
  chmod "$2" "$t" &&
  mv -f -- "$t" "$1"
