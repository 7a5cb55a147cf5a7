# SPDX-License-Identifier: Apache-2.0
"""`hvdray cluster config` and `migrate`: good files are printed, real Ray accepts what is printed for it, and each bad
file gets one line that names the place."""

import json
import pathlib
import subprocess

import pytest
from bad_input_test import refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ["ray_cluster_aws", "ray_cluster_aws_minimal", "ray_cluster_legacy", "ray_cluster_onprem"]
LOCAL = "provider: {type: local, head_ip: a, worker_ips: [b]}\n"
AWS = "provider: {type: aws, region: us-west-2}\n"

# What `ray up` does with a file before it asks anyone: defaults, translation, its own schema. And our schema for editors.
ACCEPT = """
import json, sys, jsonschema, yaml
from ray.autoscaler._private import util
schema = json.load(open(sys.argv[1]))
for path in sys.argv[2:]:
    with open(path) as file:
        document = yaml.safe_load(file)
    if path.endswith(".for_ray"):
        util.validate_config(util.prepare_config(document))
    else:
        jsonschema.validate(document, schema)
    print("accepted", path)
"""


@pytest.fixture(name="cluster_file")
def _cluster_file(tmp_path):
    def write(text):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return str(path)
    return write


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_printed_as_on_record(hvdray, example):
    result = hvdray.run("cluster", "config", "--resolved", str(ROOT / "configs" / f"{example}.yaml"))
    assert result.code == 0, result.errors
    assert result.text == (ROOT / "tests/golden/cluster" / f"{example}.yaml").read_text()
    assert ("older Ray versions" in result.errors) == (example == "ray_cluster_legacy")


