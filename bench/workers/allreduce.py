# SPDX-License-Identifier: Apache-2.0
"""As bench/collective_load.cc, for what is reached from Python only: allreduce.py horovod|torch BYTES..."""

import json
import statistics
import sys
import time

import torch

torch.set_num_threads(1)
if sys.argv[1] == "horovod":
    import horovod.torch as hvd
    hvd.init()
    rank, barrier = hvd.rank(), hvd.barrier

    def all_reduce(data):
        hvd.allreduce_(data, op=hvd.Sum, name="data")
else:
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank, barrier, all_reduce = dist.get_rank(), dist.barrier, dist.all_reduce

medians = {}
for size in sys.argv[2:]:
    data = torch.zeros(int(size) // 4)
    times = []
    calls = max(15, min(200, (256 << 20) // int(size)))
    for i in range(calls + calls // 5 + 1):
        barrier()
        started = time.perf_counter()
        all_reduce(data)
        if i > calls // 5:
            times.append((time.perf_counter() - started) * 1e6)
    medians[size] = statistics.median(times)
if rank == 0:
    print(json.dumps(medians), flush=True)
