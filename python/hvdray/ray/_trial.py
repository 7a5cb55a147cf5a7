# SPDX-License-Identifier: Apache-2.0
"""One trial of Ray Tune: in its actor, run_trial() has Horovod's workers call the user's function, and hands rank 0's reports to Tune.
_lanes.py has the workers, _work.py what they do."""

from __future__ import annotations

import os
import tempfile
import uuid
from typing import TYPE_CHECKING, Any, Optional

from .._errors import HvdrayError
from .._process import start_of
from ._work import Packed, Search, packed, unpickled

if TYPE_CHECKING:
    from ._lanes import Lane

NAMESPACE = "hvdray"  # of Ray
_lane: "Optional[Lane]" = None  # of this actor, without a keeper; for trials that follow each other in it


def run_trial(function: Packed, config: Any, search: Search, keeper: Optional[str]) -> Any:
    """What the function returns on rank 0. `keeper`: its name. Raises what Tune refuses, and what the workers' ends raise."""
    import ray  # type: ignore[import]
    from ray.train._internal.session import get_session  # type: ignore[import]

    global _lane
    session = get_session()
    node = ray.get_runtime_context().get_node_id()
    names = ("trial_name", "trial_id", "trial_resources", "trial_dir", "experiment_name")
    facts = {**{name: getattr(session, name) for name in names}, "loaded_checkpoint": session.loaded_checkpoint}
    reports = _Reports(session)
    calls = [function, packed(config, ["config"]), ray.cloudpickle.dumps(facts)]
    value: Optional[Packed] = None
    try:
        its = keeper_on(node, keeper, search.timeout_s) if keeper is not None else None
        end = run_in(its, search, [*calls, "localhost"], reports) if its is not None else None
        if end is not None:
            value = end.get("value")
            if value is None:
                raise unpickled(end["error"])
        else:
            from ._lanes import Lane  # The keeper has it, and trials are to begin fast.

            lane = _lane = _lane or Lane(search, is_on_this_node=False)
            executor = lane.executor()
            value = lane.run(executor, [*calls, node], reports.folder, lambda told: executor._answer_loop(0, *reports.take(told)))
    except HvdrayError:
        if reports.refused is None:
            raise
    if reports.refused is not None:
        raise reports.refused
    return value.value() if value is not None else None


def keeper_on(node: str, name: str, timeout_s: float) -> Any:
    """None: it has gone, or this trial has workers on other nodes."""
    import ray

    group = ray.util.get_current_placement_group()
    nodes = ray.util.placement_group_table(group)["bundles_to_node_id"].values() if group is not None else [node]
    if set(nodes) != {node}:
        return None
    try:
        keeper = ray.get_actor(name, NAMESPACE)
        return ray.get(keeper.on.remote(node), timeout=timeout_s) or keeper
    except (ValueError, ray.exceptions.RayError):
        return None


def run_in(keeper: Any, search: Search, calls: "list[Any]", reports: "_Reports") -> "Optional[dict[str, Any]]":
    """How the trial has ended in the keeper; None: that is not for it."""
    import ray

    key, pid = uuid.uuid4().hex, os.getpid()
    try:
        told = ray.get(keeper.begin.remote(key, (pid, start_of(pid)), search, calls, reports.folder))
        try:
            while told is not None and "ask" in told:
                told = ray.get(keeper.go_on.remote(key, *reports.take(told)))
        finally:  # Tune stops a trial by SystemExit, in reports.take().
            ray.get(keeper.end.remote(key))
    except ray.exceptions.RayActorError as error:
        raise HvdrayError(f"the actor that has the workers of this node's trials has ended: {error}") from None
    return told


class _Reports:
    """take() is called on the thread of the trial's function, and there Tune stops a trial by SystemExit, which no one catches."""

    def __init__(self, session: Any):
        self._session = session
        self.refused: Optional[Exception] = None

    @property
    def folder(self) -> str:
        """Of the trial, on this node."""
        storage = self._session.storage
        is_local = type(storage.storage_filesystem).__name__ == "LocalFileSystem"
        return str(storage.trial_fs_path if is_local else storage.trial_driver_staging_path)

    def take(self, told: "dict[str, Any]") -> "tuple[dict[str, Any], bytes]":
        """What to answer."""
        answer: dict[str, Any] = {"do": "answer", "ask": told["ask"]}
        try:
            self._report(*told["report"].value())
        except Exception as error:
            self.refused = error
            answer["refused"] = f"{type(error).__name__}: {error}"
        import ray

        return answer, ray.cloudpickle.dumps(self._session.loaded_checkpoint)

    def _report(self, metrics: Any, checkpoint: Any, files: "Optional[dict[str, bytes]]") -> None:
        if files is None:
            return self._session.report(metrics, checkpoint=checkpoint)  # type: ignore[no-any-return]
        from ray.train import Checkpoint  # type: ignore[import]

        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files)
            self._session.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def write_files(folder: str, files: "dict[str, bytes]") -> None:
    """Raises ValueError for a name that leads out of the folder."""
    for name, content in files.items():
        path = os.path.normpath(os.path.join(folder, name))
        if not path.startswith(os.path.join(folder, "")):
            raise ValueError(f"the checkpoint has a file {name!r}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
