# SPDX-License-Identifier: Apache-2.0
"""What hvdray.torch says of itself, on two ranks or more: each function is a fact, and all run in one process."""

import contextlib
import functools
import gc
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
import weakref

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"

import horovod.torch as hvd
import torch

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64]


def raised(kinds, call):
    try:
        call()
    except kinds as error:
        return str(error)
    raise AssertionError("nothing was raised")


def all_of(make):
    return [make(rank) for rank in range(hvd.size())]


def reductions_of_every_type():
    for dtype, shape in itertools.product(TYPES, [(), (5,), (3, 4), (0, 2), (40000,)]):
        parts = [torch.full(shape, rank + 2).to(dtype) for rank in range(hvd.size())]
        mine = parts[hvd.rank()].clone()
        wanted = {
            hvd.Sum: sum(parts[1:], parts[0]), hvd.Min: parts[0], hvd.Max: parts[-1],
            hvd.Product: functools.reduce(torch.mul, parts),
        }
        for op, value in wanted.items():
            assert torch.equal(hvd.allreduce(mine, op=op), value), (dtype, shape, op)
        assert torch.equal(mine, parts[hvd.rank()])
        if dtype.is_floating_point:
            mean = (sum(part.double() for part in parts) / len(parts)).to(dtype)
            assert torch.allclose(hvd.allreduce(mine), mean, rtol=1e-2)
            scaled = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
            assert torch.allclose(scaled, wanted[hvd.Sum] * 2)
        assert hvd.allreduce_(mine, op=hvd.Sum) is mine and torch.equal(mine, wanted[hvd.Sum])
    flags = torch.tensor([True, hvd.rank() == 0, False])
    assert hvd.allreduce(flags, op=hvd.Max).tolist() == [True, True, False]
    assert hvd.allreduce(flags, op=hvd.Min).tolist() == [True, False, False]


def gathers_of_different_lengths():
    for dtype in [*TYPES, torch.bool]:
        parts = all_of(lambda rank: torch.full((rank * 3, 2), rank % 2).to(dtype))
        assert torch.equal(hvd.allgather(parts[hvd.rank()]), torch.cat(parts))
    first, second = hvd.grouped_allgather([torch.full((1 + hvd.rank(),), 1.0), torch.zeros(2, 0)])
    assert first.sum() == sum(range(hvd.size() + 1)) and second.shape == (2 * hvd.size(), 0)


def broadcasts():
    for root in range(hvd.size()):
        for dtype in [*TYPES, torch.bool]:
            mine = torch.arange(7).to(dtype) if hvd.rank() == root else torch.zeros(7).to(dtype)
            assert torch.equal(hvd.broadcast(mine, root), torch.arange(7).to(dtype))
            hvd.broadcast_(mine, root)
            assert torch.equal(mine, torch.arange(7).to(dtype))


def all_to_all():
    size, rank = hvd.size(), hvd.rank()
    whole = hvd.alltoall(torch.arange(size * 2) + 100 * rank)
    assert whole.tolist() == [100 * peer + 2 * rank + i for peer in range(size) for i in (0, 1)]
    splits = torch.tensor([peer + rank for peer in range(size)], dtype=torch.int64)
    got, received = hvd.alltoall(torch.full((int(splits.sum()), 3), rank), splits)
    assert received.tolist() == [peer + rank for peer in range(size)] and received.dtype == torch.int64
    assert got[:, 0].tolist() == [peer for peer in range(size) for _ in range(peer + rank)]


def reduce_scatters():
    size, rank = hvd.size(), hvd.rank()
    rows = 2 * size + 1  # the first rank gets one more
    whole = torch.arange(float(rows * 3)).view(rows, 3)
    part = hvd.reducescatter(whole * (rank + 1), op=hvd.Sum)
    factor = sum(range(size + 1))
    begin = rank * 2 + min(rank, 1)
    assert torch.equal(part, factor * whole[begin : begin + 2 + (rank == 0)])
    one, two = hvd.grouped_reducescatter([torch.ones(size, 2), torch.full((size,), 2.0)])
    assert one.tolist() == [[1.0, 1.0]] and two.tolist() == [2.0]


def groups_begin_together():
    tensors = [torch.full((n,), float(hvd.rank())) for n in (1, 70000, 3)]
    for result in hvd.grouped_allreduce(tensors, op=hvd.Sum):
        assert torch.equal(result, torch.full_like(result, sum(range(hvd.size()))))
    hvd.grouped_allreduce_(tensors, op=hvd.Max)
    assert all(torch.equal(tensor, torch.full_like(tensor, hvd.size() - 1)) for tensor in tensors)


