#!/usr/bin/env bash
# Runs a test, and when it fails once more: for tests of gangs that break, in which Horovod itself aborts now and then.
# Both runs are printed.
"$@" && exit 0
echo "== failed; Horovod itself may have aborted, so it runs once more"
exec "$@"
