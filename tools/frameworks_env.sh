#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with frameworks that read a launcher's variables, and prints its directory, which is in the
# user's cache.
# Usage: tools/frameworks_env.sh torch|jax
#   torch: Lightning Fabric and accelerate, in releases that work with Debian's torch 1.13; torch's own package would be 4 GB
#   jax: JAX for CPUs
set -euo pipefail
source "$(dirname "$0")/machine.sh"

case "${1:-}" in
  torch)
    venv_options=(--system-site-packages)
    cached_venv lightning-2.1.4-accelerate-0.30.1 accelerate lightning-fabric==2.1.4 accelerate==0.30.1
    ;;
  jax) cached_venv jax-0.10.2 pip jax==0.10.2 ;;
  *)
    echo "usage: tools/frameworks_env.sh torch|jax" >&2
    exit 2
    ;;
esac
