# SPDX-License-Identifier: Apache-2.0
"""`hvdray.run` and `hvdray.Executor` on this machine: values, how calls end row by row (docs/python.md), bad input.

Not here: other hosts (python_hosts_test), and kills at random moments (python_kills_test).
"""

import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from python_program import ROOT, Programs


@pytest.fixture
def programs(hvdray, tmp_path):
    return Programs(hvdray, tmp_path)


# ---- values


def test_values_come_back_by_rank_and_the_workers_stay(programs):
    programs.run("""
offset = 10
def f(a, b=2):
    return rank() + offset + a * b

class Counter:
    def __init__(self, start, step=1):
        self.n, self.step = start, step
    def up(self):
        self.n += self.step
        return self.n

assert hvdray.run(f, args=(3,), kwargs={"b": 5}, num_proc=2) == [25, 26]
with hvdray.Executor(2) as executor:
    pids = executor.run(os.getpid)
    assert pids == [w["pid"] for w in executor.workers] and pids == executor.run(os.getpid)
    assert executor.run(lambda: f(1)) == [12, 13]
    assert executor.execute(lambda nothing: nothing) == [None, None]
    assert [future.result() for future in executor.run_remote(f, [1])] == [12, 13]
executor = hvdray.Executor(2)
executor.start(Counter, [100], {"step": 5}, {"COLOUR": "blue"})
assert executor.execute(lambda counter: counter.up()) == [105, 105]
assert executor.execute_single(lambda counter: counter.up()) == 110
assert executor.execute(lambda counter: (counter.up(), os.environ["COLOUR"])) == [(115, "blue"), (110, "blue")]
executor.restart()
assert executor.execute(lambda counter: counter.up()) == [105, 105]
executor.shutdown()
executor.shutdown()
""")


def test_there_may_be_more_workers_than_are_started_at_once(programs):
    programs.run("assert hvdray.run(rank, num_proc=20) == list(range(20))")


def test_classes_of_the_program_keep_their_identity(programs):
    programs.run("""
class Point:
    def __init__(self, x): self.x = x
class Odd(Exception): pass
def f(point):
    if point.x: raise Odd(point.x)
    return Point(rank())
with hvdray.Executor(2) as executor:
    assert all(type(point) is Point for point in executor.run(f, (Point(0),)))
    error = raised(Odd, lambda: executor.run(f, (Point(7),)))
    assert type(error.__cause__) is Odd and error.args == (7,), error
""")


def test_large_values_are_one_copy_that_may_be_written_to(programs):
    programs.run("""
import numpy as np
def add(array, more):
    mapped = sum(line.count("memfd") for line in open("/proc/self/maps"))
    array += rank()  # of its own, from here on
    return array.sum(), len(more), mapped
with hvdray.Executor(2) as executor:
    big = np.ones(2_000_000)
    (a, n, mapped), (b, m, _) = executor.run(add, (big, b"x" * 100_000))
    assert (a, b, n, m) == (2e6, 4e6, 100_000, 100_000) and mapped, (a, b, n, m, mapped)
    assert big.sum() == 2e6
    back = executor.run(lambda: np.full(3_000_000, rank(), dtype=np.int32))
    assert [(x.nbytes, int(x[-1])) for x in back] == [(12_000_000, 0), (12_000_000, 1)]
    back[0][0] = 5  # writable here, too
    assert executor.run(lambda: np.arange(12).reshape(3, 4).T.tolist()) == [np.arange(12).reshape(3, 4).T.tolist()] * 2
    # A hundred objects later, nothing of them is left on the host.
    for _ in range(30):
        executor.run(len, (b"y" * 1_000_000,))
    left = executor.run(lambda: len(os.listdir("/proc/self/fd")))
    assert max(left) < 16, left
""")


def test_results_as_json_read_no_pickles(programs):
    programs.run("""
class Trap:
    def __reduce__(self): return (os.system, ("touch trapped",))
with hvdray.Executor(2, results="json") as executor:
    assert executor.run(lambda: {"rank": rank(), "list": (1, 2)}) == [{"rank": 0, "list": [1, 2]}, {"rank": 1, "list": [1, 2]}]
    assert "JSON" in str(raised(hvdray.SerializationError, lambda: executor.run(Trap)))
    assert "JSON" in str(raised(hvdray.SerializationError, lambda: executor.run(float, ("nan",))))
    big = {str(n): n for n in range(5000)}
    assert executor.run(lambda: [2**70, "x" * (1 << 21), chr(0xdc80), big]) == [[2**70, "x" * (1 << 21), chr(0xdc80), big]] * 2
    error = raised(hvdray.WorkerError, lambda: executor.run(int, ("bad",)))
    assert type(error.__cause__) is RuntimeError and "ValueError: invalid literal" in str(error), error
    assert not os.path.exists("trapped")
""")


def test_results_as_json_read_no_pickles_of_a_hostile_worker_either(programs):
    programs.run("""
import pickle
class Trap:
    def __reduce__(self): return (os.system, ("touch trapped",))
def forge(is_ok):
    import hvdray._worker as worker
    def say(self, message, payload=None, real=worker.Worker.say):
        bytes = pickle.dumps(Trap())
        message["data"].update(ok=is_ok, sizes=[len(bytes)], error={"name": "x"})
        real(self, message, worker.Payload([len(bytes)], [bytes], len(bytes)))
    worker.Worker.say = say
for is_ok in (True, False):
    with hvdray.Executor(1, results="json") as executor:
        raised(hvdray.HvdrayError, lambda: executor.run(forge, (is_ok,)))
    assert not os.path.exists("trapped"), is_ok
""")


def test_many_small_arrays_travel_as_one(programs):
    """Thousands of buffers must not make lines that are too long, nor slow ones."""
    programs.run("""
import numpy
many = [numpy.full(128, n) for n in range(100000)]
with hvdray.Executor(1) as executor:
    (back,) = executor.run(lambda many: many, (many,))
assert all((a == b).all() for a, b in zip(many[::1000], back[::1000])) and len(back) == 100000
""")


def test_a_forked_childs_writes_into_a_result_are_its_own(programs):
    programs.run("""
import numpy
with hvdray.Executor(1) as executor:
    (big,) = executor.run(numpy.zeros, (1 << 20,))
    if os.fork() == 0:
        big[:] = 7
        os._exit(0)
    os.wait()
    assert not big.any()
""")


def test_the_example_trains_with_horovod(programs, horovod_python):
    """Which is unmodified: hvd.init() once, and its state lives from call to call."""
    package = {"HVDRAY_BINARY": str(programs.tool.binary), "PYTHONPATH": str(ROOT / "python")}
    result = programs.tool.run(ROOT / "examples/python/digits_executor.py", "2", binary=str(horovod_python),
                               env={**os.environ, **package}, timeout=120)
    assert result.code == 0, result.errors
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", result.text)]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2], result.text
    assert float(re.search(r"test accuracy ([\d.]+) %, 2 workers", result.text)[1]) > 85, result.text


# ---- how calls end


