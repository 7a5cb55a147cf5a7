# SPDX-License-Identifier: Apache-2.0
"""`hvdray.Pool` on this machine: who is forked from what, what executors share and what not, and every end.

Not here: how a fork server sets up a worker (preload_test).
"""

import os
import signal

import pytest
from hosts_processes import wait_until
from python_program import Programs

# A module in a folder like site-packages: its import is written down, with the process that did it.
COUNTED = "import os\nwith open(os.environ['IMPORTS'], 'a') as f: f.write(f'{os.getpid()}\\n')\nnotes = []\n"


class PoolPrograms(Programs):
    def __init__(self, tool, folder):
        super().__init__(tool, folder)
        self.packages = folder / "lib" / "site-packages"
        self.packages.mkdir(parents=True)
        (self.packages / "counted.py").write_text(COUNTED)
        self.imports = folder / "imports"
        self.imports.touch()

    def start(self, lines, env=None, **more):
        env = {"IMPORTS": str(self.imports), "PACKAGES": str(self.packages), **(env or {})}
        head = """
packages = {"PYTHONPATH": os.environ["PACKAGES"]}
def imports():
    return open(os.environ["IMPORTS"]).read().split()
def look():
    is_there = "counted" in sys.modules
    import counted
    return is_there
def server_of(executor):
    \"\"\"The fork server: the child of the agent, with that name, that no worker is.\"\"\"
    agent = executor.run(os.getppid)[0]
    children = [int(pid) for pid in open(f"/proc/{agent}/task/{agent}/children").read().split()]
    return [pid for pid in children if pid not in executor.run(os.getpid)]
"""
        return super().start(head + lines, env=env, **more)


@pytest.fixture
def programs(hvdray, tmp_path):
    return PoolPrograms(hvdray, tmp_path)


# ---- warm


def test_modules_that_are_named_are_imported_once_a_host_and_before_the_first_gang(programs):
    programs.run("""
with hvdray.Pool(2, preload=["counted", "json"], env=packages) as pool:
    assert pool.wait_warm(60) is True
    assert len(imports()) == 1, imports()
    for _ in range(3):
        with hvdray.Executor(pool=pool) as executor:
            assert executor.run(look) == [True, True]
            (server,) = server_of(executor)
            assert imports() == [str(server)], (imports(), server)
            assert server not in executor.run(os.getpid)
            assert "/mmap." in open(f"/proc/{server}/maps").read(), "what each worker needs is there as well"
""")


def test_modules_are_learnt_from_the_first_gang(programs):
    programs.run("""
with hvdray.Pool(2, env=packages) as pool:
    assert pool.preload == [] and pool.wait_warm() is False
    with hvdray.Executor(pool=pool) as executor:
        assert executor.run(lambda: "counted" in sys.modules) == [False, False]
        assert executor.run(look) == [False, False]
        assert not server_of(executor)
    assert len(imports()) == 2
    assert "counted" in pool.preload and "hvdray" not in " ".join(pool.preload), pool.preload
    assert pool.wait_warm(60) is True, pool.preload
    assert len(imports()) == 3
    assert hvdray.run(look, pool=pool) == [True, True]
    with hvdray.Executor(1, pool=pool) as executor:
        assert executor.run(look) == [True]
        assert executor.run_remote(look)[0].result() is True
    assert len(imports()) == 3
""")


def test_what_the_function_itself_imports_comes_first_and_what_needs_a_rank_is_left_to_the_workers(programs):
    inner = programs.packages / "many"
    inner.mkdir()
    (inner / "__init__.py").write_text("".join(f"import many.m{n}\n" for n in range(300)))
    for n in range(300):
        (inner / f"m{n}.py").write_text("")
    (programs.packages / "ranked.py").write_text("import os\nrank = os.environ['HOROVOD_RANK']\n")
    (programs.packages / "zlast").mkdir()
    (programs.packages / "zlast" / "__init__.py").write_text("")
    (programs.packages / "zlast" / "deep.py").write_text("import counted\n")
    (programs.folder / "mine.py").write_text("import many, ranked\n")
    programs.run("""
def f():
    before = {"many.m299", "zlast.deep", "ranked"} & set(sys.modules)
    for _ in range(20):  # Each is asked for, and none is there.
        try:
            import nowhere
        except ImportError:
            pass
    import mine, zlast.deep
    return sorted(before)
with hvdray.Pool(2, env=packages) as pool:
    assert hvdray.run(f, pool=pool) == [[], []]
    first = [name for name in pool.preload[:6] if name in ("many", "ranked", "zlast", "zlast.deep")]
    assert first == ["many", "ranked", "zlast", "zlast.deep"] and len(pool.preload) == 256, pool.preload
    assert pool.wait_warm(60)
    assert len(imports()) == 3
    assert hvdray.run(f, pool=pool) == [["many.m299", "zlast.deep"]] * 2
    assert len(imports()) == 3
""")


