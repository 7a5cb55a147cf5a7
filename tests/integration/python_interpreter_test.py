# SPDX-License-Identifier: Apache-2.0
"""What user code may have done to an interpreter, that of a worker between two calls or that of the program, and calls go on:
docs/python.md, "What a worker is"."""

import os
import shutil
import subprocess
import sys
import zipapp

import cloudpickle
import pytest
from python_program import ROOT, Programs


@pytest.fixture
def programs(hvdray, tmp_path):
    return Programs(hvdray, tmp_path)


# Each is called on a worker, then `state` must be there for calls that return, raise and are interrupted.
CHANGES = """
class NoFlush:
    def write(self, text): return len(text)
class Raises:
    def write(self, text): raise RuntimeError("write")
    def flush(self): sys.exit(3)
def streams_without_flush(): sys.stdout = sys.stderr = NoFlush()
def streams_that_raise(): sys.stdout = sys.stderr = Raises()
def no_streams(): sys.stdout = sys.stderr = None
def deleted_streams(): del sys.stdout, sys.stderr
def closed_streams(): sys.stdout.close(), sys.stderr.close()
def closed_descriptors(): os.closerange(0, 3)
def current_folder_gone():
    os.mkdir(f"gone{os.getpid()}"), os.chdir(f"gone{os.getpid()}"), os.rmdir("../" + os.path.basename(os.getcwd()))
def modules_gone():
    for name in set(sys.modules) - {"sys", "builtins", "__main__"}: del sys.modules[name]
    sys.path[:] = [path for path in sys.path if "/fd/" not in path]
def variables_gone(): os.environ.clear()
def warnings_are_errors():
    import warnings
    warnings.simplefilter("error")
def modules_patched():
    import json, pickle
    json.dumps = json.loads = pickle.loads = pickle.dumps = os.getpid = None
def hooks_raise():
    def hook(*_): raise RuntimeError("hook")
    sys.excepthook = sys.unraisablehook = threading.excepthook = hook
def channel_patched():
    import socket
    def patched(*_): raise RuntimeError("patched")
    socket.socket.sendall = socket.socket.recvmsg = os.close = sys.exit = patched
def descriptors_do_not_block():
    for descriptor in range(3, 20):
        try: os.set_blocking(descriptor, False)
        except OSError: pass
def no_timeouts():
    import socket
    socket.setdefaulttimeout(0.001)
def deaf_to_ctrl_c(): signal.signal(signal.SIGINT, signal.SIG_IGN)
def ctrl_c_is_the_kernels(): signal.signal(signal.SIGINT, signal.SIG_DFL)
def blocked_signals(): signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
def many_errors():
    import gc, locale
    gc.disable(), locale.setlocale(locale.LC_ALL, "C"), sys.setrecursionlimit(80), os.umask(0o777)
changes = [value for value in list(globals().values()) if getattr(value, "__module__", "") == "__main__" and isinstance(value, type(raised))]
changes = changes[changes.index(streams_without_flush):]
"""


def test_a_worker_answers_whatever_functions_have_done_to_its_interpreter(programs):
    programs.run(CHANGES + """
def fail(): raise KeyError("a")
for change in changes:
    with hvdray.Executor(1, options={"grace": 30}) as executor:
        executor.start(list, [[40]])
        executor.run(change)
        workers = executor.workers
        large = b"x" * (1 << 17)
        assert executor.execute(lambda state: state[0] + 2) == [42], change
        assert executor.run(lambda x: x + large, (large,)) == [large + large], change
        assert raised(KeyError, lambda: executor.run(fail)).args == ("a",), change
        error = raised(TimeoutError, lambda: executor.run(time.sleep, (60,), timeout=0.1))
        assert "killed" not in str(error) and executor.workers == workers, (change, error)
""")


def test_a_worker_that_can_open_no_more_files_says_so_and_lives(programs):
    programs.run("""
large = b"x" * (1 << 17)
def fill():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    kept = sys.kept = []
    try:
        while True: kept.append(os.open("/dev/null", 0))
    except OSError: pass
def free():
    for descriptor in sys.kept: os.close(descriptor)
with hvdray.Executor(1) as executor:
    pids = executor.run(os.getpid)
    executor.run(fill)
    assert raised(OSError, lambda: executor.run(len, (large,))).errno == 24
    assert executor.run(lambda: bytes(1 << 21)) == [bytes(1 << 21)]
    executor.run(free)
    assert executor.run(len, (large,)) == [len(large)] and executor.run(os.getpid) == pids
""")


def test_a_job_of_one_call_ends_well_with_streams_that_cant_be_flushed(programs):
    programs.run(CHANGES + """
for change in (streams_without_flush, streams_that_raise, no_streams, deleted_streams, closed_streams):
    for more in ({}, {"min_num_proc": 2}):
        assert hvdray.run(lambda: (change(), rank())[1], num_proc=2, **more) == [0, 1], (change, more)
""")