def names_meet_in_any_order():
    names = [f"order.{i}" for i in range(20)]
    order = names if hvd.rank() % 2 == 0 else names[::-1]
    handles = {name: hvd.allreduce_async(torch.full((3,), float(names.index(name))), name=name) for name in order}
    for number, name in enumerate(names):
        assert hvd.synchronize(handles[name]).tolist() == [number] * 3


def handles_end_once_and_nobody_has_to_wait():
    handle = hvd.allreduce_async(torch.ones(2), name="once")
    while not hvd.poll(handle):
        time.sleep(0.001)
    assert hvd.synchronize(handle).tolist() == [1, 1]
    assert "once" not in raised(ValueError, lambda: hvd.synchronize(handle))
    raised(ValueError, lambda: hvd.poll(handle))
    for number in range(50):
        hvd.allreduce_async(torch.ones(1000), name=f"dropped.{number}")
    gc.collect()
    hvd.barrier()
    assert hvd.allreduce(torch.ones(1000), name="dropped.0").sum() == 1000


def nothing_is_kept_of_groups_that_nobody_waits_for():
    left = weakref.WeakSet()
    for number in range(200):
        tensors = [torch.ones(10), torch.ones(10)]
        left.update(tensors)
        hvd.grouped_allreduce_async_(tensors)
        if number == 100:
            hvd.barrier()
    del tensors
    hvd.barrier()
    for _ in range(40):
        hvd.grouped_allreduce([torch.ones(1), torch.ones(1)])
    assert not left


def a_signal_ends_a_wait():
    """As Ctrl-C does. What was waited for goes on."""
    handle = hvd.allreduce_async(torch.ones(2), name="late") if hvd.rank() == 0 else None
    if handle is not None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        raised(KeyboardInterrupt, lambda: hvd.synchronize(handle))
    hvd.barrier()
    handle = handle or hvd.allreduce_async(torch.ones(2), name="late")
    assert hvd.synchronize(handle).tolist() == [1, 1]


def gradients_are_those_of_horovod():
    size, rank = hvd.size(), hvd.rank()

    def gradient(function, shape=(2 * size, 2)):
        x = torch.full(shape, rank + 1.0, requires_grad=True)
        result = function(x)
        result.sum().backward()
        return x.grad

    mean = (size + 1) / 2
    del mean
    assert torch.equal(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)), torch.full((2 * size, 2), float(size)))
    assert torch.equal(gradient(lambda x: hvd.allreduce(x)), torch.ones(2 * size, 2))
    assert torch.equal(gradient(lambda x: hvd.grouped_allreduce([x, x])[1]), torch.ones(2 * size, 2))
    assert torch.equal(gradient(lambda x: hvd.allgather(x) * (rank + 1), (rank + 1, 2)),
                       torch.full((rank + 1, 2), (size + 1) / 2))
    assert torch.equal(gradient(lambda x: hvd.grouped_allgather([x, x])[0]), torch.ones(2 * size, 2))
    root = torch.full((2 * size, 2), 1.0 if rank == 1 else 0.0)
    assert torch.equal(gradient(lambda x: hvd.broadcast(x, 1)), root)
    back = gradient(lambda x: hvd.alltoall(x) * (rank + 1))
    assert back[:, 0].tolist() == [peer + 1 for peer in range(size) for _ in (0, 1)]
    assert torch.equal(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum)), torch.full((2 * size, 2), float(size)))
    assert torch.equal(gradient(lambda x: hvd.grouped_reducescatter([x])[0]), torch.ones(2 * size, 2))


def sparse_tensors():
    mine = torch.sparse_coo_tensor([[hvd.rank(), 4]], [1.0, 2.0], (6,))
    dense = hvd.synchronize(hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum)).to_dense()
    assert dense.tolist() == [float(i < hvd.size()) if i != 4 else 2.0 * hvd.size() for i in range(6)] or hvd.size() > 4


def compression_and_objects():
    x = torch.full((1000,), 1.5 + hvd.rank())
    for kind in (hvd.Compression.fp16, hvd.Compression.bf16, hvd.Compression.none):
        got = hvd.allreduce(x, compression=kind)
        assert got.dtype == torch.float32 and torch.allclose(got, torch.full_like(x, 1 + hvd.size() / 2))
    assert hvd.broadcast_object({"of": hvd.rank()}, root_rank=1) == {"of": 1}
    assert hvd.broadcast_object({"of": 0} if hvd.rank() == 0 else None) == {"of": 0}  # types differ, names don't
    assert hvd.allgather_object(None if hvd.rank() else 0) == [0] + [None] * (hvd.size() - 1)
    assert hvd.allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]


