# SPDX-License-Identifier: Apache-2.0
"""Imports modules once for all workers of a host, and forks the workers: `hvdray run --preload`.

The agent starts the interpreter of the workers' command, which reads this program from its standard input, and
talks to it over descriptor 4 (agent/fork_server.h has the messages). This process must end up as the interpreter
would be after the script's own imports, so it uses nothing but modules that are a part of the interpreter or are
taken out of sys.modules again: the script's directory may have its own queue.py. Python 3.9 and later."""

import sys

__name__ = "hvdray.fork_server"  # not "__main__", whose warnings are shown
SAFE_PATH = getattr(sys.flags, "safe_path", sys.flags.isolated)
if not SAFE_PATH:
    del sys.path[0]  # "": nothing of the user's may be imported here
loaded_before = set(sys.modules)

import gc  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402

import _ctypes  # noqa: E402
import _socket  # noqa: E402

for name in {"_ctypes", "_socket"} - loaded_before:
    del sys.modules[name]

CONTROL_FD = 4  # from the agent; it is in use in a worker that has a channel, so it moves
MOVED_FD = 239
CHANNEL_FD = 4
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL = 9
EXIT_FAILED = 127  # as a child that can't exec
STAGE_FORK, STAGE_DESCRIPTORS, STAGE_LIMITS = 1, 3, 4  # wire::ExecStage
MAX_DESCRIPTORS = 253  # SCM_MAX_FD
ONLY_AST = 0x400  # ast.PyCF_ONLY_AST
MAX_SCANNED = 200
NEVER_SCANNED = ("mpi4py",)  # its import joins the MPI job
GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render", "/dev/accel", "/dev/davinci", "/dev/habanalabs")

libc = _ctypes.dlopen(None, 0)


def call(function, *arguments):
    return _ctypes.call_function(_ctypes.dlsym(libc, function), arguments)


class Unfit(Exception):
    """This process must not be forked; the workers start by exec."""


# --- Messages


class Agent:
    """The other end of the control socket. Every message of its is a byte that carries descriptors: the first one
    is a file of texts, each ended by a NUL."""

    def __init__(self):
        os.dup2(CONTROL_FD, MOVED_FD, inheritable=False)
        self.socket = _socket.socket(fileno=MOVED_FD)
        os.register_at_fork(after_in_child=self.socket.close)

    def receive(self):
        """The texts and the other descriptors of the next message; None at the end."""
        byte, control, _, _ = self.socket.recvmsg(1, _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
        if not byte:
            return None
        descriptors = []
        for _, _, data in control:
            descriptors += [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data), 4)]
        with open(descriptors[0], "rb") as file:
            file.seek(0)
            texts = file.read().split(b"\0")
        return iter(texts), descriptors[1:]

    def send(self, text):
        line = " ".join(text.split()).encode("utf-8", "backslashreplace")
        self.socket.sendall(line + b"\n")


def take_list(texts):
    return [next(texts) for _ in range(int(next(texts)))]


# --- What the interpreter would have set up before the first import of the script


class Program:
    """What the command tells Python to run: a script, -m MODULE, or -c CODE."""

    def __init__(self, words, command):
        self.words = words
        self.command = command
        self.kind = words[0] if words[0] in ("-c", "-m") else "script"
        self.name = words[0] if self.kind == "script" else words[1]
        if self.kind == "script":
            # Joined, not normalised, as the interpreter does.
            is_dot = self.name == "." and sys.version_info >= (3, 11)
            relative = "" if is_dot else "/" + self.name
            self.path = self.name if self.name.startswith("/") else os.getcwd() + relative
            self.has_main_inside = has_importer(self.path)  # a directory or a zip file with a __main__

    def first_path(self):
        """sys.path[0]; None: nothing is added."""
        if self.kind == "script" and self.has_main_inside:
            return self.path
        if SAFE_PATH:
            return None
        if self.kind == "-c":
            return ""
        return os.getcwd() if self.kind == "-m" else os.path.dirname(os.path.realpath(self.path))

    def set_up(self):
        sys.argv = self.words if self.kind == "script" else [self.kind, *self.words[2:]]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = self.command
        if self.first_path() is not None:
            sys.path.insert(0, self.first_path())
        main = type(sys)("__main__")
        main.__builtins__ = sys.modules["builtins"]
        if "__annotations__" in globals():
            main.__annotations__ = {}
        main.__loader__ = __loader__
        if self.kind == "script" and not self.has_main_inside:
            external = sys.modules["_frozen_importlib_external"]
            is_compiled = self.path.endswith(".pyc")
            loader = external.SourcelessFileLoader if is_compiled else external.SourceFileLoader
            main.__loader__ = loader("__main__", self.path)
            main.__file__ = self.path
            if sys.version_info < (3, 15):
                main.__cached__ = None
        sys.modules["__main__"] = main


