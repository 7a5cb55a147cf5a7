# SPDX-License-Identifier: Apache-2.0
"""The program `hvdray serve` and the socket to it (docs/serve.md): requests out, what workers say in. Knows no pickles."""

from __future__ import annotations

import contextlib
import functools
import json
import mmap
import os
import re
import socket
import subprocess
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

from . import __version__
from ._binary import find_binary
from ._errors import HvdrayError, JobTimeout, LauncherLost, PlacementTimeout
from ._memory import mapped_of, sealed_memory
from ._messages import Bytes, head_of, parse_head
from ._output import OnChunk, Output, fill_standard_streams
from ._slots import Slots

if TYPE_CHECKING:
    from ._ray_broker import RayBroker

MAX_BLOB = 64 << 10  # of a request; what is larger becomes an object
CREDIT_STEP = 1 << 20
LARGE = 1 << 20
HOST_LOST = "HVD-E0205"  # of docs/errors.md
NO_SLOTS = ("HVD-E0208", "HVD-E0219")
TIME_UP = "HVD-E0304"
USAGE = 2  # the exit code
RESTARTS = ("HVDRAY_MAX_RESTARTS",)  # of jobs; a call is not begun twice
ELASTIC = ("HVDRAY_MIN_NP", "HVDRAY_MAX_NP", "HVDRAY_HOST_DISCOVERY_SCRIPT")  # of jobs; a call says so itself

Ranks = Union[Sequence[int], str]
_FILE = re.compile(r"/dev/fd/\d+(?::1:(\d+)|[0-9:]*)")  # of the options, one line; nobody knows it by that name
_FLAG = re.compile(r"(?<![\w-])(?:--([a-z][a-z0-9-]*[a-z0-9])|-(np)\b)(?: (openssh)\b)?")
_OF_OPTIONS = re.compile(r"options\['(\w+)'\]")
# Parameters that are named otherwise than their option: of Executor and Pool.
PARAMETERS = {
    "np": "num_workers",
    "num_proc": "num_workers",
    "min_np": "min_workers",
    "max_np": "max_workers",
    "num_slots": "num_workers_per_host",
    "cpus_per_slot": "cpus_per_worker",
    "gpus_per_slot": "gpus_per_worker",
    "cwd": "working_dir",
}

OnData = Callable[[int, Any, Any], None]  # worker (the rank, if none is replaced), data, blob
OnReport = Callable[[int, dict[str, Any]], None]  # rank, metrics


class Gang:
    """Its fields change under the launcher's condition."""

    def __init__(
        self, number: int, on_data: OnData, on_report: Optional[OnReport] = None, parameters: Mapping[str, str] = PARAMETERS
    ):
        self.number = number
        self.parameters = parameters
        self.on_data = on_data  # called under the condition
        self.on_report = on_report  # so is this
        self.workers: list[dict[str, Any]] = []  # once it is ready, by rank
        self.verdict: Optional[dict[str, Any]] = None  # once it has ended
        self.refusal: Optional[HvdrayError] = None  # it has not started
        self.lacking: Optional[HvdrayError] = None  # an object; it will end
        self.is_given_up = False  # it will end
        self.pieces: dict[int, tuple[Any, Any]] = {}  # by worker: of a message that is not yet whole
        self.exited: dict[int, dict[str, Any]] = {}  # by rank: the event of its end
        self.numbers: dict[tuple[str, int], int] = {}  # by host and pid: the workers of an elastic job
        self.slots = Slots()  # of an elastic job

    @property
    def has_ended(self) -> bool:
        return self.verdict is not None or self.refusal is not None

    @property
    def why(self) -> Optional[HvdrayError]:
        """Why it can't go on, if that is no worker's doing."""
        return self.refusal or self.lacking


