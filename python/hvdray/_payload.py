# SPDX-License-Identifier: Apache-2.0
"""Functions, arguments and results as bytes: a pickle (protocol 5) with its large buffers beside it, uncopied.

A payload is the pickle and then its buffers, each at the next multiple of 64; `sizes` says how long each part is. It may
lie in a message, or be mapped from an object that many workers share.
"""

from __future__ import annotations

import functools
import io
import sys
import threading
from collections import ChainMap
from pickle import PickleBuffer
from pickle import loads as _unpickle  # as it was when we came: a program may replace that of the module
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Optional, Sequence

from ._errors import HvdrayError, SerializationError
from ._messages import Bytes

ALIGNMENT = 64
SMALL = 16 << 10  # bytes of a buffer that is not worth a part of its own


class Payload(NamedTuple):
    sizes: list[int]
    parts: list[Bytes]  # padded: as they follow each other
    total: int
    scattered: Sequence[Any] = ()  # values of executors' scatter() that are meant in it


def the_cloudpickle() -> Any:
    """Imported at the first call. Raises HvdrayError."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise HvdrayError("the package cloudpickle is not installed", hint="pip install cloudpickle") from None
    return cloudpickle


class RaysReference(TypeError):
    """It names a value or an actor to processes of its own job of Ray alone, which workers are not in."""


def _pickler() -> Any:
    ray = sys.modules.get("ray")
    kinds = (getattr(ray, "ObjectRef", None), getattr(ray, "ObjectRefGenerator", None), getattr(getattr(ray, "actor", None), "ActorHandle", None))
    return _pickler_without(tuple(kind for kind in kinds if kind is not None))


@functools.lru_cache(maxsize=None)
def _pickler_without(kinds: tuple[type, ...]) -> Any:
    """cloudpickle's, which leaves code the name of its file: tracebacks of workers say where a line is, and show it where
    they find the file. cloudpickle 3.1 puts another name there."""
    cloudpickle = the_cloudpickle()
    reduce = cloudpickle.Pickler.dispatch_table[CodeType]

    def reduce_code(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
        make, args = reduce(code)
        # Bytes among them are not compared: python -bb takes that for an error.
        return make, tuple(code.co_filename if isinstance(arg, str) and arg == "<dynamic-code>" else arg for arg in args)

    def refuse(reference: Any) -> Any:
        raise RaysReference(f"an {type(reference).__name__} of Ray means nothing outside of this program's job")

    table = ChainMap({CodeType: reduce_code, **{kind: refuse for kind in kinds}}, cloudpickle.Pickler.dispatch_table)
    return type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})


def dumps(value: Any, names: Sequence[str], way_out: str = "create the {} inside the function, on each worker") -> Payload:
    """For an error: `names`, what to call the value, or the items of a tuple, and `way_out`, for an object of a class {}.
    Raises SerializationError."""
    buffers: list[PickleBuffer] = []
    scattered: list[Any] = []
    _noted.scattered = scattered

    def stays_within(buffer: PickleBuffer) -> bool:
        if buffer.raw().nbytes < SMALL:
            return True
        buffers.append(buffer)
        return False

    _ship_main()
    try:
        file = io.BytesIO()
        _pickler()(file, protocol=5, buffer_callback=stays_within).dump(value)
        parts: list[Bytes] = [file.getvalue()]
        # Raises BufferError, for what is not contiguous; nothing that NumPy gives here is.
        parts += [buffer.raw() for buffer in buffers]
    except Exception as error:
        raise _explained(value, names, error, way_out) from error
    finally:
        _noted.scattered = None
    sizes = [len(part) for part in parts]
    padded: list[Bytes] = []
    for part in parts[:-1]:
        padded.append(part)
        if len(part) % ALIGNMENT:
            padded.append(bytes(ALIGNMENT - len(part) % ALIGNMENT))
    padded.append(parts[-1])
    return Payload(sizes, padded, sum(len(part) for part in padded), scattered)


def loads(sizes: Any, content: Any) -> Any:
    """`content`: a writable buffer, which the value may go on using. Raises ValueError for sizes that do not fit it, and
    whatever unpickling raises."""
    view = memoryview(content)
    if not isinstance(sizes, list) or not sizes:
        raise ValueError("a payload has no sizes")
    parts, begin = [], 0
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(view) - begin:
            raise ValueError("the sizes of a payload do not fit it")
        parts.append(view[begin : begin + size])
        begin = min(begin + size + -size % ALIGNMENT, len(view))
    return _unpickle(parts[0], buffers=parts[1:])


_noted = threading.local()


def note_scattered(handle: Any) -> None:
    """While it is pickled. Raises TypeError elsewhere."""
    if getattr(_noted, "scattered", None) is None:
        raise TypeError("what is scattered goes with the calls of its executor only")
    if handle not in _noted.scattered:
        _noted.scattered.append(handle)


def call_each(fn: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """On a worker."""
    return [fn(*args) for args in calls]


def ship(module: ModuleType) -> None:
    """From now on, what is defined in `module` goes to workers by value: they need no copy of its file."""
    the_cloudpickle().register_pickle_by_value(module)


def _ship_main() -> None:
    """The program's main module under another name: __mp_main__ in a process that multiprocessing has spawned."""
    main = sys.modules.get("__main__")
    name = getattr(main, "__name__", "__main__")
    if name != "__main__" and sys.modules.get(name) is main:
        the_cloudpickle().register_pickle_by_value(main)