def test_real_ray_accepts_what_is_printed_for_it(hvdray, ray_venv, tmp_path):
    paths = [str(ROOT / "configs" / f"{example}.yaml") for example in EXAMPLES]
    bare = tmp_path / "bare.yaml"
    bare.write_text("provider: {type: aws}\nmax_workers: 5\nmin_workers: 1\n")
    alone = tmp_path / "alone.yaml"
    alone.write_text("provider: {type: local, head_ip: a, worker_ips: [b]}\nauth: {ssh_user: u}\nmax_workers: 0\n")
    printed = []
    for path in [*paths, str(bare), str(alone)]:
        result = hvdray.run("cluster", "config", "--resolved", path)
        assert result.code == 0, result.errors
        printed.append(tmp_path / (pathlib.Path(path).stem + ".for_ray"))
        printed[-1].write_text(result.text)
    files = [*map(str, printed), *paths, str(ROOT / "configs/quickstart.yaml")]
    schema = str(ROOT / "configs/schema/cluster.schema.json")
    done = subprocess.run([f"{ray_venv}/bin/python", "-c", ACCEPT, schema, *files], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accepted") == len(files)


def test_the_schema_for_editors_refuses_what_hvdray_refuses(ray_venv, tmp_path):
    bad = {"max_worker: 2\n": "max_worker", "hvdray: {run: {nump: 2}}\n": "nump", "hvdray: {slots_per_host: 0}\n": "0",
           "auth: {ssh_usr: u}\n": "ssh_usr"}
    for i, (text, word) in enumerate(bad.items()):
        path = tmp_path / f"{i}.yaml"
        path.write_text(LOCAL + text)
        done = subprocess.run([f"{ray_venv}/bin/python", "-c", ACCEPT, str(ROOT / "configs/schema/cluster.schema.json"),
                               str(path)], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 1 and "ValidationError" in done.stderr and word in done.stderr, done.stderr


def test_config_has_every_default_and_our_section(hvdray, cluster_file):
    path = cluster_file(LOCAL + "hvdray: {slots_per_host: 2, run: {np: 2, command: [x]}}\n")
    result = hvdray.run("cluster", "config", path)
    assert result.code == 0 and result.errors == ""
    assert "slots_per_host: 2" in result.text and "np: 2" in result.text
    assert "ray start --head --port=6379\n" in result.text, "hvdray starts the workers itself"
    for_ray = hvdray.run("cluster", "config", "--resolved", path)
    assert "hvdray" not in for_ray.text and "--autoscaling-config" in for_ray.text
    assert "ssh_user" in for_ray.errors, "Ray needs one"
    again = hvdray.run("cluster", "config", cluster_file(result.text))
    assert again.code == 0 and again.text == result.text


def test_options_override_the_file(hvdray, cluster_file):
    path = cluster_file(AWS + "cluster_name: mine\n")
    result = hvdray.run("cluster", "config", path, "-n", "other", "--min-workers", "1", "--max-workers=3", "--json")
    assert result.code == 0, result.errors
    document = json.loads(result.text)
    assert document["cluster_name"] == "other" and document["max_workers"] == 3
    assert document["available_node_types"]["ray.worker.default"]["min_workers"] == 1
    assert document["provider"]["cache_stopped_nodes"] is True


def test_an_old_file_migrates(hvdray, cluster_file):
    old = AWS + "min_workers: 1\nhead_node: {InstanceType: m5.large}  # a comment\nworker_nodes: {InstanceType: m5.large}\n"
    result = hvdray.run("cluster", "migrate", cluster_file(old))
    assert result.code == 0
    assert result.errors.count("older Ray versions") == 3
    assert result.text.startswith("# ") and "comments are not kept" in result.text.splitlines()[0]
    assert "ray-legacy-worker-node-type:" in result.text and "head_node:" not in result.text
    again = hvdray.run("cluster", "migrate", cluster_file(result.text))
    assert again.code == 0 and again.errors == "", "it is modern now"


@pytest.mark.parametrize("words,needles", [
    (["cluster"], ["no cluster file given", "config|migrate"]),
    (["cluster", "config"], ["no cluster file given"]),
    (["cluster", "confg", "c.yaml"], ["confg", "config?"]),
    (["cluster", "c.yaml"], ["c.yaml", "migrate FILE"]),
    (["cluster", "config", "a", "b"], ["unexpected word", "b"]),
    (["cluster", "config", "/nowhere/c.yaml"], ["/nowhere/c.yaml"]),
    (["cluster", "config", "/"], ["/"]),
    (["cluster", "migrate", "--resolved", "c.yaml"], ["--resolved"]),
    (["cluster", "config", "--max-workers", "many", "c.yaml"], ["--max-workers", "many"]),
    (["cluster", "config", "--min-workers=-1", "c.yaml"], ["--min-workers"]),
    (["cluster", "config", "--resolve", "c.yaml"], ["--resolved"]),
])
def test_wrong_words(hvdray, words, needles):
    refused(hvdray.run(*words), 2, *needles)


@pytest.mark.parametrize("text,needles", [
    ("", [":1:1", "empty"]),
    ("a: [\n", [":2:1"]),
    (LOCAL + "max_worker: 1\n", [":2:1", "max_workers?"]),
    (LOCAL + "cluster_name: a b\n", [":2:15", "a b"]),
    (LOCAL + "auth: {ssh_user: [u]}\n", [":2:18", "auth.ssh_user"]),
    (LOCAL + "docker: {image: i}\n", [":2:9", "container_name"]),
    (LOCAL + "available_node_types: {n: {node_config: {}}}\n", [":2:1", "local"]),
    ("provider: {type: lokal}\n", [":1:18", "local?"]),
    ("provider: {type: local, head_ip: a}\n", [":1:11", "worker_ips"]),
    ("provider: {type: aws, regoin: r}\n", [":1:23", "region?"]),
    (AWS + "head_node_type: h\navailable_node_types: {w: {node_config: {}}}\n", [":2:17", "'h'"]),
    (AWS + "head_node: {a: b}\n", [":2:12", "worker_nodes"]),
    (LOCAL + "hvdray: {run: {nump: 2}}\n", [":2:16", "nump"]),
    (LOCAL + "hvdray: {run: {np: two}}\n", [":2:20", "np"]),
    (LOCAL + "hvdray: {run: {np: 2, grace: soon}}\n", [":2:30", "grace"]),
    (LOCAL + "hvdray: {run: {np: 2, color: purple}}\n", [":2:30", "color", "always"]),
    (LOCAL + "hvdray: {run: {hosts: 'a:1'}}\n", [":2:16", "hosts"]),
    (LOCAL + "hvdray: {run: {cycle_time_ms: [1]}}\n", [":2:31", "cycle_time_ms"]),
])
def test_wrong_files(hvdray, cluster_file, text, needles):
    path = cluster_file(text)
    refused(hvdray.run("cluster", "config", path), 2, path, *needles)
    refused(hvdray.run("cluster", "migrate", path), 2, path)
