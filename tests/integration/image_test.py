# SPDX-License-Identifier: Apache-2.0
"""The container images, built and run without a registry: the static one, which has no shell, no getent and no ssh, and the one with Python
and ssh, over Debian as debootstrap makes it. That a base comes by its name from a registry is not tried."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest
from own_network import network_of_its_own
from python_program import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402
from hosts_processes import wait_until  # noqa: E402

BUILD = ROOT / "tools/build_image.py"
SSH_PORT = 2222
MAX_BYTES = 20e6

CLUSTER = """\
cluster_name: far
provider: {type: aws, region: us-west-2}
auth: {ssh_user: ubuntu}
head_node: {InstanceType: m5.large, ImageId: ami-0b294f219d14e6a82}
worker_nodes: {InstanceType: m5.large, ImageId: ami-0b294f219d14e6a82}
"""

NEAR = "{cluster_name: near, provider: {type: local, head_ip: 127.0.0.1, worker_ips: [127.0.0.2]}, auth: {ssh_user: ubuntu}}"


def output_of(*command, **more):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1500, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.strip()


@dataclasses.dataclass
class Storage:
    """buildah's own, in a folder; `container`: of the image."""
    folder: pathlib.Path
    container: str = ""

    def words(self, *words):
        return ["buildah", "--root", self.folder / "root", "--runroot", self.folder / "run", "--storage-driver", "vfs", *words]

    def __call__(self, *words):
        return output_of(*self.words(*words))

    def take(self, archive):
        image = self("pull", "-q", f"oci-archive:{archive}")
        self.container = self("from", image)
        return self

    def command(self, *words, options=()):
        return self.words("run", "--isolation", "chroot", *options, self.container, "--", *words)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    for tool in ("build_wheel.py", "build_tarball.py"):
        output_of(sys.executable, ROOT / "tools" / tool, folder)
    return folder


@pytest.fixture(scope="module")
def archive(dist):
    return pathlib.Path(output_of("unshare", "-n", BUILD, dist))


@pytest.fixture(scope="module")
def image(archive, tmp_path_factory):
    return Storage(tmp_path_factory.mktemp("storage")).take(archive)


@pytest.fixture
def run(image):
    def call(*words, options=()):
        with network_of_its_own():
            done = subprocess.run(image.command(*words, options=options), capture_output=True, text=True, timeout=300)
        # What buildah says of its own.
        said = [line for line in done.stderr.splitlines() if not re.match(r"(subprocess exited|Error: exit status)", line)]
        return done.returncode, done.stdout, said

    return call