def what_cannot_be_sent_is_refused_here():
    whole = torch.ones(4, 4)
    for tensor, text in [
        (whole.t()[1:], "contiguous"), (whole[:, 1], "contiguous"), (whole.to_sparse(), "not supported"),
        (whole.to(torch.complex64), "not supported"), (torch.ones(2, device="meta"), "not supported"),
    ]:
        for operation in (hvd.allreduce, hvd.allgather, lambda t: hvd.broadcast(t, 0), hvd.alltoall):
            assert text in raised(ValueError, lambda: operation(tensor)), text
    raised(TypeError, lambda: hvd.allreduce([1.0]))
    raised(ValueError, lambda: hvd.grouped_allreduce([]))
    raised(ValueError, lambda: hvd.allreduce(whole, op=99))
    raised(ValueError, lambda: hvd.allreduce(whole, average=True, op=hvd.Sum))
    raised(ValueError, lambda: hvd.broadcast(whole, hvd.size()))
    raised(ValueError, lambda: hvd.alltoall(torch.ones(hvd.size() + 1)))
    raised(ValueError, lambda: hvd.alltoall(whole, splits=[1] * (hvd.size() + 1)))
    raised(ValueError, lambda: hvd.reducescatter(torch.tensor(1.0)))
    raised((RuntimeError, ValueError), lambda: hvd.allreduce(whole, op=hvd.Adasum))
    raised(ValueError, lambda: hvd.allreduce(whole, process_set=hvd.ProcessSet([0])))
    raised(ValueError, hvd.mpi_threads_supported)
    assert not hvd.mpi_built() and not hvd.mpi_enabled() and hvd.gloo_built() and not hvd.nccl_built()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert hvd.allreduce(whole, average=False).sum() == 16 * hvd.size()
    assert [entry.category for entry in caught] == [DeprecationWarning]


def ranks_that_disagree_get_the_same_error_and_go_on():
    first = hvd.rank() == 0
    x = torch.ones(4)
    cases = {
        "shape": lambda: hvd.allreduce(torch.ones(4 + hvd.rank()), name="m.shape"),
        "type": lambda: hvd.allreduce(x if first else x.double(), name="m.type"),
        "op": lambda: hvd.allreduce(x, op=hvd.Sum if first else hvd.Min, name="m.op"),
        "scale": lambda: hvd.allreduce(x, prescale_factor=1.0 if first else 2.0, name="m.scale"),
        "root": lambda: hvd.broadcast(x, hvd.rank(), name="m.root"),
        "columns": lambda: hvd.allgather(torch.ones(2, 2 + hvd.rank()), name="m.columns"),
        "group": lambda: hvd.grouped_allreduce([x] * (1 if first else 2), name="m.group"),
        "unnamed group": lambda: hvd.grouped_allgather([x] * (2 if first else 3)),
        "sparse": lambda: hvd.synchronize(hvd.sparse_allreduce_async(x.to_sparse(), "m.sparse", hvd.Sum) if first
                                          else hvd.allreduce_async(x, name="m.sparse")),
    }
    for name, case in cases.items():
        text = raised(hvd.HorovodInternalError, case)
        assert "Mismatched" in text, (name, text)
        assert len(set(hvd.allgather_object(text))) == 1, name
    for number in (torch.tensor(1.0), torch.tensor(1.0, requires_grad=True)):
        for case in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
            assert "has no dimension" in raised(hvd.HorovodInternalError, lambda: case(number))
    assert hvd.allreduce(x, op=hvd.Sum).tolist() == [hvd.size()] * 4


def a_tensor_that_moves_in_flight_is_told():
    """Its old memory, which the library writes to, lives as long as the operation."""

    def replace(tensor):
        tensor.data = torch.zeros(3)

    # A root's memory is only read: what it had is freed when it is resized.
    for number, (root, size, move) in enumerate([
        (1, 5_000_000, replace), (0, 10, lambda tensor: tensor.resize_(5_000_000)),
    ]):
        tensor = torch.full((size,), float(hvd.rank()))
        begin = functools.partial(hvd.broadcast_async_, tensor, root, f"moves.{number}")
        handle = begin() if hvd.rank() == 0 else None
        if hvd.rank() == 0:
            move(tensor)
        hvd.barrier()
        if hvd.rank() == 0:
            text = raised(ValueError, lambda: hvd.synchronize(handle))
            assert f"moves.{number}" in text and "in flight" in text, text
        else:
            assert hvd.synchronize(begin())[0] == root or root == 0


