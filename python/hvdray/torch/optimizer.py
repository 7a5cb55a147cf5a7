# SPDX-License-Identifier: Apache-2.0
"""An optimizer that reduces gradients over all ranks while the backward pass still computes."""

from __future__ import annotations

import sys
import types
import warnings
import weakref
import zlib
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Type, Union

import torch
from torch.autograd.function import BackwardCFunction

from . import _place
from .._async import _core
from .compression import CastCompressor, Compression, Compressor
from .functions import broadcast_object
from ._operations import allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async, synchronize
from .._async._core import Handle
from .._async._errors import MismatchError
from ._requests import Adasum, Average, Repeated, is_plain, name_of, op_number
from .process_sets import ProcessSet, global_process_set

_IN_FUNCTION = getattr(BackwardCFunction.apply, "__code__", None)


def _is_nested() -> bool:
    """Whether a hook runs in a backward pass within another's: what reentrant checkpointing makes. The gradient may not be
    complete then."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    while frame is not None:
        if frame.f_code is _IN_FUNCTION:
            return True
        frame = frame.f_back
    return False


class _Gradient:
    """A parameter's gradient, from one step to the next."""

    __slots__ = ("parameter", "name", "group", "passes_left", "is_ready", "is_sparse", "sent", "request")

    def __init__(self, parameter: torch.Tensor, name: str) -> None:
        self.parameter = parameter
        self.name = name
        self.group: Optional[_Group] = None
        self.passes_left = 1
        self.is_ready = False  # for its group
        self.is_sparse = False  # on some rank, as far as is known
        self.request: Optional[Repeated] = None
        self.sent: Optional[tuple[Any, torch.Tensor, Any]] = None  # handle, what travels, the compressor's context

    def is_left_out(self) -> bool:
        """Its parameter was frozen: zeros would have momentum and weight decay move it."""
        return self.parameter.grad is None and not self.parameter.requires_grad

    def whole(self) -> torch.Tensor:
        if self.parameter.grad is None:
            self.parameter.grad = torch.zeros_like(self.parameter)
        if self.is_sparse and not self.parameter.grad.is_sparse:
            self.parameter.grad = self.parameter.grad.to_sparse(1)
        return self.parameter.grad


class _Group:
    """Gradients that are reduced as one operation."""

    def __init__(self, members: list[_Gradient]) -> None:
        self.members = members
        for member in members:
            member.group = self


