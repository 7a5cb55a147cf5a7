# SPDX-License-Identifier: Apache-2.0
"""Parameters, optimizers and objects of one rank for all of them."""

from __future__ import annotations

import pickle
from typing import Any, Iterable, Optional, Union

import torch

from .._async import _core
from ._differentiable import allgather
from ._operations import broadcast_, broadcast_async_, synchronize
from .process_sets import ProcessSet, global_process_set


def broadcast_parameters(params: Union[dict[str, Any], Iterable[Any]], root_rank: int) -> None:
    """Gives every rank root's tensors: a state dict, or a list of tensors or of pairs of name and tensor."""
    pairs: list[tuple[Optional[str], Any]]
    if isinstance(params, dict):
        pairs = sorted(params.items())
    elif isinstance(params, (str, bytes, torch.Tensor)) or not isinstance(params, Iterable):
        raise ValueError(f"invalid params of type: {type(params)}")
    else:
        pairs = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    started = [_start_broadcast(tensor, root_rank, name) for name, tensor in pairs if isinstance(tensor, torch.Tensor)]
    for handle, copy, tensor in started:
        synchronize(handle)
        if copy is not tensor:
            with torch.no_grad():
                tensor.copy_(copy)


def _start_broadcast(tensor: torch.Tensor, root: int, name: Optional[str]) -> tuple[int, torch.Tensor, torch.Tensor]:
    data = tensor.detach()
    copy = data if data.is_contiguous() else data.contiguous()
    return broadcast_async_(copy, root, name), copy if copy is not data else tensor, tensor


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """root's object, pickled, for every rank; root itself gets the one it gave."""
    name = name or "broadcast_object"  # not of its type: others may have None
    is_root = _core.rank() == root_rank
    data = _pickled(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    size = torch.tensor([data.numel()], dtype=torch.int64)
    broadcast_(size, root_rank, f"{name}.size", process_set)
    if not is_root:
        data = torch.empty(int(size.item()), dtype=torch.uint8)
    broadcast_(data, root_rank, f"{name}.data", process_set)
    return obj if is_root else _unpickled(data)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, in their order."""
    name = name or "allgather_object"
    data = _pickled(obj)
    sizes = allgather(torch.tensor([data.numel()], dtype=torch.int64), f"{name}.size", process_set)
    gathered = allgather(data, f"{name}.data", process_set)
    return [_unpickled(part) for part in torch.split(gathered, sizes.tolist())]


def _pickled(obj: Any) -> torch.Tensor:
    """By cloudpickle, where it is installed: it takes functions and classes of the script, too."""
    try:
        from cloudpickle import dumps
    except ImportError:
        from pickle import dumps
    return torch.frombuffer(bytearray(dumps(obj)), dtype=torch.uint8)


def _unpickled(data: torch.Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Gives every rank root's state of the optimizer: its tensors in place, the rest as one object.

    If root has none, as before the first step, all make some as Horovod does, by a step with gradients of zero, so that
    training comes to the same. `model` is not needed any more.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    if broadcast_object(not optimizer.state_dict()["state"], root_rank, "optimizer_state.fresh"):
        _step_with_zeros(optimizer)
    mine = optimizer.state_dict()
    plan = broadcast_object(_without_tensors(mine), root_rank, "optimizer_state")
    tensors: list[tuple[str, torch.Tensor]] = []
    theirs = _with_tensors(plan, mine, "state", tensors)
    broadcast_parameters(tensors, root_rank)
    if _core.rank() != root_rank:
        optimizer.load_state_dict(theirs)


def _step_with_zeros(optimizer: torch.optim.Optimizer) -> None:
    for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
            if isinstance(optimizer, torch.optim.SparseAdam):
                parameter.grad = parameter.grad.to_sparse()
    getattr(optimizer, "step_alone", optimizer.step)()


class _Place:
    """Stands for a tensor in what is pickled."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.device = tensor.device.type

    def tensor_like(self, have: Any) -> torch.Tensor:
        """The rank's own one where it fits, so that it is filled in place; else a new one."""
        if isinstance(have, torch.Tensor) and tuple(have.shape) == self.shape and have.dtype == self.dtype:
            return have
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


def _without_tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Place(value)
    if isinstance(value, dict):
        return {key: _without_tensors(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(item) for item in value)
    return value


def _with_tensors(value: Any, have: Any, path: str, found: list[tuple[str, torch.Tensor]]) -> Any:
    """`value` with a tensor for each place, which `found` lists; those of `have`, the same rank's, where they fit."""
    if isinstance(value, _Place):
        tensor = value.tensor_like(have)
        found.append((path, tensor))
        return tensor
    if isinstance(value, dict):
        own = have if isinstance(have, dict) else {}
        return {key: _with_tensors(item, own.get(key), f"{path}.{key}", found) for key, item in value.items()}
    if type(value) in (list, tuple):
        own_items = have if type(have) is type(value) and len(have) == len(value) else [None] * len(value)
        pairs = enumerate(zip(value, own_items))
        return type(value)(_with_tensors(item, own, f"{path}.{i}", found) for i, (item, own) in pairs)
    return value
