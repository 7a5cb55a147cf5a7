# SPDX-License-Identifier: Apache-2.0
"""The package and the fork server under other minor versions of Python: the oldest that is supported and a newer one."""

import json
import subprocess
import sys

import pytest
from python_program import Programs

# Each kind of call, and what differs from version to version: how classes of the program are pickled, tracebacks and their
# notes, forks beside threads, warnings.
CALLS = """
import collections
class Point:
    def __init__(self, x): self.x = x
class Odd(Exception): pass
Pair = collections.namedtuple("Pair", "a b")

def f(point):
    if point.x < 0:
        odd = Odd(point.x)
        if hasattr(odd, "add_note"): odd.add_note("seen")
        raise odd
    return Pair(Point(point.x + rank()), (rank(), sys.version_info[:2]))

def forks():
    pid = os.fork()
    if pid == 0: os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def check(values):
    assert [type(value) for value in values] == [Pair, Pair] and [type(value.a) for value in values] == [Point, Point], values
    assert [value.a.x for value in values] == [5, 6]
    assert [value.b for value in values] == [(0, sys.version_info[:2]), (1, sys.version_info[:2])]

check(hvdray.run(f, args=(Point(5),), num_proc=2))
with hvdray.Executor(2) as executor:
    check(executor.run(f, (Point(5),)))
    assert executor.run(forks) == [7, 7]
    error = raised(Odd, lambda: executor.run(f, (Point(-1),)))
    assert type(error.__cause__) is Odd and error.__cause__.args == (-1,)
    assert "in f" in error.traceback and "_worker.py" not in error.traceback and "Odd: -1" in error.traceback, error.traceback
    if sys.version_info >= (3, 11):
        assert error.__cause__.__notes__ == ["seen"] and "seen" in error.traceback, error.traceback
    lock = threading.Lock()
    assert "fn.__closure__" in str(raised(hvdray.SerializationError, lambda: executor.run((lambda lock: lambda: lock)(lock))))
    big = executor.run(lambda data: data[::-1], (b"ab" * 100_000,))
    assert big == [b"ba" * 100_000] * 2
    raised(TimeoutError, lambda: executor.run(sleep, timeout=0.3))
with hvdray.Executor(min_workers=2, max_workers=2) as executor:
    check(executor.run(f, (Point(5),)))
class Counter:
    def __init__(self, n): self.n = n
with hvdray.Pool(2, preload=["json", "multiprocessing"]) as pool:
    assert pool.wait_warm(60)
    executor = hvdray.Executor(pool=pool)
    executor.start(Counter, [3])
    assert executor.execute(lambda counter: (counter.n, "multiprocessing" in sys.modules)) == [(3, True)] * 2
    assert executor.run(forks) == [7, 7]
print("whole")
"""


def test_calls_run_whole(hvdray, tmp_path, other_python):
    result = Programs(hvdray, tmp_path).run(CALLS, python=other_python, env={"PYTHONWARNINGS": "error"})
    # The program's warnings and the workers' are errors: that of a socket that is not closed, or of a fork beside threads.
    assert (result.text, result.errors) == ("whole\n", "")


@pytest.mark.parametrize("how", ["num_proc=2", "min_num_proc=2, max_num_proc=2, hosts='localhost:2'"], ids=["static", "elastic"])
def test_workers_of_another_version_are_refused_before_anything_runs(hvdray, tmp_path, other_python, how):
    Programs(hvdray, tmp_path).run(f"""
theirs = {str(other_python)!r}
error = raised(hvdray.WorkerError, lambda: hvdray.run(lambda: open("ran", "w"), {how}, executable=theirs))
assert f" on host localhost: this worker has Python {version_of(other_python)} ({{theirs}}), and its caller " in str(error), error
assert error.hint.startswith("install Python {version_of(sys.executable)} there"), error.hint
assert not os.path.exists("ran")
""")


def version_of(python):
    line = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
    return line.stdout.strip()


PROBE = """
import json, os, sys
print(json.dumps([sys.version_info[:2], sys.argv, sys.path[:1], __name__, __file__, sys.executable, "colorsys" in sys.modules]))
if os.environ["HOROVOD_RANK"] == "1": raise ValueError("told")
"""


def test_a_fork_server_begins_scripts_as_the_interpreter_does(hvdray, tmp_path, other_python):
    (tmp_path / "train.py").write_text(PROBE)
    said = []
    for options in ([], ["--preload", "colorsys"]):
        result = hvdray.go("-np", 2, "--report", "report.json", *options, "--", other_python, "train.py", "a", cwd=tmp_path)
        assert result.code == 1, result.errors
        rows = sorted(json.loads(line.partition(":")[2]) for line in result.text.splitlines())
        tracebacks = [line for line in result.errors.splitlines() if line.startswith("[1]<stderr>")]
        said.append((rows[0][:-1], tracebacks))
        assert {row[-1] for row in rows} == {bool(options)}, result.errors
    assert said[0] == said[1]
    assert said[0][1][-1] == "[1]<stderr>:ValueError: told"
