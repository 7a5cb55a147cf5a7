#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with Sybil, which runs the blocks of docs/tutorial, and prints its directory, which is in the
# user's cache.
# Usage: tools/course_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=10.1.0 pytest=9.2.0
cached_venv "sybil-$version" pytest "sybil==$version" "pytest==$pytest"
