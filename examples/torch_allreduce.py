# SPDX-License-Identifier: Apache-2.0
"""A plain torch.distributed script: hvdray run -np 4 -- python3 examples/torch_allreduce.py"""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value)
    size = dist.get_world_size()
    assert value.item() == size * (size + 1) / 2, value
    if dist.get_rank() == 0:
        print(f"sum over {size} ranks: {value.item():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
