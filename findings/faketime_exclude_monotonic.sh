#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faketime of Debian 12 (0.9.10) with --exclude-monotonic: Python's time.sleep() raises OSError.
#
# Expected: the option leaves the monotonic clock alone, and with it what waits by that clock.
# Seen: time.sleep(), which since Python 3.11 waits until a time of CLOCK_MONOTONIC, fails with EINVAL; coreutils' sleep ends as usual. Without the
# option time.sleep() works.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q faketime=0.9.10-2.1 libfaketime=0.9.10-2.1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
library=$(find "$PWD/root" -name libfaketime.so.1)
python3 -c 'import sys; print("Python", sys.version.split()[0]); sys.exit(sys.version_info < (3, 11))'

later() { env LD_PRELOAD="$library" FAKETIME=+25h "$@" 2>&1 | tail -n 1; }  # what the faketime command sets

sleep='import time; time.sleep(0.1); print("slept")'
plain=$(later python3 -c "$sleep")
without=$(later env DONT_FAKE_MONOTONIC=1 python3 -c "$sleep") || true
shell=$(later env DONT_FAKE_MONOTONIC=1 sh -c 'sleep 0.1; echo slept')
printf 'time.sleep: %s; with --exclude-monotonic: %s; sleep: %s\n' "$plain" "$without" "$shell"
[[ $plain == slept && $shell == slept ]]
[[ $without == "OSError: [Errno 22] Invalid argument" ]]
