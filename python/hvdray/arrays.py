# SPDX-License-Identifier: Apache-2.0
"""All-reduce, broadcast and all-gather of NumPy's arrays, and of whatever else has `__dlpack__` and lies in the host's
memory. They meet by name, with those of hvdray.torch, if the process has it. docs/torch.md."""

from __future__ import annotations

import atexit
import ctypes
import math
import struct
from typing import Any, Callable, Optional

from ._async import _core, _library
from ._async._core import Operation
from ._async._core import is_initialized as is_initialized
from ._async._core import rank as rank
from ._async._core import size as size
from ._async._errors import HorovodInternalError as HorovodInternalError
from ._async._errors import MismatchError as MismatchError

_OPS = {"sum": 0, "average": 1, "min": 2, "max": 3, "product": 4}
# By DLPack's code (signed, unsigned, float, bfloat, bool) and bits; NumPy's name, where it has one, for results.
_TYPES = {
    (0, 8): (0, "int8"), (0, 16): (1, "int16"), (0, 32): (2, "int32"), (0, 64): (3, "int64"), (1, 8): (4, "uint8"),
    (2, 16): (5, "float16"), (4, 16): (6, None), (2, 32): (7, "float32"), (2, 64): (8, "float64"), (6, 8): (9, "bool"),
}
_HOST = (1, 3)  # DLPack's devices: memory, and memory that is pinned
# DLTensor: data, device, its number, dimensions, code, bits, lanes, shape, strides, offset. Newer ones come after a version,
# context, deleter and flags, of which the first bit says "read-only".
_TENSOR, _HEAD = struct.Struct("PiiiBBHPPQ"), struct.Struct("IIPPQ")

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _export(array: Any) -> Any:
    """A capsule, which frees what it has when it goes."""
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"an array with __dlpack__ is wanted, as NumPy's, not {type(array).__name__}")
    try:
        try:
            return array.__dlpack__(max_version=(1, 0))
        except TypeError:  # of before DLPack 1.0
            return array.__dlpack__()
    except Exception as error:
        raise ValueError(f"the array can't be lent by DLPack: {error}") from error


def _is_contiguous(shape: list[int], strides: list[int]) -> bool:
    steps = [math.prod(shape[index + 1 :]) for index in range(len(shape))]
    return 0 in shape or all(length == 1 or step == stride for length, step, stride in zip(shape, steps, strides))


class _Lent:
    """Where an array's elements lie, and what they are."""

    def __init__(self, array: Any, is_output: bool) -> None:
        self.capsule = _export(array)
        flags, name = 0, b"dltensor_versioned"
        if _is_valid(self.capsule, name):
            pointer = _pointer_of(self.capsule, name)
            flags = _HEAD.unpack(ctypes.string_at(pointer, _HEAD.size))[-1]
            pointer += _HEAD.size
        else:
            pointer = _pointer_of(self.capsule, b"dltensor")
        data, device, _, dimensions, code, bits, lanes, shape, strides, offset = _TENSOR.unpack(
            ctypes.string_at(pointer, _TENSOR.size)
        )
        self.pointer = data + offset
        self.shape = (ctypes.c_int64 * dimensions)(*(ctypes.c_int64 * dimensions).from_address(shape or pointer))
        if lanes != 1 or (code, bits) not in _TYPES:
            raise ValueError(f"arrays of this type (DLPack's {code} of {bits} bits) are not supported")
        self.type, self.type_name = _TYPES[code, bits]
        if device not in _HOST:
            raise ValueError(f"the array is not in the host's memory, but on device {device} of DLPack")
        if strides and not _is_contiguous(list(self.shape), list((ctypes.c_int64 * dimensions).from_address(strides))):
            raise ValueError("the array has to be contiguous, row by row")
        is_constant = type(array).__module__.partition(".")[0] in ("jax", "jaxlib")  # whose capsules don't say so
        if is_output and (flags & 1 or is_constant):
            raise ValueError("the array is read-only, and the result would go there")


def _run(kind: int, array: _Lent, name: str, kept: Any, at_end: Callable[[Any], Any], **fields: Any) -> Any:
    """One operation, from begin to end."""
    request = _library.Request(kind=kind, type=array.type, device=-1, prescale=1.0, postscale=1.0, **fields)
    request.name, request.dimensions, request.shape = name.encode(), len(array.shape), array.shape
    request.input = array.pointer
    return _core.wait(_core.submit(ctypes.byref(request), 1, Operation(at_end, (array, kept))))


def _named(kind: str, name: Optional[str]) -> str:
    return f"arrays.{kind}.{name}" if name else f"arrays.{kind}"


def init() -> None:
    """Meets the other ranks of the job, unless this process already has."""
    if not _core.is_initialized():
        _core.start()
        atexit.register(shutdown)


def shutdown() -> None:
    """Leaves. Operations in flight end with HorovodInternalError on every rank."""
    _core.stop()


def allreduce(array: Any, op: str = "average", name: Optional[str] = None) -> Any:
    """Reduces the ranks' arrays, of one shape and type, in place: "sum", "average", "min", "max" or "product"."""
    if op not in _OPS:
        raise ValueError(f"op: {op!r} is none of {', '.join(_OPS)}")
    lent = _Lent(array, True)
    return _run(_library.ALLREDUCE, lent, _named("allreduce", name), array, lambda _: array, op=_OPS[op], output=lent.pointer)


def broadcast(array: Any, root: int = 0, name: Optional[str] = None) -> Any:
    """root's values, into every rank's array."""
    lent = _Lent(array, True)
    return _run(_library.BROADCAST, lent, _named("broadcast", name), array, lambda _: array, root=root, output=lent.pointer)


def allgather(array: Any, name: Optional[str] = None) -> Any:
    """The ranks' arrays, one after the other along the first dimension, in which alone they may differ: NumPy's."""
    import numpy

    lent, made = _Lent(array, False), []
    if lent.type_name is None:
        raise ValueError("NumPy has no bfloat16 for the result")

    def allocate(_: Any, shape: Any, dimensions: int) -> int:
        made.append(numpy.empty(shape[:dimensions], lent.type_name))
        return int(made[0].ctypes.data)

    callback = _library.ALLOCATE(allocate)
    return _run(_library.ALLGATHER, lent, _named("allgather", name), (array, callback), lambda _: made[0], allocate=callback)


def barrier() -> None:
    """Waits until every rank is here."""
    request = _library.Request(kind=_library.BARRIER, device=-1, prescale=1.0, postscale=1.0)
    _core.wait(_core.submit(ctypes.byref(request), 1, Operation(lambda _: None, None)))
