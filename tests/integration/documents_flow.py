# SPDX-License-Identifier: Apache-2.0
"""What the documents do with a cluster that is up, for the tests of each provider."""

import itertools
import json
import signal

from at_terminal import Terminal


def monitor_submit_attach(cluster, nodes):
    """cluster: a test's own Cluster, with so many nodes."""
    (cluster.folder / "train.py").write_text(
        "import sys, ray\nray.init(address='auto', logging_level='error')\n"
        "print(sum(node['Alive'] for node in ray.nodes()), sys.argv[1:])\nsys.exit(3)\n")
    with cluster.start("monitor", "cluster.yaml", "--json") as process:
        for line in itertools.islice(process.stdout, 20):
            looked = json.loads(line)
            # Ray counts a raylet that was killed as alive, beside the new one of that machine, until its health checks have failed.
            if [node["state"] for node in looked["machines"]] == ["alive"] * nodes:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert [node["state"] for node in looked["machines"]] == ["alive"] * nodes, looked
    result = cluster.go("submit", "cluster.yaml", "train.py", "a b", "$HOME", code=3)
    assert result.stdout == f"{nodes} ['a b', '$HOME']\n"
    shell = Terminal(lambda **io: cluster.start("attach", "cluster.yaml", **io))
    shell.type("PS1='$ '; command -v ray >~/attached; exit 4\n")
    assert shell.code(within=60) == 4
    assert (cluster.home("h1") / "attached").read_text() == f"{cluster.venv}/bin/ray\n"
