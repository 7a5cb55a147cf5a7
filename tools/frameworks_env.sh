#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with frameworks that read a launcher's variables, and prints its directory, which is in the
# user's cache.
# Usage: tools/frameworks_env.sh torch|new-torch|jax
#   torch: Lightning Fabric and accelerate, in releases that work with Debian's torch 1.13; torch's own package would be 4 GB
#   new-torch: torch's own package, with the parts of CUDA that it is linked against: 4.3 GB
#   jax: JAX for CPUs
set -euo pipefail
source "$(dirname "$0")/machine.sh"

case "${1:-}" in
  torch)
    venv_options=(--system-site-packages)
    cached_venv lightning-2.1.4-accelerate-0.30.1 accelerate lightning-fabric==2.1.4 accelerate==0.30.1
    ;;
  new-torch)
    cached_venv torch-2.15.0 torchrun torch==2.15.0 --no-cache-dir --no-deps numpy filelock fsspec jinja2 markupsafe mpmath \
      networkx setuptools sympy typing-extensions nvidia-cublas==13.4.1.3 nvidia-cuda-cupti==13.2.86 \
      nvidia-cuda-nvrtc==13.2.86 nvidia-cuda-runtime==13.2.86 nvidia-cudnn-cu13==9.26.0.51 nvidia-cufft==12.2.0.57 \
      nvidia-cufile==1.17.1.22 nvidia-cusolver==12.2.0.11 nvidia-cusparse==12.7.10.12 nvidia-cusparselt-cu13==0.8.1 \
      nvidia-nccl-cu13==2.30.7 nvidia-nvjitlink==13.5.37 nvidia-nvshmem-cu13==3.7.2 nvidia-nvtx==13.2.86
    ;;
  jax) cached_venv jax-0.10.2 pip jax==0.10.2 ;;
  *)
    echo "usage: tools/frameworks_env.sh torch|new-torch|jax" >&2
    exit 2
    ;;
esac
