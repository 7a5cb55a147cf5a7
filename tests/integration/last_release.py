# SPDX-License-Identifier: Apache-2.0
"""The last release's programs beside today's (docs/compatibility.md)."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("hvdray", "hvdray-agent")


@pytest.fixture(scope="session")
def release():
    """The folder of its programs; configs/ of its tree is beside it."""
    made = subprocess.run([ROOT / "tools/last_release.sh"], stdout=subprocess.PIPE, text=True, check=False)
    assert made.returncode == 0, "tools/last_release.sh failed"
    return pathlib.Path(made.stdout.strip())


@pytest.fixture
def today(request):
    return pathlib.Path(request.config.getoption("--bin-dir")).resolve()


def installed(folder, *programs):
    """Puts copies of them into the folder, each at once, as a package does."""
    folder.mkdir(exist_ok=True)
    for program in programs:
        new = folder / f"{program.name}.new"
        shutil.copy2(program, new)
        new.rename(folder / program.name)
    return folder


@pytest.fixture(params=PROGRAMS)
def mixed(request, release, today, tmp_path):
    """A folder with today's programs but for one, which is the last release's."""
    return installed(tmp_path / "mixed", *((release if name == request.param else today) / name for name in PROGRAMS))


@pytest.fixture
def old_agent(release, today, tmp_path):
    """A folder with today's hvdray and the last release's agent."""
    return installed(tmp_path / "old-agent", today / "hvdray", release / "hvdray-agent")
