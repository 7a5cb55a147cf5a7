# SPDX-License-Identifier: Apache-2.0
"""--preload: workers forked from an interpreter that has done its imports are as if they had been started anew."""

import json
import os
import re
import resource
import signal
import sys
import venv
import zipfile

import pytest

# What a program can see of itself; printed as one line of JSON. Names that no interpreter needs are not imported.
PROBE = r"""
import json, os, signal, sys
def links(folder):
    found = {}
    for name in os.listdir(folder):
        try:
            target = os.readlink(folder + "/" + name).split(":")[0]
        except OSError:
            continue
        if "/libffi.so." not in target:
            found[int(name)] = target
    return found
import gc, resource
with open("/proc/self/status") as f:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
with open("/proc/self/cmdline") as f:
    line = f.read()
facts = {
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "cmdline": line, "cwd": os.getcwd(),
    "path": sys.path, "executable": sys.executable, "prefix": sys.prefix, "flags": list(sys.flags),
    "xoptions": sys._xoptions, "warnoptions": sys.warnoptions, "utf8": sys.flags.utf8_mode,
    "main": sorted(set(globals()) - {"f"}), "main_name": __name__, "file": globals().get("__file__"),
    "spec": getattr(__spec__, "name", None), "package": __package__, "loader": str(type(__loader__)),
    "is_main": sys.modules["__main__"].__dict__ is globals(), "builtins": type(__builtins__).__name__,
    "stdin": [type(sys.stdin).__name__, sys.stdin.name, sys.stdin.mode, sys.stdin.encoding, sys.stdin.errors,
              sys.stdin.isatty(), sys.stdin is sys.__stdin__],
    "stdout": [sys.stdout.name, sys.stdout.mode, sys.stdout.encoding, sys.stdout.line_buffering,
               sys.stdout.write_through],
    "stderr": [sys.stderr.name, sys.stderr.mode, sys.stderr.encoding, sys.stderr.line_buffering,
               sys.stderr.write_through],
    "read": sys.stdin.read(), "descriptors": links("/proc/self/fd"),
    "signals": {n: str(signal.getsignal(n)) for n in range(1, 32) if n not in (9, 19)},
    "masks": {k: status[k] for k in ("SigBlk", "SigIgn", "SigCgt", "Threads", "NoNewPrivs", "Cpus_allowed")},
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "umask": os.umask(0o22), "group": os.getpgid(0) == os.getpid(), "nice": os.nice(0),
    "cgroup": "".join(c for c in open("/proc/self/cgroup").read() if not c.isdigit()),
    "gc": [gc.isenabled(), gc.get_threshold()],
    "hook": sys.excepthook is sys.__excepthook__, "threads": len(os.listdir("/proc/self/task")),
    "environment": {k: v for k, v in os.environ.items() if k not in VARYING}, "same": os.environ == os.environb_text(),
    "modules": sorted(m for m in sys.modules if m in ("queue", "_socket", "_ctypes", "socket", "runpy", "colorsys")),
}
print(json.dumps(facts))
"""
PROBE = PROBE.replace(', "same": os.environ == os.environb_text()', "").replace("VARYING", repr((
    "HOROVOD_RENDEZVOUS_PORT", "HOROVOD_GLOO_RENDEZVOUS_PORT", "HVDRAY_JOB_ID", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_ERROR_FILE", "TEST_MARK")))


def events(path, *kinds):
    return [e for e in map(json.loads, path.read_text().splitlines()) if e["event"] in kinds]


def rows(text):
    """rank: the object that it printed."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\[(\d+)\]<stdout>:(\{.*\})", line)
        if match:
            found[int(match[1])] = json.loads(match[2])
    return found


class Runner:
    """Runs a command warm, and says what came of it."""

    def __init__(self, hvdray, folder):
        self.hvdray = hvdray
        self.folder = folder

    def go(self, *words, preload="colorsys", options=(), np=2, **keywords):
        path = self.folder / "events"
        warm = ["--preload", preload] if preload else []
        result = self.hvdray.go("-np", np, "--events", path, *warm, *options, "--", *words, cwd=self.folder, **keywords)
        result.warmed = events(path, "warmed")
        result.pids = {e["rank"]: e["pid"] for e in events(path, "worker_started")}
        return result

    def warm(self, *words, **keywords):
        result = self.go(*words, **keywords)
        assert [w["is_warm"] for w in result.warmed] == [True], (result.warmed, result.errors)
        return result

    def cold(self, *words, why, **keywords):
        """Runs cold although asked for warm: the reason is said once."""
        result = self.go(*words, **keywords)
        assert [w["is_warm"] for w in result.warmed] == [False], result.warmed
        assert re.search(why, result.warmed[0]["why"]), result.warmed
        said = [line for line in result.errors.splitlines() if "start cold" in line]
        assert len(said) == 1 and "host localhost" in said[0] and re.search(why, said[0]), result.errors
        return result


@pytest.fixture
def runner(hvdray, tmp_path):
    return Runner(hvdray, tmp_path)


def lay_out(folder):
    """The probe in all the places that Python runs programs from."""
    (folder / "probe.py").write_text(PROBE)
    (folder / "link.py").symlink_to("probe.py")
    package = folder / "pack" / "inner"
    package.mkdir(parents=True)
    (folder / "pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(PROBE)
    (package / "tool.py").write_text(PROBE)
    (folder / "tree").mkdir()
    (folder / "tree" / "__main__.py").write_text(PROBE)
    with zipfile.ZipFile(folder / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", PROBE)


WAYS = {
    "script": ["probe.py", "a", "--b", ""],
    "dotted": ["./tree/../probe.py"],
    "link": ["-u", "link.py", "x"],
    "options": ["-O", "-X", "utf8", "-Wignore::UserWarning", "-B", "-s", "-X", "faulthandler", "probe.py", "-c"],
    "isolated": ["-I", "probe.py"],
    "bare": ["-SE", "--", "probe.py"],
    "module": ["-m", "pack.inner.tool", "1"],
    "package": ["-um", "pack.inner", "1"],
    "code": ["-c", PROBE, "-u", "2"],
    "folder": ["tree", "x"],
    "zip": ["app.pyz"],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_warm_worker_sees_what_a_cold_one_sees(runner, tmp_path, way):
    lay_out(tmp_path)
    options = ["--channel", "--stdin", "1"] if way in ("script", "code") else []
    both = []
    for preload in (None, "colorsys"):
        keywords = {"stdin": open(tmp_path / "probe.py", "rb")} if options else {}
        go = runner.warm if preload else runner.go
        result = go(sys.executable, *WAYS[way], preload=preload, options=options, **keywords)
        assert result.code == 0 and result.errors == "", result.errors
        both.append(rows(result.text))
        assert sorted(both[-1]) == [0, 1]
    cold, warm = both
    for rank in (0, 1):
        assert warm[rank]["modules"].count("colorsys") == 1
        warm[rank]["modules"].remove("colorsys")
        for key, value in cold[rank].items():
            assert warm[rank][key] == value, key
    assert warm[1]["read"] == (PROBE if options else "")
    assert warm[0]["environment"]["HOROVOD_RANK"] == "0" and warm[1]["environment"]["HOROVOD_RANK"] == "1"


ENDS = {
    "returns": "pass",
    "code": "import sys; sys.exit(7)",
    "text": "import sys; sys.exit('no luck')",
    "raises": "def f():\n    raise ValueError('deep')\nf()",
    "interrupted": "raise KeyboardInterrupt",
    "interrupts itself": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "aborts": "import os\nos.abort()",
    "leaves": "import os\nos._exit(3)",
    "at exit": "import atexit, threading, time\natexit.register(print, 'last')\n"
               "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')",
    "syntax": "if:",
    "hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[2].tb_frame.f_code.co_name)\n1/0",
    "cause": "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise OSError(5, 'x') from e",
    "unbuffered": "import sys\nsys.stdout.write('half'); sys.stderr.write('err')\nraise SystemExit",
}


def test_a_warm_worker_ends_as_a_cold_one(runner, tmp_path):
    def ending(preload):
        seen = {}
        for name, text in ENDS.items():
            (tmp_path / "end.py").write_text(text + "\n")
            go = runner.warm if preload else runner.go
            result = go(sys.executable, "end.py", preload=preload, np=1)
            (exited,) = events(tmp_path / "events", "worker_exited")
            errors = [line for line in result.errors.splitlines() if line.startswith("[0]<stderr>:")]
            seen[name] = [exited["exit_code"], exited["signal"], exited["description"], result.code, result.text, errors]
        return seen

    cold, warm = ending(None), ending("colorsys")
    for name, value in cold.items():
        assert warm[name] == value, name
    assert cold["raises"][0] == 1 and len(cold["raises"][5]) >= 6, cold["raises"]
    assert cold["interrupted"][1] == "SIGINT", "the case is what it says"


def test_a_missing_script_or_module_is_reported_by_python_itself(runner):
    for words in (["nosuch.py"], ["-m", "no_such_module"], ["."]):
        cold = runner.go(sys.executable, *words, preload=None, np=1)
        warm = runner.warm(sys.executable, *words, np=1)
        assert warm.code == cold.code != 0
        first = [line for line in cold.errors.splitlines() if line.startswith("[0]")]
        assert first == [line for line in warm.errors.splitlines() if line.startswith("[0]")] and first


def test_seeds_differ_between_workers_and_modules_are_shared(runner, tmp_path):
    (tmp_path / "seeds.py").write_text(
        "import json, os, random, sys, preloaded\n"
        "print(json.dumps([random.random(), preloaded.VALUE, preloaded.PID == os.getpid()]))\n")
    (tmp_path / "preloaded.py").write_text("import os, random\nrandom.seed(1)\nVALUE = random.random()\nPID = os.getpid()\n")
    result = runner.warm(sys.executable, "seeds.py", preload="preloaded", np=3)
    values = [json.loads(line.split(":", 1)[1]) for line in result.text.splitlines()]
    assert len({value[0] for value in values}) == 3, "each draws numbers of its own"
    assert len({value[1] for value in values}) == 1 and not any(value[2] for value in values)


def test_the_users_own_module_hides_the_librarys_as_in_a_cold_start(runner, tmp_path):
    (tmp_path / "queue.py").write_text("OWN = True\n")
    (tmp_path / "resource.py").write_text("OWN = True\n")
    (tmp_path / "own.py").write_text("import queue, resource\nprint(queue.OWN, resource.OWN)\n")
    result = runner.warm(sys.executable, "own.py", np=1)
    assert result.code == 0 and result.text == "[0]<stdout>:True True\n", result.errors


def test_a_virtual_environment_and_a_wrapper_are_found_as_execvp_would(runner, tmp_path):
    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env" / "lib").glob("python3*/site-packages"))
    (site / "only_here.py").write_text("PLACE = __file__\n")
    (tmp_path / "train.py").write_text("import only_here, sys\nprint(sys.prefix, only_here.PLACE)\n")
    expected = f"[0]<stdout>:{tmp_path}/env {site}/only_here.py\n"
    path = {**os.environ, "PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}"}
    for words, environment in (([tmp_path / "env/bin/python"], None), (["python3"], path)):
        result = runner.warm(*words, "train.py", preload="only_here", np=1, env=environment)
        assert result.text == expected, result.errors
    # One that execs the interpreter, as pyenv's do, and one that waits for it.
    (tmp_path / "wrap").mkdir()
    wrapper = tmp_path / "wrap" / "python3"
    for way in ("exec ", ""):
        wrapper.write_text(f'#!/bin/sh\nWRAPPED=1 {way}{tmp_path}/env/bin/python "$@"\n')
        wrapper.chmod(0o755)
        result = runner.warm(wrapper, "train.py", preload="only_here", np=1)
        assert result.text == expected, result.errors


def test_auto_preloads_the_installed_modules_of_the_script_and_no_others(runner, tmp_path):
    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env" / "lib").glob("python3*/site-packages"))
    for name in ("alpha", "beta", "gamma", "delta", "late", "broken"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise RuntimeError\n" if name == "broken" else "import sys\n")
        (site / name / "part.py").write_text("")
    train = """
import json, alpha.part as a
from beta import part, missing_name_is_an_attribute
import mine
try:
    import broken
    import nowhere
except Exception:
    pass
if __name__ == "__main__":
    import delta
def f():
    import delta
import os
os.environ["SEEN"] = "1"
import late
"""
    (tmp_path / "train.py").write_text(train.replace(", missing_name_is_an_attribute", "")
                                       + "import os, sys\nprint(json.dumps({'pid': os.getpid()}))\n")
    (tmp_path / "mine.py").write_text("import os\nprint('mine in', os.getpid(), flush=True)\nfrom gamma import part\n")
    result = runner.warm(tmp_path / "env/bin/python", "train.py", preload="auto", np=2)
    assert result.warmed[0]["modules"] == ["alpha.part", "beta", "beta.part", "gamma", "gamma.part"]
    assert result.code == 0 and len(re.findall(r"mine in", result.text)) == 2, "the user's own code ran in the workers"
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "model.py").write_text("import gamma\n")
    (tmp_path / "pack" / "train.py").write_text("from .model import gamma\nfrom . import model\nimport beta\n")
    result = runner.warm(tmp_path / "env/bin/python", "-m", "pack.train", preload="auto", np=1)
    assert result.code == 0 and result.warmed[0]["modules"] == ["gamma", "beta"], result.errors
    result = runner.warm(tmp_path / "env/bin/python", "-c", "import alpha", preload="auto", np=1)
    assert result.code == 0 and result.warmed[0]["modules"] == ["alpha"]


BAD = {
    "thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True, "
               "name='feeder').start()\n", r"import bad leaves a thread running \(.*feeder"),
    "raises": ("raise RuntimeError('half\\ninstalled')\n", r"import bad: RuntimeError: half installed"),
    "exits": ("raise SystemExit(3)\n", r"import bad: SystemExit: 3"),
    "kills": ("import os\nos.kill(os.getpid(), 9)\n", r"Python ended \(signal 9\) during import bad"),
    "leaves": ("import os\nos._exit(0)\n", r"Python ended \(exit code 0\) during import bad"),
    "hangs": ("import time\ntime.sleep(60)\n", r"import bad did not end within 5 s"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_preload_that_can_not_be_forked_runs_cold_and_says_why(runner, tmp_path, case):
    text, why = BAD[case]
    (tmp_path / "bad.py").write_text(text)
    (tmp_path / "train.py").write_text("import os\nprint('rank', os.environ['HOROVOD_RANK'])\n")
    options = ["--start-timeout", "5"] if case == "hangs" else []
    result = runner.cold(sys.executable, "train.py", preload="bad", why=why, options=options)
    assert result.code == 0 and sorted(result.text.splitlines()) == ["[0]<stdout>:rank 0", "[1]<stdout>:rank 1"]


def test_a_module_that_is_not_there_is_named(runner, tmp_path):
    (tmp_path / "train.py").write_text("print('ran')\n")
    result = runner.cold(sys.executable, "train.py", preload="colorsys,no_such_module",
                         why="import no_such_module: ModuleNotFoundError: No module named 'no_such_module'")
    assert result.code == 0 and result.text.count("ran") == 2
    result = runner.cold(sys.executable, "train.py", why=r"PYTHONINSPECT", env={**os.environ, "PYTHONINSPECT": "1"})
    assert result.code == 0 and result.text.count("ran") == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount of its own for /dev (root)")
def test_a_preload_that_opens_a_gpu_runs_cold(runner, tmp_path):
    (tmp_path / "bad.py").write_text("import os\nKEPT = os.open('/dev/nvidia0', os.O_RDONLY)\n")
    (tmp_path / "train.py").write_text("print('ran')\n")
    wrapper = tmp_path / "python3"  # /dev/nvidia0 is a file that only the workers' Python sees
    wrapper.write_text("#!/bin/sh\nexec unshare -m sh -c 'mkdir -p /run/pretend && mount --bind /dev /run/pretend && "
                       "mount -t tmpfs none /dev && for f in null urandom shm pts; do "
                       "ln -s /run/pretend/$f /dev/$f; done; "
                       f": > /dev/nvidia0; exec {sys.executable} \"$@\"' sh \"$@\"\n")
    wrapper.chmod(0o755)
    result = runner.cold(wrapper, "train.py", preload="bad", np=1,
                         why=r"import bad opens a GPU \(/dev/nvidia0\), which a fork can't share")
    assert result.code == 0 and "ran" in result.text, result.errors


@pytest.mark.parametrize("words,message", [
    (["./train.sh"], "./train.sh is not Python"),
    (["env", "A=1", "python3", "x.py"], "env is not Python"),
    (["python3"], "python3 reads its program from standard input"),
    (["python3", "-"], "python3 reads its program from standard input"),
    (["python3", "-i", "x.py"], "python3 -i runs no program that can begin warm"),
    (["python3", "-V"], "python3 -V runs no program that can begin warm"),
], ids=["script", "env", "none", "stdin", "interactive", "version"])
def test_a_command_that_is_not_python_is_refused_before_anything_starts(hvdray, words, message):
    result = hvdray.go("-np", "2", "--preload", "json", "--", *words)
    assert result.code == 2 and message in result.errors and "--preload" in result.errors, result.errors


def test_a_wrong_list_of_modules_is_refused(hvdray):
    for modules in ("", "a,,b", "a b", "torch,auto", "./x"):
        result = hvdray.go("-np", "1", "--preload", modules, "--", "python3", "x.py")
        assert result.code == 2 and "--preload" in result.errors, (modules, result.errors)


def test_what_imports_print_comes_once_and_never_from_a_worker(runner, tmp_path):
    (tmp_path / "chatty.py").write_text("import sys\nprint('hello from an import')\nprint('warned', file=sys.stderr)\n"
                                        "sys.stdout.write('no newline')\n")
    (tmp_path / "train.py").write_text("print('ran')\n")
    result = runner.warm(sys.executable, "train.py", preload="chatty", np=3)
    everything = result.text + result.errors
    for text in ("hello from an import", "warned", "no newline"):
        assert everything.count(text) == 1, everything
    assert sorted(result.text.splitlines()) == [f"[{rank}]<stdout>:ran" for rank in range(3)]


LIVING = """
import os, sys, time
open(os.environ["HOROVOD_RANK"] + "." + os.environ["HVDRAY_GENERATION"], "w").write(str(os.getpid()))
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


def server_of(job):
    return job.find("hvdray-fork-server")


def files(folder, generation):
    return sorted(folder.glob(f"[0-9].{generation}"))


def test_a_restart_uses_the_same_server_and_another_is_made_for_a_dead_one(hvdray, tmp_path):
    (tmp_path / "train.py").write_text(LIVING)
    (tmp_path / "slow.py").write_text("open('imports', 'a').write('x')\n")
    job = hvdray.job("-np", 2, "--max-restarts", 3, "--preload", "slow", "--grace", "2", "--", sys.executable,
                     "train.py", "with", "some", "more", "words", cwd=tmp_path)

    def up(generation):
        return len(files(tmp_path, generation)) == 2 and all(f.read_text() for f in files(tmp_path, generation))

    def kill_worker(generation):
        os.kill(int(files(tmp_path, generation)[0].read_text()), signal.SIGKILL)

    job.wait_for(lambda: up(1), what="the first gang")
    (first,) = server_of(job)
    kill_worker(1)
    job.wait_for(lambda: up(2), what="the second gang")
    assert server_of(job) == [first] and (tmp_path / "imports").read_text() == "x"
    os.kill(first, signal.SIGKILL)
    job.wait_for(lambda: not server_of(job), what="the server's end")
    assert len(job.find("with some more words")) >= 2, "its workers live on"
    kill_worker(2)
    job.wait_for(lambda: up(3), what="the third gang")
    assert (tmp_path / "imports").read_text() == "xx" and len(server_of(job)) == 1
    os.kill(server_of(job)[0], signal.SIGSTOP)  # it answers no more: ends with the job all the same
    job.process.send_signal(signal.SIGTERM)
    assert job.wait().code == 143
    assert job.survivors() == {}


@pytest.mark.parametrize("victim", ["launcher", "agent", "keeper", "server"])
def test_nothing_is_left_whoever_is_killed(hvdray, tmp_path, victim):
    (tmp_path / "train.py").write_text(LIVING)
    (tmp_path / "starts.py").write_text(
        "import subprocess\nsubprocess.Popen(['sleep', '1000'])\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 1001 & exit 0'])\n")
    job = hvdray.job("-np", 2, "--preload", "starts", "--grace", "1", "--", sys.executable, "train.py", "words", "enough",
                     cwd=tmp_path)
    job.wait_for(lambda: len(files(tmp_path, 1)) == 2, what="the workers")
    (server,) = server_of(job)
    with open(f"/proc/{server}/stat", encoding="ascii") as f:
        agent = int(f.read().rsplit(")", 1)[1].split()[1])
    with open(f"/proc/{agent}/stat", encoding="ascii") as f:
        keeper = int(f.read().rsplit(")", 1)[1].split()[1])
    job.wait_for(lambda: len(job.find("sleep 100")) == 2, what="what an import starts, which is not swept")
    os.kill({"launcher": job.pid, "agent": agent, "keeper": keeper, "server": server}[victim], signal.SIGKILL)
    if victim == "server":
        job.wait_for(lambda: not server_of(job), what="the server's end")
        job.process.send_signal(signal.SIGINT)
    job.wait()
    assert job.survivors() == {}


def test_a_server_is_no_orphan_of_a_gang(hvdray, tmp_path):
    """A gang that ends sweeps what its workers left, and nothing of the server's, which the next gang needs."""
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys, time\n"
        "subprocess.Popen(['setsid', 'sleep', '1002'])\n"
        "sys.exit(int(os.environ['TORCHELASTIC_RESTART_COUNT']) < 2)\n")
    (tmp_path / "starts.py").write_text("import subprocess\nsubprocess.run(['sh', '-c', 'setsid sleep 1003 & exit 0'])\n"
                                        "open('imports', 'a').write('x')\n")
    result = hvdray.go("-np", 2, "--max-restarts", 2, "--preload", "starts", "--report", "report.json", "--",
                       sys.executable, "train.py", cwd=tmp_path)
    assert result.code == 0, result.errors
    assert (tmp_path / "imports").read_text() == "x"


def test_many_workers_come_in_several_requests(runner, tmp_path):
    (tmp_path / "train.py").write_text("import os\nprint(os.environ['HOROVOD_RANK'], os.environ['HOROVOD_SIZE'])\n")
    result = runner.warm(sys.executable, "train.py", np=40)
    assert result.code == 0
    assert sorted(result.text.split(), key=str) == sorted(
        (word for rank in range(40) for word in (f"[{rank}]<stdout>:{rank}", "40")), key=str)


def test_ctrl_c_reaches_warm_workers_as_cold_ones(hvdray, tmp_path):
    (tmp_path / "train.py").write_text(
        "import time\ntry:\n    print('up', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('saved')\n")
    job = hvdray.job("-np", 2, "--preload", "colorsys", "--grace", 30, "--", sys.executable, "train.py", cwd=tmp_path)
    seen = b""
    while seen.count(b"up") < 2:
        seen += os.read(job.process.stdout.fileno(), 100)
    job.process.send_signal(signal.SIGINT)
    result = job.wait()
    assert result.code == 130 and result.text.count("saved") == 2, result.errors


def test_a_job_that_is_stopped_during_the_imports_ends_at_once(hvdray, tmp_path):
    (tmp_path / "endless.py").write_text("import time\nopen('importing', 'w')\ntime.sleep(600)\n")
    job = hvdray.job("-np", 2, "--preload", "endless", "--", sys.executable, "-c", "print(1)", cwd=tmp_path)
    job.wait_for(lambda: (tmp_path / "importing").exists(), what="the import")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60).code == 143
    assert job.survivors() == {}


def test_an_elastic_newcomer_comes_from_the_same_server(elastic):
    job = elastic()
    job.hosts("localhost:2")
    job.start("-np", 2, "--min-np", 2, "--preload", "horovod.torch", "--events", job.folder / "events")
    # Not by command lines: what hvdray forks has its own for a moment, and so the name of the script. A worker has the server's.
    job.wait_for(lambda: len(server_of(job.job)) == 1 and len(events(job.folder / "events", "worker_started")) >= 2,
                 "two workers")
    (server,) = server_of(job.job)
    job.hosts("localhost:3")
    job.wait_for(lambda: [e for e in events(job.folder / "events", "generation") if len(e["ranks"]) == 3], "a third")
    job.wait_for(lambda: server_of(job.job) == [server], "the same server and no other")
    assert [w["is_warm"] for w in events(job.folder / "events", "warmed")] == [True]
    job.job.process.send_signal(signal.SIGTERM)
    assert job.job.wait().code == 143


TRAIN = """
import json, os, sys
import numpy, torch
import horovod.torch as hvd
hvd.init()
total = hvd.allreduce(torch.ones(1000) * (hvd.rank() + 1), op=hvd.Sum)
weights = torch.nn.Linear(100, 100)
y = weights(torch.randn(64, 100)).sum(); y.backward()
print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), "total": float(total[0]), "draw": numpy.random.rand(),
                  "threads": torch.get_num_threads()}))
"""


@pytest.mark.parametrize("preload", ["horovod.torch", "auto"])
def test_real_horovod_trains_in_forked_workers(hvdray, horovod_python, tmp_path, preload):
    (tmp_path / "train.py").write_text(TRAIN)
    result = hvdray.go("-np", 2, "--preload", preload, "--events", "events", "--", horovod_python, "train.py",
                       cwd=tmp_path, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert result.code == 0, result.errors
    (warmed,) = events(tmp_path / "events", "warmed")
    assert warmed["is_warm"] and "horovod.torch" in warmed["modules"], warmed
    found = rows(result.text)
    assert sorted(found) == [0, 1]
    assert {(r["size"], r["total"], r["threads"]) for r in found.values()} == {(2, 3.0, 2)}
    assert len({r["draw"] for r in found.values()}) == 2, "numpy's seeds differ"


def test_a_limit_that_the_user_set_and_an_oom_kill_are_those_of_a_cold_worker(runner, tmp_path):
    (tmp_path / "train.py").write_text("import resource, sys\nprint(resource.getrlimit(resource.RLIMIT_CORE))\n")
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))
    try:
        result = runner.warm(sys.executable, "train.py", np=1)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limit)
    assert result.text.startswith("[0]<stdout>:(0, "), result.text
