# SPDX-License-Identifier: Apache-2.0
"""A worker: takes calls from its channel, one after the other, and answers. docs/python.md, "What a worker is".

One thread: nothing is read while a function runs, so functions may fork; a child that leaves its function ends there. A call
is a `data` message with `call`, a number, and `do`; its payload is the message's blob, or the object that it names. An answer has the same number; with `ok`: true its
payload is the result, else `error` tells what happened, and the payload, if there is one, is the exception. After the call
`once` the worker ends, with exit code 1 if the function raised.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import io
import mmap
import os
import platform
import re
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from json import dumps as to_json
from os import close, getpid
from types import FrameType
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence

from . import __version__, _worker_path
from ._errors import OtherPython, SerializationError
from ._interpreter import Handlers, SignalCopies, complain, flush_streams, identity_of, settle_streams
from ._memory import LEAST, MOST, place, sealed_memory
from ._messages import LOST, ChannelReader, head_of
from ._payload import Payload, dumps, loads

current: "Optional[Worker]" = None  # this process is one
_first_folder = ""  # where it was started
MAX_TEXT = 32 << 10  # characters, of a message or a traceback
NOBODY = -1  # no pid
MAX_MODULES = 256  # of the message `warm`
NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")  # as hvdray takes it
KIT = ("hvdray", "cloudpickle")
KEPT_OUT = (*KIT, "mpi4py", "__main__")  # the import of mpi4py joins an MPI job


def main(channel: socket.socket) -> NoReturn:
    """`channel`: without the first message, which was the kit."""
    sys.argv = [""]
    atexit.register(channel.close)  # the last of all, as it is the first here
    for name in [name for name in sys.modules if name.partition(".")[0] == "cloudpickle"]:
        del sys.modules[name]  # A fork may have another one than the kit.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    global current, _first_folder
    with contextlib.suppress(OSError):  # It may be gone.
        _first_folder = os.getcwd()
    worker = current = Worker(channel)
    os.register_at_fork(after_in_child=worker.disown)
    signal.signal(signal.SIGINT, worker.on_interrupt)
    worker.say({"type": "hello", "protocol": 1, "client": f"hvdray-python {__version__}", "python": platform.python_version()})
    code = 0
    try:
        code = worker.serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # The agent has gone; the kernel ends us too.
    except BaseException as error:  # A signal handler may fork between two calls.
        worker.end_child(None if worker.is_disowned(error) else error)
        raise
    finally:
        settle_streams()
    if worker.leaves_at_once:
        leave(code)
    raise SystemExit(code)


def leave(code: int) -> NoReturn:
    """As sys.exit(), but the interpreter does not take itself apart, which may take longer than a forked worker has lived."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        flush_streams()
    finally:
        os._exit(code)


def push(send: Callable[[memoryview], int], views: Sequence[memoryview], sent: "list[int]") -> None:
    """Sends what `sent` lacks. A handler that raises leaves `sent` true: none runs between a send and its entry there, both in C."""
    at = sum(sent)
    for view in views:
        while at < len(view):
            sent.extend(map(send, (view[at:],)))
            at += sent[-1]
        at -= len(view)


