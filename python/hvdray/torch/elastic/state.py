# SPDX-License-Identifier: Apache-2.0
"""What a training has reached: kept in memory, and given to ranks that come later."""

from __future__ import annotations

import copy
import queue
from typing import Any, Callable, Iterable, Optional

import torch

from ..._async import _core
from ..._async._errors import HostsUpdatedInterrupt
from ..functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .sampler import ElasticSampler

_REMOVED = 1  # of Horovod's codes of a change: no_update 0, removed 1, added 2, mixed 3


class State:
    """What `run` needs. A subclass says what is saved, restored and synchronized."""

    def __init__(self, bcast_object: Callable[..., Any] = broadcast_object, get_rank: Callable[[], int] = _core.rank):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._last_updated_timestamp = 0
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Called, in order, when there are other ranks than before: to scale the learning rate, say."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self._host_messages = queue.SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: int, update_res: int) -> None:
        """From another thread."""
        self._host_messages.put((timestamp, int(update_res)))

    def commit(self) -> None:
        """Saves, and raises HostsUpdatedInterrupt on all ranks if hosts have come or gone."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Rank 0 decides for all: the news reach each rank at another time, or not at all."""
        before = latest = self._last_updated_timestamp
        code = 0
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                code |= update
        before, self._last_updated_timestamp, code = self._bcast_object((before, latest, code))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(code == _REMOVED)

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """For what depends on the number of ranks."""


class ObjectState(State):
    """Values that can be pickled, as attributes by the names of the keyword arguments."""

    def __init__(
        self, bcast_object: Callable[..., Any] = broadcast_object, get_rank: Callable[[], int] = _core.rank,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._give_attributes()

    def save(self) -> None:
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        self._give_attributes()

    def sync(self) -> None:
        if self._saved_state:
            current = {name: getattr(self, name) for name in self._saved_state}
            self._saved_state = self._bcast_object(current)
            self._give_attributes()

    def _give_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)


class StateHandler:
    """How a kind of object is saved, restored and synchronized, by its state_dict."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, type(self).__name__))

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), 0)


class OptimizerStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, 0)


class SamplerStateHandler(StateHandler):
    pass


_handlers: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    return _handlers


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """For objects of other classes: pairs of class and handler, of which the first that fits counts."""
    global _handlers
    _handlers = registry


def _handler_for(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in _handlers if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """Model, optimizer, samplers, and values that can be pickled, as attributes."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        entries = {**kwargs, "model": model, "optimizer": optimizer}
        found = {name: _handler_for(value) for name, value in entries.items()}
        self._handlers = {name: handler for name, handler in found.items() if handler is not None}
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)
        super().__init__(**{name: value for name, value in entries.items() if name not in self._handlers})

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
            handler.save()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)
