# SPDX-License-Identifier: Apache-2.0
"""The pure rules of `hvdray.train` (docs/train.md): which reports become commits, what is pruned, metrics, shards, names."""

import contextlib
import enum
import itertools
import json
import math
import random
import signal
import socket
import stat
import subprocess
import sys
import threading

import pytest
from python_program import ROOT

sys.path.insert(0, str(ROOT / "python"))
from hvdray.ray import _work  # noqa: E402  pylint: disable=wrong-import-position
from hvdray.train import _checkpoint, _data, _files, _metrics, _session  # noqa: E402  pylint: disable=wrong-import-position
from hvdray.train._store import Store  # noqa: E402  pylint: disable=wrong-import-position
from hvdray.train._commits import Commits, Made, to_prune  # noqa: E402  pylint: disable=wrong-import-position

SCHEDULES = 10_000


class Attempt:
    """Ranks that report in a random order, each n-th report with or without files, and what must be true of every commit."""

    def __init__(self, draw, size, expected):
        self.draw, self.size, self.expected = draw, size, set(expected)
        self.commits = Commits(expected)
        self.plans = {rank: draw.choice([0, 0, draw.randrange(6), 5]) for rank in range(size)}
        self.gives = {rank: draw.choice([0.0, 0.5, 1.0]) for rank in range(size)}
        self.made = dict.fromkeys(range(size), 0)
        self.begun, self.well, self.under_way = set(expected), set(), {}
        self.waiting = {}  # (round, rank): has failed, of what is neither committed nor dropped
        self.amended = 0  # checkpoints that got files of a rank that reported for the first time
        self.checkpoints = {}  # round: ranks
        self.lines, self.wanted_lines = [], []

    def step(self):
        """False: all ranks have ended well."""
        able = [rank for rank in range(self.size) if rank not in self.well]
        if not able:
            return False
        rank = self.draw.choice(able)
        if rank in self.under_way:
            number = self.under_way.pop(rank)
            has_failed = self.draw.random() < 0.05
            has_files = not has_failed and self.draw.random() < self.gives[rank]
            metrics = {"round": number} if rank == 0 else None
            self.made[rank] += 1
            if has_files or has_failed:
                self.waiting[number, rank] = has_failed
            if rank == 0 and not has_failed:
                self.wanted_lines.append(number)
            self.take(self.commits.make(rank, Made(metrics, has_files, has_failed)))
        elif self.made[rank] < self.plans[rank]:
            self.under_way[rank] = self.commits.begin(rank)
            assert self.under_way[rank] == self.made[rank]
            self.begun.add(rank)
        else:
            self.well.add(rank)
            self.take(self.commits.end_well(rank))
        return True

    def take(self, steps):
        for step in steps:
            for rank in step.dropped:
                self.waiting.pop((step.number, rank))
            if step.committed:
                # All who have ever reported had made theirs.
                assert all(rank in self.well or self.made[rank] > step.number for rank in self.begun), step
                # The last commit never goes back.
                assert step.number in self.checkpoints or step.number > max(self.checkpoints, default=-1), step
                # After a restart from a run whose reporters are known a checkpoint is whole from the start.
                assert step.number not in self.checkpoints or not self.begun <= self.expected, step
                self.amended += step.number in self.checkpoints
                for rank in step.committed:
                    assert not self.waiting.pop((step.number, rank)), step
                self.checkpoints.setdefault(step.number, set()).update(step.committed)
            if step.metrics is not None:
                self.lines.append(step.metrics["round"])

    def check_end(self):
        """All have ended well: nothing waits any more."""
        assert not self.waiting
        assert self.lines == self.wanted_lines == sorted(set(self.lines))


def test_what_is_committed_is_whole_in_order_and_never_goes_back():
    draw = random.Random(1)
    ends = deaths = amended = 0
    for _ in range(SCHEDULES):
        size, reporters = draw.randrange(1, 5), set()
        for _ in range(4):  # attempts
            attempt = Attempt(draw, size, reporters)
            lives = draw.choice([draw.randrange(20), draw.randrange(20), 10_000])
            while lives and attempt.step():
                lives -= 1
            if attempt.checkpoints:
                reporters = set(attempt.commits.reporters)
            amended += attempt.amended
            if lives:
                ends += 1
                attempt.check_end()
                break
            deaths += 1
    assert min(ends, deaths) > SCHEDULES / 2 and amended > SCHEDULES / 20  # all of it was tried


def test_one_rank_reports_alone():
    for rank in (0, 3):
        commits = Commits()
        for number in range(3):
            assert commits.begin(rank) == number
            (step,) = commits.make(rank, Made(None, True))
            assert (step.number, step.committed) == (number, (rank,))


