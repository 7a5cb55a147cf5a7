# SPDX-License-Identifier: Apache-2.0
"""--sync: a directory of the launcher on other hosts, through real sshd: what is copied, what is not, and
what an interrupted copy leaves."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

FOLDER = "proj"  # in the launcher's home, and so in that of the hosts


@pytest.fixture
def sync(hvdray, hosts, tmp_path):
    """Runs hvdray at the launcher's place with its home as the current directory."""

    def run(*words, timeout=60, **kwargs):
        kwargs.setdefault("cwd", str(hosts.state / "home"))
        return hosts.run([hvdray.binary, "run", "--report", tmp_path / "report.json", *words],
                         timeout=timeout, **kwargs)

    def report():
        with open(tmp_path / "report.json", encoding="utf-8") as file:
            return json.load(file)

    run.start = lambda *words, **kwargs: hosts.popen(
        [hvdray.binary, "run", *words], cwd=str(hosts.state / "home"), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, **kwargs)
    run.sent = lambda: {host["name"]: (host["sync"]["files"], host["sync"]["bytes"])
                        for host in report()["hosts"]}
    run.report = report
    yield run
    for name in ("launcher", *hosts.hosts):
        shutil.rmtree(home_of(hosts, name) / FOLDER, ignore_errors=True)


def home_of(hosts, name):
    return hosts.folder(name) / "home"


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def project(hosts):
    """The directory as it lies at the launcher, seen from outside."""
    folder = home_of(hosts, "launcher") / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, {
        "train.py": "print('trained')\n", "pkg/model.py": "x = 1\n", "run.sh": "#!/bin/sh\necho ran\n",
        ".gitignore": "*.log\n/data/\n", "a.log": "no", "data/big": "no", "pkg/data/small": "yes\n",
        "pkg/.gitignore": "!keep.log\n", "pkg/keep.log": "yes\n", "pkg/drop.log": "no",
        ".git/config": "no",
    })
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("pkg/model.py")
    return folder


COPIED = [".gitignore", "latest", "pkg/.gitignore", "pkg/data/small", "pkg/keep.log", "pkg/model.py",
          "run.sh", "train.py"]


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")
                  if path.is_symlink() or not path.is_dir())


def test_a_folder_is_copied_once_and_then_what_has_changed(sync, hosts, project):
    words = ("-H", "h1:1,h2:1", "--sync", FOLDER, "--", "true")
    result = sync(*words)
    assert result.returncode == 0, result.stderr
    size = sum(os.lstat(project / path).st_size for path in COPIED if path != "latest")
    assert sync.sent() == {"h1": (8, size), "h2": (8, size)}
    for name in ("h1", "h2"):
        copy = home_of(hosts, name) / FOLDER
        assert files_in(copy) == COPIED
        assert os.readlink(copy / "latest") == "pkg/model.py"
        for path in COPIED[2:]:
            ours, theirs = os.stat(project / path), os.stat(copy / path)
            assert (copy / path).read_bytes() == (project / path).read_bytes()
            assert theirs.st_mtime_ns == ours.st_mtime_ns
            assert theirs.st_mode == ours.st_mode
    assert sync(*words).returncode == 0
    assert sync.sent() == {"h1": (0, 0), "h2": (0, 0)}
    (project / "pkg/model.py").write_text("x = 22\n")
    (home_of(hosts, "h2") / FOLDER / "own").write_text("stays")
    assert sync(*words).returncode == 0
    assert sync.sent() == {"h1": (1, 7), "h2": (1, 7)}
    assert (home_of(hosts, "h1") / FOLDER / "pkg/model.py").read_text() == "x = 22\n"
    assert (home_of(hosts, "h2") / FOLDER / "own").read_text() == "stays"


def test_the_copy_is_in_events_and_phases(sync, tmp_path, project):
    assert project.is_dir()
    result = sync("-H", "h1:1", "--sync", FOLDER, "--verbose", "--events", tmp_path / "events", "--",
                  "true")
    assert "h1: copied 8 files" in result.stderr
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    synced = [event for event in events if event["event"] == "host_synced"]
    assert [(event["host"], event["files"]) for event in synced] == [("h1", 8)]
    assert "sync" in [phase["name"] for phase in sync.report()["phases"]]


def test_the_copy_to_a_host_of_an_elastic_job_is_in_events(sync, tmp_path, project):
    assert project.is_dir()
    result = sync("-H", "h1:1", "-np", "1", "--min-np", "1", "--elastic-mode", "gang", "--sync", FOLDER,
                  "--events", tmp_path / "events", "--", "true")
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds.index("host_synced") < kinds.index("host_ready"), kinds
    synced = events[kinds.index("host_synced")]
    assert (synced["host"], synced["files"]) == ("h1", 8)


