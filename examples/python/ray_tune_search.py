# SPDX-License-Identifier: Apache-2.0
"""The search of Horovod's documentation, each of whose trials is a Horovod job of two workers, on a Ray of today: what differs is
the import of DistributedTrainableCreator, and that the search has to say which metric is best.

    pip install 'ray[tune]' horovod torch ./hvdray-*.whl && python examples/python/ray_tune_search.py
"""

import horovod.torch as hvd
import torch
from ray import tune

from hvdray.ray.tune import DistributedTrainableCreator  # was: from ray.tune.integration.horovod import …


def training_function(config):
    hvd.init()
    torch.manual_seed(hvd.rank())
    inputs = torch.rand(64, 1)
    model = torch.nn.Linear(1, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=config["lr"]), named_parameters=model.named_parameters()
    )
    for _ in range(config["epochs"]):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs + 1)
        loss.backward()
        optimizer.step()
        tune.report(loss=hvd.allreduce(loss.detach()).item(), rank=hvd.rank())  # ranks but 0 are not the trial's


if __name__ == "__main__":
    trainable = DistributedTrainableCreator(training_function, num_slots=2, use_gpu=False)
    analysis = tune.run(
        trainable,
        config={"epochs": tune.grid_search([1, 2, 3]), "lr": tune.grid_search([0.01, 0.1])},
        metric="loss",
        mode="min",
    )
    print(analysis.best_config)