class Launcher:
    """One at a time may start gangs and call put(); other methods are safe from any thread."""

    def __init__(
        self,
        options: dict[str, Any],
        worker: Sequence[str],
        output: Union[str, OnChunk],
        words: Sequence[str] = (),
        broker: "Optional[RayBroker]" = None,
        parameters: Mapping[str, str] = PARAMETERS,
    ):
        """`options`: of `hvdray run`, with '_' for '-'; they travel by a pipe, so no list of processes shows them.
        `words`: further ones of `hvdray serve`. `broker`: slots come from Ray. It is closed with us, also if we can't begin.
        `parameters`: of the caller, by option. Raises HvdrayError. Workers' output goes to `self.output`."""
        self.parameters = parameters
        self.condition = threading.Condition()
        self.lost: Optional[HvdrayError] = None
        self._gang: Optional[Gang] = None
        self._writing = threading.Lock()
        self._gangs = 0
        self._objects = 0
        self._owed = 0  # credit not yet given
        self._pid = os.getpid()
        self._build = ""
        self._are_warm = True  # the hosts that have answered
        self._is_over = False  # we have said bye
        self._flushes = 0  # asked for
        self._flushed = 0  # done
        self._why_host_lost: Optional[HvdrayError] = None
        self.refused_hosts: Optional[HvdrayError] = None  # the last time
        self.is_warm: Optional[bool] = None  # once all hosts have done what warm() asks: none is cold
        self._broker = broker
        try:
            self._begin(options, worker, output, words)
        except BaseException:
            if broker is not None:
                broker.close()
            raise

    def _begin(self, options: dict[str, Any], worker: Sequence[str], output: Union[str, OnChunk], words: Sequence[str]) -> None:
        fill_standard_streams()
        binary = self._binary = find_binary()
        text = self._options = _options_text(options)
        given = {f"HVDRAY_{name.upper()}" for name in (*options, *(("np", "num_proc") if "np" in options else ()))}
        environment = {name: value for name, value in os.environ.items() if name not in given.union(RESTARTS, ELASTIC)}
        ours, theirs = socket.socketpair()
        ours.settimeout(None)  # not that of socket.setdefaulttimeout()
        options_read, options_write = os.pipe()
        passed = [options_read, theirs.fileno()]
        try:
            command = [binary, "serve", "-f", f"/dev/fd/{options_read}", "--control-fd", str(theirs.fileno()), *words]
            if self._broker is not None:
                passed.append(self._broker.theirs.fileno())
                command += ["--ray-broker-fd", str(passed[-1])]
            self._process = subprocess.Popen(
                [*command, "--", *worker],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=passed,
                env=environment,
                start_new_session=True,  # Ctrl-C is ours to act on.
            )
        except OSError as error:
            ours.close()
            os.close(options_write)
            raise HvdrayError(f"can't start {binary}: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(options_read)
            if self._broker is not None:
                self._broker.theirs.close()
        self.output = Output(self._process.stdout, self._process.stderr, output)
        self.output.on_full = functools.partial(_wake, self.condition)  # not of us: the threads of the output have it
        if self._broker is not None:
            self._broker.on_begun = self.output.release
        try:
            with open(options_write, "wb") as pipe:
                pipe.write(text)
        except BrokenPipeError:
            pass  # It has ended; we hear why.
        self._socket = ours
        self._reader = ours.makefile("rb", buffering=1 << 18)
        self._finalizer = weakref.finalize(self, _end, ours, os.getpid())
        self._finalizer.atexit = False  # Executors end in better order.
        self._write({"type": "hello", "protocol": 1, "client": f"hvdray-python {__version__}"})
        threading.Thread(target=_read, args=(weakref.ref(self), self._reader), name="hvdray", daemon=True).start()

    # ---- requests

    def start(
        self,
        env: dict[str, str],
        objects: list[int],
        data: Any,
        on_data: OnData,
        wait: Callable[[], None],
        num_workers: Optional[int] = None,
    ) -> Gang:
        """Returns once all workers have said hello, or the gang has ended. `wait`: called under the condition, until then;
        it may raise. `num_workers`: default: as many as there are slots. Raises LauncherLost."""
        gang = self.begin(env, objects, data, on_data, num_workers)
        with self.condition:
            while not (gang.workers or gang.has_ended):
                self.check()
                wait()
        return gang

    def begin(
        self,
        env: dict[str, str],
        objects: list[int],
        data: Any,
        on_data: OnData,
        num_workers: Optional[int] = None,
        on_report: Optional[OnReport] = None,
    ) -> Gang:
        """Does not wait for it."""
        with self.condition:
            self._gangs += 1
            gang = self._gang = Gang(self._gangs, on_data, on_report, self.parameters)
        start = {"type": "start", "gang": gang.number, "env": env, "objects": objects, "data": data}
        self._write(start if num_workers is None else {**start, "np": num_workers})
        return gang

    def warm(self, modules: Sequence[str], env: dict[str, str]) -> None:
        """Hosts import them now, for later gangs with this environment. Once."""
        self._write({"type": "warm", "preload": list(modules), "env": env})

    def tell_hosts(self, hosts: Sequence[str]) -> None:
        """Of an elastic job, with `--host-source control`."""
        self._write({"type": "hosts", "hosts": list(hosts)})

    def next_object(self) -> int:
        self._objects += 1
        return self._objects

    def put(self, number: int, parts: Sequence[Bytes]) -> None:
        """Bytes that each host keeps until drop(). `number`: of next_object()."""
        self.check_process()
        memory = sealed_memory(parts)
        if memory is None:
            self._write({"type": "put", "object": number}, parts)
            return
        try:
            head = head_of({"type": "put", "object": number, "memory": True})
            with contextlib.suppress(OSError), self._writing:  # the reader hears of the end too, and why
                socket.send_fds(self._socket, [head], [memory])
        finally:
            os.close(memory)

    def drop(self, number: int) -> None:
        self._write({"type": "drop", "object": number})

    def send(self, gang: Gang, to: Ranks, objects: list[int], data: Any, blob: Sequence[Bytes]) -> None:
        self._write({"type": "send", "gang": gang.number, "to": to, "objects": objects, "data": data}, blob)

    def signal(self, gang: Gang, to: Ranks, signo: int) -> None:
        self._write({"type": "signal", "gang": gang.number, "to": to, "signo": signo})

    def notify(self, gang: Gang, to: Ranks, timestamp: int) -> None:
        """Of an elastic job: hosts have changed. One that takes no notices is skipped."""
        self._write({"type": "notify", "gang": gang.number, "to": to, "timestamp": timestamp})

    def show_output(self) -> None:
        """What workers have printed before they said what has come until now, if it is shown here."""
        if not self.output.is_taken:
            return
        with self.condition:
            self._flushes += 1
            wanted = self._flushes
        self._write({"type": "flush"})
        while True:
            self.output.show()
            with self.condition:
                if self._flushed >= wanted or self.lost is not None:
                    break
                self.condition.wait(0.1)
        self.output.settle()

    def stop(self, gang: Gang, grace_s: float, interrupt: bool = False) -> None:
        self._write({"type": "stop", "gang": gang.number, "grace_s": grace_s, "interrupt": interrupt})

    def close(self) -> None:
        """Ends it, with the gang that lives; returns when nothing is left. May be called again. Not for a forked child."""
        if self.is_of_parent:
            return
        with self.condition:
            was_over, self._is_over = self._is_over, True
        if self.lost is not None:
            self._finalizer()  # It may wait for us: not every loss is its end.
        elif not was_over:
            if self._build:
                self._write({"type": "bye"})
                # The end of the stream reaches it also while it reads nothing: while an object waits for a host.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
            else:
                self._finalizer()  # It still waits for slots, and reads nothing.
        while self.output.is_shown and self._process.poll() is None:
            self.output.show()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
        self._process.wait()
        self.output.close()
        self._finalizer()
        if self._broker is not None:
            self._broker.close()

    @property
    def is_over(self) -> bool:
        """It has been closed, or is being so."""
        return self._is_over

    @property
    def is_usable(self) -> bool:
        """It can start a gang: it lives, and so do its hosts."""
        return self.lost is None and self._why_host_lost is None

    @property
    def is_up(self) -> bool:
        """It takes requests: it has slots and hosts. Until then only close() ends what it does."""
        return bool(self._build)

    @property
    def is_busy(self) -> bool:
        """A gang lives, or may live."""
        return self._gang is not None and not self._gang.has_ended

    def check(self) -> None:
        """Under the condition. Raises LauncherLost."""
        if self.lost is not None:
            raise self.lost

    @property
    def is_of_parent(self) -> bool:
        """This is a forked child: hvdray serve and the thread that reads what it says are its parent's."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Not under the condition, which a forked child may never get. Raises RuntimeError."""
        if self.is_of_parent:
            raise RuntimeError("a forked child can't wait for the workers: the call is its parent's")

    def _write(self, message: dict[str, Any], blob: Sequence[Bytes] = ()) -> None:
        if self.is_of_parent:
            return
        size = sum(len(part) for part in blob)
        head = head_of(message, size)
        if size <= MAX_BLOB:
            self._send([b"".join([head, *blob])])
            return
        # An exception, such as Ctrl-C, must not leave half a message: another thread sends it, and goes on.
        sender = threading.Thread(target=self._send, args=([head, *blob],), daemon=True)
        sender.start()
        sender.join()

    def _send(self, parts: Sequence[Bytes]) -> None:
        try:
            with self._writing:
                for part in parts:
                    self._socket.sendall(part)
        except OSError:
            pass  # The reader hears of the end too, and why.

    # ---- what comes; on the thread that reads

    def _take(self, line: bytes, reader: Any) -> bool:
        """One message. False: it is the last."""
        message, size = parse_head(line)
        kind = message["type"]
        if kind == "data":
            self._take_data(message, size, len(line), reader)
            return True
        if size:
            reader.read(size)
        with self.condition:
            self._on(kind, message)
            self.condition.notify_all()
        return bool(kind != "bye")

    def _take_data(self, message: dict[str, Any], size: int, line: int, reader: Any) -> None:
        gang, worker = self._gang, message["worker"]
        assert gang is not None and message["gang"] == gang.number
        data: Any = message.get("data")
        content: Any = b""
        if size:
            at, of = message["at"], message["of"]
            if at == 0:
                gang.pieces[worker] = (data, _memory(of))
            data, content = gang.pieces[worker]
            view = memoryview(content)[at : at + size] if content is not None else memoryview(bytearray(size))
            done = 0
            while done < size:
                count = reader.readinto(view[done:])
                if not count:
                    raise EOFError
                done += count
            if at + size < of:
                return self._owe(line + size)
            del gang.pieces[worker]
        if isinstance(data, dict) and "memory" in data:
            content = mapped_of(gang.workers[worker]["pid"], data["memory"])
            self.send(gang, [worker], [], {"call": 0, "do": "resend" if content is None else "release"}, [])
            if content is None:
                return self._owe(line + size)
        with self.condition:
            gang.on_data(worker, data, content)
            self.condition.notify_all()
        self._owe(line + size)

    def _owe(self, size: int) -> None:
        self._owed += size
        if self._owed >= CREDIT_STEP:
            self._send([head_of({"type": "credit", "bytes": self._owed})])
            self._owed = 0

    def _on(self, kind: str, message: dict[str, Any]) -> None:
        gang = self._gang
        if kind == "event":
            if message["event"] == "host_lost" and self._why_host_lost is None:
                self._why_host_lost = error_of(message["error"], self.parameters)
            elif message["event"] == "worker_exited" and gang is not None and message["exit_code"] == 0:
                gang.exited[message["rank"]] = message  # No failure of a job; others are told with the gang's end.
            elif message["event"] == "worker_started" and gang is not None and "worker" in message:
                gang.numbers[message["host"], message["pid"]] = message["worker"]
            if gang is not None and not gang.has_ended:
                gang.slots.on_event(message)
        elif kind == "hello":
            self.output.release()
            self._build = message["build"]
            words = self._build.split()
            if len(words) < 2 or words[1] != __version__:
                self._lose(HvdrayError(f"the program is {self._build}, and this package is hvdray {__version__}",
                                       hint="install both in the same version, or set HVDRAY_BINARY"))
        elif kind == "ready" and gang is not None and message["gang"] == gang.number:
            gang.workers = message["workers"]
        elif kind == "stopped" and gang is not None and message["gang"] == gang.number:
            gang.verdict = message
        elif kind == "report" and gang is not None and message["gang"] == gang.number:
            if gang.on_report is not None:
                gang.on_report(message["rank"], message["metrics"])
        elif kind == "flushed":
            self._flushed += 1
        elif kind == "warmed":
            self._are_warm = self._are_warm and message["is_warm"]
            if message["left"] == 0:
                self.is_warm = self._are_warm
        elif kind == "refused":
            error = error_of(message, self.parameters)
            if error.code == HOST_LOST and self._why_host_lost is not None:
                error = self._why_host_lost
            if message["about"] == "start" and gang is not None and not gang.has_ended:
                gang.refusal = error
            elif message["about"] == "warm":
                self.is_warm = False
            elif message["about"] == "hosts":
                self.refused_hosts = error
            elif message["about"] == "put" and gang is not None and not gang.has_ended:
                gang.lacking = error
            elif message["about"] is None:
                self._lose(error)

    def _on_end(self) -> None:
        """The socket has ended."""
        code = self._process.wait()
        self.output.drain()
        with self.condition:
            if self.lost is None and not self._is_over:
                said = self.output.last_lines()
                if code == USAGE and not self._build:
                    self._lose(_refusal_of(said, self._options, self.parameters))
                else:
                    who = "hvdray serve" if self._build else f"{self._binary} serve"
                    self._lose(LauncherLost(f"{who} has ended: {_how(code)}" + (f"; it said: {said}" if said else "")))
            self.condition.notify_all()

    def _on_nonsense(self, error: Exception) -> None:
        with self.condition:
            self._lose(LauncherLost(f"can't follow what hvdray serve says: {error!r}"))
            self.condition.notify_all()
        self._finalizer()

    def _lose(self, error: HvdrayError) -> None:
        if self._broker is not None and self._broker.failure:
            error = HvdrayError(f"Ray has failed: {self._broker.failure}", code=error.code)
        if self.lost is None:
            self.lost = error


def _read(weak: "weakref.ref[Launcher]", reader: Any) -> None:
    with reader:  # The socket is open as long as it is.
        _follow(weak, reader)


def _follow(weak: "weakref.ref[Launcher]", reader: Any) -> None:
    try:
        while True:
            line = reader.readline()  # A launcher that nobody uses any more ends meanwhile.
            launcher = weak()
            if launcher is None or not line.endswith(b"\n") or not launcher._take(line, reader):
                break
            del launcher
    except (OSError, EOFError):
        pass
    except Exception as error:  # Whoever waits must hear of it.
        launcher = weak()
        if launcher is not None:
            launcher._on_nonsense(error)
        return
    launcher = weak()
    if launcher is not None:
        launcher._on_end()


def _end(sock: socket.socket, pid: int) -> None:
    """serve ends with its socket."""
    if os.getpid() != pid:
        return  # A forked child's copy; the connection is its parent's.
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


def _memory(size: int) -> Any:
    """None: there is not so much."""
    try:
        # Private: what a forked child writes into it is the child's.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return mmap.mmap(-1, size, flags=flags) if size >= LARGE else bytearray(size)
    except (OSError, MemoryError, OverflowError, ValueError):
        return None


def _options_text(options: dict[str, Any]) -> bytes:
    """Raises TypeError and ValueError."""
    if options.get("max_restarts") not in (None, 0) and options.get("elastic_mode") != "gang":
        raise ValueError("max_restarts: new workers would not know of the call; restart() begins anew")
    try:
        return json.dumps(options, ensure_ascii=False, default=os.fspath).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise TypeError(f"options can't be written as JSON: {error}") from None


def _wake(condition: threading.Condition) -> None:
    with condition:
        condition.notify_all()


def _refusal_of(said: str, options: bytes, parameters: Mapping[str, str]) -> HvdrayError:
    """Of what serve prints if it refuses its options: a message, maybe a code, maybe a hint."""

    def name(place: "re.Match[str]") -> str:
        before = options[: int(place[1]) - 1].decode(errors="replace") if place[1] else ""
        key = re.search(r'"(\w+)": $', before)
        return f"options[{key[1]!r}]" if key else "options"

    said = _FILE.sub(name, said).replace("hvdray serve: ", "", 1)
    message, _, hint = said.partition("\n  hint: ")
    found = re.fullmatch(r"(.*) \[(HVD-E\d{4})\]", message, re.DOTALL)
    message, code = found.groups() if found else (message, "")
    return HvdrayError(in_python(message, parameters), code=code, hint=in_python(hint, parameters))


def in_python(text: str, parameters: Mapping[str, str] = PARAMETERS) -> str:
    """With parameters where serve names flags and files of options."""

    def parameter(flag: "re.Match[str]") -> str:
        option = (flag[1] or flag[2]).replace("-", "_")
        return parameters.get(option, option) + "=" + (flag[3] or "")

    text = _OF_OPTIONS.sub(lambda key: key[1] if key[1] == "hosts" else parameters.get(key[1], key[0]), _FILE.sub("options", text))
    text = text.removeprefix("hosts: ") if text.startswith("hosts: hosts: ") else text
    return _FLAG.sub(parameter, text)


def error_of(told: dict[str, Any], parameters: Mapping[str, str], report: Optional[dict[str, Any]] = None) -> HvdrayError:
    """Of what serve says, or {}."""
    code = told.get("code", "")
    kind = PlacementTimeout if code in NO_SLOTS else JobTimeout if code == TIME_UP else HvdrayError
    message, hint = (in_python(told.get(key) or otherwise, parameters) for key, otherwise in (("message", "the workers have ended"), ("hint", "")))
    return kind(message, code=code, hint=hint, report=report)


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
