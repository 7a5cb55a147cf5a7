#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, trained by a loop that reports, and that a killed worker sets back to its last checkpoint only.

    python examples/python/digits_train.py RUNS [--kill]     # a directory; needs hvdray, torch, and Horovod or HVDRAY_HOROVOD=builtin

Rank 0 alone saves the model; the optimizer and the epoch are in the same file.
"""

import os
import pathlib
import signal
import sys
import tempfile

from hvdray import train

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits/digits.csv"


def loop(config):
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    shard = train.get_dataset_shard("train")
    table = torch.tensor(list(shard), dtype=torch.float32)
    images, labels = table[:, :-1] / 16, table[:, -1].long()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=config["lr"]), model.named_parameters())
    begin, checkpoint = 0, train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"] + 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for epoch in range(begin, config["epochs"]):
        for _ in range(10):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = hvd.allreduce(loss.detach()).item()
        if config["kill"] and epoch == 3 and begin == 0 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if hvd.rank() == 0:
            with tempfile.TemporaryDirectory() as folder:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(folder, "state.pt"))
                train.report({"epoch": epoch, "loss": mean}, checkpoint=train.Checkpoint.from_directory(folder))


def main():
    rows = [[float(x) for x in line.split(",")] for line in open(DIGITS, encoding="ascii")]
    config = train.RunConfig(
        name="digits",
        storage_path=sys.argv[1],
        failure_config=train.FailureConfig(max_failures=2),
        checkpoint_config=train.CheckpointConfig(num_to_keep=2),
    )
    result = train.Trainer(
        loop,
        train_loop_config={"lr": 0.02, "epochs": 6, "kill": "--kill" in sys.argv},
        num_workers=2,
        run_config=config,
        datasets={"train": rows},
    ).fit()
    print(f"loss {result.metrics['loss']:.4f} after epoch {result.metrics['epoch']}, {result.checkpoint.path}")


if __name__ == "__main__":
    main()
