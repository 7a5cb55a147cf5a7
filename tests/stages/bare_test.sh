#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Both commands of the README on a bare machine: ./quickstart whole, and ./check up to its configured build. The
# compiler's cache, Horovod, both Rays and downloaded packages are those of the outside, so it takes two minutes or so.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ $(id -u) -ne 0 && -z ${CI:-} ]]; then
  echo "skipped: not root, and a bare root needs chroot"
  exit 77
fi
tools/bare_root.sh --warm -- bash -c '
  set -euo pipefail
  # Nothing of the outside may stand in for a package or a locale.
  for tool in g++ cmake python3 make; do
    ! command -v $tool || { echo "the root is not bare: it has $tool"; exit 1; }
  done
  [[ -z ${LANG:-}${LC_ALL:-} ]]
  ./quickstart
  ./check --fast --configure'
