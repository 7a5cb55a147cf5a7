# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that fails in a way to be chosen: failing.py KIND HOW WHERE RANK.

KIND: horovod, torch (torch.distributed over gloo), plain (the others only sleep). WHERE: before (init),
between (two collectives), collective (one is under way), hook (of a gradient)."""

import ctypes
import os
import sys
import time

KIND, HOW, WHERE, CULPRIT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
RANK = int(os.environ.get("HOROVOD_RANK") or os.environ["RANK"])
STEPS_BEFORE = 20


def fail(leave=lambda: None):
    if HOW == "raise":
        raise ValueError("the batch is empty")
    if HOW == "exit":
        sys.exit(17)
    if HOW == "os._exit":
        os._exit(23)
    if HOW == "abort":
        os.abort()
    if HOW == "SIGSEGV":
        ctypes.string_at(0)
    if HOW == "SIGKILL":
        os.kill(os.getpid(), 9)
    if HOW == "C++ exception":
        # std::__throw_runtime_error, which nobody catches
        ctypes.CDLL("libstdc++.so.6")._ZSt21__throw_runtime_errorPKc(b"the batch is empty")
    if HOW == "import":
        import no_such_module  # noqa: F401  pylint: disable=import-error,unused-import
    if HOW == "shutdown, raise":
        leave()
        raise ValueError("after the shutdown")
    raise AssertionError(HOW)


def train(reduce, leave, torch):
    for step in range(1000000):
        if RANK == CULPRIT and step == STEPS_BEFORE:
            if WHERE == "between":
                fail(leave)
            handle = reduce(f"step {step}")
            if WHERE == "collective":
                fail(leave)
            weight = torch.ones(3, requires_grad=True)
            weight.register_hook(lambda _: fail(leave))
            weight.sum().backward()
            del handle
        reduce(f"step {step}")()
        if step > STEPS_BEFORE:
            time.sleep(0.001)


def main():
    if RANK == CULPRIT and WHERE == "before":
        fail()
    if KIND == "plain":
        time.sleep(0.3 if RANK == CULPRIT else 60)
        fail()
    import torch
    torch.set_num_threads(1)
    if KIND == "horovod":
        import horovod.torch as hvd
        hvd.init()

        def reduce(name):
            handle = hvd.allreduce_async(torch.ones(4), name=name)
            return lambda: hvd.synchronize(handle)
        train(reduce, hvd.shutdown, torch)
    else:
        import torch.distributed as dist
        dist.init_process_group("gloo")

        def reduce(_):
            return dist.all_reduce(torch.ones(4), async_op=True).wait
        train(reduce, dist.destroy_process_group, torch)


main()