def test_what_only_some_ranks_or_the_own_folder_have_is_not_learnt(programs):
    (programs.folder / "own.py").write_text("")
    (programs.folder / "colorsys.py").write_text("raise ImportError('of the program, not of Python')")
    programs.run("""
def some():
    import own, wave
    os.chdir("/")
    if rank() == 1:
        import counted
    return "own" in sys.modules
with hvdray.Pool(2, env=packages) as pool:
    with hvdray.Executor(pool=pool) as executor:
        assert executor.run(some) == [True, True]
    assert "wave" in pool.preload and not {"own", "counted", "colorsys", "__main__"} & set(pool.preload), pool.preload
    assert pool.wait_warm(60)
""")


@pytest.mark.parametrize("leave", ["pass", "sys.exit(0)", "sys.exit(3)", "raise RuntimeError('of the child')", "os._exit(0)"])
def test_a_child_forked_by_an_import_or_by_a_warm_worker_takes_no_request_and_no_call(programs, leave):
    (programs.packages / "forking.py").write_text(f"""
import os, sys
pid = os.fork()
if pid == 0:
    {leave}
else:
    os.waitpid(pid, 0)
""")
    result = programs.run(f"""
def f():
    pid = os.fork()
    if pid == 0:
        {leave}
        return "child"
    os.waitpid(pid, 0)
    return os.getpid()
with hvdray.Pool(2, preload=["forking"], env=packages) as pool:
    assert pool.wait_warm(60) is True
    for _ in range(2):
        with hvdray.Executor(pool=pool) as executor:
            pids = executor.run(os.getpid)
            assert executor.run(lambda: "forking" in sys.modules) == [True, True]
            for _ in range(2):
                assert executor.run(f) == pids
            (server,) = server_of(executor)
        assert hvdray.run(f, pool=pool) != pids
""")
    assert "cold" not in result.errors, result.errors


def test_an_executor_with_an_environment_of_its_own_has_an_own_fork_server(programs):
    programs.run("""
with hvdray.Pool(2, preload=["counted"], env=packages) as pool:
    assert pool.wait_warm(60)
    for colour, count in (("red", 2), ("red", 2), ("blue", 3)):
        with hvdray.Executor(pool=pool, env={"COLOUR": colour}) as executor:
            assert executor.run(lambda: (os.environ["COLOUR"], look())) == [(colour, True)] * 2
        assert len(imports()) == count, (colour, imports())
""")


def test_a_module_that_is_not_there_leaves_workers_cold(programs):
    result = programs.run("""
with hvdray.Pool(2, preload=["nowhere"]) as pool:
    assert pool.wait_warm(60) is False
    assert hvdray.run(rank, pool=pool) == [0, 1]
""")
    assert "start cold" in result.errors and "nowhere" in result.errors, result.errors


# ---- apart from each other


def test_executors_share_no_state(programs):
    programs.run("""
class Counter:
    def __init__(self, start): self.n = start
def note():
    import counted
    counted.notes.append(rank())
    os.environ["LEFT"] = "behind"
    os.chdir("/")
    return len(counted.notes)
with hvdray.Pool(2, preload=["counted"], env=packages) as pool:
    with hvdray.Executor(pool=pool) as executor:
        executor.start(Counter, [5])
        assert executor.execute(lambda counter: counter.n) == [5, 5]
        pids = executor.run(os.getpid)
        here = executor.run(os.getcwd)
        assert executor.run(note) == [1, 1] and executor.run(note) == [2, 2]
        late = hvdray.Executor(pool=pool)
        assert "in use" in str(raised(hvdray.HvdrayError, lambda: late.run(rank)))
    assert late.run(rank) == [0, 1]
    late.shutdown()
    with hvdray.Executor(pool=pool) as executor:
        assert executor.execute(lambda nothing: nothing) == [None, None]
        assert not set(pids) & set(executor.run(os.getpid))
        assert executor.run(lambda: os.environ.get("LEFT")) == [None, None] and executor.run(os.getcwd) == here
        assert executor.run(note) == [1, 1]
        executor.restart()
        assert executor.run(note) == [1, 1]
""")