def test_a_rank_that_reports_for_the_first_time_after_a_commit_adds_its_files():
    commits = Commits()
    assert commits.make(1, Made(None, True))[0].committed == (1,)
    (late,) = commits.make(0, Made({"loss": 1}, True))
    assert (late.number, late.committed, late.metrics) == (0, (0,), {"loss": 1})
    assert commits.make(1, Made(None, True)) == []  # from now on it is waited for
    assert commits.make(0, Made({"loss": 2}, False))[0].committed == (1,)


def test_the_first_files_of_a_round_that_was_settled_without_are_a_commit():
    commits = Commits()
    assert commits.make(1, Made(None, False))[0].committed == ()
    assert commits.make(0, Made({"loss": 1}, True))[0].committed == (0,)


def test_a_round_in_which_a_report_failed_has_no_commit_and_the_next_one_has():
    commits = Commits({0, 1})
    commits.make(1, Made(None, True))
    (step,) = commits.make(0, Made({"loss": 1}, False, has_failed=True))
    assert (step.committed, step.dropped, step.metrics) == ((), (0, 1), None)
    commits.make(1, Made(None, True))
    assert commits.make(0, Made({"loss": 1}, True))[0].committed == (0, 1)


def test_pruned_are_the_worst_and_never_the_latest():
    assert to_prune([None] * 4, None) == [] and to_prune([None] * 4, 2) == [0, 1]
    assert to_prune([3.0, 1.0, 2.0, 0.0], 2) == [1, 2]
    assert to_prune([math.nan, 1.0, None, math.nan], 2) == [0, 2]
    for scores in itertools.product([1.0, 2.0, None], repeat=5):
        gone = to_prune(list(scores), 3)
        assert len(gone) == 2 and 4 not in gone


def test_scores_may_be_of_any_size():
    scores = [_metrics.score_of({"a": {"b": value}}, "a/b", "max") for value in (10**400, 3, -(10**400), True, math.nan)]
    assert scores[:4] == [math.inf, 3, -math.inf, None] and math.isnan(scores[4])
    assert _metrics.score_of({"a": 10**400}, "a", "min") == -math.inf


def test_metrics_are_plain_and_nan_is_null_and_back():
    numpy = pytest.importorskip("numpy")
    given = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.bool_(True), "d": math.nan, "e": math.inf,
             "f": {"g": [1, numpy.array(2.5)]}, "h": None, "i": "text", "j": numpy.float64("nan")}
    plain = _metrics.checked_metrics(given)
    assert all(type(value).__module__ == "builtins" for value in plain.values())
    text = _metrics.to_json(plain)
    assert '"d": null' in text and '"e": "Infinity"' in text
    back = _metrics.read_back(text)
    assert math.isnan(back["d"]) and math.isnan(back["j"]) and back["e"] == math.inf and back["f"] == {"g": [1, 2.5]}
    assert back["h"] is None
    assert back["a"] == 0.5 and back["b"] == 3 and back["c"] is True and back["i"] == "text"


class Word(str, enum.Enum):
    RED = "red"


@pytest.mark.parametrize("given, wanted", [
    ({"a": None, "b": {"c": [None, 1]}}, None),
    ({"a": "Infinity", "b": ["-Infinity", math.inf, "NaN"]}, None),
    ({"a": Word.RED, Word.RED: 1}, {"a": "red", "red": 1}),
    ({"training_iteration": 7}, None),
])
def test_what_is_no_number_comes_back_as_it_was(given, wanted):
    assert _metrics.read_back(_metrics.to_json(_metrics.checked_metrics(given))) == (wanted or given)


@pytest.mark.parametrize("given, text", [
    ({"checkpoint_dir_name": "x"}, "metrics['checkpoint_dir_name']: a line of result.json has that name already"),
    ([1], "must be a dict, not list"),
    ({1: 2}, "keys must be texts"),
    ({"a": {"b": object()}}, "metrics['a']['b'] is a object"),
    ({"a": b"x"}, "metrics['a'] is a bytes"),
    ({"a": "x" * 70_000}, "65536"),
])
def test_metrics_that_are_no_numbers_are_named_by_their_path(given, text):
    with pytest.raises((TypeError, ValueError)) as raised:
        _metrics.checked_metrics(given)
    assert text in str(raised.value)


def test_an_array_of_many_values_is_no_metric():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="ndarray"):
        _metrics.checked_metrics({"a": numpy.zeros(3)})


