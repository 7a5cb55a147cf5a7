# SPDX-License-Identifier: Apache-2.0
"""The host's memory as a GPU's, and gloo as NCCL: importing it before hvd.init() has hvdray.torch take that way."""

import contextlib
import os
import signal
import threading
import time
from datetime import timedelta

os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import horovod.torch
import torch
from hvdray.torch import _device, _place
from torch._C import _distributed_c10d as c10d

made = []  # groups: their sizes
waits = []  # by events that a program's stream has waited for
largest = [0]  # elements that were reduced at once
failure = None  # the text of the next error
kills = False  # this process, within an operation
tells = False  # when it closes a group
lags = False  # ends its operations later than others, and looks whether they have told
closed_meanwhile = []
_current = threading.local()


class Event:
    def synchronize(self):
        assert self.query()

    def query(self):
        return True


class Stream:
    def record_event(self):
        return Event()

    def wait_event(self, event):
        assert isinstance(event, Event)
        if self is not _current.__dict__.get("stream"):
            waits.append(event)


class OldGloo:
    """What NCCL has and the gloo of torch 1.13 does not."""

    def __init__(self, group, size):
        self.group, self.size = group, size

    def broadcast(self, tensors, options):
        return self.group.broadcast(tensors, options)

    def alltoall_base(self, *arguments):
        return self.group.alltoall_base(*arguments)

    def allreduce(self, tensors, options):
        largest[0] = max(largest[0], tensors[0].numel())
        if failure is not None:
            raise RuntimeError(failure)
        if kills:
            os.kill(os.getpid(), signal.SIGKILL)
        wide = [tensor.float() if tensor.dtype == torch.bfloat16 else tensor for tensor in tensors]
        self.group.allreduce(wide, options).wait()
        for tensor, each in zip(tensors, wide):
            tensor.copy_(each)
        if lags:
            time.sleep(0.3)
            closed_meanwhile.append(_place.ask("GET", "test/closed") is not None)
        return self

    def _allgather_base(self, output, tensor):
        return self.group.allgather([list(output.chunk(self.size))], [tensor])

    def _reduce_scatter_base(self, output, tensor, options):
        whole, reduce = tensor.clone(), c10d.AllreduceOptions()
        reduce.reduceOp = options.reduceOp
        self.allreduce([whole], reduce)
        output.copy_(whole.chunk(self.size)[self.group.rank()].view(output.shape))
        return self

    def wait(self):
        return True


class Pretended:
    kind = "cpu"

    def count(self):
        return int(os.environ.get("PRETENDED_DEVICES", "8"))

    def device(self, index):
        return torch.device("cpu")

    def make(self, store, rank, size):
        made.append(size)
        return OldGloo(c10d.ProcessGroupGloo(store, rank, size, timedelta(seconds=100)), size)

    def abort(self, group):
        if tells:
            _place.ask("PUT", "test/closed", b"yes")
        group.group = None

    def stream(self, device):
        return Stream()

    def current_stream(self, device):
        return Stream()

    @contextlib.contextmanager
    def on(self, stream):
        _current.stream = stream
        yield
        _current.stream = None

    def lend(self, tensor, stream):
        assert isinstance(tensor, torch.Tensor)


def use(is_on):
    """Whether tensors are on the GPU from now on."""
    _device.api.kind = "cpu" if is_on else "nothing"


_device.api = Pretended()
