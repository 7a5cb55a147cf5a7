# SPDX-License-Identifier: Apache-2.0
"""`import horovod.torch` as hvdray.torch: for scripts written for Horovod, by `hvdray run --horovod builtin`."""

import importlib.util
import os
import pathlib
import sys

__version__ = "0.28.1"  # whose API it has


def _find_hvdray() -> None:
    """The package that this file lies in, also where it isn't installed for the worker's Python."""
    folder = pathlib.Path(__file__).resolve().parents[2]
    spec = importlib.util.spec_from_file_location(
        "hvdray", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hvdray"] = module
    spec.loader.exec_module(module)


if "hvdray" not in sys.modules:
    _find_hvdray()


def _check_version() -> None:
    """Workers that start later find what is here then, and it may not go together with what the others have."""
    began, hvdray = os.environ.get("HVDRAY_VERSION"), sys.modules["hvdray"]
    if began and began != hvdray.__version__:
        raise ImportError(
            f"this job began with hvdray {began}, and {hvdray.__path__[0]} is {hvdray.__version__}: all hosts "
            "need the same version, and an upgrade counts from the next job on"
        )


_check_version()


class _NotHere:
    """Says of Horovod's other parts why they aren't here, where nothing else has found them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("horovod."):
            raise ModuleNotFoundError(
                f"No module named {name!r}: hvdray has horovod.torch built in, and no more of Horovod; without "
                "--horovod builtin an installed Horovod is used",
                name=name,
            )


sys.meta_path.append(_NotHere)


def run(*args, **kwargs):
    """Horovod's launcher API: docs/python.md."""
    from hvdray import run as start

    return start(*args, **kwargs)
