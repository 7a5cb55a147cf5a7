#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with moto's server, the AWS of the tests, and prints its directory, which is in the user's
# cache.
# Usage: tools/moto_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=5.2.5
cached_venv "moto-$version" moto_server "moto[server]==$version"
