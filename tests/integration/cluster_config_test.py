# SPDX-License-Identifier: Apache-2.0
"""`hvdray cluster config` and `migrate`: good files are printed, real Ray accepts what is printed for it, and each bad
file gets one line that names the place."""

import datetime
import json
import math
import pathlib
import random
import subprocess

import pytest
import yaml
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
    # As old documents have them, with resources and without.
    old = {"gcp": "provider: {type: gcp, region: us-west1, availability_zone: us-west1-a, project_id: p}\n"
                  "head_node: {machineType: n1-standard-2, resources: {CPU: 2.0}}\n"
                  "worker_nodes: {machineType: n1-standard-2}\n",
           "azure": "provider: {type: azure, location: westus2, resource_group: g}\n"
                    "auth: {ssh_user: ubuntu, ssh_private_key: ~/.ssh/k, ssh_public_key: ~/.ssh/k.pub}\n"
                    "head_node: {azure_arm_parameters: {vmSize: D2}}\n"
                    "worker_nodes: {azure_arm_parameters: {vmSize: D2}, resources: {CPU: 2}}\n"}
    for cloud, text in old.items():
        (tmp_path / f"{cloud}.yaml").write_text("min_workers: 1\nautoscaling_mode: default\n" + text)
    printed = []
    for path in [*paths, str(bare), str(alone), *(str(tmp_path / f"{cloud}.yaml") for cloud in old)]:
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


def plain_scalars(seed):
    """Plain scalars that PyYAML reads, with what it makes of them."""
    dice = random.Random(seed)
    words = ["0123", "12345", "true", "123e45", "12:30", "1_000", "0x8C", "1e3", "1.5e+3", "yes", "no", "on", "off", "y",
             "0b1_1", "-0x1f", "+12", "1:30.5", "0.5", "5.", ".5", "-.inf", ".nan", "2026-11-28", "2026-11-28 10:00:00",
             "0o17", "08", "0_", "10.0.0.1", "1.2.3", "=", "m5.large", "-00:30.25"]
    pieces = [*"0123456789", *"0017", "_", ".", ":", "e", "E", "+", "-", "x", "0x", "0b", "a", "F", "inf", "yes", "o"]
    while len(words) < 3000:
        words.append("".join(dice.choice(pieces) for _ in range(dice.randint(1, 7))))
    for word in words:
        try:
            node = yaml.compose(f"- {word}\n", Loader=yaml.SafeLoader).value[0]
            if isinstance(node, yaml.ScalarNode) and node.value == word:
                yield word, yaml.safe_load(f"- {word}\n")[0]
        except (yaml.YAMLError, ValueError):
            continue


def as_json(word, value):
    """A value of PyYAML's as JSON can have it."""
    if isinstance(value, datetime.date) or (isinstance(value, float) and not math.isfinite(value)):
        return word
    return float(value) if isinstance(value, int) and abs(value) >= 1 << 63 and word.isdigit() else value


def test_scalars_are_what_pyyaml_makes_of_them(hvdray, cluster_file):
    scalars = [(word, value) for word, value in plain_scalars(4711)
               if not isinstance(value, int) or abs(value) < 1 << 63 or word.isdigit()]
    kinds = {type(value) for _, value in scalars}
    assert kinds == {int, float, bool, str, datetime.date, datetime.datetime}
    path = cluster_file(LOCAL + "metadata:\n  all:\n" + "".join(f"  - {word}\n" for word, _ in scalars))
    result = hvdray.run("cluster", "config", "--json", path)
    assert result.code == 0, result.errors
    for (word, value), ours in zip(scalars, json.loads(result.text)["metadata"]["all"], strict=True):
        theirs = as_json(word, value)
        assert (type(ours), ours) == (type(theirs), theirs), word
    result = hvdray.run("cluster", "config", "--resolved", path)
    for (word, value), ours in zip(scalars, yaml.safe_load(result.text)["metadata"]["all"], strict=True):
        assert type(ours) is type(value) and (ours == value or word == ".nan"), word


def test_text_stays_text_in_what_is_printed(hvdray, cluster_file):
    words = [word for word, _ in plain_scalars(4712)]
    lines = "".join(f"- {word}\n" for word in words)
    path = cluster_file(LOCAL + "cluster_name: 0123\nsetup_commands:\n" + lines)
    for action in (["config", "--resolved"], ["config"], ["migrate"]):
        result = hvdray.run("cluster", *action, path)
        assert result.code == 0, result.errors
        document = yaml.safe_load(result.text)
        assert document["setup_commands"] == words and document["cluster_name"] == "0123"
    tagged = AWS + """head_node_type: h
available_node_types:
  h:
    node_config:
      InstanceType: m5.large
      TagSpecifications: [{ResourceType: instance, Tags: [{Key: 1_0, Value: 0123}, {Key: b, Value: 123e45}]}]
"""
    document = yaml.safe_load(hvdray.run("cluster", "config", "--resolved", cluster_file(tagged)).text)
    (tags,) = document["available_node_types"]["h"]["node_config"]["TagSpecifications"]
    assert tags["Tags"] == [{"Key": "1_0", "Value": "0123"}, {"Key": "b", "Value": "123e45"}]


def test_duplicate_keys_and_merges_that_disagree_are_told(hvdray, cluster_file):
    path = cluster_file(LOCAL + "cluster_name: a\ncluster_name: b\n"
                        "metadata: {x: &x {k: 1}, y: &y {k: 2}, z: {<<: [*x, *y]}}\n")
    result = hvdray.run("cluster", "config", "--json", path)
    assert result.code == 0, result.errors
    document = json.loads(result.text)
    assert document["cluster_name"] == "b" and document["metadata"]["z"] == {"k": 1}
    duplicate, merge = result.errors.splitlines()
    assert f"{path}:3:1" in duplicate and f"{path}:2:1" in duplicate
    assert f"{path}:4:19" in merge and f"{path}:4:33" in merge


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
