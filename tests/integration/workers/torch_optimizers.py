# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer of hvdray.torch where Horovod's has another answer, or none."""

import copy
import gc
import pickle
import warnings

import horovod.torch as hvd
import torch
from torch.utils.checkpoint import checkpoint


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def of_mean(model, run, steps=3, **options):
    """Trains a copy alone on all ranks' batches, and `model` on this rank's: both have to come to the same."""
    alone = type(model)()
    alone.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **options)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(steps):
        batches = [torch.randn(6, 5, generator=torch.Generator().manual_seed(10 * step + rank))
                   for rank in range(hvd.size())]
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        reference.zero_grad(set_to_none=True)
        run(model, batches[hvd.rank()]).backward()
        sum(run(alone, batch) for batch in batches).div(hvd.size()).backward()
        optimizer.step()
        reference.step()
        for mine, wanted in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(mine, wanted, atol=options.pop("atol", 1e-5)), (step, mine, wanted)
    return optimizer


class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.shared, self.last = torch.nn.Linear(5, 5), torch.nn.Linear(5, 5), torch.nn.Linear(5, 1)


def gradients_may_be_none_between_steps():
    of_mean(Blocks(), lambda net, x: net.last(net.shared(net.first(x))).sum())


def reentrant_checkpoints_reduce_whole_gradients():
    """Their hooks fire twice in one backward pass, first with a part of the gradient."""

    def run(net, x):
        x = checkpoint(lambda y: torch.tanh(net.shared(y)), net.first(x), use_reentrant=True)
        x = checkpoint(lambda y: torch.tanh(net.shared(y)), x, use_reentrant=True)
        return (net.last(net.shared(x))).sum()

    of_mean(Blocks(), run, steps=4)


def other_checkpoints_too():
    of_mean(Blocks(), lambda net, x: net.last(checkpoint(net.shared, net.first(x), use_reentrant=False)).sum())


def compiled_models_reduce_their_gradients():
    if not hasattr(torch, "compile"):
        return
    compiled = {}

    def run(net, x):
        if net not in compiled:
            compiled[net] = torch.compile(lambda y: net.last(net.shared(torch.tanh(net.first(y)))).sum(), backend="aot_eager")
        return compiled[net](x)

    of_mean(Blocks(), run)


def bfloat16_is_a_compression():
    model = torch.nn.Linear(3, 1)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), compression=hvd.Compression.bf16)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.full((1, 3), 1.0 + hvd.rank()))).sum().backward()
        optimizer.synchronize()
        assert torch.allclose(model.weight.grad, torch.full((1, 3), (1 + hvd.size()) / 2)), model.weight.grad
        with optimizer.skip_synchronize():
            optimizer.step()


def gradients_need_not_be_contiguous():
    class Images(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.conv = torch.nn.Conv2d(5, 4, 3, padding=1).to(memory_format=torch.channels_last)

    def run(net, x):
        images = x.view(6, 5, 1, 1).expand(6, 5, 4, 4).contiguous(memory_format=torch.channels_last)
        return net.conv(images).pow(2).mean()

    of_mean(Images(), run)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.embedding = torch.nn.Embedding(7, 3, sparse=True)
        self.last = torch.nn.Linear(3, 1)


def run_words(net, words):
    return net.last(net.embedding(words).sum(0) if words.numel() else torch.ones(3)).sum()


def ranks_without_words_meet_sparse_gradients():
    """Their gradient is None, in the first step too, when they can't know that others' are sparse."""
    for kind in (torch.optim.SGD, torch.optim.SparseAdam):
        model, alone = Words(), Words()
        parameters = dict(model.named_parameters())
        if kind is torch.optim.SparseAdam:
            parameters = {"embedding.weight": model.embedding.weight}
        mine = hvd.DistributedOptimizer(kind(list(parameters.values()), lr=0.1), parameters.items())
        theirs = kind([dict(alone.named_parameters())[name] for name in parameters], lr=0.1)
        for step in range(4):
            words = [torch.tensor([rank, 5][: (rank + step) % 2 * 2], dtype=torch.long) for rank in range(hvd.size())]
            mine.zero_grad(set_to_none=True)
            theirs.zero_grad(set_to_none=True)
            run_words(model, words[hvd.rank()]).backward()
            sum(run_words(alone, part) for part in words).div(hvd.size()).backward()
            mine.step()
            theirs.step()
            for got, wanted in zip(model.parameters(), alone.parameters()):
                assert torch.allclose(got, wanted, atol=1e-5), (kind, step, got, wanted)


def groups_that_differ_are_told_on_all_ranks():
    model = Blocks()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                         groups=[list(model.parameters())[: 3 if hvd.rank() else 2]])
    model.last(model.shared(model.first(torch.ones(1, 5)))).sum().backward()
    assert "Mismatched" in raised(hvd.HorovodInternalError, optimizer.step)
    hvd.barrier()
    hvd.shutdown()  # what is left in flight
    hvd.init()


