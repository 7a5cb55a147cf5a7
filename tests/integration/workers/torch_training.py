# SPDX-License-Identifier: Apache-2.0
"""20 steps of a small network with each way of reducing gradients that Horovod has; prints the losses of rank 0."""

import json

import horovod.torch as hvd
import torch

STEPS = 20


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(30, 8, sparse=True)
        self.first = torch.nn.Linear(8, 300)  # 9.6 KB of weights
        self.second = torch.nn.Linear(300, 300)  # 360 KB: as large as what is reduced in place
        self.unused = torch.nn.Linear(3, 3)  # never has a gradient of its own
        self.last = torch.nn.Linear(300, 1)

    def forward(self, words):
        return self.last(torch.relu(self.second(torch.relu(self.first(self.embedding(words).sum(1))))))


def train(passes=1, is_dense=True, optimizer_class=torch.optim.SGD, **options):
    torch.manual_seed(11)
    model = Net()
    model.embedding.sparse = not is_dense
    if hvd.rank() != 0:  # broadcast has to mend it
        for parameter in model.parameters():
            parameter.data.add_(1.0)
    optimizer = optimizer_class(model.parameters(), lr=0.002)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes, **options)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    generator = torch.Generator().manual_seed(5 + hvd.rank())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(passes):
            words = torch.randint(0, 30, (16, 4), generator=generator)
            loss = (model(words).squeeze(1) - words.float().mean(1) / 30).pow(2).mean() / passes
            loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
    return losses


def clipped():
    torch.manual_seed(2)
    model = torch.nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    generator = torch.Generator().manual_seed(hvd.rank())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=generator)
        loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        with optimizer.skip_synchronize():
            optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
    return losses


hvd.init()
torch.set_num_threads(1)
WAYS = {
    "plain": train(),
    "adam": train(optimizer_class=torch.optim.Adam),
    "sum": train(op=hvd.Sum),
    "passes": train(passes=3),
    "predivide": train(gradient_predivide_factor=2.0),
    "groups": train(groups=3),
    "sparse": train(is_dense=False),
    "sparse_as_dense": train(is_dense=False, sparse_as_dense=True),
    "fp16": train(compression=hvd.Compression.fp16),
    "clipped": clipped(),
}
if hvd.rank() == 0:
    print("LOSSES" + json.dumps(WAYS), flush=True)
hvd.shutdown()
