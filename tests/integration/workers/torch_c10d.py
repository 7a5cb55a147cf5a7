# SPDX-License-Identifier: Apache-2.0
"""The backend "hvdray" of torch.distributed on two ranks or more: each function is a fact, and all run in one process."""

import contextlib
import datetime
import os
import signal

os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"

import horovod.torch as hvd  # by which there is a package hvdray, too
import torch
import torch.distributed as dist

import hvdray.torch.c10d

STEPS = 20
IS_BACKEND = not issubclass(hvdray.torch.c10d._Group, dist.ProcessGroup)


def raised(kinds, call):
    try:
        call()
    except kinds as error:
        return str(error)
    raise AssertionError("nothing was raised")


def each(make):
    return [make(rank) for rank in range(dist.get_world_size())]


def reductions():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for op, value in ((dist.ReduceOp.SUM, 3 * size), (dist.ReduceOp.MIN, 3), (dist.ReduceOp.PRODUCT, 3 ** size)):
            tensor = torch.full((5, 7), 3).to(dtype)
            dist.all_reduce(tensor, op)
            assert (tensor == value).all(), (dtype, op)
    tensor = torch.tensor(float(rank))  # a number without dimensions
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    assert tensor.item() == size - 1
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert tensor.item() == size - 1
    flags = torch.tensor([True, rank == 0])
    dist.all_reduce(flags, dist.ReduceOp.MIN)
    assert flags.tolist() == [True, False]
    across = torch.full((3, 4), rank + 1.0).t()  # not contiguous
    dist.all_reduce(across)
    assert (across == size * (size + 1) / 2).all()
    tensor = torch.full((3,), rank + 1.0)
    dist.reduce(tensor, 1)
    assert tensor[0] == (size * (size + 1) / 2 if rank == 1 else rank + 1)
    assert "BAND" in raised((ValueError, RuntimeError), lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.BAND))
    line = raised((ValueError, RuntimeError), lambda: dist.all_reduce(torch.ones(2).to_sparse()))
    assert "support" in line, line


def broadcasts_and_gathers():
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        tensor = torch.full((4,), float(rank))
        dist.broadcast(tensor, root)
        assert (tensor == root).all()
    parts = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(parts, torch.full((2, 3), float(rank)))
    assert all((part == index).all() for index, part in enumerate(parts))
    whole = torch.empty(size * 2, 3)
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    gather(whole, torch.full((2, 3), float(rank)))
    assert torch.equal(whole, torch.cat(parts))
    assert "tensors of all ranks" in raised((ValueError, RuntimeError), lambda: gather(whole, torch.zeros(7)))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == each(lambda one: {"rank": one, "text": "x" * one})
    objects = [("root", 1) if rank == 0 else None]
    dist.broadcast_object_list(objects, 0)
    assert objects == [("root", 1)]
    parts = [torch.empty(2) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((2,), float(rank)), parts, 1)
    assert rank != 1 or torch.stack(parts).tolist() == each(lambda one: [one, one])
    mine = torch.empty(2)
    dist.scatter(mine, each(lambda one: torch.full((2,), one + 5.0)) if rank == 1 else None, 1)
    assert mine.tolist() == [rank + 5.0] * 2


def scattered_reductions_and_exchanges():
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.empty(3)
    dist.reduce_scatter(mine, each(lambda one: torch.full((3,), float(one))))
    assert (mine == rank * size).all()
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    scatter(mine, torch.arange(3.0 * size))
    assert mine.tolist() == [(3 * rank + index) * size for index in range(3)]
    assert "outputs of all ranks" in raised((ValueError, RuntimeError), lambda: scatter(mine, torch.zeros(7)))
    whole = torch.empty(2 * size, dtype=torch.int64)
    dist.all_to_all_single(whole, torch.arange(2 * size) + 100 * rank)
    assert whole.tolist() == sum(each(lambda one: [100 * one + 2 * rank, 100 * one + 2 * rank + 1]), [])
    outputs = [torch.empty(rank + 1, 2) for _ in range(size)]  # `rank + 1` rows from each
    splits = each(lambda one: one + 1)
    uneven = torch.empty(size * (rank + 1), 2)
    dist.all_to_all_single(uneven, torch.full((sum(splits), 2), float(rank)), [rank + 1] * size, splits)
    assert uneven[:, 0].tolist() == sum(each(lambda one: [one] * (rank + 1)), [])
    dist.all_to_all(outputs, each(lambda one: torch.full((one + 1, 2), float(rank))))
    assert torch.equal(torch.cat(outputs), uneven)
    assert "3 rows" in raised((ValueError, RuntimeError), lambda: dist.all_to_all_single(torch.empty(3), torch.empty(3), [1] * size, [9] * size))


