# SPDX-License-Identifier: Apache-2.0
"""Horovod's operations by those of a group of torch.distributed, in one order on all its ranks."""

from __future__ import annotations

import threading
import urllib.parse
from typing import Any, Callable, Optional, Sequence

import torch

from . import _place
from .._async import _library

try:
    from torch._C import _distributed_c10d as c10d
except ImportError:  # a torch without it
    c10d = None  # type: ignore[assignment]

# By the library's number.
DTYPES = (
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.bool,
)
_SUM, _AVERAGE, _MIN, _MAX, _PRODUCT = range(5)


class Store(getattr(c10d, "Store", object)):  # type: ignore[misc]
    """The job's rendezvous, by which the ranks of a group find each other."""

    def __init__(self, life: str, ended: threading.Event) -> None:
        super().__init__()
        self._scope, self._ended = f"hvdray_torch_device.{life}", ended

    def _path(self, key: str) -> str:
        return f"{self._scope}/{urllib.parse.quote(key, '')}"

    def set(self, key: str, value: Any) -> None:
        _place.ask("PUT", self._path(key), value if isinstance(value, bytes) else value.encode())

    def get(self, key: str) -> bytes:
        while True:
            answer = _place.ask("GET", self._path(key))
            if answer is not None:
                return answer
            if self._ended.wait(0.01):
                raise RuntimeError("the job's ranks have ended")

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        for key in keys:
            self.get(key)

    def check(self, keys: Sequence[str]) -> bool:
        return all(_place.ask("GET", self._path(key)) is not None for key in keys)


