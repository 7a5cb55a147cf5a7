#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pyarrow 21.0.0 (manylinux wheel, x86-64): importing it starts a thread of an allocator that it does not use.
#
# Expected: an import starts no thread; or, as mimalloc is the wheel's default memory pool (ARROW_DEFAULT_MEMORY_POOL picks another), none
# of jemalloc.
# Seen: after `import pyarrow` the process has a second thread, jemalloc_bg_thd, which threading.active_count() does not count. It is
# there with mimalloc and with ARROW_DEFAULT_MEMORY_POOL=system, neither of which allocates by jemalloc; only
# JE_ARROW_MALLOC_CONF=background_thread:false, read when the library is loaded, keeps the process at one thread. A server that imports
# once and then forks, which wants one thread, has to set that before; `import ray.tune` imports pyarrow.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: pyarrow==21.0.0 2>&1 | grep -v '^$' || true
cat >"$folder/threads.py" <<'THREADS'
import os
import threading

import pyarrow

names = []
for thread in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{thread}/comm", encoding="ascii") as file:
        names.append(file.read().strip())
others = sorted(name for name in names if "python" not in name)
print(pyarrow.default_memory_pool().backend_name, threading.active_count(), *others)
THREADS
seen() {
  local said
  said=$(env "$1" "$folder/venv/bin/python" "$folder/threads.py")
  echo "$1: $said"
  [[ $said == "$2" ]]
}
seen LC_ALL=C 'mimalloc 1 jemalloc_bg_thd'
seen ARROW_DEFAULT_MEMORY_POOL=system 'system 1 jemalloc_bg_thd'
seen JE_ARROW_MALLOC_CONF=background_thread:false 'mimalloc 1'
echo "as described"
