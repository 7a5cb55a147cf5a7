# SPDX-License-Identifier: Apache-2.0
"""The operations that wait and give a new tensor, with their gradients: Horovod's, averages where it averages."""

from __future__ import annotations

from typing import Any, Optional, Type

import torch
from torch.autograd import Function

from . import _operations
from .._async import _core
from .compression import Compression, Compressor
from ._operations import Splits, Tensors, op_of, synchronize
from ._requests import Average, Sum
from .process_sets import ProcessSet, global_process_set

Compressors = Type[Compressor]


def _needs_gradient(*tensors: Any) -> bool:
    """Without, nothing has to be recorded, which takes as long as a small operation."""
    return torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors)


def _run(is_group: bool, kind: str, name: Optional[str], options: dict[str, Any], tensors: Tensors) -> Any:
    start = getattr(_operations, f"grouped_{kind}_async" if is_group else f"{kind}_async")
    result = synchronize(start(tensors if is_group else tensors[0], name=name, **options))
    return tuple(result) if is_group else result


def _apply(
    function: Any, is_group: bool, kind: str, name: Optional[str], options: dict[str, Any], tensors: Tensors
) -> list[torch.Tensor]:
    if _needs_gradient(*tensors):
        result = function.apply(is_group, name, options, *tensors)
    else:
        result = _run(is_group, kind, name, options, tensors)
    return list(result) if is_group else [result]


class _Allreduce(Function):
    """One tensor or a group."""

    @staticmethod
    def forward(ctx: Any, is_group: bool, name: Optional[str], options: dict[str, Any], *tensors: torch.Tensor) -> Any:
        ctx.is_group, ctx.options = is_group, options
        return _run(is_group, "allreduce", name, options, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        whole = [gradient.contiguous() for gradient in gradients]
        return None, None, None, *_apply(_Allreduce, ctx.is_group, "allreduce", None, ctx.options, whole)


def allreduce(
    tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
    compression: Compressors = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    options = _options(op_of(op, average), prescale_factor, postscale_factor, process_set)
    small, ctx = compression.compress(tensor)
    return compression.decompress(_apply(_Allreduce, False, "allreduce", name, options, [small])[0], ctx)


def grouped_allreduce(
    tensors: Tensors, average: Optional[bool] = None, name: Optional[str] = None,
    compression: Compressors = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    options = _options(op_of(op, average), prescale_factor, postscale_factor, process_set)
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = _apply(_Allreduce, True, "allreduce", name, options, [small for small, _ in pairs])
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, pairs)]


def _options(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> dict[str, Any]:
    return {"op": op, "prescale_factor": prescale, "postscale_factor": postscale, "process_set": process_set}


class _Allgather(Function):
    """One tensor or a group."""

    @staticmethod
    def forward(ctx: Any, is_group: bool, name: Optional[str], options: dict[str, Any], *tensors: torch.Tensor) -> Any:
        ctx.rows, ctx.members = [len(tensor.shape) and tensor.shape[0] for tensor in tensors], options["process_set"]
        return _run(is_group, "allgather", name, options, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        averaged = grouped_allreduce([gradient.contiguous() for gradient in gradients], process_set=ctx.members)
        rows = allgather(torch.tensor([ctx.rows], dtype=torch.int64), process_set=ctx.members)
        before = rows[: ctx.members.rank()].sum(0).tolist()
        own = zip(averaged, before, ctx.rows)
        return None, None, None, *(gradient.narrow(0, start, count) for gradient, start, count in own)


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    return _apply(_Allgather, False, "allgather", name, {"process_set": process_set}, [tensor])[0]


def grouped_allgather(
    tensors: Tensors, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    return _apply(_Allgather, True, "allgather", name, {"process_set": process_set}, tensors)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet) -> Any:
        ctx.root, ctx.process_set = root, process_set
        return synchronize(_operations.broadcast_async(tensor, root, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        averaged = allreduce(gradient.contiguous(), process_set=ctx.process_set)
        return averaged if _core.rank() == ctx.root else torch.zeros_like(averaged), None, None, None


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if _needs_gradient(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return synchronize(_operations.broadcast_async(tensor, root_rank, name, process_set))


class _Alltoall(Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
        output, received = synchronize(_operations.alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        own, _ = alltoall(gradient.contiguous(), ctx.received, process_set=ctx.process_set)
        return own, None, None, None


def alltoall(
    tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """What arrived; with splits given, a pair of that and how many rows came from each rank."""
    if _needs_gradient(tensor):
        output, received = _Alltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = synchronize(_operations.alltoall_async(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


class _Reducescatter(Function):
    """One tensor or a group."""

    @staticmethod
    def forward(ctx: Any, is_group: bool, name: Optional[str], options: dict[str, Any], *tensors: torch.Tensor) -> Any:
        ctx.is_group, ctx.options = is_group, options
        return _run(is_group, "reducescatter", name, options, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        members: ProcessSet = ctx.options["process_set"]
        factor = ctx.options["prescale_factor"] * ctx.options["postscale_factor"]
        if ctx.options["op"] == Sum:
            factor *= members.size()
        scaled = [(gradient * factor).contiguous() for gradient in gradients]
        gathered = _apply(_Allgather, ctx.is_group, "allgather", None, {"process_set": members}, scaled)
        return None, None, None, *gathered


def reducescatter(
    tensor: torch.Tensor, name: Optional[str] = None, compression: Compressors = Compression.none, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> torch.Tensor:
    options = _options(op, prescale_factor, postscale_factor, process_set)
    small, ctx = compression.compress(tensor)
    return compression.decompress(_apply(_Reducescatter, False, "reducescatter", name, options, [small])[0], ctx)


def grouped_reducescatter(
    tensors: Tensors, name: Optional[str] = None, compression: Compressors = Compression.none, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    options = _options(op, prescale_factor, postscale_factor, process_set)
    pairs = [compression.compress(tensor) for tensor in tensors]
    reduced = _apply(_Reducescatter, True, "reducescatter", name, options, [small for small, _ in pairs])
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, pairs)]
