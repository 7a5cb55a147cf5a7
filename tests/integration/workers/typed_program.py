# SPDX-License-Identifier: Apache-2.0
"""What `mypy --strict` must take: a user's typed program."""

from typing import Optional

import hvdray
from hvdray import train


class Model:
    def __init__(self, width: int) -> None:
        self.width = width


def fit(rate: float, name: Optional[str] = None) -> float:
    return rate


values: list[float] = hvdray.run(fit, args=(0.1,), kwargs={"name": "x"}, num_proc=2)
with hvdray.Executor(2, hosts={"a": 1, "b": 1}, env={"A": "1"}) as executor:
    widths: list[int] = executor.execute(lambda model: model.width, timeout=5.0)
    first: int = executor.execute_single(lambda model: model.width)
    try:
        executor.run(fit, [0.1])
    except hvdray.WorkerDied as died:
        text: str = f"{died.rank} {died.host} {died.exit_code} {died.signal} {died.last_stderr[:1]}"


class Found:
    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return {"a": 2}


with hvdray.Executor(min_workers=1, max_workers=2, hosts=Found()) as elastic:
    rates: list[float] = elastic.run(fit, [0.1], timeout=60)
values = hvdray.run(fit, (0.1,), min_num_proc=2, host_discovery_script="./hosts.sh", cooldown_range=[10, 100])


def loop(config: dict[str, float]) -> float:
    checkpoint: Optional[train.Checkpoint] = train.get_checkpoint()
    train.report({"loss": config["lr"], "rank": train.get_context().get_world_rank()}, checkpoint=checkpoint)
    return float(sum(train.get_dataset_shard("rows").iter_rows()))


trainer = train.Trainer(loop, train_loop_config={"lr": 0.1}, num_workers=2, datasets={"rows": [1, 2]},
                        run_config=train.RunConfig(name="x", failure_config=train.FailureConfig(max_failures=2)))
try:
    result: train.Result = trainer.fit()
    best: Optional[train.Checkpoint] = result.get_best_checkpoint("loss", "min")
except train.TrainingFailedError as failed:
    failures: dict[int, BaseException] = failed.worker_failures