class _Distributed:
    """Comes before the user's class of optimizer in the order of methods."""

    param_groups: list[dict[str, Any]]

    def _hvd_begin(
        self, named: Optional[Iterable[tuple[str, Any]]], compression: Type[Compressor], passes: int, op: int,
        predivide: float, groups: Any, sparse_as_dense: bool, process_set: ProcessSet,
    ) -> None:
        self._compression = compression
        self.backward_passes_per_step = passes
        self.op = op
        self.gradient_predivide_factor = predivide
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._gradients: dict[torch.Tensor, _Gradient] = {}
        self._nodes: list[Any] = []
        self._groups = groups
        self._synchronized = False
        self._should_synchronize = True
        self._is_eager = False  # until a step has shown that no backward pass is nested
        self._was_nested = False
        self._fired = False
        self._frozen: list[tuple[torch.Tensor, str]] = []  # parameters and their names; until they need a gradient
        self._parameter_names = names = _names_of(self.param_groups, named)
        _check_groups(groups)
        self._reduces = process_set.included() and (_core.size() > 1 or _place.is_elastic())
        if not self._reduces:
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                self._adopt(parameter, names[parameter])
        if groups is not None:
            self._make_groups(groups)

    def _adopt(self, parameter: torch.Tensor, name: str) -> None:
        if not parameter.requires_grad:
            self._frozen.append((parameter, name))
        if not parameter.requires_grad or parameter in self._gradients:
            return
        gradient = self._gradients[parameter] = _Gradient(parameter, name)
        gradient.passes_left = self.backward_passes_per_step
        owner = weakref.ref(self)  # a parameter often outlives its optimizers

        def hook(*_: Any) -> None:
            optimizer = owner()
            if optimizer is not None:
                optimizer._on_gradient(gradient)

        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            weakref.finalize(self, parameter.register_post_accumulate_grad_hook(hook).remove)
        else:  # torch < 2.1: the node that accumulates has hooks, and lives as long as somebody has it
            function: Any = parameter.expand_as(parameter).grad_fn
            node = function.next_functions[0][0]
            node.register_hook(hook)
            self._nodes.append(node)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if self.__dict__.get("_reduces"):
            for parameter, name in _unnamed(len(self.param_groups) - 1, self.param_groups[-1]["params"]):
                self._adopt(parameter, name)

    def _make_groups(self, groups: Union[int, list[list[torch.Tensor]]]) -> None:
        if isinstance(groups, list):
            for tensors in groups:
                members = [self._gradients[tensor] for tensor in tensors if tensor in self._gradients]
                if members:
                    _Group(members)
        elif groups > 0:
            # All ranks cut the list at the same places, also if their lists are not in the same order.
            order = broadcast_object([g.name for g in self._gradients.values()], process_set=self.process_set,
                                     root_rank=min(self.process_set.ranks or [0]))
            places = {name: place for place, name in enumerate(order)}
            ordered = sorted(self._gradients.values(), key=lambda gradient: places[gradient.name])
            size, more = divmod(len(ordered), groups)
            cuts = [index * size + min(index, more) for index in range(groups + 1)]
            for begin, end in zip(cuts, cuts[1:]):
                if begin < end:
                    _Group(ordered[begin:end])

    def _on_gradient(self, gradient: _Gradient) -> None:
        self._fired = True
        if _is_nested():
            self._was_nested = True
            self._is_eager = False
            if gradient.sent is None:
                return
        if gradient.passes_left <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
                "backward_passes_per_step to accumulate gradients locally."
            )
        gradient.passes_left -= 1
        if gradient.passes_left == 0 and self._is_eager:
            self._send(gradient)

    def _send(self, gradient: _Gradient) -> None:
        group = gradient.group
        if group is None:
            self._send_one(gradient)
            return
        gradient.is_ready = True
        if all(member.is_ready or member.is_left_out() for member in group.members):
            self._send_group(group)

    def _send_one(self, gradient: _Gradient) -> None:
        tensor = gradient.whole()
        if tensor.is_sparse:
            if not self.sparse_as_dense:
                gradient.is_sparse = True
                handle = sparse_allreduce_async(tensor, gradient.name, self.op, self.process_set)
                gradient.sent = (handle, tensor, None)
                return
            tensor = tensor.to_dense()
        small, context = self._compression.compress(tensor)
        small = small.contiguous()
        gradient.sent = (self._reduce(gradient, small), small, context)

    def _reduce(self, gradient: _Gradient, tensor: torch.Tensor) -> Handle:
        if not is_plain(tensor):
            return allreduce_async_(tensor, None, gradient.name, self.op, *self._factors(), self.process_set)
        if gradient.request is None or not gradient.request.fits(tensor):
            before, behind = self._factors()
            gradient.request = Repeated(tensor, name_of("allreduce", gradient.name), self.process_set,
                                        op=op_number(self.op), prescale=before, postscale=behind)
        try:
            return gradient.request.begin(tensor, tensor)
        except ValueError as error:
            if not str(error).startswith("Duplicate name"):
                raise
            raise ValueError(f"{error}. Optimizers whose gradients are in flight together need named_parameters, each with "
                             "names of its own") from None

    def _send_group(self, group: _Group) -> None:
        present = [member for member in group.members if not member.is_left_out()]
        members = [member for member in present if not member.whole().is_sparse]
        pairs = [self._compression.compress(member.whole()) for member in members]
        tensors = [small.contiguous() for small, _ in pairs]
        if tensors:
            handle = grouped_allreduce_async_(tensors, None, members[0].name, self.op, *self._factors(),
                                              self.process_set)
            for member, tensor, (_, context) in zip(members, tensors, pairs):
                member.sent = (handle, tensor, context)
        for member in present:
            member.is_ready = False
            if member.sent is None:
                self._send_one(member)

    def _factors(self) -> tuple[float, float]:
        """One half of the division before the sum, the other behind it."""
        if self.op != Average:
            return 1.0, 1.0
        return 1.0 / self.gradient_predivide_factor, self.gradient_predivide_factor

    def synchronize(self) -> None:
        """Reduces what hasn't been yet, of unused parameters zeros, and waits for all."""
        frozen, self._frozen = self._frozen, []
        for parameter, name in frozen:
            self._adopt(parameter, name)
        gradients = self._gradients.values()
        for gradient in gradients:
            if gradient.sent is None and not gradient.is_ready and not gradient.is_left_out():
                self._send(gradient)
        waited: set[Any] = set()
        for gradient in gradients:
            if gradient.sent is not None:
                self._receive(gradient, waited)
        self._is_eager = (self._is_eager or self._fired) and not self._was_nested
        self._fired = False
        self._synchronized = True

    def _receive(self, gradient: _Gradient, waited: set[Any]) -> None:
        assert gradient.sent is not None
        handle = gradient.sent[0]
        try:
            self._wait(gradient, waited)
        except MismatchError as error:
            # Some ranks' is sparse, and those that had none in this step couldn't know: once more, sparse on all.
            if "Mismatched operations" not in str(error) or handle in waited or self.sparse_as_dense:
                raise
            gradient.is_sparse = True
            self._send_one(gradient)
            self._wait(gradient, waited)

    def _wait(self, gradient: _Gradient, waited: set[Any]) -> None:
        assert gradient.sent is not None
        handle, tensor, context = gradient.sent
        gradient.sent = None
        gradient.passes_left = self.backward_passes_per_step
        if callable(handle):
            arrived = handle()  # before the gradient is touched: it may have to go once more
            with torch.no_grad():
                gradient.whole().zero_().add_(arrived)
            return
        if handle not in waited:
            if gradient.group is not None:
                waited.add(handle)
            synchronize(handle)
        own = gradient.whole()
        if own is tensor:
            return
        with torch.no_grad():
            is_cast = issubclass(self._compression, CastCompressor)
            arrived = tensor if is_cast else self._compression.decompress(tensor, context)
            if own.is_sparse:
                own.zero_().add_(arrived.to(own.dtype).to_sparse())
            else:
                own.copy_(arrived)

    def set_backward_passes_per_step(self, passes: int) -> None:
        self.backward_passes_per_step = passes
        for gradient in self._gradients.values():
            gradient.passes_left = passes

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """For a step() behind one's own synchronize(), as where gradients are clipped between the two."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Any = None) -> Any:
        if closure is not None and self._should_synchronize:
            return super().step(self._reducing(closure))
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(): the gradients are reduced a second time.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def _reducing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def reduced() -> Any:
            loss = closure()
            self.synchronize()
            self._synchronized = False
            if self._reduces and isinstance(self, torch.optim.LBFGS):
                # It decides by the loss when to end, and ranks have to end at the same.
                loss = torch.as_tensor(loss).detach().clone().contiguous()
                synchronize(allreduce_async_(loss, None, "allreduce.loss", Average, process_set=self.process_set))
            return loss

        return reduced

    def __getstate__(self) -> Any:
        raise TypeError("a DistributedOptimizer has hooks in its model, and can't be copied or pickled: keep its state_dict()")

    def step_alone(self) -> None:
        """With this rank's gradients."""
        super().step()

    def zero_grad(self, *args: Any, **kwargs: Any) -> Any:
        if self._fired:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(). This is prohibited as it can cause a race condition."
            )
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Also forgets what is in flight, as a new generation does."""
        for gradient in self._gradients.values():
            gradient.sent = gradient.request = None
            gradient.is_ready = False
            gradient.passes_left = self.backward_passes_per_step
        self._fired = False
        self._synchronized = False
        self._should_synchronize = True
        return super().load_state_dict(*args, **kwargs)


def _unnamed(number: int, parameters: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, str]]:
    """The group's place and shapes are the same on all ranks, and keep apart the optimizers of different models."""
    shapes = zlib.crc32(repr([tuple(parameter.shape) for parameter in parameters]).encode())
    for index, parameter in enumerate(parameters):
        yield parameter, f"allreduce.noname.{number}.{index}.{shapes:x}"


