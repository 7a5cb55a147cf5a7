#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# As RayExecutor(settings, min_workers=2, max_workers=4).run(train): workers come and go with the
# nodes. More options may follow: examples/ray/elastic.sh --use-gpu
set -eu
cd "$(dirname "$0")/.."
exec "${HVDRAY:-hvdray}" run --ray-address "${RAY:-http://127.0.0.1:8265}" \
    --min-np 2 --max-np 4 --working-dir . "$@" \
    -- "${PYTHON:-python3}" elastic_digits_horovod.py --step-s 0.03
