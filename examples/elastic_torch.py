# SPDX-License-Identifier: Apache-2.0
"""torch.distributed that restarts as a gang: every change of membership restarts all workers, which
continue from their checkpoint. Runs under torchrun, too.

hvdray run --elastic-mode gang --min-np 2 --max-np 4 --max-restarts 3 \\
    --host-discovery-script ./hosts.sh -- python3 examples/elastic_torch.py --checkpoint digits.pt
"""

import argparse
import os
import pathlib
import time
import zlib

import numpy as np
import torch
import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent


def load(path):
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return torch.from_numpy(table[:, :64] / 16.0), torch.from_numpy(table[:, 64].astype(np.int64))


def checksum(model):
    value = 0
    for tensor in model.state_dict().values():
        value = zlib.crc32(tensor.numpy().tobytes(), value)
    return f"{value:08x}"


def save(path, model, optimizer, step):
    """Writes all or nothing: a worker may be stopped at any moment."""
    new = path.with_name(path.name + ".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, new)
    new.rename(path)


def resume(path, model, optimizer):
    """Rank 0 reads the checkpoint and broadcasts it, so that only its host needs the file."""
    found = [None]
    if dist.get_rank() == 0 and path.exists():
        found = [torch.load(path)]
    dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        found = [{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 0}]
        dist.broadcast_object_list(found, src=0)
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return found[0]["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=HERE / "digits" / "digits.csv")
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="images per step and rank")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--step-s", type=float, default=0, metavar="SECONDS",
                        help="pause after each step, to leave time to watch changes")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, labels = load(arguments.data)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = resume(arguments.checkpoint, model, optimizer)
    print(f"rank {rank} of {size}, restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}, "
          f"goes on at step {step}", flush=True)

    while step < arguments.steps:
        generator = torch.Generator().manual_seed(step * size + rank)
        batch = torch.randint(len(labels), (arguments.batch,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
        optimizer.step()
        step += 1
        if rank == 0 and (step % arguments.save_every == 0 or step == arguments.steps):
            save(arguments.checkpoint, model, optimizer, step)
        if arguments.step_s:
            time.sleep(arguments.step_s)

    dist.barrier()  # to the others, a rank that ends early looks like a failure
    if rank == 0:
        with torch.no_grad():
            accuracy = (model(images).argmax(dim=1) == labels).float().mean().item()
        print(f"accuracy {accuracy * 100:.1f} %, {size} workers", flush=True)
    print(f"done: rank {rank} of {size}, step {step}, model {checksum(model)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
