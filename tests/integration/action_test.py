# SPDX-License-Identifier: Apache-2.0
"""action.yml in workflows that act runs on this machine, without containers and without network."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile

import pytest
from python_program import ROOT

# Later steps see the outputs of a step, whether it failed, and the program that it installed. act copies the tree at `checkout`.
WORKFLOW = """\
name: train
on: push
jobs:
  train:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: job
        uses: ./
        continue-on-error: true
        with:
          package: {package}
          sha256: {digest}
          report: out/report.json
          arguments: |
{arguments}
      - env:
          SAID: ${{{{ steps.job.outcome }}}} ${{{{ steps.job.outputs.exit-code }}}} ${{{{ steps.job.outputs.report }}}}
        run: |
          echo "said $SAID"
          command -v hvdray || echo "no hvdray"
          cat "$GITHUB_STEP_SUMMARY" || true
"""


@pytest.fixture(scope="module")
def tools():
    made = subprocess.run([ROOT / "tools/action_env.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return f"{made.stdout.strip()}/bin"


TARBALL, WHEEL = "a tarball.tar.gz", "hvdray-1-py3-none-any.whl"


@pytest.fixture(scope="module")
def tree(request, tmp_path_factory):
    """A folder with packages of this build and the action."""
    tree = tmp_path_factory.mktemp("action") / "tree"
    (tree / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "action.yml", tree)
    shutil.copy(ROOT / "tools/action.sh", tree / "tools")
    tarball, wheel = tree / TARBALL, tree / WHEEL
    bin_dir = pathlib.Path(request.config.getoption("--bin-dir"))
    with tarfile.open(tarball, "w:gz") as archive, zipfile.ZipFile(wheel, "w") as scripts:
        for program in (bin_dir / "hvdray", bin_dir / "hvdray-agent"):
            archive.add(program, f"hvdray/bin/{program.name}")
            scripts.write(program, f"hvdray-1.data/scripts/{program.name}")
        for name, text in (("METADATA", "Metadata-Version: 2.1\nName: hvdray\nVersion: 1\nRequires-Dist: cloudpickle\n"),
                           ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"), ("RECORD", "")):
            scripts.writestr(f"hvdray-1.dist-info/{name}", text)
    return tree


@pytest.fixture
def workflow(tools, tree, tmp_path):
    """Runs one with a package of this build: workflow(argument of hvdray run, ...) -> what act prints."""
    tree = shutil.copytree(tree, tmp_path / "tree")

    def run(*arguments, package=TARBALL, digest=None):
        digest = digest or hashlib.sha256((tree / package).read_bytes()).hexdigest()
        file = tree / ".github/workflows/train.yml"
        file.parent.mkdir(parents=True)
        lines = "\n".join(" " * 12 + argument for argument in arguments)
        file.write_text(WORKFLOW.format(package=package, digest=digest, arguments=lines))
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": "/dev/null"}
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=tree, env=environment, check=True)
        act = [f"{tools}/act", "push", "-P", "ubuntu-latest=-self-hosted", "--cache-server-addr", "127.0.0.1", "--artifact-server-addr",
               "127.0.0.1"]  # else it asks the network for its own address
        done = subprocess.run(["unshare", "-n", "sh", "-c", '/usr/sbin/ip link set lo up; exec "$@"', "sh", *act], cwd=tree, env=environment,
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def script(tree, tmp_path):
    """Runs tools/action.sh alone: script(argument, ...) -> how it ended, and what it has written for the runner."""
    for name in ("path", "output", "summary", "temp"):
        (tmp_path / name).touch() if name != "temp" else (tmp_path / name).mkdir()

    def run(*arguments, package=TARBALL, **more):
        package = tree / package
        variables = {"PACKAGE": str(package), "SHA256": hashlib.sha256(package.read_bytes()).hexdigest() if package.exists() else "0" * 64,
                     "ARGUMENTS": "\n".join(arguments) + "\n", "REPORT": "report.json", "RUNNER_TEMP": str(tmp_path / "temp"),
                     "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_PATH": str(tmp_path / "path"),
                     "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), **more}
        done = subprocess.run([ROOT / "tools/action.sh"], cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=100)
        return done, *((tmp_path / name).read_text() for name in ("output", "path"))

    return run


@pytest.mark.parametrize("package", [TARBALL, WHEEL])
def test_its_programs_are_on_the_path_and_nothing_else_of_it(script, package):
    """The job's python stays that of the workflow."""
    done, _, added = script("-np", "1", "--", "sh", "-c", "command -v hvdray-agent; command -v python3", package=package)
    folder = added.rstrip("\n")
    assert done.stdout.splitlines() == [f"[0]<stdout>:{folder}/hvdray-agent", f"[0]<stdout>:{shutil.which('python3')}"], done
    assert sorted(os.listdir(folder)) == ["hvdray", "hvdray-agent"]


