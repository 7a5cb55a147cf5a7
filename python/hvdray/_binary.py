# SPDX-License-Identifier: Apache-2.0
"""Where the program `hvdray` is."""

from __future__ import annotations

import os
import pathlib
import shutil
import sysconfig
from typing import Iterator

from ._errors import HvdrayError


def find_binary() -> str:
    """HVDRAY_BINARY, else the scripts beside this package, else PATH. Raises HvdrayError."""
    named = os.environ.get("HVDRAY_BINARY")
    if named:
        named = os.path.expanduser(named)
        if not os.access(named, os.X_OK):
            raise HvdrayError(f"HVDRAY_BINARY: no program at {named}")
        return named
    for folder in _script_folders():
        program = folder / "hvdray"
        if not os.path.isfile(program):  # false, too, where this user may not look
            continue
        if not os.access(program, os.X_OK):  # another one, on PATH perhaps, would not be this package's
            raise HvdrayError(f"{program} may not be executed", hint="is it where no programs run? findmnt -T shows noexec; HVDRAY_BINARY names another")
        return str(program)
    on_path = shutil.which("hvdray")
    if on_path is None:
        raise HvdrayError(
            "the program hvdray was not found",
            hint="install the wheel of hvdray, set HVDRAY_BINARY, or put hvdray on PATH",
        )
    return on_path


def agent_of(program: str) -> str:
    """The hvdray-agent that the hvdray `program` starts: beside it, or where packages of distributions have it."""
    folder = pathlib.Path(os.path.realpath(program)).parent
    beside, apart = folder / "hvdray-agent", folder.parent / "libexec/hvdray/hvdray-agent"
    return str(apart if not beside.exists() and apart.exists() else beside)


def _script_folders() -> Iterator[pathlib.Path]:
    site = pathlib.Path(__file__).resolve().parent.parent
    yield site / "bin"  # pip install --target
    if site.parent.parent.name in ("lib", "lib64"):  # lib/pythonX.Y/site-packages, of --prefix or not
        yield site.parents[2] / "bin"
    yield pathlib.Path(sysconfig.get_path("scripts"))
    yield pathlib.Path(sysconfig.get_path("scripts", "posix_user"))
