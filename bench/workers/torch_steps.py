# SPDX-License-Identifier: Apache-2.0
"""One rank of what bench/torch_speed.py measures: torch_steps.py horovod|gloo|hvdray MEASURE..., of which the last two are
backends of torch.distributed, with DDP. Rank 0 prints JSON: measure to seconds, the median, and seconds of processor time. A
measure is a number of bytes, a name of MODELS, "backward." and one of them, "tiny", or "negotiation", whose processor time is
that of all threads but the program's own.

A step makes gradients of the shapes of a model without computing anything, and reduces them: zero_grad, backward,
synchronize. Parameters are never read, so that they take no memory.
"""

import json
import os
import pathlib
import statistics
import sys
import threading
import time

import torch

torch.set_num_threads(1)
TINY = 161


def linear(*sizes):
    return [shape for before, behind in zip(sizes, sizes[1:]) for shape in ((behind, before), (behind,))]


def resnet50():
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, before, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if block == 0:
                convolutions.append((4 * width, before, 1, 1))
            shapes += [shape for one in convolutions for shape in (one, one[:1], one[:1])]
            before = 4 * width
    return shapes + linear(2048, 1000)


def gpt2():
    wide = 768
    norm = [(wide,), (wide,)]
    block = [*norm, (wide, 3 * wide), (3 * wide,), (wide, wide), (wide,), *norm, (wide, 4 * wide), (4 * wide,),
             (4 * wide, wide), (wide,)]
    return [(50257, wide), (1024, wide), *(block * 12), *norm]


MODELS = {"small": linear(784, 64, 32, 10), "resnet50": resnet50(), "gpt2": gpt2()}


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(context, parameter):
        context.shape = parameter.shape
        return torch.zeros(())

    @staticmethod
    def backward(context, gradient):
        return gradient.expand(context.shape)


class Model(torch.nn.Module):
    def __init__(self, shapes):
        super().__init__()
        self.parameter_list = torch.nn.ParameterList(torch.nn.Parameter(torch.empty(shape)) for shape in shapes)

    def forward(self):
        return sum(Gradient.apply(parameter) for parameter in self.parameter_list)


class Horovod:
    def __init__(self):
        import horovod.torch as hvd
        hvd.init()
        self.hvd, self.rank, self.barrier = hvd, hvd.rank(), hvd.barrier

    def step_of(self, model):
        optimizer = self.hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())

        def step():
            forget_gradients(model)
            model().backward()
            optimizer.synchronize()
        return step

    def reduce(self, tensor):
        self.hvd.allreduce_(tensor, name="data", op=self.hvd.Sum)

    def reduce_all(self, tensors):
        handles = [self.hvd.allreduce_async_(tensor, name=f"tiny.{index}", op=self.hvd.Sum) for index, tensor in enumerate(tensors)]
        for handle in handles:
            self.hvd.synchronize(handle)


class Torch:
    def __init__(self, backend):
        import torch.distributed as dist
        if backend == "hvdray":
            import horovod.torch  # by which there is a package hvdray, too
            import hvdray.torch.c10d
        dist.init_process_group(backend)
        self.dist, self.rank, self.barrier = dist, dist.get_rank(), dist.barrier

    def step_of(self, model):
        whole = torch.nn.parallel.DistributedDataParallel(model)

        def step():
            forget_gradients(model)
            whole().backward()
        return step

    def reduce(self, tensor):
        self.dist.all_reduce(tensor)

    def reduce_all(self, tensors):
        for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()


def forget_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


def timed(peer, step, count, pause=0.0):
    """[the median in seconds, the mean of the processor time of this rank]

    pause: before each step. On a busy machine who never sleeps gets its share of a processor and no more, and who sleeps
    much, as Horovod does between its cycles, has it at once when it wakes: so all sleep.
    """
    times, used = [], 0.0
    for number in range(count + count // 4 + 2):
        time.sleep(pause)
        peer.barrier()
        started, before = time.perf_counter(), time.process_time()
        step()
        if number >= count // 4 + 2:
            times.append(time.perf_counter() - started)
            used += time.process_time() - before
    return [statistics.median(times), used / count]


def other_threads():
    """Seconds of processor time of all threads but this one."""
    total = 0
    for path in pathlib.Path("/proc/self/task").iterdir():
        if int(path.name) != threading.get_native_id():
            total += int((path / "schedstat").read_text().split()[0])
    return total / 1e9


def negotiation(peer, step, count=200):
    for _ in range(20):
        step()
    before, started = other_threads(), time.perf_counter()
    for _ in range(count):
        step()
    return [(time.perf_counter() - started) / count, (other_threads() - before) / count]


def measured(peer, name):
    counts = {"small": (50,), "resnet50": (10, 0.1), "gpt2": (5, 0.3)}
    if name.isdigit():
        data = torch.zeros(int(name) // 4)
        return timed(peer, lambda: peer.reduce(data), max(15, min(200, (256 << 20) // int(name))), int(name) / 1e9)
    if name.startswith("backward."):  # nothing is reduced
        name = name.removeprefix("backward.")
        model = Model(MODELS[name])

        def alone():
            forget_gradients(model)
            model().backward()
        return timed(peer, alone, *counts[name])
    if name in MODELS:
        return timed(peer, peer.step_of(Model(MODELS[name])), *counts[name])
    tensors = [torch.zeros(256 if name == "tiny" else 1) for _ in range(TINY)]
    if name == "tiny":
        return timed(peer, lambda: peer.reduce_all(tensors), 50)
    return negotiation(peer, lambda: peer.reduce_all(tensors))


def main():
    peer = Horovod() if sys.argv[1] == "horovod" else Torch(sys.argv[1])
    found = {name: measured(peer, name) for name in sys.argv[2:]}
    if peer.rank == 0:
        print(json.dumps(found), flush=True)
    peer.barrier()
    os._exit(0)  # an end that is not measured


main()
