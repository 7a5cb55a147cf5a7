# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch over a pretended GPU: all that torch_operations.py says, and what is a GPU's alone."""

import os
import signal
import sys
import time

import pretended_gpu
import torch
import torch_operations
from hvdray.torch import _device
from torch_operations import hvd, raised


def the_group_has_done_it():
    hvd.allreduce(torch.ones(3))
    assert pretended_gpu.made[0] == hvd.size()
    before = len(pretended_gpu.waits)
    hvd.synchronize(hvd.allreduce_async_(torch.ones(3), name="waited for"))
    assert len(pretended_gpu.waits) == before + 1


def small_tensors_go_together():
    tensors = [torch.full((10, number), float(number)) for number in range(1, 9)]
    pretended_gpu.largest[0] = 0
    for tensor, result in zip(tensors, hvd.grouped_allreduce(tensors, op=hvd.Sum, postscale_factor=0.5)):
        assert torch.equal(result, tensor * hvd.size() / 2)
    assert pretended_gpu.largest[0] == 360
    hvd.allreduce(torch.ones(100_000))
    assert pretended_gpu.largest[0] == 100_000


def integers_are_as_on_the_host():
    for dtype in (torch.int16, torch.int64):
        tensor = torch.tensor([-7, -3, 3, 8], dtype=dtype) + hvd.rank()
        got = hvd.allreduce(tensor), hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=1.5)
        pretended_gpu.use(False)
        wanted = hvd.allreduce(tensor), hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=1.5)
        pretended_gpu.use(True)
        assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1]), (got, wanted)


def some_on_a_gpu_and_some_not_is_an_error_on_all():
    pretended_gpu.use(hvd.rank() == 0)
    assert "Mismatched devices" in raised(hvd.MismatchError, lambda: hvd.allreduce(torch.ones(2), name="apart"))
    pretended_gpu.use(True)
    hvd.allreduce(torch.ones(2))


def one_that_joins_at_once_adds_zeros():
    hvd.shutdown()
    hvd.init()
    if hvd.rank() == 0:
        assert hvd.join() == hvd.size() - 1
    else:
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size() - 1.0] * 2
        several = hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], op=hvd.Sum)
        assert sum(tensor.sum() for tensor in several) == 5 * (hvd.size() - 1)
        hvd.join()


def a_group_goes_with_its_set():
    own = hvd.add_process_set([0])
    if own.included():
        hvd.allreduce(torch.ones(1), name="of a set", process_set=own)
    number = own.process_set_id
    assert (number in _device.lane._groups) == own.included()
    assert hvd.remove_process_set(own)
    hvd.allreduce(torch.ones(1))  # behind it, on the same thread
    assert list(_device.lane._groups) == [0]


def without_a_device_for_each_it_is_not_taken():
    assert _device.are_enough([[2, 7], [2, 7], [1, 8], [1, 9]])
    assert not _device.are_enough([[1, 7], [1, 7]]) and not _device.are_enough([[1, 7], [0, 8]])
    for name, value in (("HVDRAY_TORCH_NCCL", "0"), ("PRETENDED_DEVICES", "1")):
        if hvd.rank() == 0 or value == "1":  # one rank decides for all
            os.environ[name] = value
        hvd.shutdown()
        hvd.init()
        assert _device.lane is None
        hvd.allreduce(torch.ones(1))
        os.environ.pop(name, None)
    hvd.shutdown()
    hvd.init()
    assert _device.lane is not None


def one_that_leaves_holds_its_groups_until_others_have_done():
    """Else their side of the last operation breaks."""
    hvd.allreduce(torch.ones(2))
    pretended_gpu.tells, pretended_gpu.lags = True, hvd.rank() == 1
    assert hvd.allreduce(torch.ones(2), name="last", op=hvd.Sum).tolist() == [2.0, 2.0]
    hvd.shutdown()
    assert pretended_gpu.closed_meanwhile == [False] * pretended_gpu.lags
    pretended_gpu.tells = pretended_gpu.lags = False
    hvd.init()


def what_fails_on_one_rank_ends_all():
    hvd.barrier()
    patience, _device._NEWS = _device._NEWS, 0.1
    if hvd.rank() == 1:
        pretended_gpu.failure = "a GPU has fallen off the bus"
    text = raised(hvd.HorovodInternalError, lambda: hvd.allreduce(torch.ones(2), name="fails"))
    assert pretended_gpu.failure in text if hvd.rank() == 1 else "rank 1 failed on its device with RuntimeError" in text, text
    raised(hvd.HorovodInternalError, lambda: hvd.allreduce(torch.ones(2)))
    pretended_gpu.failure, _device._NEWS = None, patience
    hvd.shutdown()
    hvd.init()
    hvd.allreduce(torch.ones(2))


def a_death_ends_what_is_in_flight():
    """Last: nothing works after it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, who sees it, too
    hvd.allreduce(torch.ones(2))
    print("all facts hold", flush=True)
    if hvd.rank() == 1:
        pretended_gpu.kills = True  # in the midst of it
    began = time.monotonic()
    handles = [hvd.allreduce_async_(torch.ones(300_000), name=f"large.{number}") for number in range(5)]
    text = raised(hvd.HorovodInternalError, lambda: [hvd.synchronize(handle) for handle in handles])
    assert "rank 1" in text and "died" in text, text
    raised(hvd.HorovodInternalError, lambda: hvd.allreduce(torch.ones(2)))
    assert time.monotonic() - began < 60  # not gloo's 100 s
    hvd.shutdown()
    print("the death was seen", flush=True)


if __name__ == "__main__":
    hvd.init()
    for fact in [*vars(torch_operations).values(), *globals().copy().values()]:
        if getattr(fact, "__module__", "") not in ("torch_operations", "__main__") or fact.__name__ in ("raised", "all_of"):
            continue
        if not sys.argv[1:] or fact.__name__ in sys.argv[1:]:
            if hvd.rank() == 0:
                print(fact.__name__, flush=True)
            fact()
