#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with unmodified Horovod 0.28.1 over Debian's torch and prints its
# directory. The wheel takes minutes to build, so it and the environment stay in the user's cache.
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=0.28.1
cache=$(cache_folder)
python=/usr/bin/python3
tag=$($python -c 'import sys, torch; print(f"py{sys.version_info[0]}{sys.version_info[1]}-torch{torch.__version__}")')
venv=$cache/horovod-$version-$tag
wheels=$cache/wheels-$tag

exec 9>"$cache/horovod.lock"
flock 9  # concurrent runs build it once

if [[ -x $venv/bin/horovodrun && -f $venv/.complete ]]; then
  echo "$venv"
  exit 0
fi

rm -rf "$venv"
$python -m venv --system-site-packages "$venv" >&2
wheel=$(ls "$wheels"/horovod-$version-*.whl 2>/dev/null | head -n 1 || true)
if [[ -z $wheel ]]; then
  echo "== building Horovod $version against Debian's torch (about 5 minutes, once)" >&2
  mkdir -p "$wheels"
  log=$cache/horovod-build.log
  # The tests need neither MPI nor TensorFlow.
  if ! HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_PYTORCH=1 \
       HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
       CPLUS_INCLUDE_PATH=/usr/include/torch/csrc/api/include MAKEFLAGS=-j"$(nproc)" \
       "$venv/bin/pip" wheel --no-build-isolation --no-deps -w "$wheels" \
       "horovod==$version" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "$0: Horovod did not build; whole log: $log" >&2
    exit 1
  fi
  wheel=$(ls "$wheels"/horovod-$version-*.whl | head -n 1)
fi
"$venv/bin/pip" install --no-deps -q "$wheel" >&2
"$venv/bin/python" -c 'import horovod.torch' >&2
touch "$venv/.complete"
echo "$venv"
