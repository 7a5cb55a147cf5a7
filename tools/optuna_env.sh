#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with Optuna, for the tests of `hvdray tune`, and prints its directory, which is in the user's
# cache.
# Usage: tools/optuna_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=5.0.0
cached_venv "optuna-$version" optuna "optuna==$version" "cloudpickle>=3.1.1" matplotlib