@pytest.mark.parametrize("transport", ["libssh2", "openssh"])
def test_workers_start_in_the_copy_of_the_current_folder(sync, hosts, project, transport):
    assert project.is_dir()
    here = hosts.state / "home" / FOLDER / "pkg"
    result = sync("-H", "h1:1", "--ssh-transport", transport, "--tag-output", "none", "--sync", "..",
                  "--", "sh", "-c", "pwd; cat data/small; ../run.sh", cwd=str(here))
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{here}\nyes\nran\n"  # the home directory has one name on all hosts


def test_a_target_of_its_own_is_where_workers_start_too(sync, hosts, project):
    assert project.is_dir()
    with hosts.mounted("h1", "/mnt", "size=16m"):
        result = sync("-H", "h1:1", "--sync", f"{FOLDER}:/mnt/a/b", "--cwd", f"{FOLDER}/pkg",
                      "--tag-output", "none", "--", "pwd")
        assert result.stdout == "/mnt/a/b/pkg\n", result.stderr
    result = sync("-H", "h1:1", "--sync", f"{FOLDER}:{FOLDER}/deep", "--cwd", FOLDER, "--tag-output",
                  "none", "--", "pwd")
    assert result.stdout == f"{hosts.state}/home/{FOLDER}/deep\n", result.stderr


def test_a_large_file_arrives_whole_with_the_link_alive(sync, hosts, project):
    data = os.urandom(100 << 20)  # its copy takes longer than a host may be silent
    (project / "model.bin").write_bytes(data)
    result = sync("-H", "h1:1,h5:1", "--sync", FOLDER, "--heartbeat-timeout", "4", "--", "true",
                  timeout=240)  # h5 is 50 ms away
    assert result.returncode == 0, result.stderr
    for name in ("h1", "h5"):
        assert (home_of(hosts, name) / FOLDER / "model.bin").read_bytes() == data


def test_a_full_disk_names_host_and_file_and_leaves_no_part(sync, hosts, project):
    (project / "model.bin").write_bytes(os.urandom(4 << 20))
    with hosts.mounted("h2", "/mnt", "size=2m"):
        result = sync("-H", "h2:1", "--sync", f"{FOLDER}:/mnt/copy", "--", "echo", "started")
        left = hosts.run(["find", "/mnt/copy", "-type", "f"], on="h2").stdout.split()
    assert result.returncode == 125 and result.stdout == ""
    assert "host h2" in result.stderr and "/mnt/copy/model.bin: No space left" in result.stderr
    assert "HVD-E0003" in result.stderr
    assert left and not [path for path in left if "model.bin" in path or ".hvdray-sync" in path]


def test_a_target_that_takes_no_files_is_named(sync, hosts, project):
    assert project.is_dir()
    with hosts.mounted("h1", "/mnt", "ro"):
        result = sync("-H", "h1:1", "--sync", f"{FOLDER}:/mnt/copy", "--", "true")
    assert result.returncode == 125
    assert "host h1" in result.stderr and "/mnt/copy: Read-only file system" in result.stderr
    assert "HVD-E0215" in result.stderr
    write(home_of(hosts, "h1"), {FOLDER: "a file"})
    try:
        result = sync("-H", "h1:1", "--sync", FOLDER, "--", "true")
    finally:
        (home_of(hosts, "h1") / FOLDER).unlink()
    assert result.returncode == 125
    assert f"{FOLDER}: Not a directory" in result.stderr and "HVD-E0215" in result.stderr


@pytest.mark.parametrize("plant, said", [
    ("install -d -o 65534 /mnt/job", "another user owns /mnt/job"),
    ("install -d -m 777 /mnt/job", "other users may write to /mnt/job"),
    ("install -d /mnt/job; install -d -o 65534 /mnt/job/pkg", "another user owns /mnt/job/pkg"),
    ("install -d /mnt/job; ln -s /mnt/job /mnt/open/job; chown -h 65534 /mnt/open/job",
     "another user owns the link /mnt/open/job"),
])
def test_a_target_that_others_can_fill_gets_and_runs_nothing(sync, hosts, project, plant, said):
    assert project.is_dir()
    target = said.split()[-1].removesuffix("/pkg")
    with hosts.mounted("h1", "/mnt", "mode=755"):
        hosts.run(["sh", "-ec", f"install -d -m 1777 /mnt/open; {plant}; echo 'echo taken' >/mnt/job/theirs.sh"],
                  on="h1", check=True)
        result = sync("-H", "h1:1", "--sync", f"{FOLDER}:{target}", "--", "sh", f"{target}/theirs.sh")
    assert result.returncode == 125 and result.stdout == ""
    assert f"{said}: they could change what the job runs" in result.stderr and "HVD-E0215" in result.stderr
    assert "hint: make it yours alone, or name a directory of your own there: DIR:TARGET" in result.stderr


