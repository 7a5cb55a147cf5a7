# SPDX-License-Identifier: Apache-2.0
"""Programs that use the package `hvdray` on the head of a real Ray cluster, with the Python of its Ray; the nodes have no
hvdray."""

import pathlib

import cloudpickle
from conftest import Hvdray, checked
from python_program import ROOT, Programs
from ray import HEAD

RAY = """
import ray
ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
from hvdray.ray import RayExecutor, ray_logger
from hvdray.ray.strategy import create_placement_group
def settings(**more):
    return RayExecutor.create_settings(timeout_s=60, **more)
def living():
    return [actor["ClassName"] for actor in ray._private.state.actors().values() if actor["State"] != "DEAD"]
def until(condition):
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""


class OnHead:
    """The hosts of a cluster, for programs on its head."""

    def __init__(self, hosts):
        self.hosts = hosts

    def command(self, argv, cwd=None):
        return self.hosts.command(argv, on=HEAD, cwd=cwd)

    def environment(self, base=None):
        return self.hosts.environment(base)


class RayPrograms(Programs):
    def __init__(self, tool, folder, ray):
        super().__init__(tool, folder)
        self.ray = ray
        self.site = folder / "site"  # Ray has a cloudpickle of its own; the package needs the usual one
        self.site.mkdir()
        (self.site / "cloudpickle").symlink_to(pathlib.Path(cloudpickle.__file__).parent)

    def start(self, lines, env=None, **more):
        names = {"PYTHONPATH": f"{ROOT / 'python'}:{self.site}"}
        if self.ray.token:
            names["RAY_AUTH_TOKEN"] = self.ray.token
        return super().start(RAY + lines, python=self.ray.venv / "bin/python", env={**names, **(env or {})}, **more)


def programs_on(request, ray, folder):
    tool = Hvdray(request.config.getoption("--bin-dir"), OnHead(ray.hosts))
    for tool_ in checked(tool):
        yield RayPrograms(tool_, folder, ray)
