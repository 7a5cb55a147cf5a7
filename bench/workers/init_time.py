# SPDX-License-Identifier: Apache-2.0
"""Enters hvd.init() together with all other ranks and writes when it went in and came out."""

import os
import pathlib
import sys
import time

import horovod.torch as hvd
import torch  # noqa: F401  imported before the clock starts

folder, ranks = pathlib.Path(sys.argv[1]), int(sys.argv[2])
(folder / f"ready.{os.getpid()}").touch()
while len(list(folder.glob("ready.*"))) < ranks:
    time.sleep(0.02)
time.sleep(0.5)  # the last one to arrive must not find the others in the middle of their polling
entered = time.monotonic()
hvd.init()
left = time.monotonic()
(folder / f"time.{hvd.rank()}").write_text(f"{entered} {left}")
hvd.allreduce(torch.ones(1))  # nobody leaves before all are in