def has_importer(path):
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


# --- --preload auto: the installed modules that the script imports at its top level


def find(name):
    """The spec of a module, found without importing anything; None: not on the path."""
    finder = sys.modules["_frozen_importlib_external"].PathFinder
    path, spec, whole = None, None, ""
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        spec = finder.find_spec(whole, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None:
            path = []
    return spec


def places_of(spec):
    return [spec.origin] if spec.origin else list(spec.submodule_search_locations or [])


def is_installed(spec):
    return any("/site-packages/" in place + "/" or "/dist-packages/" in place + "/" for place in places_of(spec))


def is_sources_of_user(spec):
    return bool(spec.origin) and spec.origin.endswith(".py") and not spec.origin.startswith(os.path.dirname(os.__file__))


def mentions_environment(node):
    """The statement reads or sets the environment, so that what is imported behind it may depend on it."""
    if getattr(node, "attr", None) in ("environ", "putenv") or getattr(node, "id", None) in ("environ", "putenv"):
        return True
    for field in getattr(node, "_fields", ()):
        value = getattr(node, field)
        if any(mentions_environment(item) for item in (value if isinstance(value, list) else [value])):
            return True
    return False


def imports_of(body, package):
    """The names of the modules that statements of a top level import, in order. Stops (StopIteration with True) at
    one that may change what the next import does."""
    for node in body:
        kind = type(node).__name__
        if kind == "Import":
            for alias in node.names:
                yield alias.name
        elif kind == "ImportFrom":
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1] if package else []
                if not parents:
                    continue
                base = ".".join(parents + ([base] if base else []))
            yield base
            for alias in node.names:
                yield f"{base}.{alias.name}"
        elif kind in ("Try", "TryStar"):
            if (yield from imports_of(node.body, package)):
                return True
        elif kind not in ("FunctionDef", "AsyncFunctionDef", "ClassDef") and mentions_environment(node):
            return True
    return False


def main_source(program):
    """The text of the main module, its name for messages, and its package."""
    if program.kind == "-c":
        return program.name, "<string>", ""
    path, package = (program.path if program.kind == "script" else ""), ""
    if program.kind == "script" and program.has_main_inside:
        path += "/__main__.py"
    elif program.kind == "-m":
        spec = find(program.name)
        package = program.name.rpartition(".")[0]
        if spec is not None and spec.submodule_search_locations:
            package = program.name
            spec = find(program.name + ".__main__")
        path = spec.origin if spec is not None and spec.origin else ""
    with open(path, "rb") as file:
        return file.read(), path, package


def scan(program):
    """The modules to preload, in the order of their imports. Follows the user's own modules, whose code it never
    runs."""
    wanted, seen = [], set()

    def follow(source, path, package):
        try:
            tree = compile(source, path, "exec", ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError):
            return True  # the script itself will say so
        imports = imports_of(tree.body, package)
        while True:
            try:
                module = next(imports)
            except StopIteration as end:
                return bool(end.value)
            if module in seen or len(seen) >= MAX_SCANNED:
                continue
            seen.add(module)
            spec = find(module)
            if spec is None:
                continue
            top = module.partition(".")[0]
            if is_installed(find(top)):
                if top not in NEVER_SCANNED:
                    wanted.append(module)
            elif is_sources_of_user(spec):
                with open(spec.origin, "rb") as file:
                    own = file.read()
                inner = module if spec.submodule_search_locations else module.rpartition(".")[0]
                if follow(own, spec.origin, inner):
                    return True

    try:
        follow(*main_source(program))
    except OSError:
        pass
    return wanted


# --- Imports, and the proof that this process may be forked


def other_threads():
    return [tid for tid in os.listdir("/proc/self/task") if int(tid) != os.getpid()]


def names_of(threads):
    names = []
    for tid in threads:
        try:
            with open(f"/proc/self/task/{tid}/comm", "rb") as file:
                names.append(file.read().decode("utf-8", "replace").strip())
        except OSError:
            pass
    threading = sys.modules.get("threading")
    for thread in threading.enumerate() if threading else ():
        if thread is not threading.main_thread():
            names.append(thread.name)
    return ", ".join(names)


def open_gpu():
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(GPU_DEVICES):
            return target
    return None


