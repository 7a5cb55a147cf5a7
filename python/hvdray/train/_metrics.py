# SPDX-License-Identifier: Apache-2.0
"""Metrics as JSON: numbers of NumPy and torch become Python's, NaN is written as null, infinities as texts, and all come back.

What is None, or a text that looks like an infinity, is listed by its path under AS_WRITTEN beside them.
"""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Optional, Union

Path = tuple[Union[str, int], ...]

MAX_METRICS = 64 << 10  # bytes
AS_WRITTEN = "as_written"
OURS = (AS_WRITTEN, "checkpoint_dir_name")  # of our own names, those that we read
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def checked_metrics(metrics: Any) -> dict[str, Any]:
    """Of plain values. Raises TypeError and ValueError, which name what is wrong by its path."""
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a dict, not {type(metrics).__name__}")
    plain: dict[str, Any] = _plain(metrics, "metrics", 0)
    for name in OURS:
        if name in plain:
            raise ValueError(f"metrics[{name!r}]: a line of result.json has that name already")
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
        return {str.__str__(key): _plain(part, f"{path}[{key!r}]", depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(value)]
    if isinstance(value, str):  # of a subclass: str() of an Enum is its name
        return str.__str__(value)
    for kind in (int, float):  # of a subclass, such as an IntEnum or numpy.float64
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


def to_json(metrics: Mapping[str, Any]) -> str:
    return json.dumps(encoded(metrics), allow_nan=False)


def encoded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Of what checked_metrics() returned."""
    paths: list[Path] = []
    told = {key: _encoded(part, (key,), paths) for key, part in metrics.items()}
    return {**told, AS_WRITTEN: paths} if paths else told


def _encoded(value: Any, path: Path, paths: list[Path]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _encoded(part, (*path, key), paths) for key, part in value.items()}
    if isinstance(value, list):
        return [_encoded(part, (*path, at), paths) for at, part in enumerate(value)]
    if value is None or (isinstance(value, str) and value in _INFINITIES):
        paths.append(path)
    return value


def read_back(text: Union[str, bytes]) -> Any:
    """Of what to_json() wrote. Raises ValueError."""
    return decoded(json.loads(text))


def decoded(told: Any) -> Any:
    """Of what encoded() returned, or any JSON. Raises ValueError."""
    if not isinstance(told, dict):
        raise ValueError(f"metrics are an object, not {told!r}")
    kept = {tuple(path) for path in told.get(AS_WRITTEN, ())}
    return {key: _decoded(part, (key,), kept) for key, part in told.items() if key != AS_WRITTEN}


def _decoded(value: Any, path: Path, kept: set[Path]) -> Any:
    if isinstance(value, dict):
        return {key: _decoded(part, (*path, key), kept) for key, part in value.items()}
    if isinstance(value, list):
        return [_decoded(part, (*path, at), kept) for at, part in enumerate(value)]
    if path in kept:
        return value
    if value is None:
        return math.nan
    return _INFINITIES.get(value, value) if isinstance(value, str) else value


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
    try:
        score = float(value)
    except OverflowError:  # of whole numbers
        score = math.inf if value > 0 else -math.inf
    return score if order == "max" else -score