def test_it_is_small_and_has_the_same_bytes_again(archive, dist, tmp_path):
    assert archive.stat().st_size <= MAX_BYTES
    shutil.copy(next(dist.glob("*.tar.gz")), tmp_path)
    output_of("unshare", "-n", BUILD, tmp_path, cwd="/", umask=0o077, env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"})
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def test_it_has_the_programs_and_licences_and_is_for_nobody(image):
    root = pathlib.Path(image("mount", image.container))
    files = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert files == {*(f"usr/local/bin/{name}" for name in ("hvdray", "hvdray-agent", "hvdray-bench", "hvdray-digits", "horovodrun")),
                     "usr/local/share/hvdray/digits.csv", "usr/local/share/hvdray/DATA.md",
                     "usr/local/share/doc/hvdray/LICENSE", "usr/local/share/doc/hvdray/THIRD-PARTY-NOTICES"}
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    about = json.loads(image("inspect", image.container))["OCIv1"]["config"]
    assert (about["User"], about["Entrypoint"], about["Cmd"]) == ("65534:65534", ["hvdray"], ["--help"])
    version = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert about["Labels"] == {"org.opencontainers.image.version": version}


@pytest.mark.parametrize("user", [None, "0", "12345:12345"])
def test_the_digits_train_for_every_user(run, user):
    options = ["--user", user] if user else []
    code, out, said = run("hvdray", "run", "-np", "2", "--report", f"/tmp/report-{user}.json", "hvdray-digits", options=options)
    assert code == 0 and re.search(r"test accuracy 9\d\.\d % of \d+ images, 2 workers", out), (out, said)


@pytest.mark.parametrize("words, code, names", [
    ("run -np 2 sh", 127, "sh could not be executed: No such file"),
    ("run -f /given/job.yaml", 127, "/bin/sh could not be executed: No such file"),
    ("run --min-np 1 --host-discovery-script /given/hosts.sh hvdray-digits", 125, "hvdray starts /bin/sh for this: install it"),
    ("run -H far:2 hvdray-digits", 125, "look up far: getent: no such program"),
    ("run -H far:2 --ssh-config /given/config hvdray-digits", 125, "hvdray starts ssh for this: install it"),
    ("up -y /given/far.yaml", 125, "ec2.us-west-2.amazonaws.com: getent: no such program"),
    ("tune /given/job.yaml", 127, "no python3 on PATH"),
    ("rsync-up /given/near.yaml /given/job.yaml b", 125, "hvdray starts /bin/sh for this: install it"),
    ("exec /given/near.yaml true", 125, "exec: /bin/sh: No such file or directory")])
def test_what_is_not_there_is_named(run, tmp_path, words, code, names):
    for name, text in (("job.yaml", "np: 2\ncommand: hvdray-digits --epochs 1\n"), ("hosts.sh", "#!/bin/sh\necho localhost:2\n"),
                       ("config", "Host far\n  ProxyJump near\n"), ("far.yaml", CLUSTER), ("near.yaml", NEAR)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    tmp_path.chmod(0o755)  # pytest's folders are for root alone
    ids = [word for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") for word in ("--env", f"{name}=x")]
    ended = run("hvdray", *words.split(), options=["--volume", f"{tmp_path}:/given", *ids])
    assert ended[0] == code and names in "\n".join(ended[2]), ended


@pytest.fixture(scope="module")
def python_image(dist, tmp_path_factory):
    """Its base has this machine's package sources, which bare_root.sh gives it."""
    folder = tmp_path_factory.mktemp("base")
    output_of(ROOT / "tools/bare_root.sh", "--bind", f"{folder}:/given", "--",
              "tar", "-C", "/", "--one-file-system", "--exclude=./root/hvdray", "-cf", "/given/base.tar", ".")
    base = Storage(folder)
    base.container = base("from", "scratch")
    base("add", base.container, folder / "base.tar", "/")
    base("commit", "-q", "--disable-compression", base.container, f"oci:{folder}/base:base")
    made = output_of(BUILD, dist, "--python", f"oci:{folder}/base:base")
    return Storage(tmp_path_factory.mktemp("python")).take(made)


def test_a_job_of_the_static_image_runs_on_a_host_of_the_other(image, python_image, tmp_path):
    """By ssh, with the Python there; that host's own key is new."""
    assert [path.name for path in pathlib.Path(python_image("mount", python_image.container)).glob("etc/ssh/ssh_host_*")] == []
    output_of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id_ed25519")
    sshd = f"ssh-keygen -A && exec /usr/sbin/sshd -D -p {SSH_PORT}"
    with network_of_its_own():
        host = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", *python_image.command(
            "sh", "-c", sshd, options=["--volume", f"{tmp_path}/id_ed25519.pub:/root/.ssh/authorized_keys"])])
        try:
            def answers():
                assert host.poll() is None
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", SSH_PORT)):
                    return True

            wait_until(answers, "sshd of the image answers")
            options = ["--user", "0", "--env", "HVDRAY_FORCE_REMOTE=1", "--volume", f"{tmp_path}/id_ed25519:/tmp/.ssh/id_ed25519"]
            program = "import hvdray, os, sys; print(os.environ['HOROVOD_RANK'], hvdray.__version__, sys.prefix)"
            done = subprocess.run(image.command("hvdray", "run", "-H", "root@127.0.0.1:2", "-p", str(SSH_PORT), "/opt/hvdray/bin/python", "-c",
                                                program, options=options), capture_output=True, text=True, timeout=300)
        finally:
            host.kill()
            host.wait()
    assert done.returncode == 0, done
    version = re.search(r"project\(hvdray VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert sorted(done.stdout.splitlines()) == [f"[{rank}]<stdout>:{rank} {version} /opt/hvdray" for rank in (0, 1)], done


def test_it_is_pushed_as_release_py_says(archive, tmp_path):
    """Into a folder instead of a registry."""
    command = release.push_command(archive, "1.2.3").replace("docker://REGISTRY/hvdray:1.2.3", f"dir:{tmp_path}/pushed")
    output_of("bash", "-c", command, env={**os.environ, "STORAGE_DRIVER": "vfs", "STORAGE_OPTS": "", "CONTAINERS_STORAGE_CONF": storage(tmp_path)})
    layers = json.loads((tmp_path / "pushed/manifest.json").read_text())["layers"]
    assert [(tmp_path / "pushed" / layer["digest"].split(":")[1]).stat().st_size for layer in layers] == [layer["size"] for layer in layers]


def storage(folder):
    """A file that has buildah keep its images there."""
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
    return str(folder / "storage.conf")


@pytest.mark.parametrize("words, path, said", [
    ([], None, "Usage:"), (["x", "--pyton"], None, "Usage:"), (["none"], None, "expected one tarball in none, found 0"), (["."], "", "buildah is missing: tools/install_packages.sh image"),
    (["."], None, "expected one tarball in ., found 0"), ([".", "--python"], None, "expected one wheel in ., found 0")])
def test_bad_input_is_one_line(tmp_path, words, path, said):
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    done = subprocess.run([sys.executable, BUILD, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr and (said == "Usage:" or done.stderr.count("\n") == 1), done


def test_the_files_are_as_hadolint_likes_them():
    environment = output_of(ROOT / "tools/image_env.sh")
    done = subprocess.run([f"{environment}/bin/hadolint", *sorted((ROOT / "image").iterdir())], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