def text_of(error):
    """As the last line of a traceback."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def preload(agent, modules, is_scanned):
    """Imports the modules and returns the names of those that are there. Of "?a", the module a may be missing."""
    done, own = [], os.getpid()
    for word in modules:
        module = word.lstrip("?")
        agent.send(f"importing {module}")
        try:
            __import__(module)
        except BaseException as error:
            end_child(own, error)
            if not is_scanned and module == word:
                raise Unfit(f"import {module}: {text_of(error)}") from None
            continue  # guarded in the script, or an attribute of a module: the script says what is wrong
        end_child(own)
        done.append(module)
        device = open_gpu()
        if device is not None:
            raise Unfit(f"import {module} opens a GPU ({device}), which a fork can't share")
        if other_threads():
            prove_forkable(f"import {module}")
    prove_forkable("Python's start")
    return done


def end_child(own, error=None):
    """Does not return in a process that an import has forked, and that has left the import: to fork workers is its parent's."""
    if os.getpid() == own:
        return
    code = 0 if error is None else 1
    try:
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            code = (error.code or 0) & 0xFF
        elif error is not None:
            sys.stderr.write(text_of(error) + "\n")
        flush()
    finally:
        os._exit(code)


def prove_forkable(suspect):
    """OpenBLAS ends its threads before a fork and starts them when needed; others do not survive one."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    for _ in range(50):
        threads = other_threads()
        if not threads:
            return
        time.sleep(0.004)  # one that is ending
    raise Unfit(f"{suspect} leaves a thread running ({names_of(threads)}), which a fork does not have")


def flush():
    """What is buffered here would be written by each worker."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    call("fflush", None)


# --- Forks


class Worker:
    """One worker of a request: its descriptors, its variables and how it begins."""

    def __init__(self, variables, descriptors):
        self.variables = variables
        self.descriptors = descriptors
        self.stdin, self.stdout, self.stderr, self.report = descriptors[:4]
        self.channel = descriptors[4] if len(descriptors) > 4 else -1


class Request:
    """Forks of up to sixteen workers."""

    def __init__(self, texts, descriptors):
        count = int(next(texts))
        has_cgroup, has_channel = next(texts) == b"1", next(texts) == b"1"
        self.shared = take_list(texts)
        self.descriptors = descriptors
        rest = list(descriptors)
        self.gate = rest.pop(0)
        self.cgroup = rest.pop(0) if has_cgroup else -1
        width = 5 if has_channel else 4
        self.workers = [Worker(take_list(texts), rest[i * width : (i + 1) * width]) for i in range(count)]

    def close(self, kept=()):
        for descriptor in self.descriptors:
            if descriptor not in kept:
                os.close(descriptor)
        self.descriptors = list(kept)


def fork_workers(agent, request):
    """In a worker: its Worker. Here: None, after the agent has got the pids. The process between the two ends at
    once, so that the agent, a subreaper, becomes the workers' parent."""
    reader, writer = os.pipe()
    call("prctl", PR_SET_CHILD_SUBREAPER, 0)  # for this moment: the workers must not come back to us
    between = os.fork()
    if between == 0:
        os.close(reader)
        if request.cgroup >= 0:
            try:
                os.write(request.cgroup, b"0")
            except OSError:
                pass  # the process group and the subreaper cover the workers
        answer = []
        for worker in request.workers:
            try:
                pid = os.fork()
            except OSError as error:
                answer.append(f"-{error.errno}")
                continue
            if pid == 0:
                os.close(writer)
                return worker
            answer.append(str(pid))
        os.write(writer, " ".join(answer).encode())
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4096).decode()
    os.close(reader)
    os.waitpid(between, 0)
    call("prctl", PR_SET_CHILD_SUBREAPER, 1)
    agent.send("forked " + answer)
    return None


def become(worker, request, agent_pid):
    """Makes this fork what the agent's own child would be at its exec, and Python would be after it."""
    stage = STAGE_LIMITS
    try:
        os.setpgid(0, 0)
        request.close(kept=[request.gate, *worker.descriptors])  # the others' end with the others
        # The agent opens the gate when it knows its child.
        if not os.read(request.gate, 1):
            os._exit(EXIT_FAILED)
        call("prctl", PR_SET_PDEATHSIG, SIGKILL)
        if os.getppid() != agent_pid:
            os._exit(EXIT_FAILED)
        stage = STAGE_DESCRIPTORS
        os.dup2(worker.stdin, 0)
        os.dup2(worker.stdout, 1)
        os.dup2(worker.stderr, 2)
        if worker.channel >= 0:
            os.dup2(worker.channel, CHANNEL_FD)
        request.close(kept=[worker.report])
        stage = STAGE_FORK
        set_environment(request.shared + worker.variables)
        renew_stdin()
        renew_seeds()
        os.close(worker.report)  # it runs
    except OSError as error:
        os.write(worker.report, bytes([stage, 0, 0, 0]) + error.errno.to_bytes(4, sys.byteorder))
        os._exit(EXIT_FAILED)


def set_environment(entries):
    wanted = {}
    for entry in entries:
        name, _, value = entry.partition(b"=")
        wanted.setdefault(name, value)
    current = os.environb
    for name in [name for name in current if name not in wanted]:
        del current[name]
    for name, value in wanted.items():
        if current.get(name) != value:
            current[name] = value


