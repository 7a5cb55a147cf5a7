# SPDX-License-Identifier: Apache-2.0
"""Metrics as JSON: numbers of NumPy and torch become Python's, NaN is written as null, infinities as texts, and all come back."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Optional, Union

MAX_METRICS = 64 << 10  # bytes
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def checked_metrics(metrics: Any) -> dict[str, Any]:
    """Of plain values. Raises TypeError and ValueError, which name what is wrong by its path."""
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a dict, not {type(metrics).__name__}")
    plain: dict[str, Any] = _plain(metrics, "metrics", 0)
    size = len(to_json(plain).encode())
    if size > MAX_METRICS:
        raise ValueError(f"the metrics take {size} bytes, and {MAX_METRICS} are the most: larger things belong into a checkpoint")
    return plain


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth > 32:
        raise ValueError(f"{path} is nested too deeply")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: keys must be texts")
        return {str(key): _plain(part, f"{path}[{key!r}]", depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(value)]
    for kind in (bool, int, float, str):  # of a subclass, such as an IntEnum or numpy.float64
        if isinstance(value, kind):
            return kind(value)
    # Scalars of NumPy, and arrays and tensors of one value.
    if callable(getattr(value, "item", None)) and getattr(value, "size", 1) is not None and _count(value) == 1:
        plain = value.item()
        if type(plain) in (bool, int, float, str):
            return plain
    raise TypeError(f"{path} is a {type(value).__name__}: metrics are numbers, texts, booleans, None, and dicts and lists of them")


def _count(value: Any) -> Optional[int]:
    try:
        count = 1
        for length in value.shape:
            count *= int(length)
        return count
    except Exception:
        return None


def to_json(value: Any) -> str:
    return json.dumps(_without_nan(value), allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return value


def read_back(text: Union[str, bytes]) -> Any:
    """Of what to_json() wrote. Raises ValueError."""
    return with_nan(json.loads(text))


def with_nan(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _INFINITIES.get(value, value)
    if isinstance(value, dict):
        return {key: with_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_nan(part) for part in value]
    return value


def flat(metrics: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a/b": 1}."""
    found: dict[str, Any] = {}
    for key, value in metrics.items():
        found.update(flat(value, f"{before}{key}/") if isinstance(value, dict) else {f"{before}{key}": value})
    return found


def score_of(metrics: Mapping[str, Any], attribute: str, order: str) -> Optional[float]:
    """Larger is better. None: it has no number there."""
    value = flat(metrics).get(attribute)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if order == "max" else -float(value)