def numbers_that_are_too_large_are_refused_here():
    x = torch.ones(4)
    for far in (1 << 32, -(1 << 32), 1 << 64):
        for operation in (hvd.broadcast, hvd.broadcast_, hvd.broadcast_object):
            assert str(far) in raised(ValueError, lambda: operation(x, far))
        raised(ValueError, lambda: hvd.broadcast_parameters({"x": x}, far))
        raised(ValueError, lambda: hvd.add_process_set([0, far]))
    for far in ((1 << 64) + 1, 1 << 63, -(1 << 63) - 1):
        assert str(far) in raised(ValueError, lambda: hvd.alltoall(x, splits=[far] * hvd.size()))
    raised(ValueError, lambda: hvd.allreduce(x, prescale_factor=10**400))


def a_name_is_free_after_a_barrier():
    hvd.barrier()
    for number in range(100):  # the barrier is known to all, the name is not
        handles = [hvd.allreduce_async(torch.ones(2), name=f"free.{number}.{i}") for i in range(3)]
        hvd.barrier()
        for i in range(3):
            handles.append(hvd.allreduce_async(torch.ones(2), name=f"free.{number}.{i}"))
        hvd.barrier()
        del handles


def a_name_in_flight_is_taken():
    hvd.barrier()
    if hvd.rank() == 0:
        first = hvd.allreduce_async(torch.ones(2), name="twice")
        assert "name" in raised(ValueError, lambda: hvd.allreduce_async(torch.ones(2), name="twice"))
        other = hvd.allgather_async(torch.ones(2), name="twice")
    hvd.barrier()
    if hvd.rank() != 0:
        first = hvd.allreduce_async(torch.ones(2), name="twice")
        other = hvd.allgather_async(torch.ones(2), name="twice")
    hvd.synchronize(first), hvd.synchronize(other)


def joins():
    for early in range(hvd.size()):
        if hvd.rank() == early:
            last = hvd.join()
        else:
            for _ in range(3):  # as many operations without a name as the early one never counts
                got = hvd.allreduce(torch.ones(3))
                assert torch.allclose(got, torch.full((3,), (hvd.size() - 1) / hvd.size())), got
            raised(hvd.HorovodInternalError, lambda: hvd.allgather(torch.ones(1), name="while joined"))
            last = hvd.join()
        assert last != early and len(set(hvd.allgather_object(last))) == 1
    assert hvd.allreduce(torch.ones(1)).tolist() == [1.0]  # counts agree again


def process_sets():
    size, rank = hvd.size(), hvd.rank()
    assert hvd.global_process_set.size() == size and hvd.global_process_set.rank() == rank
    even = hvd.add_process_set(range(0, size, 2))
    odd = hvd.add_process_set(hvd.ProcessSet(range(1, size, 2)))
    raised(ValueError, lambda: hvd.add_process_set(list(range(0, size, 2))))
    mine, other = (even, odd) if rank % 2 == 0 else (odd, even)
    assert mine.included() and not other.included() and mine.size() == len(mine.ranks)
    raised(ValueError, other.rank)
    total = hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum, process_set=mine, name="of a set")
    assert total.item() == sum(mine.ranks)
    raised(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=other))
    assert hvd.allgather(torch.tensor([rank]), process_set=mine).tolist() == mine.ranks
    assert hvd.broadcast(torch.tensor([rank]), mine.ranks[-1], process_set=mine).item() == mine.ranks[-1]
    hvd.barrier(mine)
    assert hvd.remove_process_set(even) and hvd.remove_process_set(odd)
    assert not hvd.remove_process_set(even) and not hvd.remove_process_set(hvd.global_process_set)
    assert even.size() is None
    raised(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=even))


def a_forked_child_is_not_initialized():
    hvd.allreduce_async(torch.ones(5), name="before fork")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert not hvd.is_initialized()
            raised(ValueError, hvd.rank)
            raised(ValueError, lambda: hvd.allreduce(torch.ones(1)))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    hvd.barrier()


def a_signal_is_heard_while_an_operation_waits():
    def interrupt(*_):
        raise KeyboardInterrupt

    hvd.barrier()
    if hvd.rank() == 0:
        before = signal.signal(signal.SIGALRM, interrupt)
        handle = hvd.allreduce_async(torch.ones(2), name="late")
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        raised(KeyboardInterrupt, lambda: hvd.synchronize(handle))
        signal.signal(signal.SIGALRM, before)
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async(torch.ones(2), name="late")
    assert hvd.synchronize(handle).tolist() == [1.0, 1.0]


