# SPDX-License-Identifier: Apache-2.0
"""Worker output through a launcher into a pipe: four ranks, 25 MB of 100-byte lines each."""

import subprocess
import threading
import time

from harness import Measure, alternate, kill_session
from launch import commands, environment

RANKS = 4
BYTES = 25_000_000
WRITER = f"yes {'x' * 99} | head -c {BYTES}"


def through_pipe(command, env, count_lines):
    """Seconds until all output has arrived; None unless every line is complete."""
    started = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env,
                               start_new_session=True, bufsize=0)
    timer = threading.Timer(30, kill_session, [process.pid])
    timer.start()
    lines = payload = 0
    while chunk := process.stdout.read(1 << 20):
        lines += chunk.count(b"\n")
        payload += chunk.count(b"x")
    code = process.wait()
    took = time.monotonic() - started
    timer.cancel()
    kill_session(process.pid)
    whole = lines == count_lines and payload == count_lines * 99
    return took if code == 0 and whole else None


def output_100mb(context):
    env = environment(context)
    lines = RANKS * BYTES // 100
    contenders = {}
    for name, command in commands(context, RANKS, ["sh", "-c", WRITER]).items():
        if name == "hydra":
            command = [*command[:1], "-prepend-rank", *command[1:]]
        if name == "OpenMPI":
            command = [*command[:1], "--tag-output", *command[1:]]
        contenders[name] = lambda c=command: through_pipe(c, env, lines)
    return Measure("4 × 25 MB of 100-byte lines, tagged, to a pipe", "s",
                   alternate(contenders, context.rounds(5)),
                   "≤ hydra's, byte-exact (all lines and all payload bytes counted)")
