# SPDX-License-Identifier: Apache-2.0
"""An unmodified hvd.elastic script that writes down what it does and breaks where the test's plan says.

Of ELASTIC_PLAN (see elastic_log.py): `steps`, `step_s`, `commit_every`, `big_mb` (an allreduce of that size
in each step), `gpu` (a pretended one), `import_s` (sleeps so long before hvd.init()), `hold` (keeps connections of its own). It ends at
`steps`, or, without them, when rank 0 finds the file `stop`.
Faults happen at "start" (before anything is imported), "imported", "init", "reduce" (in the middle of an allreduce),
"step" (between two), "interrupted" (on the way to meet again), "end" (trained, before the exit).
"""

from elastic_log import FOLDER, PLAN, due, fails, log, meet

meet("start")

import os  # noqa: E402
import time  # noqa: E402
import zlib  # noqa: E402

import horovod.torch as hvd  # noqa: E402
import torch  # noqa: E402
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: E402

if PLAN.get("gpu"):
    import pretended_gpu  # noqa: F401  pylint: disable=unused-import

STEPS, STEP_S = PLAN.get("steps"), PLAN.get("step_s", 0.02)
COMMIT_EVERY, BIG_MB = PLAN.get("commit_every", 5), PLAN.get("big_mb", 0)
entries = 0


def checksum(state):
    value = zlib.crc32(state.model.weight.detach().numpy().tobytes())
    return f"{value:08x}"


def is_over(state):
    """Agreed upon: rank 0 alone looks at the file."""
    if STEPS is not None:
        return state.step >= STEPS
    stop = hvd.rank() == 0 and (FOLDER / "stop").exists()
    return hvd.allreduce(torch.tensor(float(stop)), op=hvd.Max, name="stop").item() > 0


def take_step(state, facts):
    # A value that depends on the whole history, on each rank's part and on all of them.
    part = torch.sin(state.model.weight.detach() + state.step + hvd.rank())
    if BIG_MB:
        big = torch.full((BIG_MB * 262144,), float(hvd.rank()))
        handle = hvd.allreduce_async(big, op=hvd.Sum, name="big")
        fault = due("reduce", **facts)
        if fault is not None:
            time.sleep(fault.get("delay_ms", 0) / 1000)
            fails(fault["how"])
        total = hvd.synchronize(handle)[0].item()
        assert total == hvd.size() * (hvd.size() - 1) / 2, f"a sum of {hvd.size()} ranks is {total}"
    with torch.no_grad():
        state.model.weight += 0.1 * hvd.allreduce(part, name="part")
    state.step += 1


def commit(state, facts):
    try:
        state.commit()
    finally:  # saved in any case: what it raises comes from asking for changes
        log("commit", **facts, model=checksum(state))


def train_on(state, held):
    global entries
    entries += 1
    facts = {"rank": hvd.rank(), "size": hvd.size(), "entry": entries}
    gang = hvd.broadcast_object(f"{os.getpid()}.{entries}", root_rank=0, name="gang")
    log("enter", **facts, step=state.step, model=checksum(state), gang=gang)
    while not is_over(state):
        take_step(state, facts | {"step": state.step + 1})
        facts["step"] = state.step
        log("step", **facts)
        if held is not None:
            held.ping(facts["step"])
        meet("step", **facts)
        time.sleep(STEP_S)
        if state.step % COMMIT_EVERY == 0:
            commit(state, facts)
    log("trained", **facts | {"step": state.step}, model=checksum(state), gang=gang)


@hvd.elastic.run
def train(state, held):
    try:
        train_on(state, held)
    except (HorovodInternalError, HostsUpdatedInterrupt) as error:
        log("interrupted", why=type(error).__name__, text=str(error)[:300], entry=entries)
        meet("interrupted", entry=entries)
        raise


def main():
    log("imported")
    meet("imported")
    torch.set_num_threads(1)
    time.sleep(PLAN.get("import_s", 0))
    log("init")
    meet("init")
    hvd.init()
    log("inited", rank=hvd.rank(), size=hvd.size())
    held = None
    if PLAN.get("hold"):
        from elastic_held import Held
        held = Held()
    torch.manual_seed(1)
    model = torch.nn.Linear(32, 32, bias=False)
    state = hvd.elastic.TorchState(model=model, step=0)
    train(state, held)
    place = {"rank": hvd.rank(), "size": hvd.size()}
    meet("end", **place)
    print(f"done: rank {hvd.rank()} of {hvd.size()}, step {state.step}, model {checksum(state)}",
          flush=True)
    if held is not None:
        held.close()
    hvd.shutdown()
    log("end", **place)


if __name__ == "__main__":
    log("start", generation=os.environ.get("HVDRAY_GENERATION"))
    main()