def test_one_rank_raises_and_the_others_get_time_to_return(programs):
    programs.run("""
def f():
    if rank() == 1: raise ValueError("bad", 7)
    time.sleep(0.2)
    return "done"
with hvdray.Executor(2) as executor:
    pids = executor.run(os.getpid)
    error = raised(ValueError, lambda: executor.run(f))
    assert isinstance(error, hvdray.WorkerError) and error.rank == 1 and error.pid == pids[1]
    assert error.outcomes[0] == "done" and error.outcomes[1].args == ("bad", 7) and error.__cause__.args == ("bad", 7)
    assert "line" in error.traceback and "_worker.py" not in error.traceback, error.traceback
    assert str(error) == "rank 1 on host localhost raised ValueError: ('bad', 7)", str(error)
    assert executor.run(os.getpid) == pids
""")


def test_who_catches_no_error_sees_the_line_of_the_worker(programs):
    result = programs.run("""
import pickle, traceback
def f():
    raise ValueError("bad")  # here
error = raised(ValueError, lambda: hvdray.run(f, num_proc=1))
assert error.traceback in "".join(traceback.format_exception(pickle.loads(pickle.dumps(error))))
raise error
""", code=1)
    assert '    raise ValueError("bad")  # here\n' in result.errors.partition("direct cause")[0], result.errors


@pytest.mark.rest
def test_one_rank_raises_and_the_other_sleeps_or_does_not_listen(programs):
    programs.run("""
def f(is_deaf):
    while is_deaf and rank() == 1 and not os.path.exists("deaf"): time.sleep(0.01)
    if rank() == 1: raise KeyError("k")
    if is_deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        open("deaf", "w").close()
    sleep()
with hvdray.Executor(2, options={"grace": 4}) as executor:
    pids = executor.run(os.getpid)
    error = raised(KeyError, lambda: executor.run(f, (False,)))
    assert isinstance(error.outcomes[0], KeyboardInterrupt) and executor.run(os.getpid) == pids
    raised(KeyError, lambda: executor.run(f, (True,)))
    assert executor.workers == [] and set(executor.run(os.getpid)).isdisjoint(pids)
os.remove("deaf")
executor = hvdray.Executor(2, options={"grace": 0.3})
executor.start(dict)
raised(KeyError, lambda: executor.run(f, (True,)))
raised(hvdray.StateLost, lambda: executor.run(os.getpid))
executor.restart()
assert executor.execute(len) == [0, 0]
""")


def test_run_ends_all_workers_at_once_and_begins_with_horovods_sentence(programs):
    programs.run("""
def f():
    if rank() == 1: 1 / 0
    time.sleep(600)
error = raised(ZeroDivisionError, lambda: hvdray.run(f, num_proc=2))
assert str(error).startswith("Horovod detected that one or more processes exited with non-zero status"), error
assert "Process name: 1" in str(error) and "rank 1 on host localhost raised ZeroDivisionError" in str(error)
""")


@pytest.mark.parametrize("how, exit_code, signal_name", [("os._exit(7)", 7, None), ("os.kill(os.getpid(), 9)", 137, "SIGKILL")])
def test_a_worker_dies(programs, how, exit_code, signal_name):
    programs.run(f"""
def f():
    if rank() == 1:
        print("last words", file=sys.stderr, flush=True)
        {how}
    sleep()
with hvdray.Executor(2) as executor:
    pids = executor.run(os.getpid)
    error = raised(hvdray.WorkerDied, lambda: executor.run(f))
    assert (error.rank, error.host, error.pid) == (1, "localhost", pids[1])
    assert (error.exit_code, error.signal) == ({exit_code}, {signal_name!r})
    assert error.last_stderr == ["last words"] and "last words" in str(error), str(error)
    assert error.report["exit"]["code"] == {exit_code}
    assert len(executor.run(os.getpid)) == 2  # a new gang
""")


def test_a_worker_that_ends_well_before_it_has_answered_has_died(programs):
    programs.run("""
def f():
    if rank() == 1: os._exit(0)
    return 1
error = raised(hvdray.WorkerDied, lambda: hvdray.run(f, num_proc=2))
assert (error.rank, error.host, error.exit_code) == (1, "localhost", 0), vars(error)
with hvdray.Executor(2) as executor:
    raised(hvdray.WorkerDied, lambda: executor.run(f))
    assert executor.run(rank) == [0, 1]
""")


def test_what_a_program_has_at_the_end_of_its_path_hides_nothing_of_pythons(programs):
    programs.run("""
late = os.path.abspath("late")
os.mkdir(late)
for name in "colorsys", "late_module":
    open(f"{late}/{name}.py", "w").close()
sys.path.append(late)
def f():
    import colorsys, late_module
    return [os.path.dirname(module.__file__) == late for module in (colorsys, late_module)]
assert f() == [False, True] and hvdray.run(f, num_proc=1) == [[False, True]]
""")


def test_a_result_that_does_not_travel_interrupts_nobody(programs):
    programs.run("""
def f(seconds):
    if rank() == 1: return threading.Lock()
    time.sleep(seconds)
    open("slept", "w").close()
with hvdray.Executor(2, options={"grace": "200ms"}) as executor:
    pids = executor.run(os.getpid)
    error = raised(hvdray.SerializationError, lambda: executor.run(f, (1,)))
    assert "rank 1" in str(error) and os.path.exists("slept")
    assert executor.run(os.getpid) == pids
""")


def test_a_time_limit_does_not_hide_what_went_wrong(programs):
    programs.run("""
def f():
    if rank() == 1: raise ValueError("the real cause")
    time.sleep(60)
with hvdray.Executor(2, options={"grace": 30}) as executor:
    executor.run(rank)  # the start is not within the limit
    error = raised(hvdray.WorkerError, lambda: executor.run(f, timeout=3))
    assert type(error.__cause__) is ValueError
""")


def test_an_exception_of_a_signal_handler_ends_the_call(programs):
    programs.run("""
def alarm(*_): raise RuntimeError("alarm")
signal.signal(signal.SIGALRM, alarm)
with hvdray.Executor(2, options={"grace": 0.5}) as executor:
    executor.run(rank)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert "alarm" in str(raised(RuntimeError, lambda: executor.run(sleep)))
    assert executor.run(rank) == [0, 1]
""")


def test_texts_of_errors_may_hold_anything(programs):
    programs.run("""
def f(text): raise ValueError(text)
with hvdray.Executor(1) as executor:
    pids = executor.run(os.getpid)
    for text in ("bad " + chr(0xdc80) + " name", chr(0x1f600) * 70000):
        error = raised(hvdray.WorkerError, lambda: executor.run(f, (text,)))
    assert executor.run(os.getpid) == pids
""")


def test_what_raises_may_be_of_any_class(programs):
    programs.run("""
class Picky(Exception):
    def __init__(self, a, b): super().__init__("picky")
def f(what):
    if what == "picky": raise Picky(1, 2)
    if what == "os": open("/nonexistent")
    if what == "exit": sys.exit(3)
    if what == "lock": raise ValueError(threading.Lock())
    if what == "module": import nonexistent_module.part
with hvdray.Executor(2) as executor:
    error = raised(hvdray.WorkerError, lambda: executor.run(f, ("picky",)))
    assert "Picky: picky" in str(error), error
    error = raised(FileNotFoundError, lambda: executor.run(f, ("os",)))
    assert error.errno == 2 and error.filename == "/nonexistent", vars(error)
    error = raised(hvdray.WorkerError, lambda: executor.run(f, ("exit",)))
    assert type(error.__cause__) is SystemExit and not isinstance(error, SystemExit)
    error = raised(hvdray.WorkerError, lambda: executor.run(f, ("lock",)))
    assert "ValueError: <unlocked" in str(error)
    error = raised(ModuleNotFoundError, lambda: executor.run(f, ("module",)))
    assert error.hint == "install nonexistent_module on localhost", error.hint
    import copy, pickle
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ModuleNotFoundError) and again.rank == error.rank and str(again) == str(error)
""")


