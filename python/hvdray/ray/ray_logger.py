# SPDX-License-Identifier: Apache-2.0
"""From a function on a worker to the callbacks of the call: `ray_logger.log({"loss": loss})`, on any rank."""

from __future__ import annotations

import warnings
from typing import Any

_has_warned = False


def log(info_dict: Any) -> None:
    """To each callback of the call that runs here; nothing happens if it has none. Not only dicts: what can be pickled.
    Outside a worker: one warning."""
    from hvdray import _worker

    global _has_warned
    if _worker.current is not None:
        _worker.current.log(info_dict)
    elif not _has_warned:
        _has_warned = True
        warnings.warn("ray_logger.log() was called outside a worker: it is not recorded", RuntimeWarning, stacklevel=2)
