# SPDX-License-Identifier: Apache-2.0
"""A cloud for Ray's autoscaler whose machines are files of a directory: who wants one writes it down, and whoever
owns the machines (ray_autoscaler_test.py) starts or ends Ray there. Imported by the monitor on the head."""

import fcntl
import json
import pathlib

from ray.autoscaler.node_provider import NodeProvider

HEAD_TAGS = {"ray-node-type": "head", "ray-user-node-type": "head", "ray-node-status": "up-to-date"}


class FileCloud(NodeProvider):
    """provider: {"folder": where, "machines": {name: address}, "head": name}. Any thread, any process."""

    def __init__(self, provider_config, cluster_name):
        super().__init__(provider_config, cluster_name)
        self._folder = pathlib.Path(provider_config["folder"])
        self._addresses = provider_config["machines"]
        self._write(provider_config["head"], HEAD_TAGS)

    def _write(self, name, tags):
        with open(self._folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self._folder / f"{name}.machine"
            path.with_suffix(".new").write_text(json.dumps(tags), encoding="ascii")
            path.with_suffix(".new").rename(path)

    def _all(self):
        return {path.stem: json.loads(path.read_text(encoding="ascii"))
                for path in self._folder.glob("*.machine")}

    def non_terminated_nodes(self, tag_filters):
        return [name for name, tags in self._all().items() if tag_filters.items() <= tags.items()]

    def is_running(self, node_id):
        return node_id in self._all()

    def is_terminated(self, node_id):
        return node_id not in self._all()

    def node_tags(self, node_id):
        return self._all().get(node_id, {})

    def external_ip(self, node_id):
        return self._addresses[node_id]

    def internal_ip(self, node_id):
        return self._addresses[node_id]

    def create_node(self, node_config, tags, count):
        free = [name for name in self._addresses if name not in self._all()][:count]
        for name in free:
            self._write(name, {**tags, "ray-node-status": "up-to-date"})
        return {name: {} for name in free}

    def set_node_tags(self, node_id, tags):
        self._write(node_id, {**self.node_tags(node_id), **tags})

    def terminate_node(self, node_id):
        (self._folder / f"{node_id}.machine").unlink(missing_ok=True)
        return {node_id: {}}

    @staticmethod
    def bootstrap_config(cluster_config):
        return cluster_config