def test_a_signal_handler_that_raises_between_calls_costs_no_worker(programs):
    result = programs.run("""
def listen(name):
    def handler(signo, frame):
        open(name, "w").close()
        raise ValueError("late")
    signal.signal(signal.SIGUSR1, handler)
def strike():
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(60)
with hvdray.Executor(1) as executor:
    pids = executor.run(os.getpid)
    for name in ("one", "two"):
        executor.run(listen, (name,))
        os.kill(pids[0], signal.SIGUSR1)
        wait_for(name)
        assert executor.run(os.getpid) == pids
        assert "late" in str(raised(ValueError, lambda: executor.run(strike)))
        assert executor.run(os.getpid) == pids
    executor.run(lambda: signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5)) and None)
    os.kill(pids[0], signal.SIGUSR1)  # This one asks for the end.
    while executor.workers: time.sleep(0.01)
""")
    assert "a signal handler has raised between two calls" in result.errors and "ValueError: late" in result.errors


def test_who_closes_the_channel_is_told(programs):
    programs.run("""
def close(opens):
    os.closerange(3, 256)
    if opens:  # Its number is another file's now, which must get nothing.
        global files
        files = [open("file", "w") for _ in range(64)]
with hvdray.Executor(1) as executor:
    for opens in (False, True):
        error = raised(hvdray.WorkerDied, lambda: executor.run(close, (opens,)))
        assert "closed the worker's channel" in str(error), error
        assert executor.run(lambda: 1) == [1]
assert os.path.getsize("file") == 0
""")


@pytest.mark.parametrize("head", [
    "class S:\n    def write(self, text): return len(text)\nsys.stdout = sys.stderr = S()",
    "class S:\n    def write(self, text): 1 / 0\n    def flush(self): 1 / 0\nsys.stdout = sys.stderr = S()",
    "sys.stdout.close(), sys.stderr.close()",
    "del sys.stdout",
    "os.mkdir('gone'), os.chdir('gone'), os.rmdir('../gone'); sys.path.insert(0, '')",
    "sys.path += [None, '\\udcff']",
    "import socket; socket.setdefaulttimeout(0.001)",
], ids=["no flush", "streams that raise", "closed streams", "no stdout", "no folder", "odd path", "default timeout"])
def test_a_program_calls_whatever_has_been_done_to_its_own_interpreter(programs, head):
    result = programs.run(head + """
def f(x):
    print("worker's")
    return len(x)
try:
    with hvdray.Executor(2) as executor:
        assert [executor.run(f, (b"x" * size,)) for size in (1, 1 << 17)] == [[1, 1], [1 << 17, 1 << 17]]
    assert hvdray.run(f, ("ab",), num_proc=1) == [2]
    os._exit(0)
except BaseException as error:
    os.write(2, repr(error).encode())
    os._exit(1)
""")
    assert "Traceback" not in result.errors


def test_without_a_name_of_its_own_python_asks_for_one(programs):
    programs.run(f"""
sys.executable = ""
assert "python=" in str(raised(ValueError, lambda: hvdray.Executor(1)))
with hvdray.Executor(1, python={sys.executable!r}) as executor:
    assert executor.run(rank) == [0]
""")


def test_the_main_module_of_a_spawned_process_goes_by_value(programs):
    """multiprocessing calls it __mp_main__ there; others have other names for it."""
    programs.run("""
import multiprocessing, types
class Point:
    def __init__(self, x): self.x = x
class Special(ValueError): pass
def move(point): return Point(point.x + rank())
def fail(point): raise Special(point.x)
def drive():
    assert [type(point) is Point and point.x for point in hvdray.run(move, (Point(1),), num_proc=2)] == [1, 2]
    assert raised(Special, lambda: hvdray.run(fail, (Point(3),))).args == (3,)
def drive_as_another():
    main = sys.modules["__main__"]
    other = types.ModuleType("__worker__")
    exec(compile(open(main.__file__).read(), main.__file__, "exec"), other.__dict__)
    sys.modules["__worker__"] = sys.modules["__main__"] = other
    other.drive()
if __name__ == "__main__":
    for how, does in (("spawn", drive), ("forkserver", drive), ("spawn", drive_as_another)):
        process = multiprocessing.get_context(how).Process(target=does)
        process.start(), process.join()
        assert process.exitcode == 0, (how, does)
""")


def test_a_python_that_takes_comparing_bytes_with_text_for_an_error_calls_too(hvdray):
    environment = {**os.environ, "HVDRAY_BINARY": str(hvdray.binary), "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-bb", "-c", "import hvdray; print(hvdray.run(lambda: 7, num_proc=2))"],
                          env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "[7, 7]\n"), done


def test_a_program_in_one_zip_with_hvdray_calls(hvdray, tmp_path):
    """That of python -m zipapp; the program hvdray can't be in it."""
    app = tmp_path / "app"
    shutil.copytree(ROOT / "python/hvdray", app / "hvdray", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.dirname(cloudpickle.__file__), app / "cloudpickle", ignore=shutil.ignore_patterns("__pycache__"))
    (app / "beside.py").write_text("def answer():\n    return 7\n")
    (app / "__main__.py").write_text("import beside, hvdray\nif __name__ == '__main__':\n    print(hvdray.run(beside.answer, num_proc=2))\n")
    zipapp.create_archive(app, tmp_path / "app.pyz")
    shutil.rmtree(app)
    done = subprocess.run([sys.executable, "-S", tmp_path / "app.pyz"], env={**os.environ, "HVDRAY_BINARY": str(hvdray.binary)},
                          capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "[7, 7]\n"), done
