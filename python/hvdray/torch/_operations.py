# SPDX-License-Identifier: Apache-2.0
"""The operations that give a handle for `poll` and `synchronize`, and those that change their tensor (`_`).

They meet by name on all ranks of a process set, in any order on each. Those of a group begin together.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Optional, Sequence, Union

import torch

from . import _device
from .._async import _core, _library
from .._async._core import Handle, Operation
from ._requests import (
    Adasum, Average, Pair, Sum, begin, begin_allreduce, begin_bare, count_on, counted, name_of, op_number, splits_of,
)
from .process_sets import ProcessSet, global_process_set

# Newer torch warns of what it doesn't check, unless it is told not to.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
Tensors = Sequence[torch.Tensor]
Splits = Union[torch.Tensor, Sequence[int], None]


def poll(handle: int) -> bool:
    """Whether the operation has ended, so that `synchronize` won't wait."""
    return _core.poll(handle)


def synchronize(handle: Union[int, Callable[[], Any]]) -> Any:
    """Waits for the operation; its result. Each handle once."""
    return handle() if callable(handle) else _core.wait(handle)


def op_of(op: Optional[int], average: Optional[bool]) -> int:
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
    return Average if average else Sum


def _reduce(
    kind: str, name: Optional[str], pairs: Sequence[Pair], op: int, prescale: float, postscale: float,
    process_set: ProcessSet,
) -> Handle:
    if op == Adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    if kind == "allreduce":
        return begin_allreduce(*pairs[0], name, op, prescale, postscale, process_set)
    number = _library.ALLREDUCE if kind == "grouped_allreduce" else _library.REDUCESCATTER
    return begin(number, name_of(kind, name), pairs, process_set, kind.startswith("grouped"), op=op_number(op),
                 prescale=prescale, postscale=postscale)


def _like(tensor: Any) -> Any:
    """Uninitialized. What isn't a tensor is refused where all are checked."""
    return torch.empty_like(tensor, requires_grad=False) if isinstance(tensor, torch.Tensor) else tensor


def allreduce_async(
    tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> Handle:
    """Reduces the ranks' tensors of one shape and type; every rank gets the result. Average is the default."""
    pairs = [(tensor, _like(tensor))]
    return _reduce("allreduce", name, pairs, op_of(op, average), prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> Handle:
    pairs = [(tensor, tensor)]
    return _reduce("allreduce", name, pairs, op_of(op, average), prescale_factor, postscale_factor, process_set)


def allreduce_(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """As allreduce_async_, and waits."""
    return synchronize(allreduce_async_(tensor, *args, **kwargs))


def grouped_allreduce_async(
    tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> Handle:
    pairs = [(tensor, _like(tensor)) for tensor in tensors]
    return _reduce("grouped_allreduce", name, pairs, op_of(op, average), prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async_(
    tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> Handle:
    pairs = [(tensor, tensor) for tensor in tensors]
    return _reduce("grouped_allreduce", name, pairs, op_of(op, average), prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(tensors: Tensors, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """As grouped_allreduce_async_, and waits."""
    return synchronize(grouped_allreduce_async_(tensors, *args, **kwargs))


def sparse_allreduce_async(
    tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Of sparse tensors (COO), Sum or Average: what it returns waits, and gives the result."""
    wire = name_of("allreduce", name)  # so that it meets a dense one: they differ, which all ranks are told
    parts = [(tensor._indices().t().contiguous(), None), (tensor._values().contiguous(), None)]
    handle = begin(_library.ALLGATHER, [wire, f"sparse_{wire}"], parts, process_set, True)

    def finish() -> torch.Tensor:
        all_indices, all_values = synchronize(handle)
        if op == Average:
            all_values = all_values / (process_set.size() or 1)
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size(), **_UNCHECKED)

    return finish


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Joins the ranks' tensors along the first dimension, in which alone they may differ."""
    return begin(_library.ALLGATHER, name_of("allgather", name), [(tensor, None)], process_set)


def grouped_allgather_async(
    tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    pairs = [(tensor, None) for tensor in tensors]
    return begin(_library.ALLGATHER, name_of("grouped_allgather", name), pairs, process_set, True)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """root's tensor, for every rank. root_rank counts among all ranks, also in a process set."""
    pairs = [(tensor, _like(tensor))]
    return begin(_library.BROADCAST, name_of("broadcast", name), pairs, process_set, root=root_rank)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    return begin(_library.BROADCAST, name_of("broadcast", name), [(tensor, tensor)], process_set, root=root_rank)


def broadcast_(tensor: torch.Tensor, root_rank: int, *args: Any, **kwargs: Any) -> torch.Tensor:
    """As broadcast_async_, and waits."""
    return synchronize(broadcast_async_(tensor, root_rank, *args, **kwargs))


def alltoall_async(
    tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Sends splits[i] rows to the i-th rank of the set, equally many without splits. Result: what arrived, in the order
    of ranks, and how many rows from each."""
    fields = {}
    if splits is not None:
        rows = splits_of(splits)
        fields = {"splits": rows, "split_count": len(rows)}

    def finish(operation: Operation, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = _core.result_of(operation.handles[0])
        received = torch.tensor(result.received_splits[: result.received_split_count], dtype=torch.int32)
        return output, received.to(splits) if isinstance(splits, torch.Tensor) else received

    return begin(_library.ALLTOALL, name_of("alltoall", name), [(tensor, None)], process_set, False, finish, **fields)


def reducescatter_async(
    tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> Handle:
    """Reduces, and gives each rank its part of the first dimension; the first ranks get a row more where it doesn't
    divide."""
    return _reduce("reducescatter", name, [(tensor, None)], op, prescale_factor, postscale_factor, process_set)


def grouped_reducescatter_async(
    tensors: Tensors, name: Optional[str] = None, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> Handle:
    pairs = [(tensor, None) for tensor in tensors]
    return _reduce("grouped_reducescatter", name, pairs, op, prescale_factor, postscale_factor, process_set)


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all say so: the others' allreduces go on with zeros of it.
    The rank that came last."""
    ended = synchronize(begin_bare(_library.JOIN, global_process_set, lambda one: _core.result_of(one.handles[0]),
                                   lambda request: _device.join(request, device), sequence=counted()))
    count_on(ended.sequence)
    return int(ended.last_rank)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank of the set is here."""
    synchronize(begin_bare(_library.BARRIER, process_set, lambda _: None))