class Group:
    """A process set's."""

    def __init__(self, backend: Any, ranks: list[int], rank: int) -> None:
        self.backend, self.ranks, self.place = backend, ranks, ranks.index(rank)

    def allreduce(self, tensor: torch.Tensor, op: Any) -> torch.Tensor:
        options = c10d.AllreduceOptions()
        options.reduceOp = op
        if tensor.numel() > 0:
            self.backend.allreduce([tensor], options).wait()
        return tensor

    def broadcast(self, tensor: torch.Tensor, place: int) -> None:
        options = c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = place, 0
        if tensor.numel() > 0:
            self.backend.broadcast([_bytes(tensor)], options).wait()

    def allgather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        if output.numel() > 0:
            self.backend._allgather_base(_bytes(output), _bytes(tensor)).wait()

    def reduce_scatter(self, tensor: torch.Tensor, op: Any) -> torch.Tensor:
        output = tensor.new_empty((tensor.shape[0] // len(self.ranks), *tensor.shape[1:]))
        options = c10d.ReduceScatterOptions()
        options.reduceOp = op
        if output.numel() > 0:
            self.backend._reduce_scatter_base(output, tensor, options).wait()
        return output

    def alltoall(self, output: torch.Tensor, tensor: torch.Tensor, received: list[int], sent: list[int]) -> None:
        self.backend.alltoall_base(_bytes(output), _bytes(tensor), received, sent, c10d.AllToAllOptions()).wait()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """What is only moved, as a type that all groups know."""
    return tensor.view(-1).view(torch.uint8)


def run(group: Group, batch: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
    """A planned operation, or small allreduces that go together; the results. Inputs stay as they are."""
    first = batch[0]
    if first.kind == _library.ALLREDUCE:
        return _allreduce(group, batch, device)
    part = first.part
    act = {_library.ALLGATHER: _allgather, _library.BROADCAST: _broadcast, _library.ALLTOALL: _alltoall,
           _library.REDUCESCATTER: _reducescatter}[first.kind]  # fmt: skip
    return [act(group, first, part)]


def _reduced(planned: Any, members: int, whole: torch.Tensor, act: Callable[[torch.Tensor, Any], torch.Tensor]) -> torch.Tensor:
    """Scales around `act`, which reduces. Changes `whole`."""
    op = planned.op
    if planned.prescale != 1:
        _scale(whole, planned.prescale)
    wide = whole
    if whole.dtype == torch.bool:  # min is "and", max is "or"
        wide, op = whole.view(torch.uint8), _MIN if op in (_MIN, _PRODUCT) else _MAX
    elif whole.dtype == torch.int16:  # which NCCL doesn't have
        wide = whole.int()
    names = {_SUM: "SUM", _AVERAGE: "SUM", _MIN: "MIN", _MAX: "MAX", _PRODUCT: "PRODUCT"}
    wide = act(wide, getattr(c10d.ReduceOp, names[op]))
    if op == _AVERAGE:
        wide.div_(members, rounding_mode=None if wide.is_floating_point() else "trunc")
    result = wide.view(torch.bool) if whole.dtype == torch.bool else wide.to(whole.dtype)
    if planned.postscale != 1:
        _scale(result, planned.postscale)
    return result


def _scale(tensor: torch.Tensor, factor: float) -> None:
    if tensor.is_floating_point():
        tensor.mul_(factor)
    else:
        tensor.copy_(tensor.double().mul_(factor))  # towards zero


def _allreduce(group: Group, batch: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
    first = batch[0]
    tensors, outputs = [], []
    for planned in batch:
        part = planned.part
        tensor = torch.zeros(planned.shape, dtype=planned.dtype, device=device) if part is None else part.tensor
        tensors.append(tensor)
        outputs.append(tensor if part is None else part.output)
    if len(batch) == 1:
        whole = outputs[0]
        if whole.data_ptr() != tensors[0].data_ptr():
            whole.copy_(tensors[0])
    else:
        whole = torch.cat([tensor.view(-1) for tensor in tensors])
    result = _reduced(first, len(group.ranks), whole, group.allreduce)
    if result is not outputs[0]:
        for output, piece in zip(outputs, result.view(-1).split([output.numel() for output in outputs])):
            output.copy_(piece.view(output.shape))
    return outputs


def _broadcast(group: Group, planned: Any, part: Any) -> torch.Tensor:
    place = group.ranks.index(planned.root)
    if place == group.place and part.output.data_ptr() != part.tensor.data_ptr():
        part.output.copy_(part.tensor)
    group.broadcast(part.output, place)
    return part.output


def _empty(planned: Any, part: Any) -> torch.Tensor:
    return part.tensor.new_empty((sum(planned.rows), *planned.shape[1:]))


def _allgather(group: Group, planned: Any, part: Any) -> torch.Tensor:
    output = _empty(planned, part)
    if len(set(planned.rows)) == 1:
        group.allgather(output, part.tensor)
        return output
    for place, piece in enumerate(output.split(planned.rows)):
        if place == group.place:
            piece.copy_(part.tensor)
        group.broadcast(piece, place)
    return output


def _alltoall(group: Group, planned: Any, part: Any) -> torch.Tensor:
    output = _empty(planned, part)
    row = part.tensor.element_size()
    for length in planned.shape[1:]:
        row *= length
    sent: Optional[list[int]] = part.splits
    if sent is None:
        sent = [planned.shape[0] // len(group.ranks)] * len(group.ranks)
    if row > 0:
        group.alltoall(output, part.tensor, [rows * row for rows in planned.rows], [rows * row for rows in sent])
    return output


def _reducescatter(group: Group, planned: Any, part: Any) -> torch.Tensor:
    begin, own = sum(planned.rows[: group.place]), planned.rows[group.place]

    def scatter(whole: torch.Tensor, op: Any) -> torch.Tensor:
        if len(set(planned.rows)) == 1:
            return group.reduce_scatter(whole, op)
        return group.allreduce(whole, op).narrow(0, begin, own).clone()

    is_read_only = planned.prescale == 1 and len(set(planned.rows)) == 1
    return _reduced(planned, len(group.ranks), part.tensor if is_read_only else part.tensor.clone(), scatter)