@pytest.mark.parametrize("equal", [True, False])
def test_shards_are_disjoint_and_equal_or_whole(equal):
    for rows, size in itertools.product(range(20), range(1, 6)):
        shards = [list(_data.Shard(list(range(rows)), rank, size, equal)) for rank in range(size)]
        seen = list(itertools.chain(*shards))
        assert seen == list(range(len(seen)))
        lengths = {len(shard) for shard in shards}
        assert lengths == {rows // size} if equal else len(seen) == rows and max(lengths) - min(lengths) <= 1


def test_batches_are_what_their_rows_are():
    numpy = pytest.importorskip("numpy")
    assert list(_data.Shard([1, 2, 3, 4, 5], 0, 1).iter_batches(batch_size=2)) == [[1, 2], [3, 4], [5]]
    assert list(_data.Shard([1, 2, 3, 4, 5], 0, 1).iter_batches(batch_size=2, drop_last=True)) == [[1, 2], [3, 4]]
    arrays = list(_data.Shard(numpy.arange(8).reshape(4, 2), 1, 2).iter_batches(batch_size=2))
    assert len(arrays) == 1 and arrays[0].tolist() == [[4, 5], [6, 7]]
    dicts = list(_data.Shard([{"x": 1, "y": 2}, {"x": 3, "y": 4}], 0, 1).iter_batches(batch_size=2))
    assert dicts[0]["x"].tolist() == [1, 3] and dicts[0]["y"].tolist() == [2, 4]
    sizes = [len(batch) for batch in _data.Shard([0] * 300, 0, 1).iter_batches(batch_size=numpy.int8(100))]
    assert sizes == [100, 100, 100]
    with pytest.raises(ValueError):
        list(_data.Shard([1], 0, 1).iter_batches(batch_size=0))


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/.", "a\0b", 3, None])
def test_names_that_lead_out_of_a_checkpoint_are_refused(name):
    with pytest.raises(ValueError):
        _files.checked_name(name)


def test_links_and_pipes_are_no_files_of_a_checkpoint(tmp_path):
    import os  # pylint: disable=import-outside-toplevel

    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_text("x")
    assert [file.name for file in _files.scan(str(tmp_path))[1]] == ["a/file"]
    (tmp_path / "a/link").symlink_to("file")
    with pytest.raises(ValueError, match="links are not followed"):
        _files.scan(str(tmp_path))
    with pytest.raises(ValueError, match="links are not followed"):
        _work.read_files(str(tmp_path))
    (tmp_path / "a/link").unlink()
    assert _work.read_files(str(tmp_path)) == {"a/file": b"x"}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no plain file"):
        _files.scan(str(tmp_path))


LINKED = ["progress.csv", "run.json.new~", "part/model.pt.r0~", "run.json", "part", "checkpoint"]


@pytest.mark.parametrize("planted", LINKED)
def test_a_run_follows_no_link_in_its_directory(tmp_path, planted):
    """Another user who may write to the directory of a run knows the names that it is going to use."""
    own, root = tmp_path / "own", tmp_path / "run"
    for directory in (own, root, root / "part"):
        directory.mkdir()
    secret = own / "model.pt"
    secret.write_text("precious")
    if planted in ("part", "checkpoint"):
        (root / "part").rmdir()
        (root / planted).symlink_to(own)
    else:
        (root / planted).symlink_to(secret)
    store = Store(str(root))
    store.open()
    for step in (lambda: store.append("progress.csv", b"line"), lambda: store.truncate("progress.csv", 1),
                 lambda: store.put("run.json", b"new"), lambda: store.make("part", [_files.Found("a", 0, 0, 0o755)])):
        with contextlib.suppress(OSError):
            step()
    with contextlib.suppress(OSError):
        arriving = store.arriving("part", "model.pt", "r0")
        arriving.write(b"new")
        arriving.finish()
        store.move("part", "checkpoint")
    with contextlib.suppress(OSError):
        found = ([_files.Found("part", 0, 0, None)], [_files.Found("part/model.pt", 3, 0, None)])
        _checkpoint.receive(str(root), found, lambda wanted: [b"new"] * len(wanted))
    store.close()
    assert (secret.read_text(), [path.name for path in own.iterdir()]) == ("precious", ["model.pt"])


def test_permissions_are_kept_and_the_owner_may_read(tmp_path):
    (tmp_path / "from/folder").mkdir(parents=True)
    wanted = {"folder": 0o700, "folder/run.sh": 0o755, "secret": 0o600, "kept": 0o440, "odd": 0o4711}
    for name, mode in wanted.items():
        if name != "folder":
            (tmp_path / "from" / name).touch()
        (tmp_path / "from" / name).chmod(mode)
    found = _files.scan(str(tmp_path / "from"))
    _files.copy_in(str(tmp_path / "from"), found, str(tmp_path / "copy"), "1")
    received = tuple(_files.as_found(json.loads(json.dumps(_files.as_rows(part)))) for part in found)
    _checkpoint.receive(str(tmp_path / "received"), received, lambda wanted: pytest.fail("they are empty"))
    for target in "copy", "received":
        assert {name: stat.S_IMODE((tmp_path / target / name).stat().st_mode) for name in wanted} == {**wanted, "odd": 0o711}


def test_small_files_share_a_message_whose_line_has_room_for_their_names(tmp_path):
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(9 << 20))
    for number in range(300):
        (tmp_path / f"{number:03}{chr(0x80) * 120}").write_bytes(b"%d" % number if number else b"")
    found = _files.scan(str(tmp_path))[1]
    pieces = list(_session._pieces(str(tmp_path), found))
    assert len(pieces) == 3 and all(len(json.dumps(rows)) < 1 << 20 for rows, _ in pieces)
    contents = {}
    for rows, parts in pieces:
        for (name, size, _, is_last), part in zip(rows, parts):
            assert len(part) == size and (is_last or name == "large")
            contents[_files.as_name(name)] = contents.get(_files.as_name(name), b"") + part
    assert contents == {file.name: (tmp_path / file.name).read_bytes() for file in found}


