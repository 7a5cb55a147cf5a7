"""cmake --install puts down what runs from there, without the build tree."""

import os
import subprocess

import pytest

from conftest import Hvdray


@pytest.fixture
def installed(hvdray, tmp_path):
    subprocess.run(["cmake", "--install", str(hvdray.bin_dir.parent), "--prefix", str(tmp_path)],
                   check=True, capture_output=True)
    tool = Hvdray(tmp_path / "bin")
    yield tool
    assert all(job.survivors() == {} for job in tool.jobs)


def test_the_installed_programs_run(installed, tmp_path):
    result = installed.go("-np", "2", "--", "sh", "-c", "echo $HOROVOD_SIZE", cwd="/")
    assert result.code == 0, result.errors
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:2", "[1]<stdout>:2"]
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"bin/hvdray", "bin/hvdray-agent", "share/man/man1/hvdray-run.1",
            "share/bash-completion/completions/hvdray",
            "share/doc/hvdray/configs/quickstart.yaml"} <= files


def test_a_link_called_horovodrun_finds_its_agent(installed, tmp_path):
    link = tmp_path / "elsewhere" / "horovodrun"
    link.parent.mkdir()
    link.symlink_to(installed.binary)
    result = installed.run("-np", "1", "echo", "as ever", binary=link)
    assert result.text == "[0]<stdout>:as ever\n", result.errors


def test_a_missing_agent_is_named(installed):
    os.unlink(installed.agent)
    result = installed.go("-np", "1", "--", "true")
    assert result.code == 125
    assert str(installed.agent) in result.errors
