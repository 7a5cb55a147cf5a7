#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with Optuna, its dashboard and a driver for PostgreSQL, for the tests of `hvdray tune`, and prints
# its directory, which is in the user's cache.
# Usage: tools/optuna_env.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=5.0.0 dashboard=0.21.0
cached_venv "optuna-$version-dashboard-$dashboard" optuna-dashboard "optuna==$version" "optuna-dashboard==$dashboard" \
  psycopg2-binary==2.9.13 "cloudpickle>=3.1.1" matplotlib
