#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on a Ray cluster, as programs of horovod.ray do it: RayExecutor, or ElasticRayExecutor with --elastic.

    python examples/python/digits_ray.py --workers 4            # needs hvdray and Ray; on the nodes Horovod and torch
    python examples/python/digits_ray.py --workers 2 --elastic  # and more, while there are slots
    python examples/python/digits_ray.py --address local        # without a cluster: Ray on this machine, for this run
"""

import argparse
import pathlib

import ray
from hvdray.ray import ElasticRayExecutor, RayExecutor, ray_logger

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits/digits.csv"


def train(path, epochs):
    """The accuracy on images that no worker has seen."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    table = torch.tensor([[float(x) for x in line.split(",")] for line in open(path)])
    images, labels = table[:, :-1] / 16, table[:, -1].long()
    split = len(table) * 4 // 5
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.02), named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0)

    @hvd.elastic.run
    def go(state):
        mine = slice(hvd.rank(), split, hvd.size())
        while state.epoch < epochs:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            state.epoch += 1
            if state.epoch % 20 == 0:
                mean = hvd.allreduce(loss.detach(), name="loss").item()
                if hvd.rank() == 0:
                    ray_logger.log({"epoch": state.epoch, "loss": mean, "workers": hvd.size()})
                state.commit()
        with torch.no_grad():
            return (model(images[split:]).argmax(1) == labels[split:]).float().mean().item()

    return go(state)


def show(entry):
    print(f"epoch {entry['epoch']}: loss {entry['loss']:.4f}, {entry['workers']} workers", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="auto", help="of the Ray cluster")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--elastic", action="store_true", help="at least so many workers")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    ray.init(address=arguments.address)
    if arguments.elastic:
        settings = ElasticRayExecutor.create_settings(min_num_proc=arguments.workers, max_num_proc=2 * arguments.workers)
        executor = ElasticRayExecutor(settings)
        executor.start()
        values = executor.run(lambda: train(str(DIGITS), arguments.epochs), callbacks=[show])
    else:
        executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=arguments.workers)
        executor.start()
        values = executor.run(train, args=[str(DIGITS), arguments.epochs], callbacks=[show])
    executor.shutdown()
    print(f"test accuracy {100 * values[0]:.1f} %, {len(values)} workers")


if __name__ == "__main__":
    main()
