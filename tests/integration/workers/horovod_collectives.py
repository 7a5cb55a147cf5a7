# SPDX-License-Identifier: Apache-2.0
"""Run under a launcher: Horovod's operations with results that are known exactly."""

import sys

import horovod.torch as hvd
import torch


def check(condition, what):
    if not condition:
        print(f"rank {hvd.rank()}: {what}", file=sys.stderr, flush=True)
        sys.exit(11)


def basic():
    rank, size = hvd.rank(), hvd.size()
    check(0 <= rank < size and 0 <= hvd.local_rank() < hvd.local_size(), "ranks")
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        total = hvd.allreduce(torch.arange(17, dtype=dtype) * (rank + 1), op=hvd.Sum)
        check(torch.equal(total, torch.arange(17, dtype=dtype) * (size * (size + 1) // 2)),
              f"allreduce {dtype}")
    check(hvd.allreduce(torch.tensor(float(rank))).item() == (size - 1) / 2, "average")
    check(hvd.allreduce(torch.tensor(float(rank)), op=hvd.Max).item() == size - 1, "max")
    for root in range(size):
        seen = hvd.broadcast(torch.full((5,), float(rank)), root_rank=root)
        check(torch.equal(seen, torch.full((5,), float(root))), f"broadcast from {root}")
    gathered = hvd.allgather(torch.full((rank + 1, 2), float(rank)))
    want = torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)])
    check(torch.equal(gathered, want), "allgather of unequal parts")
    check(hvd.broadcast_object({"from": rank}, root_rank=size - 1) == {"from": size - 1}, "object")
    hvd.barrier()


def process_sets():
    size = hvd.size()
    if size < 2:
        return
    even = hvd.add_process_set(list(range(0, size, 2)))
    odd = hvd.add_process_set(list(range(1, size, 2)))
    mine = even if hvd.rank() % 2 == 0 else odd
    total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum, process_set=mine)
    check(total.item() == sum(range(hvd.rank() % 2, size, 2)), "process set")
    for process_set in (even, odd):
        check(hvd.remove_process_set(process_set), "remove")
    again = hvd.add_process_set(list(range(0, size, 2)))
    if hvd.rank() % 2 == 0:
        check(hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=again).item()
              == len(range(0, size, 2)), "process set with equal members")
    hvd.remove_process_set(again)


def join():
    for step in range(hvd.rank() + 1):  # uneven work: rank r has r + 1 steps
        value = hvd.allreduce(torch.ones(3), op=hvd.Sum, name=f"step.{step}")
        check(value[0].item() == hvd.size() - step, "allreduce while others have joined")
    check(hvd.join() == hvd.size() - 1, "the last rank to join")


def reinit():
    for _ in range(5):
        hvd.shutdown()
        hvd.init(process_sets="dynamic")
        basic()


PARTS = {"basic": basic, "process_sets": process_sets, "join": join, "reinit": reinit}

if __name__ == "__main__":
    hvd.init(process_sets="dynamic")
    for name in sys.argv[1:]:
        PARTS[name]()
    hvd.shutdown()
    print("ok", flush=True)