def test_what_can_not_be_pickled_is_named(programs):
    programs.run("""
lock = threading.Lock()
def make():
    inner = {"deep": [1, threading.Lock()]}
    return lambda: inner
with hvdray.Executor(2) as executor:
    for path, call in {
        "fn.__globals__['lock']": lambda: executor.run(lambda: lock),
        "fn.__closure__['inner']['deep'][1]": lambda: executor.run(make()),
        "args[1]": lambda: executor.run(print, (1, lock)),
        "kwargs['x']": lambda: executor.run(print, (), {"x": lock}),
        "the result['a']": lambda: executor.run(lambda: {"a": threading.Lock()}),
    }.items():
        error = raised(hvdray.SerializationError, call)
        assert path in str(error) and "_thread.lock" in str(error) and "lock" in error.hint, error
    assert executor.run(rank) == [0, 1]
""")


def test_a_time_limit_and_an_interrupt_end_the_call_and_keep_the_state(programs):
    programs.run("""
executor = hvdray.Executor(2, options={"grace": 4})
executor.start(list)
executor.execute(lambda items: items.append(rank()))
raised(TimeoutError, lambda: executor.execute(lambda _: sleep(), timeout=0.2))
threading.Timer(0.2, executor.interrupt).start()
raised(KeyboardInterrupt, lambda: executor.execute(lambda _: sleep()))
assert executor.execute(lambda items: items) == [[0], [1]]
def deaf(_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sleep()
error = raised(TimeoutError, lambda: executor.execute(deaf, timeout=3))  # in this time, both are
assert "ranks 0, 1" in str(error), error
raised(hvdray.StateLost, lambda: executor.execute(len))
executor.shutdown()
""")


def test_ctrl_c_reaches_the_functions_and_the_second_one_kills(programs):
    job = programs.start("""
def f(_):
    try:
        print("at work", flush=True)
        sleep()
    finally:
        print("cleaned up", flush=True)
def deaf(_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("deaf", flush=True)
    sleep()
executor = hvdray.Executor(2, options={"grace": 20})
executor.start(list)
raised(KeyboardInterrupt, lambda: executor.execute(f))
assert executor.execute(len) == [0, 0]
error = raised(KeyboardInterrupt, lambda: executor.execute(deaf))
assert "killed" in str(error), error
raised(hvdray.StateLost, lambda: executor.execute(len))
""")
    said = b""
    for word, count in (("at work", 1), ("deaf", 2)):
        while said.count(word.encode()) < 2:
            said += os.read(job.process.stdout.fileno(), 4096)
        for _ in range(count):
            os.kill(job.pid, signal.SIGINT)
            time.sleep(0.3)
    result = job.wait()
    assert result.code == 0, result.errors
    assert (said.decode() + result.text).count("cleaned up") == 2


def test_ctrl_c_that_a_wrapper_passes_on_is_one(programs):
    """A terminal signals the group, and timeout(1) its child once more."""
    job = programs.start("""
def f(_):
    try:
        print("at work", flush=True)
        sleep()
    except KeyboardInterrupt:
        time.sleep(1)
        print("saved", flush=True)
        raise
executor = hvdray.Executor(2, options={"grace": 20})
executor.start(list)
error = raised(KeyboardInterrupt, lambda: executor.execute(f))
assert "killed" not in str(error), error
error = raised(KeyboardInterrupt, lambda: hvdray.run(f, [0], num_proc=2, min_num_proc=2, options={"grace": 20}))
assert "killed" not in str(error), error
""")
    said = b""
    for count in 2, 4:
        while said.count(b"at work") < count:
            said += (news := os.read(job.process.stdout.fileno(), 4096))
            assert news, job.wait().errors
        for _ in range(2):
            os.kill(job.pid, signal.SIGINT)
            time.sleep(0.01)  # else the kernel makes them one
    result = job.wait()
    assert result.code == 0, result.errors
    assert (said.decode() + result.text).count("saved") == 4


def test_calls_of_other_threads_wait_and_forked_children_are_refused(programs):
    programs.run("""
import concurrent.futures
with hvdray.Executor(2) as executor:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda i: executor.run(lambda: (i, rank())), range(40)))
    assert values == [[(i, 0), (i, 1)] for i in range(40)]
    child = os.fork()
    if child == 0:
        error = raised(RuntimeError, lambda: executor.run(rank))
        os._exit("forked child" not in str(error))
    assert os.waitpid(child, 0)[1] == 0
    assert executor.run(rank) == [0, 1]
""")


def test_functions_may_fork(programs):
    """As data loaders do: a worker has one thread, and its channel is not its children's."""
    programs.run("""
def f():
    import multiprocessing, subprocess
    assert threading.active_count() == 1
    with multiprocessing.get_context("fork").Pool(2) as pool:
        values = pool.map(abs, [-1, -2])
    open_ones = subprocess.run([sys.executable, "-c", "import os; print(os.listdir('/proc/self/fd'))"],
                               capture_output=True, text=True, check=True).stdout
    return values, "HVDRAY_CHANNEL_FD" in os.environ, open_ones
with hvdray.Executor(2) as executor:
    for values, has_channel, open_ones in executor.run(f):
        assert (values, has_channel, open_ones) == ([1, 2], False, "['0', '1', '2', '3']\\n"), open_ones
""")

# How a forked child may leave the function that it was forked in: what it does, its status for the parent, what it prints.
LEAVING = {
    "sys.exit(0)": ("sys.exit(0)", 0, None),
    "sys.exit()": ("sys.exit()", 0, None),
    "sys.exit(7)": ("sys.exit(7)", 7, None),
    "sys.exit(text)": ("sys.exit('the child is done')", 1, "the child is done"),
    "return": ("return None", 0, None),
    "return value": ("return 'child'", 0, "a forked child has returned"),
    "raise": ("raise KeyError('of the child')", 1, "KeyError: 'of the child'"),
    "interrupt": ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    "os._exit": ("os._exit(5)", 5, None),
}


@pytest.mark.parametrize("way", LEAVING)
def test_a_forked_child_never_answers_in_the_workers_place(programs, way):
    """It ends where the function ends, as one of multiprocessing; calls are its parent's."""
    act, status, said = LEAVING[way]
    result = programs.run(f"""
import atexit, tempfile
def note(text):
    with open("notes", "a") as file: file.write(f"{{text}} {{os.getpid()}}\\n")
def f(fork=os.fork):
    pid = fork()
    if pid == 0:
        print("the child prints", end="")
        {act}
    return pid, os.waitpid(pid, 0)[1]
class Forking:
    def __init__(self):
        atexit.register(note, "ended")
    def method(self):
        return f()
class Argument:  # forks when it is read
    def __reduce__(self):
        return f, ()
def with_context():
    with tempfile.TemporaryDirectory():
        return f()
def generator():
    yield f()
def from_c():
    import ctypes
    return f(ctypes.PyDLL(None).fork)
with hvdray.Executor(2) as executor:
    executor.start(Forking)
    pids = executor.run(os.getpid)
    for _ in range(2):
        for call in (lambda: executor.run(f), lambda: executor.execute(Forking.method), lambda: executor.run(lambda: next(generator())),
                     lambda: executor.run(lambda it: it, (Argument(),)), lambda: executor.run(with_context), lambda: executor.run(from_c)):
            for child, status in call():
                assert child not in pids and os.waitstatus_to_exitcode(status) == {status}, (child, status)
        assert executor.run(os.getpid) == pids
assert sorted(open("notes").read().split()) == sorted(["ended", str(pids[0]), "ended", str(pids[1])]), open("notes").read()
""")
    assert "the child prints" in result.text or act == "os._exit(5)", result.text
    assert said is None or said in result.errors, result.errors
    assert said is not None or result.errors == "", result.errors