def test_what_contradicts_the_pool_is_refused(programs):
    programs.run("""
raised(ValueError, lambda: hvdray.Pool(2, preload="json"))
raised(ValueError, lambda: hvdray.Pool(2, preload=[]))
raised(ValueError, lambda: hvdray.Pool(2, preload=["a b"]))
raised(ValueError, lambda: hvdray.Pool(2, preload=["m"] + [f"m{n}" for n in range(256)]))
raised(ValueError, lambda: hvdray.Pool(2, options={"preload": "json"}))
with hvdray.Pool(2, options={"grace": 3}) as pool:
    for bad in (dict(num_workers=3), dict(hosts="localhost:2"), dict(backend="ray"), dict(python="/nowhere/python3"),
                dict(working_dir="/"), dict(options={"grace": 4}), dict(options={"verbose": True}), dict(num_hosts=1),
                dict(output="none"), dict(min_workers=1), dict(max_workers=2)):
        raised(ValueError, lambda: hvdray.Executor(pool=pool, **bad))
    raised(ValueError, lambda: hvdray.run(rank, pool=pool, min_num_proc=1))
    raised(ValueError, lambda: hvdray.run(rank, pool=pool, hosts="localhost:1"))
    assert hvdray.run(rank, num_proc=1, options={"grace": 3}, pool=pool) == [0]
    pool.close()
    pool.close()
    assert "closed" in str(raised(hvdray.HvdrayError, lambda: hvdray.run(rank, pool=pool)))
""")


# ---- how it ends


def test_calls_that_end_badly_leave_the_pool(programs):
    programs.run("""
with hvdray.Pool(2, preload=["counted"], env=packages) as pool:
    assert pool.wait_warm(60)
    error = raised(ZeroDivisionError, lambda: hvdray.run(lambda: 1 // 0, pool=pool))
    assert isinstance(error, hvdray.WorkerError)
    assert raised(hvdray.WorkerDied, lambda: hvdray.run(lambda: os._exit(3), pool=pool)).exit_code == 3
    with hvdray.Executor(pool=pool) as executor:
        executor.start()  # Within the limit, a loaded machine might not: then the hosts are left, too.
        raised(TimeoutError, lambda: executor.run(sleep, timeout=0.2))
    assert hvdray.run(look, pool=pool) == [True, True]
    assert len(imports()) == 1
""")


def test_a_killed_fork_server_is_replaced(programs):
    programs.run("""
with hvdray.Pool(2, preload=["counted"], env=packages) as pool:
    assert pool.wait_warm(60)
    with hvdray.Executor(pool=pool) as executor:
        (server,) = server_of(executor)
        os.kill(server, signal.SIGKILL)
        assert executor.run(look) == [True, True]  # its workers live on
    assert hvdray.run(look, pool=pool) == [True, True]
    assert len(imports()) == 2
""")


def test_a_killed_launcher_is_replaced_and_its_successor_is_warm(programs):
    programs.run("""
with hvdray.Pool(2, preload=["counted"], env=packages) as pool:
    with hvdray.Executor(pool=pool) as executor:
        serve = executor.run(os.getppid)[0]
        while b"\\0serve\\0" not in open(f"/proc/{serve}/cmdline", "rb").read():
            serve = int(open(f"/proc/{serve}/stat").read().rpartition(")")[2].split()[1])
        threading.Timer(0.2, os.kill, (serve, signal.SIGKILL)).start()
        raised(hvdray.LauncherLost, lambda: executor.run(sleep))
    assert hvdray.run(look, pool=pool) == [True, True]
    assert pool.wait_warm(60)
    assert len(imports()) == 2
""")


def marked(mark):
    """Processes that have this in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("end", ["close", "forgotten", "SIGKILL"])
def test_nothing_is_left(programs, tmp_path, end):
    mark = f"POOL_MARK={tmp_path}"
    endings = {"close": "pool.close()", "forgotten": "", "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)"}
    job = programs.start(f"""
pool = hvdray.Pool(2, preload=["counted"], env=packages)
assert pool.wait_warm(60)
executor = hvdray.Executor(pool=pool)
assert executor.run(look) == [True, True]
{endings[end]}
""", env={"POOL_MARK": str(tmp_path)})
    result = job.wait(300)
    assert result.code == (-signal.SIGKILL if end == "SIGKILL" else 0), result.errors
    if end != "SIGKILL":
        assert not marked(mark.encode())
    wait_until(lambda: not marked(mark.encode()), "the end of all processes of the program")