def wait_for_part(folder, job):
    """Until a file is half written there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if list(folder.glob(".hvdray-sync.*")):
            return
        assert job.poll() is None, job.communicate()
        time.sleep(0.005)
    raise AssertionError("the copy did not begin")


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGINT])
def test_a_launcher_that_ends_in_the_middle_leaves_nothing(sync, hosts, project, signo):
    with open(project / "model.bin", "wb") as file:
        for _ in range(16):
            file.write(os.urandom(8 << 20))
    copy = home_of(hosts, "h5") / FOLDER
    job = sync.start("-H", "h5:1", "--sync", FOLDER, "--", "echo", "started")
    wait_for_part(copy, job)
    job.send_signal(signo)
    out, err = job.communicate(timeout=60)
    assert job.returncode == (-9 if signo == signal.SIGKILL else 130), err
    assert out == ""
    assert hosts.leftovers("h5", within=30) == {}
    assert not (copy / "model.bin").exists()
    assert not list(copy.rglob(".hvdray-sync.*"))


@pytest.mark.rest
def test_a_host_that_freezes_in_the_middle_is_given_up(sync, hosts, project):
    with open(project / "model.bin", "wb") as file:
        for _ in range(16):
            file.write(os.urandom(8 << 20))
    job = sync.start("-H", "h5:1", "--sync", FOLDER, "--heartbeat-timeout", "5", "--", "true")
    wait_for_part(home_of(hosts, "h5") / FOLDER, job)
    hosts.freeze("h5")
    _, err = job.communicate(timeout=90)
    hosts.thaw("h5")
    assert job.returncode == 125 and "h5" in err, err


def test_a_host_that_is_this_machine_gets_nothing(sync, hosts, project):
    before = {path: os.lstat(project / path).st_ctime_ns for path in COPIED}
    result = sync("-H", "localhost:1,h1:1", "--sync", FOLDER, "--network-interfaces", "eth0", "--",
                  "true")
    assert result.returncode == 0, result.stderr
    report = {host["name"]: host["sync"] for host in sync.report()["hosts"]}
    assert report["localhost"] is None and report["h1"]["files"] == 8
    assert before == {path: os.lstat(project / path).st_ctime_ns for path in COPIED}
    assert files_in(home_of(hosts, "h1") / FOLDER) == COPIED


def test_the_same_folder_by_another_way_is_unchanged(sync, hosts, project):
    # A home that all hosts share looks like this: the copy is the source.
    source = pathlib.Path("/tmp") / f"hvdray-sync-test-{os.getpid()}"
    shutil.copytree(project, source, symlinks=True)
    try:
        assert hosts.run(["ls", source], on="h1").returncode == 0
        before = {path: os.lstat(source / path) for path in COPIED}
        result = sync("-H", "h1:1", "--sync", source, "--", "true")
        assert result.returncode == 0, result.stderr
        assert sync.sent() == {"h1": (0, 0)}
        for path, stat in before.items():
            assert os.lstat(source / path).st_ino == stat.st_ino
    finally:
        shutil.rmtree(source)


def refused(sync, *words):
    """Exit 2 before any host was dialled: one that never answers would have made it 125."""
    result = sync("-H", "192.0.2.1:1", *words, "--", "true")
    assert result.returncode == 2, result.stderr
    return result.stderr


def test_what_cannot_be_copied_is_refused_before_any_connection(sync, hosts, project):
    os.mkfifo(project / "pkg/pipe")
    assert f"{FOLDER}/pkg/pipe is a named pipe" in refused(sync, "--sync", FOLDER)
    write(project, {"pkg/.gitignore": "pipe\n"})
    write(home_of(hosts, "launcher"), {"file": "x"})
    assert "--sync: file is not a directory" in refused(sync, "--sync", "file")
    assert "--sync: none: No such file" in refused(sync, "--sync", "none")
    assert "'..' in TARGET" in refused(sync, "--sync", f"{FOLDER}:../x")
    (home_of(hosts, "launcher") / "file").unlink()


def test_links_that_lead_out_are_said_once_and_copied(sync, hosts, project):
    (project / "out").symlink_to("/etc/hostname")
    (project / "gone").symlink_to("not-here")
    result = sync("-H", "h1:1", "--sync", FOLDER, "--", "true")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("leads out of the directory") == 1
    assert result.stderr.count("leads nowhere") == 1
    assert os.readlink(home_of(hosts, "h1") / FOLDER / "out") == "/etc/hostname"
    assert os.readlink(home_of(hosts, "h1") / FOLDER / "gone") == "not-here"
