# SPDX-License-Identifier: Apache-2.0
"""Clusters of a provider that only Ray knows: the real `ray` command does the work, and a line says so."""

import os
import pathlib

import pytest
import yaml

CLOUD = pathlib.Path(__file__).resolve().parent / "cloud"


@pytest.fixture
def cloud(hvdray, ray_venv, tmp_path):
    """A cluster of provider external with a head; call: runs hvdray where `ray` is on PATH."""
    path = tmp_path / "external.yaml"
    (tmp_path / "machines").mkdir()
    path.write_text(
        "cluster_name: ext\nmax_workers: 1\nprovider:\n    type: external\n    module: file_cloud.FileCloud\n"
        f"    folder: {tmp_path}/machines\n    head: a\n    machines: {{a: 192.0.2.7, b: 192.0.2.8}}\n"
        "auth: {ssh_user: root}\nhead_node_type: head\navailable_node_types:\n"
        "    head: {resources: {CPU: 1}, node_config: {}}\n"
        "hvdray: {slots_per_host: 2}\n")
    environment = {**os.environ, "PATH": f"{ray_venv}/bin:{os.environ['PATH']}", "PYTHONPATH": str(CLOUD),
                   "TMPDIR": str(tmp_path)}

    def call(*words):
        return hvdray.run(words[0], path, *words[1:], env=environment)
    return call


def test_the_real_ray_answers_and_never_sees_our_section(cloud, tmp_path):
    result = cloud("get-head-ip")
    assert (result.code, result.text) == (0, "192.0.2.7\n"), result.errors
    assert result.errors.count("is left to Ray: ray get-head-ip") == 1, result.errors
    assert not list(tmp_path.glob("hvdray-for-ray-*")), "the copy is removed"


def test_its_exit_code_is_ours_and_what_it_lacks_is_refused(cloud):
    refused = cloud("monitor", "--interval", "1")
    assert refused.code == 2 and "--interval" in refused.errors
    for command, option in (("up", "--dry-run"), ("down", "--purge")):
        refused = cloud(command, "--yes", option)
        assert refused.code == 2 and f"{option}: ray {command} has no such option" in refused.errors
    unknown = cloud("get-worker-ips", "-n", "other")
    assert "--cluster-name other" in unknown.errors, unknown.errors


def test_ray_gets_an_old_file_in_the_modern_form(hvdray, tmp_path):
    ray = tmp_path / "bin/ray"
    ray.parent.mkdir()
    ray.write_text('#!/bin/sh\ncat "$2"\n')
    ray.chmod(0o755)
    old = tmp_path / "old.yaml"
    old.write_text("provider: {type: gcp}\nhead_node: {machineType: a, resources: {CPU: 2}}\nworker_nodes: {machineType: b}\n")
    result = hvdray.run("get-head-ip", str(old), env={**os.environ, "PATH": f"{ray.parent}:{os.environ['PATH']}"})
    assert result.code == 0, result.errors
    types = yaml.safe_load(result.text)["available_node_types"]
    assert types["ray-legacy-head-node-type"]["resources"] == {"CPU": 2}
    assert types["ray-legacy-worker-node-type"]["resources"] == {} and "head_node" not in result.text.replace("head_node_type", "")
