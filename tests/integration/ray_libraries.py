# SPDX-License-Identifier: Apache-2.0
"""Programs on a real Ray Train and Ray Tune with a real Horovod: drivers and actors have Ray's libraries, torch and Horovod; only
drivers have hvdray."""

import pathlib

from conftest import ROOT
from ray import HEAD, missing
from ray_program import programs_on

from hosts_processes import send, wait_until

DEBIAN = pathlib.Path("/usr/lib/python3/dist-packages")

INIT = """
ray.shutdown()
ray.init(address="auto", logging_level="ERROR", log_to_driver=False,
         runtime_env={"env_vars": {"PYTHONPATH": os.environ["NODES"], "TMPDIR": os.environ["TEMPORARY"]}})
import atexit
@atexit.register
def end_of_what_ray_keeps():
    # Ray Data and Ray Train leave named actors, which live as long as the cluster.
    for actor in ray.util.list_named_actors(all_namespaces=True):
        ray.kill(ray.get_actor(actor["name"], actor["namespace"]))
"""

class LibraryPrograms:
    def __init__(self, programs, libraries, horovod):
        self.site = programs.folder / "site-packages"
        self.site.mkdir()
        (self.site / "cloudpickle").symlink_to(programs.site / "cloudpickle")
        for module in ("torch", "torchgen", "functorch", "psutil"):
            (self.site / module).symlink_to(DEBIAN / module)
        (self.site / "horovod").symlink_to(next(horovod.glob("lib/python3*/site-packages/horovod")))
        self.programs, self.folder = programs, programs.folder
        nodes = f"{next(libraries.glob('lib/python3*/site-packages'))}:{self.site}"
        self.env = {"PYTHONPATH": f"{ROOT / 'python'}:{nodes}", "NODES": nodes, "STORAGE": str(programs.folder / "results"),
                    "TEMPORARY": str(programs.folder / "temporary")}
        (programs.folder / "temporary").mkdir()  # Workers are killed while they have temporary folders.

    def start(self, lines):
        return self.programs.start(INIT + lines, env=self.env)

    def run(self, lines):
        result = self.start(lines).wait(900)
        assert result.code == 0, result.errors[-6000:]
        return result

    def run_example(self, name):
        text = (ROOT / "examples/python" / name).read_text()
        return self.run(text[text.index('"""\n\nimport') + 4:])


def end_of_the_head(ray, job):
    """Kills all on the head but `job`, which is there; returns its result once nothing is left on any node."""
    send([pid for alive in (ray.ray_processes(HEAD), ray.foreign_processes(HEAD).get(HEAD, ())) for pid in alive if pid != job.pid], 9)
    result = job.wait(240)
    assert result.code != 0 and "GCS" in result.errors, result
    wait_until(lambda: not any(ray.foreign_processes().values()), "the end of all", within=240)
    return result


def library_programs_on(request, ray, folder, horovod_python):
    libraries = request.config.getoption("--ray-libraries")
    if not libraries:
        missing("no --ray-libraries: run tools/ray_env.sh libraries and pass it")
    for programs in programs_on(request, ray, folder):
        yield LibraryPrograms(programs, pathlib.Path(libraries), horovod_python.parent.parent)
