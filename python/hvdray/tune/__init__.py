# SPDX-License-Identifier: Apache-2.0
"""Searches for hyperparameters: our slots, Optuna's search, pruning and storage."""
