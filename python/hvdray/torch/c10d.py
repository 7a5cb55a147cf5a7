# SPDX-License-Identifier: Apache-2.0
"""The backend "hvdray" of torch.distributed, which importing this registers: DDP and its like on CPUs. docs/torch.md."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _requests, basics
from .._async import _core, _library
from .._async._core import Operation
from ._work import Work
from .process_sets import ProcessSet

# Operations of a group meet by their number. So few names, again and again, that soon all ranks know each request.
_NAMES = 32
# By torch's name the library's number.
_OPS = {"SUM": 0, "AVG": 1, "MIN": 2, "MAX": 3, "PRODUCT": 4}

Tensors = Sequence[torch.Tensor]
_groups: set[_Group] = set()  # torch may hold what is C++'s of them alone


def _find_base() -> Any:
    """A Backend, where torch lets Python write one: functional collectives take it. Else a whole ProcessGroup."""
    try:
        c10d.Backend(0, 1)
    except (AttributeError, TypeError):
        return c10d.ProcessGroup
    return c10d.Backend


class _Group(_find_base()):  # type: ignore[misc]
    """All ranks of the job, or a process set. Ranks in arguments count within it."""

    # Those that a Backend in Python leaves to C++ ask each other for ever (torch 2.15).
    supports_coalescing = supports_splitting = supports_shrinking = supports_reconfigure = supports_window = False
    _supports_time_estimate, options = False, None

    def __init__(self, options: Any, process_set: ProcessSet, is_owner: bool) -> None:
        super().__init__(options.group_rank, options.group_size)
        self._count = 0
        self._name = f"c10d.{options.group_id}"
        self._place, self._members = options.group_rank, options.group_size
        self._set, self._ranks = process_set, process_set.ranks or []
        self._timeout = options.timeout
        self._is_owner = is_owner  # of the library's life
        # By the number of its name. Older torches don't keep what is Python's of a work that C++ holds.
        self._works: dict[int, Work] = {}

    def getBackendName(self) -> str:
        return "hvdray"

    def shutdown(self) -> None:
        _groups.discard(self)
        if self._is_owner:
            basics.shutdown()

    abort = shutdown

    def _begin(
        self, kind: int, pairs: Sequence[_requests.Pair], tensors: Tensors, finish: Callable[[list[Any]], None],
        check: Callable[[Operation], None] = lambda _: None, **fields: Any,
    ) -> Work:
        """`finish` puts the results into the `tensors` that torch wants them in."""

        def end(operation: Operation, result: Any) -> None:
            check(operation)
            with torch.no_grad():
                finish(result if len(pairs) > 1 else [result])

        return self._start(kind, tensors, lambda name: _requests.begin(kind, name, pairs, self._set, len(pairs) > 1, end, **fields))

    def _start(self, kind: int, tensors: Tensors, begin: Callable[[str], int]) -> Work:
        number = self._count % _NAMES
        if number in self._works:
            self._works[number].settle()
        handle = begin(f"{self._name}.{number}")
        what = f"{_library.NAMES[kind]} {self._count} of group {self._name.partition('.')[2]}"
        self._works[number] = work = Work(what, handle, tensors, self._timeout, functools.partial(self._works.pop, number, None))
        self._count += 1
        return work

    def _in_place(self, kind: int, tensors: Tensors, **fields: Any) -> Work:
        wholes = [tensor.detach().contiguous() for tensor in tensors]

        def finish(_: Any) -> None:
            for tensor, whole in zip(tensors, wholes):
                if not tensor.is_contiguous():
                    tensor.copy_(whole)

        return self._begin(kind, [(whole, whole) for whole in wholes], tensors, finish, **fields)

    def allreduce(self, tensors: Tensors, opts: Any = c10d.AllreduceOptions()) -> Work:
        return self._in_place(_library.ALLREDUCE, tensors, op=_op_of(opts))

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self._in_place(_library.BROADCAST, tensors, root=self._ranks[opts.rootRank])

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        """An allreduce, of which others than root drop the result."""
        if opts.rootRank == self._place:
            return self.allreduce(tensors, opts)
        copies = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]
        return self._in_place(_library.ALLREDUCE, copies, op=_op_of(opts))

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """A row of each rank, one after the other into the tensors of `outputs`."""
        pairs: list[_requests.Pair] = [(_flat(tensor).reshape(1, -1), None) for tensor in inputs]
        for tensor, places in zip(inputs, outputs):
            if sum(_sizes(places)) != tensor.numel() * self._members:
                raise ValueError("hvdray: the outputs have to take the tensors of all ranks")
        return self._begin(_library.ALLGATHER, pairs, [place for places in outputs for place in places],
                           lambda results: _fill_all(outputs, results))

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        return self.allgather([[output]], [tensor])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self.allgather([[output] for output in outputs], inputs)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        return self.reduce_scatter_single_coalesced(outputs, [torch.cat([_flat(part) for part in parts]) for parts in inputs],
                                                    opts)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Work:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        for output, tensor in zip(outputs, inputs):
            if output.numel() * self._members != tensor.numel():
                raise ValueError("hvdray: the input has to be as large as the outputs of all ranks")
        pairs: list[_requests.Pair] = [(_flat(tensor).reshape(self._members, -1), None) for tensor in inputs]
        return self._begin(_library.REDUCESCATTER, pairs, outputs,
                           lambda results: _fill_all([[output] for output in outputs], results), op=_op_of(opts))

    def all_to_all_single(
        self, output: torch.Tensor, tensor: torch.Tensor, output_splits: Optional[Sequence[int]] = None,
        input_splits: Optional[Sequence[int]] = None, opts: Any = None,
    ) -> Work:
        send = self._elements(tensor, input_splits)
        return self._exchange([output], _flat(tensor), send, self._elements(output, output_splits))

    def _elements(self, tensor: torch.Tensor, splits: Optional[Sequence[int]]) -> list[int]:
        """How many go to, or come from, each rank: `splits` are rows, none: all alike."""
        if not splits:
            if tensor.numel() % self._members != 0:
                raise ValueError(f"hvdray: {tensor.numel()} elements can't be split among {self._members} ranks")
            return [tensor.numel() // self._members] * self._members
        row = tensor.numel() // max(tensor.shape[0], 1)
        if len(splits) != self._members or sum(splits) != tensor.shape[0]:
            raise ValueError(f"hvdray: splits {list(splits)} of {tensor.shape[0]} rows among {self._members} ranks")
        return [rows * row for rows in splits]

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        whole = torch.cat([_flat(tensor) for tensor in inputs])
        return self._exchange(outputs, whole, _sizes(inputs), _sizes(outputs))

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        is_root = opts.rootRank == self._place
        places = outputs[0] if is_root else []
        send = [inputs[0].numel() if rank == opts.rootRank else 0 for rank in range(self._members)]
        return self._exchange(places, _flat(inputs[0]), send, _sizes(places) or [0] * self._members)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        parts = inputs[0] if opts.rootRank == self._place else []
        whole = torch.cat([_flat(part) for part in parts]) if parts else outputs[0].new_empty(0)
        expect = [outputs[0].numel() if rank == opts.rootRank else 0 for rank in range(self._members)]
        return self._exchange(outputs, whole, _sizes(parts) or [0] * self._members, expect)

    def _exchange(self, outputs: Tensors, tensor: torch.Tensor, send: list[int], expect: list[int]) -> Work:
        """`send` elements of `tensor` to each rank, `expect` from each, into `outputs`, one after the other."""
        splits = _requests.splits_of(send)

        def check(operation: Operation) -> None:
            result = _core.result_of(operation.handles[0])
            received = result.received_splits[: result.received_split_count]
            if received != expect:
                raise ValueError(f"hvdray: {expect} elements are expected of the ranks, and {received} came")

        return self._begin(_library.ALLTOALL, [(tensor, None)], outputs, lambda results: _fill_all([outputs], results),
                           check, splits=splits, split_count=len(send))

    def barrier(self, opts: Any = None) -> Work:
        return self._start(_library.BARRIER, [], lambda name: _requests.begin_bare(_library.BARRIER, self._set, lambda _: None, name=name.encode()))

    def send(self, *_: Any) -> None:
        raise RuntimeError('hvdray does not support sending from one rank to another: use a group with backend="gloo"')

    recv = recv_anysource = send

    # What torches before 2.15 call them.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1)


def _sizes(tensors: Tensors) -> list[int]:
    return [tensor.numel() for tensor in tensors]


def _fill_all(outputs: Sequence[Tensors], results: Tensors) -> None:
    for places, result in zip(outputs, results):
        parts = result.reshape(-1).split(_sizes(places)) if places else ()
        for place, part in zip(places, parts):
            place.copy_(part.view(place.shape))


def _op_of(opts: Any) -> int:
    for name, number in _OPS.items():
        if opts.reduceOp == getattr(dist.ReduceOp, name):
            return number
    raise ValueError(f"hvdray: of the reductions there are {', '.join(_OPS)}, not {getattr(opts.reduceOp, 'op', opts.reduceOp)}")


def _create(options: Any, _: Any = None) -> _Group:
    is_owner = not _core.is_initialized()
    if is_owner:
        basics.init()
    ranks = list(options.global_ranks_in_group)
    if not ranks and (options.group_rank, options.group_size) != (_core.rank(), _core.size()):
        raise ValueError(
            f"hvdray: this is rank {_core.rank()} of {_core.size()} in the job, and the group wants it as rank "
            f"{options.group_rank} of {options.group_size}: all ranks have to be in it"
        )
    group = _Group(options, _set_of(ranks), is_owner and not ranks)
    _groups.add(group)
    return group


def _set_of(ranks: list[int]) -> ProcessSet:
    for number in _core.process_sets():
        if not ranks or _core.ranks_of(number) == ranks:
            process_set = ProcessSet(_core.ranks_of(number))
            process_set.process_set_id = number
            return process_set
    raise NotImplementedError(
        f"hvdray: a group of the ranks {ranks} needs a process set, which all ranks have added before by "
        f'hvdray.torch.add_process_set({ranks}). Or make it with backend="gloo"'
    )


def register() -> None:
    """Once; importing does it."""
    if not hasattr(dist.Backend, "HVDRAY"):
        takes = inspect.signature(dist.Backend.register_backend).parameters
        devices = {"devices": ["cpu"]} if "devices" in takes else {}
        dist.Backend.register_backend("hvdray", _create, extended_api=True, **devices)


register()
