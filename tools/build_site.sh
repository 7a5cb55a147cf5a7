#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the site from README.md and docs/, in both languages: its first page is FOLDER/index.html. Any warning is an error, and then
# FOLDER stays as it was.
# Usage: tools/build_site.sh [FOLDER]     (default: build/site)
set -euo pipefail
[[ $# -le 1 && ${1:-} != -* ]] || { echo "usage: ${0##*/} [FOLDER]" >&2; exit 2; }
folder=$(realpath -m -- "${1:-$(dirname "$0")/../build/site}")
cd "$(dirname "$0")/.."
case $PWD/ in "$folder"/*) echo "${0##*/}: $folder is no place for the site: this tree is in it" >&2; exit 2 ;; esac
if [[ -e $folder && ! -e $folder/searchindex.js ]] && [[ ! -d $folder || -n $(ls -A "$folder") ]]; then
  echo "${0##*/}: $folder is something else: expected a folder that is new, empty or a site" >&2
  exit 2
fi
tools/install_packages.sh site
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/site"
jobs=()
for language in en zh; do
  place=$work/site
  [[ $language == en ]] || place+=/$language
  # Debian's, whatever python3 comes first in PATH. jieba trusts a cache that it finds among the temporary files.
  TMPDIR=$work /usr/bin/python3 -m sphinx -q -n -W --keep-going -b html -c docs/site -t "$language" -d "$work/$language" . "$place" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job" || failed=yes; done
[[ -z ${failed:-} ]] || exit 1
rm -rf "$folder"
mv "$work/site" "$folder"