def groups_of_ones_own_may_leave_parameters_out():
    model = Blocks()
    of_mean(model, lambda net, x: net.last(net.shared(net.first(x))).sum(),
            groups=[[model.first.weight, model.last.bias]])


def parameters_may_come_later():
    model, more = Blocks(), torch.nn.Linear(5, 5, bias=False)
    hvd.broadcast_parameters(more.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.add_param_group({"params": list(more.parameters()), "lr": 0.5})
    for _ in range(2):
        optimizer.zero_grad()
        model.last(more(torch.full((1, 5), float(hvd.rank())))).sum().backward()
        optimizer.step()
    assert len({value.tobytes() for value in (hvd.allgather(more.weight.detach().unsqueeze(0)).numpy())}) == 1


def same_everywhere(model):
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    everywhere = hvd.allgather(flat.unsqueeze(0))
    assert (everywhere == everywhere[0]).all(), everywhere


def loss_of(model):
    batch = torch.randn(6, 5, generator=torch.Generator().manual_seed(hvd.rank()))
    return torch.tanh(model.last(torch.tanh(model.shared(model.first(batch))))).pow(2).mean()


def trained(model, steps, make=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1), **options):
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), **options)
    for step in range(steps):
        yield step
        optimizer.zero_grad(set_to_none=True)
        loss_of(model).backward()
        optimizer.step()


def closures_see_the_gradients_of_all():
    for cls, options in ((torch.optim.SGD, {}), (torch.optim.LBFGS, {"max_iter": 4}), (torch.optim.LBFGS, {"line_search_fn": "strong_wolfe"})):
        model = Blocks()
        optimizer = hvd.DistributedOptimizer(cls(list(model.parameters()), lr=0.1, **options), model.named_parameters())

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        before = hvd.allreduce(loss_of(model).detach())
        for _ in range(3):
            optimizer.step(closure)
        same_everywhere(model)
        assert hvd.allreduce(loss_of(model).detach()) < before
    model, wanted = Blocks(), Blocks()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.step(lambda: loss_of(model).backward())
    for _ in trained(wanted, 1, lambda parameters: torch.optim.SGD(parameters, lr=0.1)):
        pass
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), wanted.parameters()))


def parameters_that_are_frozen_stay_and_those_that_are_freed_are_reduced():
    for options in ({}, {"groups": 2}):
        model = Blocks()
        model.shared.requires_grad_(False)
        for step in trained(model, 9, **options):
            if step == 3:
                model.shared.requires_grad_(True)
            if step == 6:
                model.first.requires_grad_(False)
                kept = model.first.weight.detach().clone()
            if step == 8:
                assert torch.equal(model.first.weight, kept)
        same_everywhere(model)
    model = Blocks()
    model.first.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.first.parameters(), lr=0.1))
    optimizer.add_param_group({"params": list(model.last.parameters())})
    loss_of(model).backward()
    optimizer.step()
    same_everywhere(model)


