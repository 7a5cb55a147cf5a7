# SPDX-License-Identifier: Apache-2.0
"""submit(), map(), scatter() and per_rank of an Executor: calls that are not the same on all workers."""

import pytest
from python_program import Programs


@pytest.fixture
def programs(hvdray, tmp_path):
    return Programs(hvdray, tmp_path)


def test_submit_and_map_are_those_of_concurrent_futures(programs):
    programs.run("""
import concurrent.futures
def square(x, y=0): return x * x + y
def meet(name, other):  # both run at the same time
    open(name, "w").close()
    wait_for(other)
    return rank()
def fail(x): raise KeyError(x)
large = bytes(1 << 20)
with hvdray.Executor(2) as executor:
    assert executor.submit(square, 3, y=1).result() == 10
    pair = [executor.submit(meet, "a", "b"), executor.submit(meet, "b", "a")]
    assert sorted(future.result() for future in pair) == [0, 1]
    done, _ = concurrent.futures.wait([executor.submit(square, i) for i in range(20)])
    assert sorted(future.result() for future in done) == [i * i for i in range(20)]
    assert list(executor.map(square, range(7), range(7))) == [i * i + i for i in range(7)]
    assert list(executor.map(square, range(7), chunksize=3)) == [i * i for i in range(7)]
    assert list(executor.map(len, [large] * 4)) == [1 << 20] * 4
    error = raised(KeyError, executor.submit(fail, 5).result)
    assert isinstance(error, hvdray.WorkerError) and error.args == (5,)
    assert "fn.__globals__" in str(raised(hvdray.SerializationError, lambda: executor.submit(lambda: lock)))  if (lock := threading.Lock()) else 0
    assert executor.run(rank) == [0, 1]
    raised(TimeoutError, lambda: list(executor.map(time.sleep, [0, 3], timeout=0.5)))
    last = executor.submit(square, 9)
assert last.result() == 81  # with waits for it
raised(hvdray.HvdrayError, lambda: executor.submit(square, 1))
raised(NotImplementedError, lambda: hvdray.Executor(min_workers=1).submit(square, 1))
raised(TypeError, lambda: hvdray.Executor(1).submit(3))
""")


def test_what_waits_can_be_cancelled_and_what_runs_not(programs):
    programs.run("""
def block(): wait_for("go")
with hvdray.Executor(1) as executor:
    running, waiting, last = executor.submit(block), executor.submit(os.getpid), executor.submit(rank)
    while not running.running(): time.sleep(0.01)
    assert not running.cancel() and waiting.cancel() and waiting.cancelled()
    remote = executor.run_remote(open, ("made by a cancelled call", "w"))
    assert all(future.cancel() for future in remote)
    open("go", "w").close()
    assert running.result() is None and last.result() == 0
    assert executor.run(rank) == [0]
assert not os.path.exists("made by a cancelled call")
""")


def test_a_worker_that_dies_fails_all_that_was_submitted_and_the_next_call_has_new_ones(programs):
    programs.run("""
def die(): os._exit(7)
executor = hvdray.Executor(2)
futures = [executor.submit(sleep), executor.submit(die), executor.submit(rank)]
for future in futures:
    assert raised(hvdray.WorkerDied, future.result).exit_code == 7
assert executor.submit(rank).result() in (0, 1) and executor.run(rank) == [0, 1]
blocked = executor.submit(sleep)
while not blocked.running(): time.sleep(0.01)
executor.interrupt()
assert "KeyboardInterrupt" in str(raised(hvdray.WorkerError, blocked.result))
blocked = executor.submit(sleep)
executor.shutdown()
raised(hvdray.HvdrayError, blocked.result)
""")


def test_each_rank_has_arguments_of_its_own(programs):
    programs.run("""
def f(*args, **kwargs): return rank(), args, kwargs
large = [bytes([i]) * (1 << 20) for i in range(2)]
with hvdray.Executor(2) as executor:
    assert executor.run(f, ["x"], {"k": 1}, per_rank=[("a", "b"), 3]) == [(0, ("x", "a", "b"), {"k": 1}), (1, ("x", 3), {"k": 1})]
    assert executor.run(f, per_rank=large) == [(0, (large[0],), {}), (1, (large[1],), {})]
    assert "3 ranks" in str(raised(ValueError, lambda: executor.run(f, per_rank=[1, 2, 3])))
    raised(TypeError, lambda: executor.run(f, per_rank="ab"))
    error = raised(hvdray.SerializationError, lambda: executor.run(f, per_rank=[1, threading.Lock()]))
    assert "per_rank[1]" in str(error), error
    assert executor.run(rank) == [0, 1]
raised(NotImplementedError, lambda: hvdray.Executor(min_workers=1).run(f, per_rank=[1]))
""")


def test_what_is_scattered_goes_once_and_is_the_value_there(programs):
    programs.run("""
import pickle
table = {"rows": bytes(8 << 20)}
def use(value, key="rows"): return id(value), len(value[key])
with hvdray.Executor(2) as executor:
    kept = executor.scatter(table)
    first = executor.run(use, (kept,))
    assert first == executor.run(use, (kept,)) == executor.run(lambda: use(kept)), first  # the same object each time
    assert [size for _, size in first] == [8 << 20] * 2
    assert executor.submit(use, kept).result() in first
    assert executor.run(lambda a, b: a["rows"] == b, (kept,), per_rank=[table["rows"]] * 2) == [True, True]
    assert "8388" in repr(kept)
    raised(TypeError, lambda: pickle.dumps(kept))
    executor.restart()
    assert [size for _, size in executor.run(use, (kept,))] == [8 << 20] * 2
    assert "value['lock']" in str(raised(hvdray.SerializationError, lambda: executor.scatter({"lock": threading.Lock()})))
""")