def more_in_flight_than_there_are_names():
    size = dist.get_world_size()
    tensors = [torch.full((100,), float(number)) for number in range(100)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    assert all((tensor == number * size).all() for number, tensor in enumerate(tensors))
    dist.barrier()


def what_differs_between_ranks_is_an_error_on_all():
    rank = dist.get_rank()
    line = raised((RuntimeError, ValueError), lambda: dist.all_reduce(torch.zeros(3 + rank)))
    assert "Mismatched shapes of allreduce" in line, line
    line = raised((RuntimeError, ValueError), lambda: dist.barrier() if rank == 0 else dist.all_reduce(torch.zeros(3)))
    assert "Mismatched" in line, line
    reductions()  # all is as before


def an_operation_that_a_rank_never_begins_names_it():
    """After its time; then all goes on."""
    work = dist.all_reduce(torch.zeros(3), async_op=True) if dist.get_rank() == 0 else None
    if work is not None:
        for tries in range(100):  # until the library's thread has told this rank what it waits for
            line = raised(RuntimeError, lambda: work.wait(datetime.timedelta(milliseconds=100)))
            if "rank 1" in line:
                break
        assert "allreduce" in line and "has not ended after 0.1 s: rank 1 of the job never began it" in line, line
    hvd.barrier()
    if work is None:
        dist.all_reduce(torch.zeros(3))
    else:
        work.wait()


def absent_operations_name_the_backend():
    for call in (lambda: dist.send(torch.zeros(1), 0), lambda: dist.recv(torch.zeros(1), 0)):
        with contextlib.suppress(ValueError):  # newer ones say "Invalid destination rank" to send to oneself
            assert "hvdray does not support" in raised(RuntimeError, call)
    if IS_BACKEND:  # in others it begins by a group of NCCL
        send = dist.P2POp(dist.isend, torch.zeros(1), (dist.get_rank() + 1) % dist.get_world_size())
        assert "hvdray does not support" in raised(RuntimeError, lambda: dist.batch_isend_irecv([send]))


def groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = dist.new_group()
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=everyone)
    assert tensor[0] == size and dist.get_backend(everyone) == "hvdray"
    process_set = hvd.add_process_set([1])
    group = dist.new_group([1])
    if rank == 1:
        dist.all_reduce(tensor, group=group)
        assert tensor[0] == size and dist.get_world_size(group) == 1
        assert "add_process_set" in raised(NotImplementedError, lambda: hvdray.torch.c10d._set_of([0]))
    hvd.remove_process_set(process_set)


def functional_collectives():
    """Of torches that let a Backend be written in Python."""
    if not IS_BACKEND:
        return
    import torch.distributed._functional_collectives as functional

    total = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    assert total.tolist() == [dist.get_world_size()] * 3
    whole = functional.all_gather_single(torch.ones(2) * dist.get_rank(), 0, dist.group.WORLD)
    assert whole.tolist() == sum(each(lambda rank: [rank] * 2), [])
    part = functional.reduce_scatter_single(torch.ones(2 * dist.get_world_size()), "sum", 0, dist.group.WORLD)
    assert part.tolist() == [dist.get_world_size()] * 2


def losses_of_ddp(group=None):
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 300), torch.nn.BatchNorm1d(300), torch.nn.ReLU(), torch.nn.Linear(300, 300), torch.nn.Linear(300, 1)
    )
    if dist.get_rank() != 0:  # DDP begins with those of rank 0
        model[0].weight.data.add_(1.0)
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync() if step % 5 == 1 else contextlib.nullcontext():
            x = torch.randn(16, 8, generator=generator)
            loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
            loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=group)
        losses.append(mean.item())
    return losses


def gradients_of_uneven_batches(group=None):
    """join() has ranks that are through go along with the others."""
    torch.manual_seed(5)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
    with model.join():
        for step in range(2 + 2 * dist.get_rank()):
            model(torch.full((2, 4), step + 1.0)).sum().backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


FACTS = [
    reductions, broadcasts_and_gathers, scattered_reductions_and_exchanges, more_in_flight_than_there_are_names,
    what_differs_between_ranks_is_an_error_on_all, an_operation_that_a_rank_never_begins_names_it, absent_operations_name_the_backend, groups, functional_collectives,
]

torch.set_num_threads(1)
dist.init_process_group("hvdray")
for fact in FACTS:
    fact()
gloo = dist.new_group(backend="gloo")
ours, theirs = losses_of_ddp(), losses_of_ddp(gloo)
assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), rtol=1e-5), (ours, theirs)
assert ours[-1] < ours[0]
assert torch.allclose(gradients_of_uneven_batches(), gradients_of_uneven_batches(gloo))


def a_death_is_an_error_of_ddp():
    """Last: nothing works after it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, who sees it, too
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10))
    print("all facts hold", flush=True)
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert "rank 1 of" in raised(RuntimeError, lambda: model(torch.randn(4, 10)).sum().backward())
    assert "has died" in raised(RuntimeError, dist.barrier)
    print("the death was seen", flush=True)


a_death_is_an_error_of_ddp()