def test_a_child_that_is_forked_while_the_answer_is_written_does_not_write_it(programs):
    programs.run("""
def fork():
    pid = os.fork()
    return [] if pid == 0 else [pid, os.waitpid(pid, 0)[1]]
class Result:
    def __reduce__(self): return list, (fork(),)
class Odd(Exception):
    def __str__(self): return str(fork())
class Stream:
    def __init__(self, real): self.real = real
    def write(self, text): return self.real.write(text)
    def flush(self):
        fork()
        self.real.flush()
def fail(): raise Odd
def replace(): sys.stdout = Stream(sys.stdout)
with hvdray.Executor(1) as executor:
    pids = executor.run(os.getpid)
    for _ in range(3):
        (value,) = executor.run(Result)
        assert len(value) == 2 and value[1] == 0, value
        error = raised(hvdray.WorkerError, lambda: executor.run(fail))
        assert "Odd: []" not in str(error) and ", 0]" in str(error), error
        executor.run(replace)
        assert executor.run(os.getpid) == pids
""")


def test_a_child_that_a_signal_handler_forks_between_calls_takes_no_call(programs):
    programs.run("""
def listen():
    def fork(*_):
        pid = os.fork()
        with open("children", "a") as file: file.write(f"{pid or os.getpid()}\\n")
    signal.signal(signal.SIGUSR1, fork)
def lines():
    return open("children").read().split() if os.path.exists("children") else []
with hvdray.Executor(1) as executor:
    pids = executor.run(os.getpid)
    executor.run(listen)
    for count in range(1, 6):
        os.kill(pids[0], signal.SIGUSR1)
        while len(lines()) < 2 * count: time.sleep(0.01)
        assert executor.run(os.getpid) == pids
    assert executor.run(lambda: [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(5)]) == [[0] * 5]
""")


def test_a_forked_child_that_lives_on_keeps_no_channel_and_registers_what_is_its_own(programs):
    programs.run("""
import atexit
def f(reader, writer):
    if os.fork() == 0:
        atexit.register(lambda: open("of the child", "w").close())
        threading.Timer(0.01, lambda: open("of its thread", "w").close()).start()
        os.write(writer, b"open" if os.path.exists("/proc/self/fd/4") else b"closed")
        return
    os.close(writer)
    return os.read(reader, 100), os.wait()[1]
with hvdray.Executor(1) as executor:
    assert executor.run(lambda: f(*os.pipe())) == [(b"closed", 0)]
assert os.path.exists("of the child") and os.path.exists("of its thread")
""")


def test_a_forked_child_of_the_program_ends_nothing_of_the_call_that_it_was_forked_in(programs):
    """In a callback, or a signal handler, on the thread that waits for the workers."""
    result = programs.run("""
from hvdray.ray import ray_logger
driver = os.getpid()
def f():
    ray_logger.log("now")
    wait_for("go on")
    return rank()
def go_on(pid):
    assert os.waitpid(pid, 0)[1] >> 8 == expected
    open("go on", "w").close()
for act, expected in ((lambda: sys.exit(3), 3), (lambda: None, 1), (lambda: os._exit(4), 4)):
    def callback(_):
        pid = os.fork()
        act() if pid == 0 else go_on(pid)
    with hvdray.Executor(1) as executor:
        assert executor.run(f, callbacks=[callback]) == [0]
        os.remove("go on")
        if expected == 1:
            continue
        signal.signal(signal.SIGUSR1, lambda *_: callback(0))
        for options in ({}, {"min_workers": 1}):
            with hvdray.Executor(None if options else 1, **options) as executor:
                assert executor.run(lambda: (os.kill(driver, signal.SIGUSR1), wait_for("go on"))[1]) == [None]
            os.remove("go on")
""")
    assert "forked child" in result.errors, result.errors


def test_serve_killed(programs):
    programs.run("""
executor = hvdray.Executor(2)
executor.start()
serve, = open(f"/proc/self/task/{os.getpid()}/children").read().split()
threading.Timer(0.3, lambda: os.kill(int(serve), signal.SIGKILL)).start()
error = raised(hvdray.LauncherLost, lambda: executor.run(sleep))
assert "signal 9" in str(error), error
assert executor.run(rank) == [0, 1]  # by another
executor.shutdown()
""")


def test_a_host_that_is_lost_is_blamed_and_no_worker_that_is_stopped_for_it(programs):
    programs.run("""
def lose():
    if rank() == 0:
        while not os.path.exists("deaf"): time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGKILL)  # the agent
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    open("deaf", "w").close()
    sleep()
with hvdray.Executor(hosts="localhost:1,127.0.0.1:1") as executor:
    error = raised(hvdray.HvdrayError, lambda: executor.run(lose))
    assert error.code == "HVD-E0205" and "localhost" in str(error) and not isinstance(error, hvdray.WorkerDied), repr(error)
    assert executor.run(rank) == [0, 1]
""")


def test_exit_without_shutdown_leaves_nothing(programs):
    result = programs.run("""
import atexit
executor = hvdray.Executor(2)
executor.start()
executor.run(lambda: atexit.register(print, "ended well"))
""")
    assert result.text.count("ended well") == 2


def test_workers_that_do_not_come_up_can_be_given_up(programs, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\nsleep 60\nexec {sys.executable} \"$@\"\n")
    slow.chmod(0o755)
    programs.run(f"""
with hvdray.Executor(2, python={str(slow)!r}, options={{"grace": 0.5}}) as executor:
    raised(TimeoutError, lambda: executor.run(rank, timeout=0.5))
with hvdray.Executor(2, python={str(slow)!r}, options={{"grace": 0.5}}) as executor:
    def interrupt():
        while executor._call is None: time.sleep(0.01)
        executor.interrupt()
    thread = threading.Thread(target=interrupt)
    thread.start()
    raised(KeyboardInterrupt, lambda: executor.run(rank))
    thread.join()
""")


def test_ctrl_c_while_arguments_are_sent_costs_nothing(programs):
    programs.run("""
big = bytearray(1 << 20)
with hvdray.Executor(2) as executor:
    pids = executor.run(os.getpid)
    def put(number, parts, real=executor._launcher.put):
        real(number, parts)
        raise KeyboardInterrupt
    executor._launcher.put = put
    raised(KeyboardInterrupt, lambda: executor.run(len, (big,)))
    del executor._launcher.put
    assert executor.run(len, (big,)) == [1 << 20] * 2 and executor.run(os.getpid) == pids
""")


