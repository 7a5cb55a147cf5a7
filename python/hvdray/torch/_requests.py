# SPDX-License-Identifier: Apache-2.0
"""From tensors to requests of the library."""

from __future__ import annotations

import collections
import ctypes
import itertools
import weakref
from typing import Any, Callable, Optional, Sequence, Union

import torch

from . import _device
from .._async import _core, _library
from .._async._core import Handle, Operation
from .._async._library import Request
from ._collectives import DTYPES
from .process_sets import ProcessSet

# Horovod's numbers: scripts print and compare them. Beside each the library's.
Average, Sum, Adasum, Min, Max, Product = range(6)
_OPS = {Average: 1, Sum: 0, Adasum: 100, Min: 2, Max: 3, Product: 4}
_TYPES = {dtype: number for number, dtype in enumerate(DTYPES)}

_MOST_ROWS = 1 << 63
Pair = tuple[torch.Tensor, Optional[torch.Tensor]]  # what goes; where the result goes, None: it is made
_next_unnamed: dict[str, int] = collections.defaultdict(int)  # by kind
_least_unnamed = 0


def name_of(kind: str, name: Optional[str]) -> str:
    """Operations of different kinds may have the same name; those without one count."""
    if name is None:
        number = max(_next_unnamed[kind], _least_unnamed)
        _next_unnamed[kind] = number + 1
        name = f"noname.{number}"
    return f"{kind}.{name}"


def counted() -> int:
    """How many operations without a name there were, of the kind that had the most."""
    return max(_next_unnamed.values(), default=0)


def count_on(number: int) -> None:
    """As all ranks do after a join, since some have done more operations than others. 0: after init()."""
    global _least_unnamed
    _least_unnamed = number
    _next_unnamed.clear()


def check(tensor: Any) -> int:
    """The type's number. Raises for what no operation can take."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a tensor is wanted, not {type(tensor).__name__}")
    number = _TYPES.get(tensor.dtype)
    if number is None or tensor.layout is not torch.strided or tensor.device.type == "meta":
        what = f"{tensor.dtype} ({tensor.layout}, {tensor.device.type})"
        raise ValueError(f"Tensor type {what} is not supported.")
    if not tensor.is_contiguous():
        raise ValueError("Tensor is required to be contiguous.")
    return number


def op_number(op: int) -> int:
    try:
        return _OPS[op]
    except (KeyError, TypeError):
        raise ValueError(f"op: {op!r} is none of Average, Sum, Adasum, Min, Max, Product") from None


def splits_of(splits: Union[torch.Tensor, Sequence[int]]) -> Any:
    values = splits.tolist() if isinstance(splits, torch.Tensor) else list(splits)
    if any(type(value) is not int or not -_MOST_ROWS <= value < _MOST_ROWS for value in values):
        raise ValueError(f"splits are whole numbers, rows for each rank, not {values}")
    return (ctypes.c_int64 * len(values))(*values)


class _Memory:
    """What an operation reads or changes, which lives as long as this, also when the tensor gets other memory."""

    __slots__ = ("alias", "tensor", "place")

    def __init__(self, tensor: torch.Tensor, in_place: Optional[torch.Tensor]) -> None:
        self.alias = tensor.detach()
        self.tensor = self.alias if in_place is None else in_place
        self.place = self.alias.data_ptr()

    def check(self, request: Request) -> None:
        """Raises when the result is not in the tensor. resize_() has even freed the memory, which nothing can prevent."""
        if self.tensor.data_ptr() != self.place or self.alias.data_ptr() != self.place:
            raise ValueError(f"{request.name.decode()}: the tensor was resized, or got other memory, while the operation "
                             "was in flight")


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.device.type == "cpu" else tensor.detach().cpu()


class _Outputs:
    """Where the results of an operation or group go."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.hosts: list[Any] = []  # the same, or a copy of what another device has
        self.later: dict[int, tuple[int, torch.dtype, torch.device]] = {}  # by context

    def add(self, request: Request, tensor: torch.Tensor, host: torch.Tensor, output: Optional[torch.Tensor]) -> None:
        if output is not None:
            self.hosts.append(host if output is tensor else _on_host(output))
            request.output = self.hosts[-1].data_ptr()
        else:
            self.hosts.append(None)
            request.context = context = next(_contexts)
            request.allocate = _allocate
            self.later[context] = (len(self.results), tensor.dtype, tensor.device)
            _by_context[context] = self
        self.results.append(output)

    def allocate(self, context: int, shape: tuple[int, ...]) -> int:
        index, dtype, device = self.later[context]
        self.hosts[index] = host = torch.empty(shape, dtype=dtype)
        self.results[index] = host if device.type == "cpu" else torch.empty(shape, dtype=dtype, device=device)
        return host.data_ptr()

    def take(self, index: int) -> torch.Tensor:
        result, host = self.results[index], self.hosts[index]
        if isinstance(host, _device.Part):
            return host.output if result is None else result
        if result is not host:
            with torch.no_grad():
                result.copy_(host)
        return result


_by_context: weakref.WeakValueDictionary[int, _Outputs] = weakref.WeakValueDictionary()
_contexts = itertools.count(1)


@_library.ALLOCATE
def _allocate(context: int, shape: Any, dimensions: int) -> Optional[int]:
    """Called from the library's thread. What it raises is printed, and the operation fails for lack of memory."""
    return _by_context[context].allocate(context, tuple(shape[:dimensions])) or None


