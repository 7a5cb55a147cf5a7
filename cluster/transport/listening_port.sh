# SPDX-License-Identifier: Apache-2.0
# listening_port /proc/PID FIRST: prints the first port from FIRST on that the process listens at; FIRST, if it
# listens at none of the next 50.
#
# shellcheck shell=sh disable=SC2086,SC2116
listening_port() {
  inodes=$(ls -l "$1/fd" 2>/dev/null | sed -n 's/.*socket:.\([0-9]*\).$/\1/p')
  {
    cat "$1/net/tcp" "$1/net/tcp6" 2>/dev/null | awk -v first="$2" -v inodes="$(echo $inodes)" 'BEGIN {
      n = split(inodes, list, " ");
      for (i = 1; i <= n; ++i) mine[list[i]] = 1;
      for (p = first; p <= first + 50; ++p) port[sprintf("%04X", p)] = p;
    } $4 == "0A" && ($10 in mine) {
      split($2, at, ":");
      if (at[2] in port) print port[at[2]];
    }' | sort -n
    echo "$2"
  } | head -n 1
}
