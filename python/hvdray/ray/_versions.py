# SPDX-License-Identifier: Apache-2.0
"""Which Ray the trainer and the tuner work with: they rest on parts of it that are not public."""

from __future__ import annotations

import re
from typing import Optional

from .._errors import HvdrayError

OLDEST, NEWEST = (2, 40), (2, 60)


def check_ray(module: str, missing: Optional[BaseException] = None) -> None:
    """`missing`: what importing parts of Ray has raised. Raises HvdrayError."""
    try:
        import ray  # type: ignore[import]
    except ImportError as error:
        raise HvdrayError(f"{module}: Ray is not installed here: {error}", hint='pip install "ray[train,tune]>=2.40"') from None
    version = tuple(int(number) for number in re.findall(r"\d+", ray.__version__)[:2])
    tested = f"{module} works with Ray {_text(OLDEST)} to {_text(NEWEST)}; this is {ray.__version__}"
    if version < OLDEST:
        raise HvdrayError(tested, hint=f"pip install ray=={_text(NEWEST)}.0")
    if missing is not None:
        if version <= NEWEST:
            raise HvdrayError(f"{module}: {missing}", hint='pip install "ray[train,tune]"') from missing
        raise HvdrayError(f"{tested}: {missing}", hint=f"pip install ray=={_text(NEWEST)}.0") from missing


def _text(version: "tuple[int, int]") -> str:
    return f"{version[0]}.{version[1]}"