def _names_of(param_groups: Sequence[dict[str, Any]], named: Optional[Iterable[Any]]) -> dict[torch.Tensor, str]:
    parameters = [parameter for group in param_groups for parameter in group["params"]]
    if named is None:
        return dict(pair for number, group in enumerate(param_groups) for pair in _unnamed(number, group["params"]))
    pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    by_parameter = {parameter: name for name, parameter in pairs}
    missing = sum(parameter not in by_parameter for parameter in parameters)
    if missing:
        raise ValueError(
            f"named_parameters was specified, but one or more model parameters were not named: {missing} of "
            f"{len(parameters)}"
        )
    return by_parameter


def _check_groups(groups: Any) -> None:
    if groups is None or (isinstance(groups, int) and groups >= 0):
        return
    if not isinstance(groups, list):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    tensors = [tensor for group in groups for tensor in group]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError("groups must consist of torch.Tensor.")
    if len({id(tensor) for tensor in tensors}) < len(tensors):
        raise ValueError("A parameter can only appear once in groups.")


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[tuple[str, Any]]] = None,
    compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
    gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None, sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer with gradients of all ranks: its class, parameters and state, reduced during the backward pass.

    named_parameters: names by which the ranks' gradients meet; without them by their number.
    backward_passes_per_step: backward passes that are added up before they are reduced.
    gradient_predivide_factor: of an average, what is divided by before the sum.
    groups: how many groups of gradients are reduced as one each, or the groups as lists of parameters.
    sparse_as_dense: reduce sparse gradients as dense ones.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if op == Adasum and _core.size() > 1:
        raise NotImplementedError("Adasum needs Horovod with MPI or NCCL; use Average or Sum")
    cls = type(optimizer).__name__
    distributed: Any = type(cls, (_Distributed, type(optimizer)), {"__module__": __name__})
    made = distributed.__new__(distributed)
    # A scheduler may have put its own step() into the object; it would go round ours.
    made.__dict__.update((key, value) for key, value in vars(optimizer).items() if key not in ("step", "zero_grad"))
    made._hvd_begin(named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor, groups,
                    sparse_as_dense, process_set)
    return made
