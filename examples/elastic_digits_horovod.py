# SPDX-License-Identifier: Apache-2.0
"""The digits, elastic: workers may come and go while this unmodified hvd.elastic script trains.

hvdray run -np 2 --min-np 2 --max-np 4 --host-discovery-script ./hosts.sh -- \\
    python3 examples/elastic_digits_horovod.py
"""

import argparse
import pathlib
import time
import zlib

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


def checksum(model):
    """Equal on two ranks when every bit of their models is."""
    value = 0
    for tensor in model.state_dict().values():
        value = zlib.crc32(tensor.numpy().tobytes(), value)
    return f"{value:08x}"


def shard(order, seen, batch):
    """This rank's images for the next step, and how many all ranks take together. All ranks share one
    order, so a gang of another size continues where the old one stopped."""
    taken = min(batch * hvd.size(), len(order) - seen)
    taken -= taken % hvd.size()
    return order[seen + hvd.rank():seen + taken:hvd.size()], taken


@hvd.elastic.run
def train(state, images, labels, arguments):
    print(f"rank {hvd.rank()} of {hvd.size()} goes on at step {state.step}", flush=True)
    while state.epoch <= arguments.epochs:
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(state.epoch))
        loss = None  # stays None on all ranks if the gang changes after the last step of an epoch
        while True:
            batch, taken = shard(order, state.seen, arguments.batch)
            if taken == 0:
                break
            state.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(state.model(images[batch]), labels[batch])
            loss.backward()
            state.optimizer.step()
            state.seen += taken
            state.step += 1
            if arguments.step_s:
                time.sleep(arguments.step_s)
            if state.step % arguments.commit_every == 0:
                state.commit()  # newcomers join here
        # Named, because each process counts its unnamed collectives and newcomers begin at 0.
        mean = hvd.allreduce(loss.detach(), name="loss") if loss is not None else None
        if mean is not None and hvd.rank() == 0 and (state.epoch == 1 or state.epoch % 5 == 0):
            print(f"epoch {state.epoch:2d}  loss {mean.item():.4f}  {hvd.size()} workers", flush=True)
        state.epoch += 1
        state.seen = 0
        state.commit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=HERE / "digits" / "digits.csv")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="images per step and rank")
    parser.add_argument("--commit-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--step-s", type=float, default=0, metavar="SECONDS",
                        help="pause after each step, to leave time to watch changes")
    arguments = parser.parse_args()

    started = time.monotonic()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, labels, test_images, test_labels = load(arguments.data)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=1, seen=0, step=0)
    train(state, images, labels, arguments)

    with torch.no_grad():
        accuracy = (model(test_images).argmax(dim=1) == test_labels).float().mean().item()
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy * 100:.1f} % of {len(test_labels)} images, "
              f"{hvd.size()} workers, {time.monotonic() - started:.2f} s", flush=True)
    print(f"done: rank {hvd.rank()} of {hvd.size()}, step {state.step}, model {checksum(model)}",
          flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
