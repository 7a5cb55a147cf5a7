#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Optuna 5.0.0 with matplotlib 3.11.2: one of its plots depends on which of matplotlib's file backends is chosen.
#
# Expected: optuna.visualization.matplotlib draws on any backend, since all of them write the same figure.
# Seen: with MPLBACKEND=svg, plot_optimization_history() draws, plot_param_importances() of the same study raises AssertionError: it asks the
# canvas for a renderer, which that of agg has and that of svg has not. With MPLBACKEND=agg both draw, and the figure can be
# saved as SVG.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check optuna==5.0.0 matplotlib==3.11.2 scikit-learn 2>&1 | grep -v '^$' || true
cat >"$folder/plots.py" <<'PLOTS'
import warnings

import optuna
from optuna.visualization import matplotlib as plots

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2 + trial.suggest_float("y", 0, 1), n_trials=10)
for plot in plots.plot_optimization_history, plots.plot_param_importances:
    try:
        plot(study).figure.savefig("plot.svg", format="svg")
        print(plot.__name__, "draws")
    except Exception as error:
        print(plot.__name__, "raises", type(error).__name__)
PLOTS
cd "$folder"
for backend in agg svg; do
  said=$(MPLBACKEND=$backend MPLCONFIGDIR=$folder venv/bin/python plots.py)
  echo "$backend: $(paste -sd, <<<"$said")"
  case $backend in
    agg) [[ $said != *raises* ]] ;;
    svg) [[ $said == *"history draws"*"importances raises AssertionError" ]] ;;
  esac
done
echo "as described"