def test_a_future_has_its_value_before_the_others_have_theirs(programs):
    programs.run("""
def f():
    while rank() == 1 and not os.path.exists("go"): time.sleep(0.01)
    return rank()
with hvdray.Executor(2) as executor:
    first, second = executor.run_remote(f)
    assert first.result() == 0 and not second.done()
    open("go", "w").close()
    assert second.result() == 1
""")


def test_a_call_in_the_background_holds_neither_the_next_one_nor_the_end(programs):
    programs.run("""
executor = hvdray.Executor(2, options={"grace": 0.5})
assert [future.result() for future in executor.run_remote(rank)] == [0, 1]
long = executor.run_remote(sleep)
more = executor.run_remote(rank)
executor.shutdown()
raised(hvdray.HvdrayError, long[0].result)
raised(hvdray.HvdrayError, more[1].result)
other = hvdray.Executor(1, options={"grace": 0.5})
other.run_remote(sleep)
""")


def test_an_executor_that_nobody_holds_ends_and_a_forked_child_ends_nothing(programs):
    programs.run("""
import gc
def make():
    executor = hvdray.Executor(2)
    executor.start()
    return executor.run(os.getpid)
pids = make()
gc.collect()
deadline = time.monotonic() + 60
while any(os.path.exists(f"/proc/{pid}") for pid in pids):
    assert time.monotonic() < deadline
    time.sleep(0.02)
executor = hvdray.Executor(2)
executor.start()
pids = executor.run(os.getpid)
child = os.fork()
if child == 0:
    del executor
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert executor.run(os.getpid) == pids
""")


def test_a_restart_that_fails_leaves_no_half_made_workers(programs):
    programs.run("""
class Moody:
    def __init__(self):
        if os.path.exists("bad") and rank() == 1: raise ValueError("moody")
executor = hvdray.Executor(2)
executor.start(Moody)
open("bad", "w").close()
raised(ValueError, executor.restart)
assert executor.workers == []
raised(hvdray.StateLost, lambda: executor.run(rank))
os.remove("bad")
executor.restart()
assert executor.run(rank) == [0, 1]
executor.shutdown()
executor = hvdray.Executor(2)
raised(ValueError, lambda: [open("bad", "w").close(), executor.start(Moody)])
raised(ValueError, lambda: executor.run(rank))
os.remove("bad")
executor.start(Moody)  # nothing is left of the ones that failed
assert executor.run(rank) == [0, 1]
executor.shutdown()
""")


# ---- output


def test_output_is_the_programs_or_is_held_for_who_waits_or_dropped(programs):
    result = programs.run("""
import io, contextlib
def speak(): print("from", rank())
with hvdray.Executor(2) as executor:
    executor.run(speak)
cell = io.StringIO()
with contextlib.redirect_stdout(cell), hvdray.Executor(2) as executor:
    executor.run(speak)
assert cell.getvalue().count("from") == 2, cell.getvalue()
with hvdray.Executor(2, output="none") as executor:
    executor.run(lambda: print("never seen"))
""")
    assert sorted(result.text.splitlines()) == ["[0]<stdout>:from 0", "[1]<stdout>:from 1"]
    assert "never seen" not in result.text + result.errors


def test_who_waits_gets_all_output_and_who_does_not_hears_what_was_dropped(programs):
    """Far more than is held."""
    programs.run("""
import contextlib, io, re
LINES = 40000
def talk():
    for k in range(LINES):
        print(k, "x" * 60)
def talk_later():
    threading.Thread(target=lambda: [wait_for("go"), talk(), open("said", "w").close()]).start()
def cell(call):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        call()
    return out.getvalue(), errors.getvalue()

with hvdray.Executor(2, output="wait") as executor:
    text, errors = cell(lambda: executor.run(talk))
    for worker in range(2):
        lines = [line for line in text.splitlines() if line.startswith(f"[{worker}]")]
        assert lines == [f"[{worker}]<stdout>:{k} {'x' * 60}" for k in range(LINES)], (worker, len(lines), lines[-1:])
    assert errors == "", errors
with hvdray.Executor(1, output="wait") as executor:
    cell(lambda: executor.run(talk_later))
    open("go", "w").close()
    wait_for("said")
    text, errors = cell(lambda: executor.run(rank))
    # How much that is depends on how far it was on its way when the call began.
    whole = sum(len(f"[0]<stdout>:{k} {'x' * 60}\\n") for k in range(LINES))
    dropped = whole - len(text)
    told = re.findall(r"hvdray: (\\d+) bytes of older output dropped: no call waited for them", errors)
    assert text and dropped > 0 and sum(map(int, told)) == dropped, (whole, len(text), errors)
""")


def test_refused_options_have_code_and_hint(programs):
    programs.run("""
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, num_proc=4, hosts="localhost:2"))
assert error.message.startswith("num_proc: Requested more processes (4)") and "HVD" not in error.message, error.message
assert error.code == "HVD-E0103" and error.hint.startswith("the slots come from hosts"), vars(error)
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, options={"grace": 1, "dry_run": True}))
assert error.message.startswith("options['dry_run'] does not apply"), error.message
assert raised(hvdray.HvdrayError, lambda: hvdray.run(rank, hosts="a")).message.startswith("hosts: Invalid host input")
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, options={"ray_address": "10.0.0.10:6379"}))
assert error.message.startswith("options") and "/dev/fd" not in error.message, error.message
""")


def test_what_a_program_gives_beats_the_environment(programs):
    programs.run("""
with hvdray.Executor(2, options={"grace": 1}) as executor:
    assert executor.run(rank) == [0, 1]
assert hvdray.run(rank, num_proc=1, options={"grace": 1}) == [0]
""", env={"HVDRAY_NP": "3", "HVDRAY_NUM_PROC": "3", "HVDRAY_GRACE": "nonsense"})


def test_a_call_waits_for_another_one_no_longer_than_its_timeout(programs):
    programs.run("""
with hvdray.Executor(2, options={"grace": 1}) as executor:
    for long in (float("inf"), 1e10):
        assert executor.run(rank, timeout=long) == [0, 1]
    futures = executor.run_remote(lambda: open("begun", "w").close() or wait_for("go"))
    wait_for("begun")
    error = raised(TimeoutError, lambda: executor.run(rank, timeout=0.5))
    assert "another call" in str(error), error
    open("go", "w").close()
    for future in futures:
        future.result(60)
    assert executor.run(rank) == [0, 1]
""")


def test_a_callback_makes_no_call_and_the_outer_one_goes_on(programs):
    programs.run("""
import warnings

def log():
    from hvdray.ray import ray_logger
    ray_logger.log(1)
    return 7

with hvdray.Executor(2) as executor, warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    assert executor.run(log, callbacks=[lambda value: executor.run(rank)]) == [7, 7]
    assert any("a call is under way on this thread" in str(warning.message) for warning in warned), warned
    assert executor.run(rank) == [0, 1]
""")


def test_a_program_without_standard_streams(programs, tmp_path):
    programs.run("""
import subprocess
inner = "import hvdray; open('values', 'w').write(str(hvdray.run(lambda: 3, num_proc=2)))"
assert subprocess.run(["/bin/sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, inner]).returncode == 0
assert open("values").read() == "[3, 3]"
""")


# ---- bad input


