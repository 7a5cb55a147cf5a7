# SPDX-License-Identifier: Apache-2.0
"""The quickstart of Ray Train's documentation for Horovod, on a Ray of today: what differs from it is the import of
HorovodTrainer, and the checkpoint, which is a directory now.

    pip install 'ray[train]' horovod torch ./hvdray-*.whl && python examples/python/ray_train_quickstart.py
"""

import os
import tempfile

import horovod.torch as hvd
import ray
import torch
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig

from hvdray.ray.train import HorovodTrainer  # was: from ray.train.horovod import HorovodTrainer

EPOCHS = 3


def train_loop_per_worker():
    hvd.init()
    shard = train.get_dataset_shard("train")
    model = torch.nn.Sequential(torch.nn.Linear(1, 15), torch.nn.ReLU(), torch.nn.Linear(15, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0005), named_parameters=model.named_parameters(), op=hvd.Average
    )
    loss_of = torch.nn.MSELoss()
    for epoch in range(EPOCHS):
        rows = 0
        for batch in shard.iter_torch_batches(batch_size=4, dtypes=torch.float32):
            inputs, labels = batch["x"].unsqueeze(1), batch["y"].unsqueeze(1)
            rows += len(inputs)
            loss = loss_of(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
            checkpoint = Checkpoint.from_directory(folder) if hvd.rank() == 0 else None
            train.report({"epoch": epoch, "loss": loss.item(), "rows": rows}, checkpoint=checkpoint)


if __name__ == "__main__":
    trainer = HorovodTrainer(
        train_loop_per_worker,
        scaling_config=ScalingConfig(num_workers=3),
        datasets={"train": ray.data.from_items([{"x": x, "y": x + 1} for x in range(96)])},
        run_config=RunConfig(storage_path=os.environ.get("STORAGE", os.path.expanduser("~/ray_results"))),
    )
    result = trainer.fit()
    print(result.metrics)
    with result.checkpoint.as_directory() as folder:
        print(sorted(os.listdir(folder)))
