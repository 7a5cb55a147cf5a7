# SPDX-License-Identifier: Apache-2.0
"""What a trial calls, in a worker: its parameters, reports and checkpoint. Needs no Optuna."""

from __future__ import annotations

import importlib
import json
import math
import numbers
import os
import shutil
import socket
import sys
from typing import Any, Mapping, Optional, Union

from .._disk import sync_tree
from .._messages import head_of

CHECKPOINT = "checkpoint"
_config: Optional[dict[str, Any]] = None


def config() -> dict[str, Any]:
    """The parameters of this trial. Raises RuntimeError outside of one."""
    if _config is not None:
        return dict(_config)
    if "HVDRAY_TRIAL_CONFIG" not in os.environ:
        raise RuntimeError("this is not a trial of hvdray tune")
    return dict(json.loads(os.environ["HVDRAY_TRIAL_CONFIG"]))


def trial_id() -> int:
    return int(_told("ID"))


def trial_dir() -> str:
    return _told("DIR")


def _told(name: str) -> str:
    value = os.environ.get(f"HVDRAY_TRIAL_{name}")
    if value is None:
        raise RuntimeError(f"this is not a trial of hvdray tune: HVDRAY_TRIAL_{name} is not set")
    return value


def get_checkpoint() -> Optional[str]:
    """The directory of the last checkpoint that rank 0 has reported, in an earlier attempt too; None: there is none."""
    if "HVDRAY_TRIAL_DIR" not in os.environ:
        return None  # run again by hand
    for name in (CHECKPOINT, CHECKPOINT + ".old"):  # the second, if a kill came between two renames
        path = os.path.join(trial_dir(), name)
        if os.path.isdir(path):
            return path
    return None


def report(metrics: Optional[Mapping[str, Any]] = None, *, checkpoint: Any = None, **more: Any) -> None:
    """Of rank 0: numbers, texts, booleans; `step` says which step it is, by default the next one. `checkpoint`: a directory,
    which is copied and takes the place of the last one. Other ranks' reports have no effect. Raises TypeError and OSError;
    for a link in it ValueError, and RuntimeError if it changes meanwhile: then the last one stays."""
    plain = {name: _plain(name, value) for name, value in {**(metrics or {}), **more}.items()}
    if int(os.environ.get("HVDRAY_RANK", "0")) != 0:
        return
    if checkpoint is not None and "HVDRAY_TRIAL_DIR" in os.environ:  # else it is run again by hand
        _keep(getattr(checkpoint, "path", checkpoint))
        plain["checkpoint"] = True
    _say({"type": "report", "metrics": plain})


def _plain(name: str, value: Any) -> Any:
    if not isinstance(value, (bool, str, numbers.Real, type(None))) and hasattr(value, "item"):
        value = value.item()  # of NumPy or torch
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # JSON has no halves of characters.
    if isinstance(value, (bool, type(None))):
        return value
    if not isinstance(value, numbers.Real):
        raise TypeError(f"report: {name} must be a number, text or boolean, not {type(value).__name__}")
    if isinstance(value, numbers.Integral):
        if abs(int(value)) > sys.float_info.max:
            raise OverflowError(f"report: {name} is above all numbers that a channel takes")
        return int(value)
    value = float(value)
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _keep(source: Union[str, "os.PathLike[str]"]) -> None:
    """At each moment of a kill there is an old or a new one, whole."""
    from ..train import _files  # Most trials have no checkpoints.

    here = os.path.join(trial_dir(), CHECKPOINT)
    new, old = here + ".new", here + ".old"
    if not os.path.isdir(source):
        raise NotADirectoryError(f"report: the checkpoint is not a directory: {os.fspath(source)}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        found = _files.scan(os.fspath(source))
        _files.copy_in(os.fspath(source), found, new, str(os.getpid()))
        _files.check_unchanged(os.fspath(source), found)
        sync_tree(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if os.path.isdir(here):
        shutil.rmtree(old, ignore_errors=True)
        os.rename(here, old)
    os.rename(new, here)
    shutil.rmtree(old, ignore_errors=True)


def _say(message: dict[str, Any]) -> None:
    from .. import _worker

    if _worker.current is not None:
        _worker.current.say(message)
        return
    channel = os.environ.get("HVDRAY_CHANNEL_FD")
    if channel is None:
        if "HVDRAY_TRIAL_CONFIG" in os.environ:
            return  # run again by hand
        raise RuntimeError("report() needs a trial of hvdray tune")
    with socket.socket(fileno=os.dup(int(channel))) as sock:
        sock.sendall(head_of(message))


def call(func: Any, values: dict[str, Any], env: dict[str, str]) -> Any:
    """On each worker of a function's trial. What rank 0 returns is its last report."""
    global _config
    _config = values
    os.environ.update(env)
    os.makedirs(trial_dir(), exist_ok=True)
    if isinstance(func, str):
        module, _, name = func.partition(":")
        func = importlib.import_module(module)
        for part in name.split("."):
            func = getattr(func, part)
    value = func(dict(values))
    if isinstance(value, Mapping):
        report(value)
    elif value is not None:
        report({env["HVDRAY_TRIAL_METRIC"]: value})