@pytest.mark.parametrize("call, kind, words", [
    ("hvdray.Executor()", "ValueError", "num_workers is not given"),
    ("hvdray.Executor(0)", "ValueError", "1 or more"),
    ("hvdray.Executor('2')", "TypeError", "num_workers must be an int, not str"),
    ("hvdray.run(rank, num_proc=0)", "ValueError", "num_proc must be 1 or more"),
    ("hvdray.run(rank, num_proc=2.0)", "TypeError", "num_proc must be an int, not float"),
    ("hvdray.run(rank, min_num_proc=0)", "ValueError", "min_num_proc must be 1 or more"),
    ("hvdray.run(7, num_proc=1)", "TypeError", "func must be callable, not int"),
    ("hvdray.run(rank, 7, num_proc=1)", "TypeError", "args must be a list or tuple of arguments, not int"),
    ("hvdray.run(rank, 'ab', num_proc=1)", "TypeError", "args must be a list or tuple of arguments, not str"),
    ("hvdray.run(rank, kwargs=['a'], num_proc=1)", "TypeError", "kwargs must be a dict of arguments, not list"),
    ("hvdray.Executor(1).run(None)", "TypeError", "fn must be callable, not NoneType"),
    ("hvdray.Executor(1).run_remote(time.sleep, 7)", "TypeError", "args must be a list or tuple"),
    ("hvdray.Executor(1).execute(7)", "TypeError", "fn must be callable, not int"),
    ("hvdray.Executor(1).execute_single(7)", "TypeError", "fn must be callable, not int"),
    ("hvdray.Executor(1).start('Counter')", "TypeError", "executable_cls must be callable, not str"),
    ("hvdray.Executor(1).start(dict, 7)", "TypeError", "executable_args must be a list or tuple of arguments, not int"),
    ("hvdray.Executor(hosts=7)", "TypeError", "hosts must be"),
    ("hvdray.Executor(hosts=['a:1', 7])", "TypeError", "hosts must be"),
    ("hvdray.Executor(2, backend='slurm')", "ValueError", "auto, local, ssh"),
    ("hvdray.Executor(2, backend='ssh')", "ValueError", "needs hosts"),
    ("hvdray.Executor(2, env={'A': 1})", "TypeError", "the variable A"),
    ("hvdray.Executor(2, env={'A=B': '1'})", "ValueError", "A=B"),
    ("hvdray.Executor(2, env={'A B': '1'})", "ValueError", "A B"),
    ("hvdray.Executor(2, options={'np': 3})", "ValueError", "num_workers and options['np']"),
    ("hvdray.Executor(2, hosts='a:2', options={'hostfile': 'b'})", "ValueError", "hosts and options['hostfile']"),
    ("sys.modules.update(cloudpickle=None) or hvdray.run(rank)", "hvdray.HvdrayError", "cloudpickle is not installed"),
    ("hvdray.Executor(2, nonsense=1)", "TypeError", "nonsense"),
    ("hvdray.Executor(2, env={'A': chr(0xdcff)})", "ValueError", "not UTF-8"),
    ("hvdray.run(rank, num_proc=1, options={'max_restarts': 1})", "ValueError", "max_restarts"),
    ("hvdray.run(rank, num_proc=1, options={'cwd': object()})", "TypeError", "options"),
    ("setattr(hvdray._launcher, '__version__', '9.9') or hvdray.run(rank, num_proc=1)", "hvdray.HvdrayError", "hvdray 9.9"),
    ("hvdray.run(rank, options=[1])", "TypeError", "options must be a dict, not list"),
    ("hvdray.Executor(2, options=5)", "TypeError", "options must be a dict, not int"),
    ("hvdray.run(rank, pool=5)", "TypeError", "pool must be a Pool, not int"),
    ("hvdray.Executor(2, working_dir=5)", "TypeError", "working_dir must be a path, not int"),
    ("hvdray.Executor(2, cpus_per_worker=2)", "ValueError", "cpus_per_worker is asked of Ray"),
    ("hvdray.run(rank, network_interfaces=5)", "TypeError", "network_interfaces must be a sequence, not int"),
    ("hvdray.Executor(1).run(rank, callbacks=5)", "TypeError", "callbacks must be a list of functions"),
    ("hvdray.Executor(1).run(rank, callbacks=['x'])", "TypeError", "callbacks must be a list of functions"),
    ("hvdray.Executor(1).run(rank, timeout='5')", "TypeError", "timeout must be a number of seconds, not str"),
    ("hvdray.Executor(1).run(rank, timeout=float('nan'))", "ValueError", "timeout must be 0 or more, not nan"),
    ("[e := hvdray.Executor(2), e.start(), e.start()]", "hvdray.HvdrayError", "started already"),
    ("[e := hvdray.Executor(2), e.shutdown(), e.run(rank)]", "hvdray.HvdrayError", "been shut down"),
    ("[e := hvdray.Executor(2), e.shutdown(), e.restart()]", "hvdray.HvdrayError", "been shut down"),
    ("hvdray.run(rank, num_proc=3, hosts='localhost:2')", "hvdray.HvdrayError", "Requested more processes (3)"),
    ("hvdray.run(rank, num_proc=2, options={'verbos': 1})", "hvdray.HvdrayError", "verbos"),
    ("hvdray.run(rank, num_proc=2, hosts='nosuchhost.invalid:2')", "hvdray.HvdrayError", "nosuchhost.invalid"),
    ("hvdray.run(rank, num_proc=2, executable='/no/python')", "hvdray.WorkerDied", "Python of the workers is /no/python"),
    ("hvdray.run(rank, num_proc=2, executable='/bin/true')", "hvdray.WorkerDied", "exited with code 0 before it had answered"),
    ("hvdray.run(rank, hosts='a:1', hostfile='b')", "ValueError", "Argument hosts and hostfile only allow one provided."),
    ("hvdray.run(rank, use_gloo=True, use_mpi=True)", "ValueError", "Argument use_gloo and use_mpi only allow one set True."),
    ("hvdray.run(rank, use_mpi=True)", "ValueError", "no use_mpi"),
    ("hvdray.run(rank, np=2, num_proc=2)", "ValueError", "np and num_proc"),
    ("hvdray.run(rank, min_num_proc=2, max_num_proc=1)", "ValueError", "min_num_proc=2 is above max_num_proc=1"),
    ("hvdray.run(rank, min_num_proc=1, cooldown_range=5)", "TypeError", "cooldown_range must be a sequence, not int"),
    ("hvdray.run(rank, min_num_proc=1, cooldown_range=[5])", "ValueError", "cooldown_range must be two numbers, not [5]"),
    ("hvdray.run(rank, num_proc=1, env=['A=1'])", "TypeError", "env must be a mapping of texts, not list"),
    ("hvdray.run(rank, num_proc=1, network_interfaces='no0,lo')", "hvdray.HvdrayError", "no0"),
    ("os.environ.update(HVDRAY_BINARY='/bin/true') or hvdray.run(rank, num_proc=1)", "hvdray.LauncherLost", "/bin/true serve has ended"),
    ("[e := hvdray.Executor(1), e.run(rank), e.start(dict)]", "hvdray.HvdrayError", "make another executor"),
])
def test_bad_input_is_told(programs, call, kind, words):
    programs.run(f"""
import hvdray._launcher
error = raised({kind}, lambda: {call})
assert {words!r} in str(error), str(error)
""")