def begin(
    kind: int, name: Union[str, Sequence[str]], pairs: Sequence[Pair], process_set: ProcessSet, is_group: bool = False,
    finish: Optional[Callable[[Operation, Any], Any]] = None, **fields: Any,
) -> Handle:
    """Begins an operation, or a group of them, whose result is a list. `finish` makes another result of it.

    A name of a group is that of its tensors with their places in it, so that groups of different lengths meet.
    """
    if not pairs:
        raise ValueError("a group of no tensors")
    requests = (Request * len(pairs))()
    memory, outputs = [], _Outputs()
    parts: list[_device.Part] = []
    event = None
    for index, (tensor, output) in enumerate(pairs):
        request = requests[index]
        request.type = check(tensor)
        request.name = (name[index] if not isinstance(name, str) else f"{name}.{index}" if is_group else name).encode()
        request.dimensions = tensor.dim()
        request.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        if _device.takes(tensor):
            event = event or _device.ready(tensor)
            memory.append(_Memory(tensor, tensor if output is tensor else None))
            parts.append(_device.add(request, _id_of(process_set), tensor, output, fields.get("splits"), event))
            outputs.hosts.append(parts[-1])
            outputs.results.append(output)
            continue
        host = _on_host(tensor)
        memory.append(_Memory(host, tensor if output is tensor is host else None))
        request.input = memory[-1].place
        outputs.add(request, tensor, host, output)
    _fill(requests, kind, process_set, fields)

    def end(operation: Operation) -> Any:
        for request, each in zip(requests, memory):
            each.check(request)
        result = [outputs.take(index) for index in range(len(pairs))] if is_group else outputs.take(0)
        return result if finish is None else finish(operation, result)

    return _core.submit(requests, len(pairs), Operation(end, (memory, outputs), parts))


def begin_bare(
    kind: int, process_set: ProcessSet, finish: Callable[[Operation], Any],
    prepare: Callable[[Request], Any] = lambda _: None, **fields: Any,
) -> Handle:
    """Begins an operation without a tensor. What `prepare` returns is kept."""
    requests = (Request * 1)()
    kept = prepare(requests[0])
    _fill(requests, kind, process_set, fields)
    return _core.submit(requests, 1, Operation(finish, kept))


def _id_of(process_set: ProcessSet) -> int:
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered, or has been removed")
    return process_set.process_set_id


def _fill(requests: Any, kind: int, process_set: ProcessSet, fields: dict[str, Any]) -> None:
    number = _id_of(process_set)
    for request in requests:
        request.kind = kind
        request.process_set = number
        request.device = 0 if request.run else -1
        request.prescale = request.postscale = 1.0
        for field, value in fields.items():
            try:
                setattr(request, field, value)
            except OverflowError as error:
                raise ValueError(f"{field}: {error}") from None
            if field == "root" and request.root != value:
                raise ValueError(f"root_rank: there is no rank {value}")


def is_plain(tensor: torch.Tensor) -> bool:
    """In the host's memory, and reduced there."""
    return tensor.is_cpu and not _device.takes(tensor)


class Repeated:
    """An allreduce that comes again each step: only where its tensors lie changes."""

    def __init__(self, tensor: torch.Tensor, name: str, process_set: ProcessSet, **fields: Any) -> None:
        self._requests = (Request * 1)()
        self._request = self._requests[0]
        self._request.name = name.encode()
        self._request.type = check(tensor)
        self._request.dimensions = tensor.dim()
        self._request.shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        _fill(self._requests, _library.ALLREDUCE, process_set, fields)
        self._shape, self._dtype = tensor.shape, tensor.dtype

    def fits(self, tensor: Any) -> bool:
        return (isinstance(tensor, torch.Tensor) and tensor.dtype is self._dtype and tensor.shape == self._shape
                and tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous())

    def begin(self, tensor: torch.Tensor, output: torch.Tensor) -> Handle:
        """Both fit."""
        with _core.lock:  # another thread's would be sent instead
            memory = _Memory(tensor, tensor if output is tensor else None)
            self._request.input = memory.place
            self._request.output = memory.place if output is tensor else output.data_ptr()
            return _core.submit(self._requests, 1, Operation(self._end, (memory, output)))

    def _end(self, operation: Operation) -> Any:
        memory, output = operation.kept
        memory.check(self._request)
        return output


_repeated: dict[tuple[Any, ...], Repeated] = {}
_MOST_REPEATED = 4096


def begin_allreduce(
    tensor: torch.Tensor, output: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """Of one tensor. What is asked for again by its name costs half."""
    number = op_number(op)
    key = (name, number, prescale, postscale, process_set.process_set_id)
    repeated = _repeated.get(key)
    if repeated is not None and repeated.fits(tensor) and repeated.fits(output):
        return repeated.begin(tensor, output)
    whole_name = name_of("allreduce", name)
    fields = {"op": number, "prescale": prescale, "postscale": postscale}
    if not isinstance(tensor, torch.Tensor) or not is_plain(tensor):
        return begin(_library.ALLREDUCE, whole_name, [(tensor, output)], process_set, **fields)
    repeated = Repeated(tensor, whole_name, process_set, **fields)
    if name is not None:
        if len(_repeated) == _MOST_REPEATED:
            _repeated.clear()
        _repeated[key] = repeated
    return repeated.begin(tensor, output)