def test_small_files_are_asked_for_many_at_a_time(tmp_path):
    contents = {f"{number:04}": b"%d" % number if number % 3 else b"" for number in range(1000)}
    contents["large"] = random.Random(1).randbytes(9 << 20)
    found = [], [_files.Found(name, len(content), 0, 0o600) for name, content in contents.items()]
    asked = []

    def pieces(wanted):
        asked.append(len(wanted))
        room = max(1, 1000 - len(asked))  # An answer may have room for none but the first.
        return [contents[name][at:at + _files.PIECE] if number < room else b"" for number, (name, at) in enumerate(wanted)]

    _checkpoint.receive(str(tmp_path), found, pieces)
    assert len(asked) < 10 and {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents, asked


def test_many_files_are_on_the_disk_by_one_call(tmp_path):
    for count, calls in (3, {"fsync": 4}), (100, {"syncfs": 1}):
        folder = tmp_path / f"{count}"
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}").write_text("x")
        program = "import sys; from hvdray._disk import sync_tree; sync_tree(sys.argv[1])"
        done = subprocess.run(["strace", "-qq", "-f", "-e", "trace=fsync,syncfs", sys.executable, "-c", program, folder],
                              env={"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True, check=True)
        assert {name: done.stderr.count(f"{name}(") for name in calls} == calls, done.stderr
        assert len(done.stderr.splitlines()) == sum(calls.values()), done.stderr


def test_a_file_may_have_the_longest_name_there_is(tmp_path):
    name = "é" * 127 + "x"
    arriving = _files.Arriving(str(tmp_path), name, "12345")
    arriving.write(b"x")
    arriving.finish()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_workers_are_held_to_know_only_what_was_sent():
    from hvdray._payload import dumps  # pylint: disable=import-outside-toplevel
    from hvdray._scatter import Scattered  # pylint: disable=import-outside-toplevel

    class Launcher:
        lost, is_over = None, True

        def next_object(self):
            return 5

        def put(self, number, parts):
            assert number == 5 and parts

    class Gang:
        pass

    launcher, gang, value = Launcher(), Gang(), Scattered(dumps([1], []))
    assert value.on(launcher, gang, [0, 1])[1] == [5]
    assert value.on(launcher, gang, [0, 1])[1] == [5], "nothing was sent"
    value.note_sent(gang, [0])
    assert value.on(launcher, gang, [0])[1] == [] and value.on(launcher, gang, [0, 1])[1] == [5]


def test_a_handler_that_raises_while_an_answer_is_read_loses_no_other():
    from hvdray._messages import ChannelReader, head_of  # pylint: disable=import-outside-toplevel

    class Late(Exception):
        pass

    def late(*_):
        raise Late

    def write(sock):
        for number in itertools.chain(range(1500), itertools.repeat(1500, 100)):
            sock.sendall(head_of({"type": "data", "number": number}, 3) + b"abc")

    ours, theirs = socket.socketpair()
    reader, seen = ChannelReader(ours), []
    writer = threading.Thread(target=write, args=(theirs,), daemon=True)
    before = signal.signal(signal.SIGALRM, late)
    writer.start()
    try:
        while not seen or seen[-1] < 1500:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-5))
                message, blob = reader.message()
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert bytes(blob) == b"abc"
                seen.append(message["number"])
            except Late:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ours.close()
    assert seen == sorted(set(seen))