class Worker:
    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._send = channel.send  # as it is now: a function may replace the class's
        self._block = functools.partial(channel.setblocking, True)
        self._reader = ChannelReader(channel)
        self._objects: dict[int, tuple[int, int]] = {}  # number: descriptor, size
        self._executable: Any = None
        self.leaves_at_once = False
        self._is_seen = False  # by the caller: it is on this machine
        self._shared: Optional[tuple[dict[str, Any], Payload, int]] = None
        self.scattered: dict[int, Any] = {}  # by key
        self._identity = identity_of(channel)
        self._modules: dict[str, Any] = {}  # the kit's, once they are all there
        self._handlers = Handlers(self.on_interrupt, self.on_raising_handler)
        self._copies = SignalCopies()
        self._pid = getpid()
        self._is_busy = False
        self._was_interrupted = False
        self._wants_json = False
        self._imports = Imports()  # by calls whose caller asks for them
        self._logging: Optional[int] = None  # the call whose caller wants what is logged
        self._running = 0  # the call
        self._saying = threading.RLock()
        self._unread: deque[tuple[dict[str, Any], bytearray]] = deque()  # came while a loop waited for an answer

    def on_interrupt(self, _signo: int, _frame: Optional[FrameType]) -> None:
        if not self._copies.is_new():
            return
        if self._is_busy:
            raise KeyboardInterrupt
        self._was_interrupted = True

    def on_raising_handler(self, error: BaseException) -> None:
        self.end_child(error)
        complain("hvdray: a signal handler has raised between two calls:\n" + _told(error)["traceback"])

    def disown(self) -> None:
        """In a forked child: the channel is its parent's, and so is what waits for the parent's end."""
        self._pid = NOBODY
        self._channel.close()
        atexit._clear()

    def is_disowned(self, error: BaseException) -> bool:
        """What a forked child that reads calls gets."""
        return self._pid == NOBODY and isinstance(error, OSError) and error.errno == errno.EBADF

    def end_child(self, error: Optional[BaseException] = None, value: Any = None) -> None:
        """Does not return in a forked child, which has left the function that it was forked in: it ends, as one of multiprocessing
        does, because the call and what follows are its parent's. By os.getpid(), for a fork that Python knows nothing of."""
        if getpid() == self._pid:
            return
        if self._pid != NOBODY:
            self.disown()
        code = 1
        try:
            if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
                code = (error.code or 0) & 0xFF
            elif isinstance(error, SystemExit):
                complain(f"{error.code}\n")
            elif error is not None:
                complain(_told(error)["traceback"])
            else:
                code = 0
                if value is not None:
                    complain(f"hvdray: a forked child has returned ({getpid()}): its value is dropped\n")
        finally:
            leave(code)

    def say(self, message: dict[str, Any], payload: Optional[Payload] = None) -> None:
        self.end_child()  # What writes an answer is in part the user's: __reduce__(), flush().
        with self._saying:  # log() may come from any thread
            if identity_of(self._channel) != self._identity:
                complain("hvdray: the function has closed the worker's channel, as os.closerange() does: nothing can be answered\n")
                self._channel.detach()  # The number may be another file's now.
                raise SystemExit(1)
            self._block()  # A function may have made all descriptors so that they don't.
            self._write([head_of(message, payload.total if payload else 0), *(payload.parts if payload else ())])

    def _write(self, parts: Sequence[Any]) -> None:
        """All of it, and then raises what a signal handler has raised meanwhile: half a message would be the channel's end."""
        views = [view.cast("B") for view in map(memoryview, parts) if view.nbytes]
        sent: list[int] = []  # by each call
        raised = None
        for _ in range(3):  # What cannot be sent fails each time.
            try:
                push(self._send, views, sent)
                break
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def log(self, value: Any) -> None:
        """To the callbacks of the call that runs. From any thread. Raises SerializationError."""
        call = self._logging
        if call is None:
            return
        if getpid() != self._pid:
            raise RuntimeError("a forked child can't log: the channel is its parent's")
        head: dict[str, Any] = {"call": call, "log": True}
        payload = _json_of(value) if self._wants_json else dumps(value, ["what is logged"])
        if payload.sizes:
            head["sizes"] = payload.sizes
        with self._undisturbed():
            self.say({"type": "data", "data": head}, payload)

    def tell(self, about: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
        """For hvdray.train, whose driver answers each. From any thread, while a call runs."""
        with self._undisturbed():
            payload = Payload([], list(parts), sum(map(len, parts)))
            self.say({"type": "data", "data": {"call": self._running, **about}}, payload)

    def hear(self) -> tuple[dict[str, Any], Any]:
        """The next answer, and what came with it. One thread at a time, while a call runs. Raises EOFError."""
        with self._undisturbed():
            while True:
                message, blob = self._reader.message()
                if message["type"] == "object":
                    self._objects[message["object"]] = (message["descriptor"], message["size"])
                elif message["type"] == "data" and message["data"]["do"] == "answer":
                    return message["data"], self._content_of(message["data"], blob)
                else:
                    self._unread.append((message, blob))

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Ctrl-C must not leave half a message."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._is_busy, self._was_interrupted = False, False
        try:
            yield
        finally:
            self._is_busy = True
        if self._was_interrupted:
            raise KeyboardInterrupt

    def serve(self) -> int:
        """Returns the exit code."""
        while True:
            message, blob = self._unread.popleft() if self._unread else self._reader.message()
            if message["type"] == "end":
                return 0
            if message["type"] == "object":
                self._objects[message["object"]] = (message["descriptor"], message["size"])
            elif message["type"] == "data":
                call = message["data"]
                if call["do"] == "answer":  # to a loop that was interrupted
                    continue
                if call["do"] == "quit":
                    return 0
                if call["do"] in ("release", "resend"):
                    self._give_up_memory(call["do"] == "resend")
                    continue
                is_good = self._answer(call, blob)
                if call["do"] == "once":
                    return 0 if is_good else 1  # The job asks how its workers ended.

    def _content_of(self, call: dict[str, Any], blob: bytearray) -> Any:
        """Writable memory of the call's own; of an object, shared with other workers until it is written to."""
        if "object" not in call:
            return blob
        descriptor, size = self._objects.pop(call["object"])
        try:
            return _mapped(descriptor, size)
        finally:
            if descriptor != LOST:
                close(descriptor)

    def _answer(self, call: dict[str, Any], blob: bytearray) -> bool:
        """False: the function has raised."""
        head: dict[str, Any] = {"call": call["call"], "ok": True}
        imports = self._imports if call.get("modules") else None
        if imports is not None:
            sys.meta_path.insert(0, imports)
        payload = None
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)  # A function may have removed it, and the kit from the path.
        self._handlers.give()
        self._is_busy = True
        self._running = call["call"]
        self._logging = call["call"] if call.get("logs") else None
        try:
            value = self._do(call, self._content_of(call, blob))  # There may be no memory for it.
            self.end_child(value=value)
            if self._wants_json:
                payload = _json_of(value)
            else:
                payload = dumps(value, ["the result"], "return something other than a {}")
        except BaseException as error:  # SystemExit too: a call must be answered.
            self.end_child(error)
            self._is_busy = False
            head.update(ok=False, error=_told(error))
            if call["do"] == "once" and head["error"]["kind"] in ("raised", "python"):
                # Where the output of a failed worker is read: the job may go on without it.
                complain(head["error"]["traceback"])
            # A caller of another Python may have sent a cloudpickle that crashes this one.
            payload = None if self._wants_json or head["error"]["kind"] == "python" else _pickled(error)
        self._is_busy = False
        self._handlers.take()
        self._modules = self._modules or {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in KIT}
        self._logging = None
        flush_streams()
        if payload is not None and payload.sizes:
            head["sizes"] = payload.sizes
        if imports is not None:
            if imports in sys.meta_path:
                sys.meta_path.remove(imports)
            head["modules"] = imports.listed()
        self._shared = self._share(head, payload)
        self.say({"type": "data", "data": head}, payload if self._shared is None else None)
        return bool(head["ok"]) or head["error"]["kind"] == "result"

    def _share(self, head: dict[str, Any], payload: Optional[Payload]) -> Optional[tuple[dict[str, Any], Payload, int]]:
        """A large answer to a caller on this machine, who takes it from our memory. None: it goes by the channel."""
        if not self._is_seen or payload is None or not LEAST <= payload.total <= MOST:
            return None
        memory = sealed_memory(payload.parts)
        if memory is None:
            return None
        shared = dict(head), payload, memory
        head["memory"] = memory
        return shared

    def _give_up_memory(self, is_needed: bool) -> None:
        """`is_needed`: the caller can't see it."""
        shared, self._shared = self._shared, None
        if shared is not None:
            head, payload, memory = shared
            close(memory)
            if is_needed:
                self._is_seen = False
                self.say({"type": "data", "data": head}, payload)

    def _do(self, call: dict[str, Any], content: Any) -> Any:
        do = call["do"]
        if do in ("begin", "once"):
            self._wants_json = call["results"] == "json"
            _take_place(call)
            self._is_seen = bool(call.get("sees")) and call["sees"] == place()
            if do == "begin":
                return None
        for key, number, sizes in call.get("scattered", ()):
            if number in self._objects:
                descriptor, size = self._objects[number]
                self.scattered[key] = loads(sizes, _mapped(descriptor, size))
                del self._objects[number]  # not before: what has failed is tried again
                close(descriptor)
        what = loads(call["sizes"], content)
        del content
        if do == "once":
            return _do_once(*what)
        if do == "run":
            function, args, kwargs = what
            return function(*args, **kwargs)
        if do == "execute":
            return what(self._executable)
        if do == "build":
            kind, args, kwargs = what
            self._executable = kind(*args, **kwargs)
            return None
        raise ValueError(f"no such call: {do}")


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    if descriptor == LOST:
        raise OSError(errno.EMFILE, "this worker could open no more files when the call came")
    return mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _do_once(function: Any, args: Any, kwargs: Any, executable: Any) -> Any:
    if executable is None:
        return function(*args, **kwargs)
    kind, its_args, its_kwargs = executable
    return function(kind(*its_args, **its_kwargs))