def shutdown_frees_a_thread_that_waits():
    first = hvd.rank() == 0
    if first:
        handle = hvd.allreduce_async(torch.ones(2), name="never")
        told = []
        thread = threading.Thread(
            target=lambda: told.append(raised((hvd.HorovodInternalError, ValueError), lambda: hvd.synchronize(handle))))
        thread.start()
    hvd.barrier()
    hvd.shutdown()
    if first:
        thread.join()
        assert told
    hvd.init()


def a_hook_may_call_while_another_thread_waits():
    size, arrived = hvd.size(), []
    waiter = threading.Thread(target=lambda: arrived.append(hvd.allreduce(torch.ones(2), op=hvd.Sum, name="hook.waits")))
    if hvd.rank() == 0:
        waiter.start()
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda gradient: hvd.allreduce(gradient, op=hvd.Sum, name="hook.calls"))
    (weight * (hvd.rank() + 1)).sum().backward()
    assert torch.equal(weight.grad, torch.full((3,), size * (size + 1) / 2))
    if hvd.rank() != 0:
        waiter.start()
    waiter.join()
    assert torch.equal(arrived[0], torch.full((2,), float(size)))


def the_timeline_shows_what_has_ended():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.json")
        hvd.start_timeline(path, mark_cycles=True)
        hvd.allreduce(torch.ones(3), name="seen")
        hvd.barrier()
        if hvd.rank() == 0:
            raised(ValueError, lambda: hvd.start_timeline(path))
            while "NEGOTIATE_ALLREDUCE" not in open(path).read():  # the barrier's end may come first
                time.sleep(0.001)
            assert "allreduce.seen" in open(path).read()
        hvd.stop_timeline()
        if hvd.rank() == 0:
            assert any(event.get("name") == "ALLREDUCE" for event in json.load(open(path)))


def it_begins_and_ends_again():
    place = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
    assert hvd.is_homogeneous()
    stale = hvd.add_process_set(list(range(hvd.size() - 1, hvd.size())))
    hvd.barrier()
    hvd.shutdown()
    hvd.shutdown()
    assert not hvd.is_initialized()
    assert "hvd.init()" in raised(ValueError, hvd.rank)
    raised(ValueError, lambda: hvd.allreduce(torch.ones(1)))
    raised(ValueError, lambda: hvd.init(comm=[0] if hvd.is_initialized() else object()))
    hvd.init(process_sets=[hvd.ProcessSet([0])])
    hvd.init()
    assert "not registered" in raised(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=stale))
    assert place == (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def shutdown_ends_what_other_threads_wait_for():
    def wait(number):
        with contextlib.suppress(hvd.HorovodInternalError, ValueError):  # ValueError: the next one came after shutdown
            while True:
                hvd.allreduce(torch.ones(10), name=f"thread.{number}")

    for leaving in range(2 * hvd.size()):
        threads = [threading.Thread(target=wait, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        hvd.barrier()
        if leaving % hvd.size() == hvd.rank():
            hvd.shutdown()
        for thread in threads:
            thread.join()
        hvd.shutdown()
        hvd.init()


def batch_norm_is_that_of_the_whole_batch():
    torch.manual_seed(3)
    whole = torch.randn(4 * hvd.size() + 1, 3, 5)
    parts = list(whole.split(4))
    parts[-2:] = [torch.cat(parts[-2:])]  # the last one has five
    ours, wanted = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
    x, y = parts[hvd.rank()].clone().requires_grad_(), whole.clone().requires_grad_()
    got, reference = ours(x), wanted(y)
    begin = 4 * hvd.rank()
    assert torch.allclose(got, reference[begin : begin + len(x)], atol=1e-5)
    assert torch.allclose(ours.running_mean, wanted.running_mean, atol=1e-6)
    assert torch.allclose(ours.running_var, wanted.running_var, atol=1e-5)
    (got * torch.sin(x.detach())).sum().backward()
    (reference * torch.sin(whole)).sum().backward()
    assert torch.allclose(x.grad, y.grad[begin : begin + len(x)], atol=1e-5)
    weight = hvd.allreduce(ours.weight.grad, op=hvd.Sum)
    assert torch.allclose(weight, wanted.weight.grad, atol=1e-4)


FACTS = [fact for fact in list(globals().values()) if callable(fact) and getattr(fact, "__module__", "") == "__main__"
         and fact.__name__ not in ("raised", "all_of")]

if __name__ == "__main__":
    hvd.init()
    chosen = sys.argv[1:]
    for fact in FACTS:
        if not chosen or fact.__name__ in chosen:
            fact()
            if hvd.rank() == 0:
                print(fact.__name__, flush=True)
    print("all facts hold", flush=True)