def renew_stdin():
    """The stream that is there belongs to the pipe that this program came from."""
    old = sys.stdin
    buffer = open(0, "rb", closefd=False)  # noqa: SIM115
    buffer.raw.name = "<stdin>"
    sys.stdin = sys.__stdin__ = type(old)(buffer, encoding=old.encoding, errors=old.errors, newline="\n")
    sys.stdin.mode = "r"


def renew_seeds():
    """`random` does so itself, at each fork."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        try:
            random.seed()
        except Exception:  # a generator of the program's own, which it seeds
            pass


def rename(command):
    """Makes `ps` show the worker's own command line: the agent gave this process one of the same length."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end = int(fields[45]), int(fields[46])
        line = b"".join(os.fsencode(word) + b"\0" for word in command)[: end - begin]
        with open("/proc/self/mem", "r+b", buffering=0) as file:
            file.seek(begin)
            file.write(line + b"\0" * (end - begin - len(line)))
    except (OSError, ValueError, IndexError):
        pass  # it keeps this process's


def serve():
    """Returns in a worker only: the program that it is to run."""
    agent = Agent()
    texts, _ = agent.receive()
    agent_pid, has_channel = int(next(texts)), next(texts) == b"1"
    command = [os.fsdecode(word) for word in take_list(texts)]
    program = Program([os.fsdecode(word) for word in take_list(texts)], command)
    modules = [os.fsdecode(word) for word in take_list(texts)]
    if has_channel:
        os.dup2(1, CHANNEL_FD, inheritable=False)  # keeps the number for the worker's
    else:
        os.close(CHANNEL_FD)
    if os.getppid() != agent_pid:
        call("prctl", PR_SET_PDEATHSIG, SIGKILL)  # there is a wrapper between us, whose end is ours
    call("prctl", PR_SET_CHILD_SUBREAPER, 1)  # keeps what an import starts from the agent's sweeps
    began = time.monotonic()
    try:
        if sys.flags.inspect:
            raise Unfit("Python is to go on interactively (PYTHONINSPECT)")
        program.set_up()
        is_scanned = modules == ["auto"]
        # All that is imported stays: to look for garbage among it is a fifteenth of the time.
        thresholds = gc.get_threshold()
        gc.set_threshold(0)
        modules = preload(agent, scan(program) if is_scanned else modules, is_scanned)
        if gc.get_threshold()[0] == 0:  # else a module has its own
            gc.set_threshold(*thresholds)
    except Unfit as why:
        flush()
        agent.send(f"cold {why}")
        os._exit(0)
    flush()
    gc.freeze()
    agent.send(f"warm {int(1000 * (time.monotonic() - began))} {' '.join(modules)}")
    while True:
        message = agent.receive()
        if message is None:
            os._exit(0)
        request = Request(*message)
        worker = fork_workers(agent, request)
        if worker is not None:
            become(worker, request, agent_pid)
            rename(command)
            return program
        request.close()


# --- The program itself, without a frame of ours in its tracebacks


def code_of(program):
    if program.kind == "-c":
        source = program.name
        if sys.version_info >= (3, 14):
            import textwrap

            source = textwrap.dedent(source)
        code = compile(source, "<string>", "exec", dont_inherit=True)
        if sys.version_info >= (3, 13):
            import linecache

            linecache._register_code(code, source, "<string>")
        return code
    try:
        with open(program.path, "rb") as file:
            content = file.read()
    except OSError as error:
        sys.stderr.write(
            f"{program.command[0]}: can't open file {program.path!r}: [Errno {error.errno}] {error.strerror}\n"
        )
        sys.exit(2)
    if program.path.endswith(".pyc"):
        return sys.modules["marshal"].loads(content[16:])
    return compile(content, program.path, "exec", dont_inherit=True)


def show_without_us(error):
    """Lets the interpreter end as it does after an uncaught exception, with the traceback that it would have had."""
    hook, mine = sys.excepthook, serve.__code__.co_filename
    while error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_filename == mine:
        error.__traceback__ = error.__traceback__.tb_next
    traceback = error.__traceback__

    def show(kind, value, _):
        sys.excepthook = hook
        value.__traceback__ = sys.last_traceback = traceback
        hook(kind, value, traceback)

    sys.excepthook = show


running = serve()
try:
    if running.kind == "-m" or (running.kind == "script" and running.has_main_inside):
        import runpy

        runpy._run_module_as_main(running.name if running.kind == "-m" else "__main__", running.kind == "-m")
    else:
        exec(code_of(running), sys.modules["__main__"].__dict__)
except SystemExit:
    raise
except BaseException as uncaught:
    show_without_us(uncaught)
    raise
