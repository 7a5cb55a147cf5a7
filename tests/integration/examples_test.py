# SPDX-License-Identifier: Apache-2.0
"""The examples of the README, as it shows them."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("np", [1, 2, 4])
def test_digits_in_cxx(hvdray, np):
    result = hvdray.go("-np", np, "--", hvdray.bin_dir / "hvdray-digits", "--data",
                       ROOT / "examples/digits/digits.csv", timeout=120)
    assert result.code == 0, result.errors
    assert float(re.search(r"test accuracy ([\d.]+) %", result.text)[1]) > 93, result.text
    assert f"{np} workers" in result.text


def test_digits_alone_is_one_rank(hvdray):
    result = hvdray.run("--epochs", "3", "--data", ROOT / "examples/digits/digits.csv",
                        binary=hvdray.bin_dir / "hvdray-digits")
    assert result.code == 0 and "1 workers" in result.text


@pytest.mark.parametrize("backend", ["auto", "gloo"])
def test_a_peer_that_dies_is_an_error_of_the_collective(hvdray, script, tmp_path, backend):
    wrapper = script("wrapper", f"""#!/bin/sh
[ $HOROVOD_RANK = 1 ] && {{ {hvdray.bin_dir}/hvdray-digits --epochs 100000 \
--data {ROOT}/examples/digits/digits.csv & until [ -e {tmp_path}/go ]; do sleep 0.1; done; kill -9 $!; exit 0; }}
exec {hvdray.bin_dir}/hvdray-digits --epochs 100000 --data {ROOT}/examples/digits/digits.csv
""")
    job = hvdray.job("-np", "2", "-x", f"HVDRAY_COLLECTIVE={backend}", "--", wrapper)
    for line in iter(job.process.stdout.readline, b""):
        if b"epoch " in line:  # they have met
            (tmp_path / "go").touch()
            break
    result = job.wait(120)
    assert result.code == 1
    said, = (line for line in result.errors.splitlines() if line.startswith("[0]<stderr>:"))
    assert "rank 1 of 2 has died" in said and said.endswith("[HVD-E0401]"), result.errors


def test_torch_distributed(hvdray, request, horovod_python):
    result = hvdray.go("-np", "4", "--", horovod_python, ROOT / "examples/torch_allreduce.py",
                       timeout=120)
    assert result.code == 0, result.errors
    assert "sum over 4 ranks: 10" in result.text


def test_the_quickstart_cluster_file(hvdray):
    result = hvdray.go("--cluster", ROOT / "configs/quickstart.yaml", cwd=ROOT, timeout=120)
    assert result.code == 0, result.errors
    assert "4 workers" in result.text
