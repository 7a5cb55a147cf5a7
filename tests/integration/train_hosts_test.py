# SPDX-License-Identifier: Apache-2.0
"""`hvdray.train.Trainer` with workers on other hosts, through real sshd. Of h1 and h2, one sees the driver's directory, or none."""

import contextlib

import pytest
from train_program import TrainPrograms

# Each rank has large files of its own, and goes on from them. Ranks know of each other's reports by files that all hosts see.
LOOP = """
marks = home.parent / "marks"
def loop(config):
    assert os.path.exists(home / "run") == (rank() in config["seeing"]), "the test's own mounts"
    begin, seen = 0, None
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            big = pathlib.Path(folder, f"deep/big{rank()}").read_bytes()
            seen = sorted(os.listdir(folder)), len(big), set(big), os.path.isdir(folder + "/deep/empty")
            begin = int(pathlib.Path(folder, f"step{rank()}").read_text()) + 1
        assert os.path.exists(folder) == (rank() in config["seeing"])  # a copy ends with the block
    for at in range(begin, 4):
        folder = pathlib.Path(tempfile.mkdtemp(dir=saved))
        (folder / "deep/empty").mkdir(parents=True)
        (folder / f"deep/big{rank()}").write_bytes(bytes([at]) * 20_000_000)
        (folder / f"step{rank()}").write_text(str(at))
        train.report({"at": at}, checkpoint=train.Checkpoint.from_directory(folder))
        (marks / f"{at}.{rank()}").touch()
        wait_for(marks / f"{at}.{1 - rank()}")
        if at == 2 and rank() == 1 and seen is None:
            os.kill(CULPRIT, signal.SIGKILL)
            sleep()
    return begin, seen
marks.mkdir()
(home / "run").mkdir(parents=True, exist_ok=True)
config = train.RunConfig(name="run", storage_path=str(home), failure_config=train.FailureConfig(1))
result = train.Trainer(loop, hosts="h1:1,h2:1", run_config=config, train_loop_config={"seeing": SEEING}).fit()
files = ["deep", "step0", "step1"]
assert result.return_value == (3, (files, 20_000_000, {2}, True)), result.return_value
assert names(result.checkpoint.path) == files and result.metrics["at"] == 3
assert names(result.checkpoint.path + "/deep") == ["big0", "big1", "empty"]
assert set(pathlib.Path(result.checkpoint.path, "deep/big1").read_bytes()) == {3}
assert not [name for name in names() if name.startswith(".")] and told()["attempts"] == 2
"""


@pytest.fixture
def programs(hvdray_at_launcher, tmp_path):
    return TrainPrograms(hvdray_at_launcher, tmp_path)


@contextlib.contextmanager
def hidden(hosts, path, names):
    """These hosts have an empty directory there."""
    path.mkdir()
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(hosts.mounted(name, path, "size=1m"))
        yield


@pytest.mark.parametrize("seeing, culprit", [((0,), "os.getpid()"), ((), "os.getppid()")])
def test_files_of_hosts_that_do_not_see_the_directory_come_through_the_link(programs, hosts, tmp_path, seeing, culprit):
    """A rank is killed, or its agent with it: both go on from what they had saved, wherever they are."""
    with hidden(hosts, tmp_path / "runs", [name for rank, name in enumerate(("h1", "h2")) if rank not in seeing]):
        result = programs.run(LOOP.replace("SEEING", repr(seeing)).replace("CULPRIT", culprit))
    assert "restarting from checkpoint_000002" in result.errors


def test_a_checkpoint_of_another_run_is_read_where_the_directory_is_not_seen(programs, hosts, tmp_path):
    with hidden(hosts, tmp_path / "runs", ["h1"]):
        programs.run("""
def loop():
    with train.get_checkpoint().as_directory() as folder:
        return len(names(folder)), pathlib.Path(folder, "a").read_text()
home.joinpath("other/sub").mkdir(parents=True)
for number in range(5000):  # Their names are more than a line of a message may have.
    home.joinpath("other", f"{number:0240}").touch()
home.joinpath("other/a").write_text("b" * 5_000_000)
config = train.RunConfig(name="run", storage_path=str(home))
start = train.Checkpoint.from_directory(home / "other")
result = train.Trainer(loop, hosts="h1:1", run_config=config, resume_from_checkpoint=start).fit()
assert result.return_value == (5002, "b" * 5_000_000) and result.checkpoint is None
""")


def test_a_disk_that_is_full_where_the_files_go_is_said_on_the_host(programs, hosts, tmp_path):
    """The directory is the driver's alone, and no place is left in it."""
    with hidden(hosts, tmp_path / "runs", ["h1"]), hosts.mounted("launcher", tmp_path / "runs", "size=3m"):
        programs.run("""
import errno
def loop():
    try:
        train.report({"a": 1}, checkpoint=save(big="x" * 9_000_000))
        raise SystemExit("no error")
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    train.report({"a": 2}, checkpoint=save(step=2))
config = train.RunConfig(name="run", storage_path=str(home))
result = train.Trainer(loop, hosts="h1:1", run_config=config).fit()
assert names(result.checkpoint.path) == ["step"] and [n for n in names() if n.startswith(("c", "."))] == ["checkpoint_000000"]
""")


def test_workers_come_and_go_and_each_time_all_begin_with_the_last_commit(programs):
    """A host joins, is lost, and comes back; no restart of these is a failure."""
    result = programs.run("""
class Found:
    hosts = {"h1": 1}
    def find_available_hosts_and_slots(self):
        return dict(self.hosts)
marks = home.parent / "marks"
marks.mkdir()
def loop():
    size, begin = train.get_context().get_world_size(), step()
    shard = list(train.get_dataset_shard("rows"))
    assert len(shard) == 12 // size
    (marks / f"{begin}-{size}-{rank()}").touch()
    for at in range(begin, 100_000):
        train.report({"at": at, "size": size}, checkpoint=save(**{"step": at, f"rank{rank()}": at}))
        if (marks / "end").exists():
            return at
        time.sleep(0.02)
found = Found()
config = train.RunConfig(name="run", storage_path=str(home), checkpoint_config=train.CheckpointConfig(num_to_keep=2))
trainer = train.Trainer(loop, num_workers=(1, 2), hosts=found, run_config=config, datasets={"rows": list(range(12))},
                        options={"settle": "100ms"})
def act():
    def until(what):
        while not what():
            time.sleep(0.02)
    def sizes():
        path = home / "run/result.json"
        lines = [json.loads(line)["size"] for line in path.read_text().splitlines(True) if line.endswith("\\n")] if path.exists() else []
        return [size for before, size in zip([0, *lines], lines) if size != before]
    for hosts, wanted in ({}, [1]), ({"h1": 1, "h2": 1}, [1, 2]), ({"h1": 1}, [1, 2, 1]), ({"h1": 1, "h2": 1}, [1, 2, 1, 2]):
        found.hosts = hosts or found.hosts
        until(lambda: sizes() == wanted)
    (marks / "end").touch()
thread = threading.Thread(target=act)
thread.start()
result = trainer.fit()
thread.join()
lines = [json.loads(line)["at"] for line in (home / "run/result.json").read_text().splitlines()]
assert lines == list(range(len(lines))), lines
assert told()["attempts"] == 1 and "step" in names(result.checkpoint.path)
assert len([name for name in names() if name.startswith("ch")]) == 2 and not [name for name in names() if name.startswith(".")]
""")
    assert "restarting from" not in result.errors