def test_an_executor_tells_what_it_is(programs):
    programs.run("""
executor = hvdray.Executor(2)
assert executor.num_workers == 2 and repr(executor) == "<hvdray.Executor: 2 workers on localhost:2, not started>", executor
executor.start()
assert repr(executor) == "<hvdray.Executor: 2 workers on localhost, idle>", executor
executor.shutdown()
assert repr(executor).endswith(", shut down>"), executor
assert hvdray.Executor(hosts="a:2").num_workers is None
with hvdray.Pool(2) as pool:
    assert pool.num_workers == 2 and "2 workers" in repr(pool), pool
    assert pool.submit(rank).result() in (0, 1) and sorted(pool.map(abs, [-1, -2])) == [1, 2]
    with hvdray.Executor(1, pool=pool) as executor:
        assert executor.num_workers == 1 and executor.run(rank) == [0]
    def slow():
        open("began", "w").close()
        wait_for("go")
        return "done"
    task, executor = pool.submit(slow), hvdray.Executor(1, pool=pool)
    wait_for("began")
    raised(TimeoutError, lambda: executor.run(rank, timeout=0.1))
    assert not task.done()
    threading.Timer(0.1, open, ["go", "w"]).start()
    assert executor.run(rank) == [0] and task.result() == "done"
    executor.shutdown()
    assert pool.submit(abs, -3).result() == 3
""")


def test_large_results_on_this_machine_are_taken_from_the_workers_memory(programs):
    programs.run("""
import hvdray._launcher as launcher, mmap
seen = []
mapped_of = launcher.mapped_of
launcher.mapped_of = lambda pid, told: (seen.append(mapped_of(pid, told)), seen[-1])[1]
def make(size): return bytearray([rank() + 1]) * size
def held(): return sum("hvdray-object" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}"))
def hide(): os.setuid(65534) if os.getuid() == 0 else None
size = 8 << 20
with hvdray.Executor(2) as executor:
    before = executor.run(held)
    for _ in range(3):
        one, two = executor.run(make, (size,))
        assert one == b"\\x01" * size and two == b"\\x02" * size
        one[0] = 7  # ours alone
    assert len(seen) == 6 and all(isinstance(memory, mmap.mmap) for memory in seen)
    assert executor.run(held) == before  # given back
    assert len(executor.submit(make, size).result()) == size
    assert [len(future.result()) for future in executor.run_remote(make, (size,))] == [size] * 2
    seen.clear()
    launcher.mapped_of = lambda pid, told: seen.append(None)  # as if it could not be seen
    assert executor.run(make, (size,)) == [b"\\x01" * size, b"\\x02" * size] and seen == [None, None]
    assert executor.run(make, (size,)) == [b"\\x01" * size, b"\\x02" * size] and len(seen) == 2  # by the channel from now on
    assert executor.run(held) == before
with hvdray.Executor(1, results="json") as executor:
    assert executor.run(lambda: "x" * size) == ["x" * size]
""")


def test_only_sealed_memory_is_taken(programs):
    programs.run("""
import fcntl
from hvdray._memory import mapped_of, sealed_memory
reader, writer = os.pipe()
unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING)
os.write(unsealed, b"abc")
ours = sealed_memory([b"abc"])
assert mapped_of(os.getpid(), ours)[:] == b"abc"
for told in (reader, writer, unsealed, os.open("/proc/self/exe", os.O_RDONLY), 9999, -1, "../1/fd/0", None, [1], {}):
    assert mapped_of(os.getpid(), told) is None, told
""")


def test_a_handle_that_nobody_keeps_serves_the_tasks_that_were_given_it(programs):
    programs.run("""
with hvdray.Executor(2) as executor:
    for _ in range(10):
        tasks = [executor.submit(len, executor.scatter(bytes(4 << 20))) for _ in range(4)]
        assert [task.result() for task in tasks] == [4 << 20] * 4
""")


def test_what_a_worker_has_no_memory_for_fails_its_task_and_not_the_worker(programs):
    programs.run("""
def bounded(size):
    import resource
    now = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + size, resource.RLIM_INFINITY))
with hvdray.Executor(1) as executor:
    executor.run(bounded, [64 << 20])
    value = executor.scatter(bytes(400 << 20))
    for given in bytes(400 << 20), value, value:
        raised(OSError, executor.submit(len, given).result)
    executor.run(bounded, [4 << 30])
    assert executor.submit(len, value).result() == 400 << 20
    assert executor.run(os.getpid) == [executor.workers[0]["pid"]]
""")


@pytest.mark.parametrize("kind", ["Executor", "Pool"])
def test_an_interrupted_wait_at_the_end_of_with_leaves_no_worker(programs, kind):
    programs.run(f"""
def work():
    open("begun", "w").close()
    time.sleep(600)
def interrupt():
    wait_for("begun")
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
made = hvdray.{kind}(1)
def leave():
    with made:
        made.submit(work)
        threading.Thread(target=interrupt).start()
raised(KeyboardInterrupt, leave)
raised(hvdray.HvdrayError, lambda: made.submit(abs, 1))
""")