def test_the_program_hvdray_must_be_there_and_of_this_version(programs, tmp_path):
    other = tmp_path / "other"
    other.write_text(f"""#!{sys.executable}
import socket, sys
control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
control.recv(4096)
control.sendall(b'{{"type":"hello","protocol":1,"build":"hvdray 0.0.9 (abc)","job_id":"j","pid":1}}\\n')
control.recv(4096)
""")
    other.chmod(0o755)
    programs.run("assert 'no program at' in str(raised(hvdray.HvdrayError, lambda: hvdray.run(rank)))", env={"HVDRAY_BINARY": "/none"})
    programs.run("assert 'was not found' in str(raised(hvdray.HvdrayError, lambda: hvdray.run(rank)))",
                 env={"HVDRAY_BINARY": "", "PATH": "/nowhere"})
    programs.run("import hvdray; assert hvdray.run(rank, num_proc=1) == [0]", env={"HVDRAY_MAX_RESTARTS": "1"})
    programs.run("assert '0.0.9' in str(raised(hvdray.HvdrayError, lambda: hvdray.run(rank)))", env={"HVDRAY_BINARY": str(other)})


def test_python_m_hvdray_is_the_program(programs):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "HVDRAY_BINARY": str(programs.tool.binary)}
    command = [sys.executable, "-m", "hvdray", "run", "-np", "1", "--", "sh", "-c", "exit $(($HOROVOD_SIZE + 4))"]
    assert subprocess.run(command, env=environment, timeout=60).returncode == 5
    lost = subprocess.run(command, env={**environment, "HVDRAY_BINARY": "/none"}, capture_output=True, text=True, timeout=60)
    assert (lost.returncode, lost.stderr) == (125, "hvdray: HVDRAY_BINARY: no program at /none\n")


def test_another_python_is_refused_before_anything_runs(programs):
    """This Python, which says that it is another one."""
    programs.run("""
import hvdray._kit
real = hvdray._kit.sys
class Pretended:
    version_info = (3, real.version_info[1] + 1)
    executable, path = real.executable, real.path
hvdray._kit.sys = Pretended
error = raised(hvdray.WorkerError, lambda: hvdray.run(lambda: open("ran", "w"), num_proc=2))
mine, theirs = f"3.{real.version_info[1]}", f"3.{real.version_info[1] + 1}"
assert f" on host localhost: this worker has Python {mine} ({real.executable}), and its caller {theirs}: " in str(error), error
assert error.hint.startswith("install Python ") and "executable=" in error.hint, error.hint
assert not os.path.exists("ran")
""")


def test_modules_of_the_users_own(programs, tmp_path):
    """One in the current folder that is named like Python's own does no harm; one beside the program is found by workers; a
    shipped one needs no file."""
    here, away = tmp_path / "here", tmp_path / "away"
    here.mkdir()
    away.mkdir()
    for name in ("queue", "socket", "pickle"):
        (here / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "beside.py").write_text("def f(): return 'beside'")
    (away / "shipped.py").write_text("def f(): return 'shipped'")
    programs.run(f"""
import beside, types
sys.path.append({str(away)!r})
import shipped
hvdray.ship(shipped)
sys.path.remove({str(away)!r})
assert hvdray.run(beside.f, num_proc=1) == ["beside"]
assert hvdray.run(shipped.f, num_proc=1) == ["shipped"]
sys.modules["made"] = made = types.ModuleType("made")
exec("def f(): return 'made'", made.__dict__)
error = raised(ModuleNotFoundError, lambda: hvdray.run(made.f, num_proc=1))
assert error.hint == "install made on localhost, or send its code along: hvdray.ship(made)", error.hint
hvdray.ship(made)
assert hvdray.run(made.f, num_proc=1) == ["made"]
""", cwd=here)


def test_a_tilde_in_an_argument_is_the_home_directory(programs, tmp_path):
    home = tmp_path / "home"
    (home / "there").mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    (home / "hvdray").symlink_to(programs.tool.binary)
    programs.run("""
assert hvdray.run(rank, num_proc=1, output_filename="~/out", executable="~/python") == [0]
assert os.path.exists(os.path.expanduser("~/out/rank.0/stdout"))
with hvdray.Executor(1, python="~/python", working_dir="~/there", options={"events": "~/events"}) as executor:
    assert executor.run(os.getcwd) == [os.path.expanduser("~/there")]
from hvdray import train
os.mkdir(os.path.expanduser("~/made"))
train.Checkpoint.from_directory("~/made").to_directory("~/kept")
assert os.path.isdir(os.path.expanduser("~/kept"))
assert os.path.exists(os.path.expanduser("~/events")) and not os.path.exists("~")
""", env={"HOME": str(home), "HVDRAY_BINARY": "~/hvdray"})


def test_workers_take_no_module_in_place_of_pythons_own(programs, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "in_own.py").write_text("def f(): return 'own'")
    for name in ("wave", "colorsys"):  # of the standard library
        (tmp_path / "own" / f"{name}.py").write_text("where = 'mine'")
    programs.run("""
sys.path.insert(1, os.path.join(os.getcwd(), "own"))
import in_own
def standard():
    import colorsys, wave
    return [getattr(module, "where", "Python's") for module in (colorsys, wave)], sys.path[0]
with hvdray.Executor(1) as executor:
    assert executor.run(in_own.f) == ["own"]
    ((found, first),) = executor.run(standard)
    assert found == ["Python's"] * 2 and first.startswith("/proc/self/fd/"), (found, first)
""")


def test_no_list_of_processes_shows_environment_or_options(programs):
    programs.run("""
seen = set()
def look():
    while not done.is_set():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try: seen.add(open(f"/proc/{pid}/cmdline").read())
            except OSError: pass
done = threading.Event()
watcher = threading.Thread(target=look)
watcher.start()
with hvdray.Executor(2, env={"TOKEN": "very" + "secret"}, options={"env": ["OTHER=hidden" + "value"]}) as executor:
    assert executor.run(lambda word: (os.environ["TOKEN"], os.environ["OTHER"], word), ("argument" + "text",)) == [
        ("very" + "secret", "hidden" + "value", "argument" + "text")] * 2
done.set()
watcher.join()
for word in ("very" + "secret", "hidden" + "value", "argument" + "text"):
    assert not any(word in line for line in seen)
""")


# ---- hostile workers


HOSTILE = """
# A worker whose answers are what FORGED says, from the call that forges on.
def forge():
    from hvdray._worker import Worker
    from hvdray._payload import Payload
    real = Worker.say
    def say(self, message, payload=None):
        call = message.get("data", {}).get("call")
        head, content = eval(FORGED)
        real(self, {"type": "data", "data": head}, Payload([], [content], len(content)) if content else None)
    Worker.say = say
"""


@pytest.mark.parametrize("forged, words", [
    ("({'call': call, 'ok': True, 'sizes': [1 << 60]}, b'abc')", "can't be read here"),
    ("({'call': call, 'ok': True, 'sizes': [-1]}, b'abc')", "can't be read here"),
    ("({'call': call, 'ok': True, 'sizes': [1, 'x']}, b'abc')", "can't be read here"),
    ("({'call': call, 'ok': True, 'sizes': [3]}, b'abc')", "can't be read here"),
    ("({'call': call, 'ok': True}, b'')", "can't be read here"),
    ("({'call': call, 'ok': 'yes'}, b'')", "raised"),
    ("({'call': call, 'ok': False, 'error': ['x'], 'sizes': 7}, b'abc')", "raised"),
    ("({'call': call, 'ok': False, 'error': {'kind': 5, 'module': 5}}, b'')", "raised"),
])
def test_a_worker_that_answers_nonsense_costs_its_own_call(programs, forged, words):
    programs.run(f"""{HOSTILE.replace("FORGED", repr(forged))}
with hvdray.Executor(2) as e:
    error = raised(hvdray.HvdrayError, lambda: e.run(lambda: rank() or forge()))
    assert {words!r} in str(error), str(error)
""")