class Imports:
    """First among the finders of modules, finds none, and keeps the names that are asked for by code that is not installed: what
    the user's code imports, and not what that imports in turn."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        asking = frame.f_code.co_filename if frame is not None else ""
        if not (asking.startswith(_worker_path.STANDARD + os.sep) or "/site-packages/" in asking or "/dist-packages/" in asking):
            self.names.append(name)

    def listed(self) -> list[str]:
        """The installed modules that are there, those names first: what another worker of this host can import before it knows
        what for."""
        names = installed()
        rank = {name: number for number, name in enumerate(self.names)}
        return sorted(names, key=lambda name: (rank.get(name, len(self.names)), name.count(".")))[:MAX_MODULES]


def installed() -> list[str]:
    """The modules that are there, and that a fork server of this host would find too."""
    hidden: dict[str, bool] = {}
    names = []
    for name, module in list(sys.modules.items()):
        # Attributes of some modules are made when they are asked for.
        attributes = getattr(module, "__dict__", {})
        spec = attributes.get("__spec__")
        origin = getattr(spec, "origin", None)
        top = name.partition(".")[0]
        if not isinstance(origin, str) or getattr(spec, "name", None) != name or not NAME.fullmatch(name):
            continue
        if top in KEPT_OUT or not os.path.isabs(origin):
            continue
        root = origin  # the folder of the path that has it
        for _ in range(name.count(".") + (2 if "__path__" in attributes else 1)):
            root = os.path.dirname(root)
        if root in _worker_path.added or not (root in _worker_path.OWN or os.path.basename(root) in ("site-packages", "dist-packages")):
            continue
        if top not in hidden:
            # A fork server looks into the folder where it starts first, as `python -c` does.
            path = os.path.join(_first_folder, top)
            hidden[top] = os.path.exists(path) or os.path.exists(path + ".py")
        if not hidden[top]:
            names.append(name)
    return names


def _take_place(call: dict[str, Any]) -> None:
    """The driver's path, and its Python, or none."""
    theirs, mine = call["python"], list(sys.version_info[:2])
    if theirs != mine:
        raise OtherPython(
            f"this worker has Python {mine[0]}.{mine[1]} ({sys.executable}), and its caller {theirs[0]}.{theirs[1]}: functions go between equal ones only"
        )
    _worker_path.add(call)


