# SPDX-License-Identifier: Apache-2.0
"""Which samples are whose, when the number of ranks changes within an epoch."""

from __future__ import annotations

import random
from typing import Any, Iterator, Sized

import torch.utils.data

from ..._async import _core


class ElasticSampler(torch.utils.data.Sampler):
    """Deals the samples of an epoch to the ranks, each as many; after a change only those that are left.

    Call `set_epoch` where an epoch begins and `record_batch` where a batch is done, and give it to the TorchState.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """`batch_size`: of one rank. All of them have done as much."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deals anew, among those who are there now."""
        self.num_replicas = _core.size()
        self.rank = _core.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        padded = left + (left * self.num_replicas)[: self.total_size - len(left)]
        self.indices = padded[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