def test_answers_to_no_call_are_passed_over(programs):
    programs.run("""
def chatter():
    from hvdray._worker import Worker
    real = Worker.say
    def say(self, message, payload=None):
        for head in ("x", None, [1], {"call": 99, "ok": True}, {"call": None}):
            real(self, {"type": "data", "data": head})
        real(self, message, payload)
        real(self, message, payload)  # twice
    Worker.say = say
with hvdray.Executor(2) as executor:
    executor.run(chatter)
    for i in range(20):
        assert executor.run(lambda: i) == [i, i]
""")


# ---- what the package is


def test_sizes_that_do_not_fit_are_told_whatever_they_are():
    """The reader of payloads, with 5,000 heads made from a good one."""
    sys.path.insert(0, str(ROOT / "python"))
    from hvdray._payload import dumps, loads

    good = dumps({"a": bytearray(b"x" * 100), "b": [1, 2]}, ["it"])
    content = b"".join(good.parts)
    assert loads(good.sizes, bytearray(content))["b"] == [1, 2]
    chance = random.Random(7)
    values = [-1, 0, 1, 63, 64, 65, 1 << 62, -(1 << 70), True, None, "1", 1.5, [], {}]
    for _ in range(5000):
        sizes = list(good.sizes)
        for _ in range(chance.randint(1, 3)):
            sizes.insert(chance.randint(0, len(sizes)), chance.choice(values)) if chance.random() < 0.5 else sizes.pop()
            if not sizes:
                break
        cut = bytearray(content[: chance.randint(0, len(content))])
        if sizes == good.sizes and len(cut) == len(content):
            continue
        # Never another class of error before the pickle itself is read, and that is cut or another one.
        with pytest.raises((ValueError, EOFError, pickle.UnpicklingError, TypeError)):
            loads(sizes, cut)
            raise EOFError  # a shorter pickle that is whole


def test_importing_it_imports_next_to_nothing():
    code = "import sys, hvdray; print(sorted(m for m in ('numpy', 'torch', 'ray', 'cloudpickle', 'subprocess', 'asyncio') if m in sys.modules))"
    out = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True,
                         check=True).stdout
    assert out == "[]\n"


def test_a_python_without_torch_is_told_once():
    done = subprocess.run([sys.executable, "-S", "-c", "import hvdray.torch"], env={"PYTHONPATH": str(ROOT / "python")}, capture_output=True,
                          text=True, check=False)
    assert done.stderr.count("No module named 'torch'") == 1, done.stderr


def test_the_package_is_typed():
    # Of the thousand modules that torch imports, which take 40 s, and which no clone changes.
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hvdray/mypy"
    for target in (ROOT / "python/hvdray", pathlib.Path(__file__).parent / "workers/typed_program.py"):
        result = subprocess.run(["mypy", "--strict", f"--cache-dir={cache}", str(target)], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_bootstrap_is_short():
    sys.path.insert(0, str(ROOT / "python"))
    from hvdray._kit import BOOTSTRAP

    assert len(BOOTSTRAP) <= 400 and not re.search(r"[\"$`]", BOOTSTRAP)


def test_workers_are_this_machines_within_a_batch_job_and_env_names_no_rank(programs):
    programs.run("""
names = lambda: (os.environ["HOROVOD_HOSTNAME"], os.environ["NCCL_SOCKET_IFNAME"], os.environ.get("SLURM_PROCID"))
for backend in "local", "auto":
    with hvdray.Executor(2, backend=backend, env={"NCCL_SOCKET_IFNAME": "ib0"}) as executor:
        assert executor.run(names) == [("localhost", "ib0", None)] * 2
assert hvdray.run(names, num_proc=1) == [("localhost", "lo", None)]
for name in "RANK", "HOROVOD_RANK", "MASTER_PORT":
    assert name + " cannot be set" in str(raised(hvdray.HvdrayError, lambda: hvdray.run(names, num_proc=1, env={name: "3"})))
""", env={"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "no-such-host[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)",
          "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"})


# ---- in Python's words


def test_run_has_a_timeout(programs):
    programs.run("""
began = time.monotonic()
for more in ({}, {"min_num_proc": 1}, {"num_proc": 2}):
    error = raised(TimeoutError, lambda: hvdray.run(time.sleep, (100,), timeout=1, **more))
    assert not isinstance(error, hvdray.HvdrayError), error
assert hvdray.run(rank, timeout=60) == [0]
assert "timeout" in str(raised(TypeError, lambda: hvdray.run(rank, timeout="1")))
""")


def test_times_that_are_up_are_timeout_errors_and_hints_name_parameters(programs):
    programs.run("""
for call, words in (
    (lambda: hvdray.run(sleep, options={"timeout": 1}), "raise timeout= (now 1 s)"),
    (lambda: hvdray.Executor(1, options={"timeout": 1}).run(sleep), "raise timeout= (now 1 s)"),
    (lambda: hvdray.run(sleep, min_num_proc=1, options={"timeout": 1}), "raise timeout= (now 1 s)"),
):
    error = raised(TimeoutError, call)
    assert isinstance(error, hvdray.HvdrayError) and words in error.hint, error
error = raised(hvdray.HvdrayError, lambda: hvdray.Executor(3, hosts="localhost:2").start())
assert error.message.startswith("num_workers: Requested") and error.hint.startswith("the slots come from hosts:"), error
error = raised(hvdray.HvdrayError, lambda: hvdray.run(rank, num_proc=3, hosts="localhost:2"))
assert error.message.startswith("num_proc: Requested"), error
class TooFew:
    def find_available_hosts_and_slots(self): return {"localhost": 1}
elastic = hvdray.Executor(min_workers=2, hosts=TooFew(), options={"elastic_timeout": 1})
error = raised(TimeoutError, lambda: elastic.run(rank))
assert "elastic_timeout= (now 1 s)" in error.hint and "--" not in str(error), error
""")


def test_exceptions_of_memory_and_groups_are_caught_by_their_classes(programs):
    programs.run("""
class Mine(MemoryError):
    def __init__(self, text, size): super().__init__(text, size); self.size = size
def lack(): raise MemoryError("no room")
def lack_more(): raise Mine("no room", 7)
def many(): raise ExceptionGroup("many", [KeyError(1), ValueError(2)])
for more in ({}, {"min_num_proc": 1}):
    error = raised(MemoryError, lambda: hvdray.run(lack, **more))
    assert isinstance(error, hvdray.WorkerError) and "MemoryError: no room" in str(error), error
    assert raised(Mine, lambda: hvdray.run(lack_more, **more)).size == 7
import pickle
assert isinstance(pickle.loads(pickle.dumps(error)), MemoryError)
if sys.version_info >= (3, 11):
    error = raised(ExceptionGroup, lambda: hvdray.run(many))
    assert error.exceptions[1].args == (2,) and "ExceptionGroup: many" in str(error), error
""")