def _told(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    about: dict[str, Any] = {"kind": "raised", "name": name, "text": _plain(_text_of(error)[:MAX_TEXT])}
    if isinstance(error, SerializationError):
        about.update(kind="result", text=_plain(error.message[:MAX_TEXT]), hint=_plain(error.hint[:MAX_TEXT]))
    elif isinstance(error, KeyboardInterrupt):
        about["kind"] = "interrupted"
    elif isinstance(error, OtherPython):
        about["kind"] = "python"
    elif isinstance(error, ModuleNotFoundError):
        about.update(module=error.name, left_out=_worker_path.left_out_with(error.name or ""))
    # From the function on: our own frames say nothing.
    frames = error.__traceback__
    ours = Worker._answer.__code__.co_filename
    while frames is not None and frames.tb_frame.f_code.co_filename == ours:
        frames = frames.tb_next
    about["traceback"] = _plain("".join(traceback.format_exception(kind, error, frames))[-MAX_TEXT:])
    return about


def _plain(text: str) -> str:
    """Without the halves of characters that names of files may have: JSON has none."""
    return text.encode("utf-8", "replace").decode()


def _json_of(value: Any) -> Payload:
    """Raises SerializationError."""
    try:
        text = to_json(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(f"the result can't be written as JSON: {error}") from error
    return Payload([], [text], len(text))


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message can't be read)"


def _pickled(error: BaseException) -> Optional[Payload]:
    """None: it can't be."""
    try:
        payload = dumps(error, ["the exception"])
        # Many a class of exceptions can be pickled, but not unpickled; here is the place to find out.
        content = bytearray(b"".join(payload.parts))
        return payload if isinstance(loads(payload.sizes, content), BaseException) else None
    except Exception:
        return None
