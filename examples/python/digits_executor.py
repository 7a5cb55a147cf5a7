#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits on workers that keep their model: trained, looked at, trained on, and tested, call by call.

    python examples/python/digits_executor.py [WORKERS]     # needs hvdray, torch, and Horovod or HVDRAY_HOROVOD=builtin
"""

import pathlib
import sys

import hvdray

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits/digits.csv"


class Digits:
    """On each worker: every size-th image, and a model that all of them share."""

    def __init__(self, path):
        import horovod.torch as hvd
        import torch

        hvd.init()
        torch.manual_seed(1)
        torch.set_num_threads(1)
        table = torch.tensor([[float(x) for x in line.split(",")] for line in open(path)])
        images, labels = table[:, :-1] / 16, table[:, -1].long()
        split = len(table) * 4 // 5
        self.train = images[:split][hvd.rank()::hvd.size()], labels[:split][hvd.rank()::hvd.size()]
        self.test = images[split:], labels[split:]
        self.model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        adam = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.optimizer = hvd.DistributedOptimizer(adam, named_parameters=self.model.named_parameters())

    def fit(self, epochs):
        """The loss, which is the mean over all workers."""
        import horovod.torch as hvd
        import torch

        images, labels = self.train
        for _ in range(epochs):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
        return hvd.allreduce(loss.detach()).item()

    def accuracy(self):
        import torch

        images, labels = self.test
        with torch.no_grad():
            return (self.model(images).argmax(1) == labels).float().mean().item()


def main():
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with hvdray.Executor(workers) as executor:
        executor.start(Digits, [str(DIGITS)])
        for step in range(1, 4):
            losses = executor.execute(lambda digits: digits.fit(20))
            print(f"after {20 * step} epochs: loss {losses[0]:.4f}")
        accuracy = executor.execute_single(lambda digits: digits.accuracy())
        print(f"test accuracy {100 * accuracy:.1f} %, {workers} workers")


if __name__ == "__main__":
    main()
