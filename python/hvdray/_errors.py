# SPDX-License-Identifier: Apache-2.0
"""What calls raise. A function's own exception is the `__cause__` of a WorkerError, and can be caught by its class."""

from __future__ import annotations

import contextlib
import difflib
import inspect
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Optional, Sequence

LASTING = (ImportError, NameError, SyntaxError)  # Before a loop's first report, they come again in each attempt.
_MEMBERS = (GetSetDescriptorType, MemberDescriptorType)


def nearest(word: str, words: Sequence[str]) -> str:
    """A part of a message, or nothing."""
    close = difflib.get_close_matches(word, words, 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


class HvdrayError(RuntimeError):
    """`code`: of docs/errors.md, or "". `hint`: what to do. `report`: the gang's verdict, keys of docs/report.md."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", report: Optional[dict[str, Any]] = None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.report = report

    def __str__(self) -> str:
        code = f" [{self.code}]" if self.code else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.message}{code}{hint}"

    def __reduce__(self) -> Any:
        return _remake, (type(self), self.message, self.__dict__)


class LauncherLost(HvdrayError):
    """`hvdray serve` has ended without being told to."""


class PlacementTimeout(HvdrayError, TimeoutError):
    """There are no slots for the workers, or were none in time."""


class JobTimeout(HvdrayError, TimeoutError):
    """The time of `options`, for the whole job, is up."""


class SerializationError(HvdrayError):
    """A function, argument or result can't be pickled; the message has the path to what can't."""


class OtherPython(RuntimeError):
    """On a worker: its Python is of another minor version than its caller's."""


class StateLost(HvdrayError):
    """The workers have ended, and with them the objects that they kept; restart() makes new ones."""


class WorkerError(HvdrayError):
    """A function raised on a worker."""

    rank = -1
    host = ""
    pid = 0
    traceback = ""  # of the worker
    outcomes: list[Any] = []  # by rank: a value, an exception, or None without an answer


class WorkerDied(WorkerError):
    """A worker ended during a call, or before it."""

    exit_code = 0
    signal: Optional[str] = None  # "SIGKILL"
    oom = False  # the kernel killed it, because memory was used up
    last_stderr: list[str] = []  # lines


class WorkerTraceback(Exception):
    """Not raised: the cause of a function's exception, which has no traceback here, so that what prints it shows the worker's."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _remake(kind: type[HvdrayError], message: str, state: dict[str, Any]) -> HvdrayError:
    error = kind(message)
    error.__dict__.update(state)
    return error


def with_class_of(cause: BaseException, message: str) -> WorkerError:
    """A WorkerError that `except type(cause)` catches too, where the two classes combine."""
    error = _combined(cause, message) if isinstance(cause, Exception) else None
    if error is None:
        error = WorkerError(message)
    error.__cause__ = cause
    return error


def show_traceback(error: WorkerError) -> None:
    """From now on, whatever prints the error prints the worker's traceback first."""
    if error.__cause__ is not None and error.traceback:
        error.__cause__.__cause__ = WorkerTraceback(error.traceback)


def _combined(cause: Exception, message: str) -> Optional[WorkerError]:
    kind = type(cause)
    try:
        # An ExceptionGroup has a message that can't be set.
        members = {"__reduce__": _reduce, "__module__": __name__, "message": ""}
        both = type(f"WorkerError({kind.__name__})", (WorkerError, kind), members)
        # MemoryError's own makes none but itself.
        make = BaseException.__new__ if isinstance(cause, MemoryError) else kind.__new__
        error: WorkerError = make(both, *cause.args)
        HvdrayError.__init__(error, message)
        error.args = cause.args
        for name in dir(kind):  # what C code keeps, such as errno and filename
            if not name.startswith("_") and name not in error.__dict__ and isinstance(inspect.getattr_static(kind, name), _MEMBERS):
                with contextlib.suppress(AttributeError, TypeError):
                    setattr(error, name, getattr(cause, name))
        error.__dict__.update({k: v for k, v in cause.__dict__.items() if k not in error.__dict__})
        return error
    except Exception:  # Classes with another layout, or a __new__ of their own.
        return None


def _reduce(error: WorkerError) -> Any:
    return _recombine, (error.__cause__, error.message, error.__dict__)


def _recombine(cause: BaseException, message: str, state: dict[str, Any]) -> WorkerError:
    error = with_class_of(cause, message)
    error.__dict__.update(state)
    show_traceback(error)
    return error
