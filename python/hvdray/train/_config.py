# SPDX-License-Identifier: Apache-2.0
"""How a run is named, kept and restarted: the classes of ray.train with the fields that mean something here."""

from __future__ import annotations

import functools
import operator
import os
from dataclasses import dataclass, field, fields
from typing import Any, Optional, TypeVar

from .._errors import nearest

_Config = TypeVar("_Config")

def _of_known_fields(kind: type[_Config]) -> type[_Config]:
    """Says which field may have been meant."""
    init = kind.__init__

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        names = [known.name for known in fields(kind)]
        for name in given:
            if name not in names:
                raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}{nearest(name, names)}")
        init(self, *args, **given)

    setattr(kind, "__init__", checked)
    return kind


MAX_NAME = 255  # bytes, of a directory


def _number(name: str, value: Any, least: int) -> int:
    """Also of NumPy's."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")
    return operator.index(value)


@_of_known_fields
@dataclass
class CheckpointConfig:
    """`num_to_keep`: the others are removed after each commit, never the latest; None keeps all. `checkpoint_score_attribute`: the
    metric by which the best are kept, "a/b" within objects; None: the newest are. `checkpoint_score_order`: "max" or "min". Raises
    TypeError, ValueError."""

    num_to_keep: Optional[int] = None
    checkpoint_score_attribute: Optional[str] = None
    checkpoint_score_order: str = "max"

    def __post_init__(self) -> None:
        if self.num_to_keep is not None:
            self.num_to_keep = _number("num_to_keep", self.num_to_keep, 1)
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(f'checkpoint_score_order must be "max" or "min", not {self.checkpoint_score_order!r}')


@_of_known_fields
@dataclass
class FailureConfig:
    """`max_failures`: how often all workers are restarted from the last commit; -1: without limit."""

    max_failures: int = 0

    def __post_init__(self) -> None:
        self.max_failures = _number("max_failures", self.max_failures, -1)


@_of_known_fields
@dataclass
class RunConfig:
    """Files are in `storage_path`/`name`. `name`: one directory's name; default: hvdray-DATE. `storage_path`: a directory, or a URL
    for fsspec; default: ~/hvdray_results. Raises TypeError, ValueError."""

    name: Optional[str] = None
    storage_path: Optional[str] = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        if self.name is not None:
            if not isinstance(self.name, str):
                raise TypeError(f"the name of a run must be a text, not {self.name!r}")
            if not self.name or self.name in (".", "..") or "/" in self.name or "\0" in self.name:
                raise ValueError(f"the name of a run must be that of one directory, not {self.name!r}")
            if len(os.fsencode(self.name)) > MAX_NAME:
                raise ValueError(f"the name of a run may have {MAX_NAME} bytes: {self.name[:20]!r}… has {len(os.fsencode(self.name))}")
        if self.storage_path is not None:
            self.storage_path = os.fspath(self.storage_path)
            if not self.storage_path:
                raise ValueError('storage_path is empty: None is the default, "." is this directory')
        for name, kind in (("failure_config", FailureConfig), ("checkpoint_config", CheckpointConfig)):
            value = getattr(self, name)
            if value is None:
                setattr(self, name, kind())
            elif not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
