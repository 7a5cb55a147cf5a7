# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a search."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Union

from .._errors import HvdrayError

INSTALL = "pip install 'optuna>=5,<6'"  # the hint where it is missing
Path = tuple[Union[str, int], ...]
Places = Mapping[Path, str]  # of a value in its file: "search.yaml:3:8"


class TuneError(HvdrayError):
    """A search that can't begin or go on."""


class SpecError(TuneError, ValueError):
    """What describes a search is wrong. `path`: of the value, where the message has no place yet."""

    def __init__(self, message: str, *, path: "Optional[Path]" = None, **more: Any):
        super().__init__(message, **more)
        self.path = path
