# SPDX-License-Identifier: Apache-2.0
"""Training that goes on when workers come, go and die."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import _place, basics
from ..._async._errors import HorovodInternalError, HostsUpdatedInterrupt, MismatchError
from . import notices
from .sampler import ElasticSampler as ElasticSampler
from .state import ObjectState as ObjectState
from .state import State as State
from .state import TorchState as TorchState


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function whose first argument is a State. When a rank is lost, the last commit is restored
    and the function called again, among those that are there then; when hosts have changed, it goes on from where it is.
    """

    @functools.wraps(func)
    def run_until_done(state: State, *args: Any, **kwargs: Any) -> Any:
        notices.listen(state)
        try:
            needs_sync = True
            while True:
                try:
                    if needs_sync:
                        state.sync()
                    return func(state, *args, **kwargs)
                except MismatchError:
                    raise  # it would fail alike again
                except HorovodInternalError:
                    state.restore()
                    needs_sync = True
                except HostsUpdatedInterrupt as update:
                    needs_sync = not update.skip_sync
                _begin_again()
                state.on_reset()
        finally:
            notices.forget(state)

    return run_until_done


def _begin_again() -> None:
    """A rank may die while the others meet: the launcher then makes other places, and they meet again."""
    while True:
        basics.shutdown()
        try:
            return basics.init()
        except HorovodInternalError:
            if not _place.is_elastic():
                raise
