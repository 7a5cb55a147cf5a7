# SPDX-License-Identifier: Apache-2.0
"""The digits with unmodified Horovod and PyTorch: hvdray run -np 4 -- python3 examples/digits_horovod.py"""

import argparse
import pathlib
import time

import horovod.torch as hvd
import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent


def load(path):
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :64] / 16.0)
    labels = torch.from_numpy(table[:, 64].astype(np.int64))
    is_test = torch.arange(len(labels)) % 5 == 0
    return images[~is_test], labels[~is_test], images[is_test], labels[is_test]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=HERE / "digits" / "digits.csv")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="images per step and rank")
    arguments = parser.parse_args()

    started = time.monotonic()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank() + 1)
    images, labels, test_images, test_labels = load(arguments.data)
    print(f"rank {hvd.rank()} of {hvd.size()}: {len(labels[hvd.rank()::hvd.size()])} of "
          f"{len(labels)} training images", flush=True)
    images, labels = images[hvd.rank()::hvd.size()], labels[hvd.rank()::hvd.size()]

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    # Shards differ by at most one image; every rank takes as many steps as the smallest shard has batches.
    steps = int(hvd.allreduce(torch.tensor(float(len(labels))), op=hvd.Min)) // arguments.batch
    for epoch in range(1, arguments.epochs + 1):
        order = torch.randperm(len(labels))
        total = 0.0
        for step in range(steps):
            batch = order[step * arguments.batch:(step + 1) * arguments.batch]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item()
        mean = hvd.allreduce(torch.tensor(total / max(steps, 1)))
        if hvd.rank() == 0 and (epoch == 1 or epoch % 5 == 0):
            print(f"epoch {epoch:2d}  loss {mean.item():.4f}", flush=True)

    with torch.no_grad():
        accuracy = (model(test_images).argmax(dim=1) == test_labels).float().mean().item()
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy * 100:.1f} % of {len(test_labels)} images, "
              f"{hvd.size()} workers, {time.monotonic() - started:.2f} s", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