@pytest.mark.parametrize("report, said", [
    ("", "expected the name of a file"), ("a\nexit-code=0", "expected the name of a file, found 'a%0Aexit-code=0'"), ("temp", "is a folder"),
    ("/", "is a folder"), ("output/report.json", "there is no place for")])
def test_a_report_that_cant_be_is_refused(script, report, said):
    done, output, _ = script("-np", "1", "--", "echo", "it ran", REPORT=report)
    assert (done.returncode, output) == (2, "exit-code=2\n") and "it ran" not in done.stdout, done
    assert done.stdout.startswith("::error title=hvdray::report: ") and said in done.stdout and done.stdout.count("\n") == 1, done


def test_an_input_gives_the_runner_no_commands(script):
    done, output, _ = script("--", "true", package="x.whl\n::stop-commands::x")
    assert (done.returncode, output) == (2, "exit-code=2\n") and not re.search("(?m)^::stop", done.stdout), done


def test_what_succeeds_without_a_job_is_no_error(script):
    done, output, _ = script("--dry-run", "-np", "1", "--", "true")
    assert (done.returncode, output) == (0, "exit-code=0\nreport=\n") and "::error" not in done.stdout, done


@pytest.mark.parametrize("package", [TARBALL, WHEEL])
def test_a_job_that_succeeds_leaves_its_report_and_a_summary(workflow, package):
    out = workflow("-np", "2", "--", "sh", "-c", "echo $HOROVOD_RANK of $HOROVOD_SIZE", package=package)
    assert "[1]<stdout>:1 of 2" in out and re.search(r"said success 0 /\S+/out/report\.json", out), out
    assert re.search(r"/bin/hvdray$", out, re.M) and "title=hvdray" not in out, out
    assert "| ended with | success |" in out and "| workers | 2 |" in out, out


def test_a_job_that_fails_gives_its_code_and_an_annotation(workflow):
    out = workflow("-np", "2", "--", "sh", "-c", "exit $((HOROVOD_RANK * 7))")
    assert re.search(r"said failure 7 /\S+/out/report\.json", out), out
    assert re.search(r"::error title=hvdray HVD-E0303::rank 1 on host localhost exited with code 7", out), out
    assert "| exit code | 7 |" in out, out


def test_a_job_that_did_not_begin_has_no_report(workflow):
    out = workflow("--no-such-option")
    assert re.search(r"said failure 2 *$", out, re.M) and "the job did not begin" in out, out


@pytest.mark.parametrize("change, said", [
    ({"digest": "0" * 64}, "the SHA-256 of a tarball.tar.gz is"), ({"digest": "x"}, "expected 64 hexadecimal digits"),
    ({"digest": "0" * 64, "package": "other.whl"}, "other.whl can't be read"), ({"package": "action.yml"}, "expected a name that ends with")])
def test_another_package_is_not_run(workflow, change, said):
    out = workflow("-np", "1", "--", "echo", "it ran", **change)
    assert said in out and re.search(r"said failure 2 *$", out, re.M), out
    assert "no hvdray" in out and "<stdout>:it ran" not in out, out


def test_it_is_as_the_schema_has_it_and_gives_strangers_nothing(tools):
    for command in ([f"{tools}/check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml"],
                    [f"{tools}/zizmor", "--offline", "--persona", "auditor", ROOT / "action.yml"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
