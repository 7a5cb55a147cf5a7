#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# As RayExecutor(settings, num_hosts=2, num_workers_per_host=2).run(train): a fixed number of workers
# on nodes of a Ray cluster. More options may follow: examples/ray/static.sh --use-gpu
set -eu
cd "$(dirname "$0")/.."
exec "${HVDRAY:-hvdray}" run --ray-address "${RAY:-http://127.0.0.1:8265}" \
    --num-hosts 2 --num-slots 2 --working-dir . "$@" \
    -- "${PYTHON:-python3}" digits_horovod.py
