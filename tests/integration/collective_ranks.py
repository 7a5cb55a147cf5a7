# SPDX-License-Identifier: Apache-2.0
"""What the ranks of tests/tools/collective_probe.cc must say when one of them dies, or calls something else."""

import re

KINDS = ("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_v", "reduce_scatter", "all_to_all", "all_to_all_v", "gather",
         "scatter", "barrier", "send_recv", "group_all_reduce")
# From the death of a rank to the end of another's call. It takes milliseconds, but machines of CI are slow. Waits end by themselves after
# 30 s, or what --gloo-timeout-seconds says: the bound tells a rank that has noticed from one that has waited in vain.
NOTICED_MS = 10_000

# By the probe's word: what all ranks call, and what the last one does.
ALL_REDUCE = "all_reduce of 10 float32 (sum)"
DIFFERENCES = {
    "count": (ALL_REDUCE, "all_reduce of 12 float32 (sum)"),
    "dtype": (ALL_REDUCE, "all_reduce of 10 int64 (sum)"),
    "op": (ALL_REDUCE, "all_reduce of 10 float32 (max)"),
    "root": ("broadcast of 10 float32, root 0", "broadcast of 10 float32, root 1"),
    "kind": (ALL_REDUCE, "all_gather of 10 float32"),
    "counts": ("all_gather of [{fives}5] float32", "all_gather of [{fives}6] float32"),
    "barrier": (ALL_REDUCE, "barrier"),
}


def ends(text, size, victim, what):
    """How each survivor's call has ended, all soon after the death: {rank: the line}."""
    found = {}
    for rank in set(range(size)) - {victim}:
        line = re.search(rf"rank {rank}: {what}: after (\d+) ms: .*", text)
        assert line, f"rank {rank} says nothing of {what}:\n{text}"
        assert int(line[1]) < NOTICED_MS, line[0]
        found[rank] = line[0]
    return found


def assert_all_name_the_dead(text, size, victim):
    """In each kind of call."""
    for kind in KINDS:
        for line in ends(text, size, victim, kind).values():
            assert f"rank {victim} of {size} has died" in line and "[HVD-E0401]" in line, line


def assert_all_are_told_what_differs(text, size):
    for name, calls in DIFFERENCES.items():
        usual, other = (call.format(fives="5, " * (size - 1)) for call in calls)
        said = f"{name}: ranks differ: rank 0 calls {usual}, rank {size - 1} {other} [HVD-E0101]\n"
        for rank in range(size):
            assert f"rank {rank}: {said}" in text, text
            assert f"rank {rank}: after {name}: ok\n" in text, text
