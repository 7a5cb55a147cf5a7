#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ml_dtypes 0.6.0 with NumPy 2.4.6: sums of bfloat16 stop growing at 256, and a file of NumPy forgets the type.
#
# Expected: as with NumPy's own float16, whose sum() adds in float32 and in pairs, so that 1,000 ones are 1,000; and an array that np.load()
# reads has the dtype that was saved.
# Seen: the sum of 1,000 ones of bfloat16 is 256 (each addition is rounded to eight bits, where 256 + 1 is 256), the mean of 3,000 ones 0.085; with
# dtype=np.float32 both are right. np.save() and np.savez() take the array, np.load() returns one of two raw bytes each ("V2")
# that no arithmetic takes, until .view(ml_dtypes.bfloat16).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PROGRAM'
import ml_dtypes
import numpy as np

for dtype in np.float16, ml_dtypes.bfloat16:
    ones, more = np.ones(1000, dtype), np.ones(3000, dtype)
    print(np.dtype(dtype), "sum of 1000 ones:", ones.sum(), "mean of 3000:", more.mean())
    assert float(ones.sum(dtype=np.float32)) == 1000 and float(more.mean(dtype=np.float32)) == 1
    right = dtype is np.float16
    assert (float(ones.sum()) == 1000) == right and (float(more.mean()) == 1) == right
assert float(np.ones(1000, ml_dtypes.bfloat16).sum()) == 256
assert 0.08 < float(np.ones(3000, ml_dtypes.bfloat16).mean()) < 0.09

np.save("saved.npy", np.arange(4).astype(ml_dtypes.bfloat16))
read = np.load("saved.npy")
print("saved as bfloat16, read as", read.dtype)
assert read.dtype == np.dtype("V2")
try:
    read + read
    raise SystemExit("bytes were added")
except TypeError as error:
    print(type(error).__name__)
assert read.view(ml_dtypes.bfloat16).astype(np.float32).tolist() == [0, 1, 2, 3]
PROGRAM
echo "as described"