# ---- what can't be pickled, and where it is


def _explained(value: Any, names: Sequence[str], error: Exception, way_out: str) -> SerializationError:
    values = [value] if len(names) == 1 else list(value)
    failed = [(part, name, why) for part, name in zip(values, names) if (why := _error_of(part)) is not None]
    part, name, why = failed[0] if failed else (value, " ".join(names), error)
    path, culprit, why = _blame(part, name, why, depth=0, seen=set())
    if isinstance(why, RaysReference):
        way_out = "pass the value: ray.get() it first" if type(culprit).__name__ == "ObjectRef" else "name the actor, and ray.get_actor() it there"
    return SerializationError(f"{path} can't be pickled: {why}", hint=way_out.format(type(culprit).__name__))


def _blame(value: Any, name: str, error: Exception, depth: int, seen: set[int]) -> tuple[str, Any, Exception]:
    """Descends to the deepest part that can't be pickled either."""
    seen.add(id(value))
    if depth < 16:
        for part_name, part in _parts_of(value, name):
            if id(part) in seen:
                continue
            part_error = _error_of(part)
            if part_error is not None:
                return _blame(part, part_name, part_error, depth + 1, seen)
    return name, value, error


def _error_of(value: Any) -> Optional[Exception]:
    try:
        _pickler()(io.BytesIO(), protocol=5, buffer_callback=lambda _: None).dump(value)
    except Exception as error:
        return error
    return None


def _parts_of(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        return _parts_of_function(value, name)
    if isinstance(value, dict):
        return [(f"{name}[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"{name}[{index}]", part) for index, part in enumerate(value)]
    bound = getattr(value, "__self__", None)
    if bound is not None and not isinstance(bound, ModuleType):
        return [(f"{name}.__self__", bound)]
    if isinstance(value, type):
        return [(f"{name}.{key}", part) for key, part in vars(value).items() if not key.startswith("__") or key == "__init__"]
    return [(f"{name}.{key}", part) for key, part in getattr(value, "__dict__", {}).items()]


def _parts_of_function(function: FunctionType, name: str) -> list[tuple[str, Any]]:
    parts = []
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            parts.append((f"{name}.__closure__[{key!r}]", cell.cell_contents))
        except ValueError:  # not yet set
            pass
    for key in function.__code__.co_names:
        if key in function.__globals__:
            parts.append((f"{name}.__globals__[{key!r}]", function.__globals__[key]))
    parts += [(f"{name}.__defaults__[{i}]", part) for i, part in enumerate(function.__defaults__ or ())]
    parts += [(f"{name}.__kwdefaults__[{key!r}]", part) for key, part in (function.__kwdefaults__ or {}).items()]
    return parts