def a_copy_of_an_optimizer_is_refused():
    model = Blocks()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for act in (copy.deepcopy, copy.copy, pickle.dumps):
        assert "keep its state_dict()" in raised(TypeError, lambda: act(optimizer))


def an_optimizer_keeps_its_class_state_and_schedule():
    model = Blocks()
    plain = torch.optim.Adam(model.parameters(), lr=0.1)
    model.last(torch.ones(1, 5)).sum().backward()
    plain.step()
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
    assert optimizer.state[model.last.weight]["exp_avg"].abs().sum() > 0
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.zero_grad()
        model.last(torch.ones(1, 5)).sum().backward()
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


def an_optimizer_that_is_gone_reduces_nothing():
    model = torch.nn.Linear(2, 1)
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        gc.collect()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()


def optimizers_without_names_may_be_in_flight_together():
    """As those of a generator and its judge: the one's backward pass goes through the other's model, too."""
    torch.manual_seed(7)
    nets = torch.nn.Linear(5, 4), torch.nn.Linear(4, 5)
    both = [hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1)) for net in nets]
    for _ in range(3):
        nets[1](nets[0](torch.ones(2, 5) * (hvd.rank() + 1))).sum().backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
    for net in nets:
        same_everywhere(net)


def a_name_that_two_optimizers_share_is_told():
    net = torch.nn.Linear(5, 5, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), [("shared.name", net.weight)])
    net(torch.ones(2, 5)).sum().backward()
    optimizer.step()  # from now on gradients are reduced while the pass computes
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(5, 5), name="shared.name")
        line = raised(ValueError, lambda: net(torch.ones(2, 5)).sum().backward())
        assert "Duplicate name" in line and "named_parameters" in line, line
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async(torch.ones(5, 5), name="shared.name")
    assert hvd.synchronize(handle)[0, 0] == 1


def misuse_is_told():
    model = Blocks()

    def make(**options):
        return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)

    pairs = list(model.named_parameters())
    assert "first.weight" in raised(ValueError, lambda: make(named_parameters=[*pairs, pairs[0]]))
    raised(ValueError, lambda: make(named_parameters=pairs[1:]))
    raised(ValueError, lambda: make(named_parameters=model.parameters()))
    raised(ValueError, lambda: make(groups="two"))
    raised(ValueError, lambda: make(groups=[[model.first.weight], [model.first.weight]]))
    raised(ValueError, lambda: make(backward_passes_per_step=0))
    raised(ValueError, lambda: make(gradient_predivide_factor=2.0, op=hvd.Sum))
    raised(NotImplementedError, lambda: make(op=hvd.Adasum))
    raised(ValueError, lambda: hvd.broadcast_parameters("weights", 0))
    raised(ValueError, lambda: hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0))
    optimizer = make(named_parameters=pairs)

    def run():
        return model.last(model.shared(model.first(torch.ones(1, 5)))).sum()

    for _ in range(2):
        run().backward()
        raised(AssertionError, optimizer.zero_grad)
        text = raised((AssertionError, RuntimeError), lambda: run().backward())
        assert "backward_passes_per_step" in text
        optimizer.step()
        optimizer.zero_grad()
    run().backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(entry.message) for entry in caught)


def optimizer_state_reaches_ranks_that_have_none():
    model = Blocks()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (1 + hvd.rank()))
    if hvd.rank() == 0:
        model.last(torch.ones(1, 5)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    sums = hvd.allgather_object([value["exp_avg"].sum().item() for value in optimizer.state.values()])
    assert sums[0] and all(entry == sums[0] for entry in sums)
    assert optimizer.param_groups[0]["lr"] == 0.1


FACTS = [fact for fact in list(globals().values()) if callable(fact) and getattr(fact, "__module__", "") == "__main__"
         and fact.__name__ not in ("raised", "of_mean", "run_words", "Blocks", "Words", "same_everywhere", "loss_of", "trained")]

hvd.init()
torch.set_num_threads(1)
for one in FACTS:
    one()
    if hvd.rank() == 0:
        print(one.__name__, flush=True)
print("all facts hold", flush=True)
