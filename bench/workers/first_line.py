# SPDX-License-Identifier: Apache-2.0
"""first_line.py FOLDER: imports what a training script does, and notes when; then waits for FOLDER/go, where rank 0 of
the first gang fails if there is to be another one."""

import horovod.torch  # noqa: F401
import os
import pathlib
import sys
import time

folder = pathlib.Path(sys.argv[1])
rank = os.environ.get("HOROVOD_RANK") or os.environ["RANK"]
restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
part = folder / f"part.{rank}"
part.write_text(repr(time.time()))
part.rename(folder / f"line.{restart}.{rank}")
go = folder / f"go.{restart}"
while not go.exists():
    time.sleep(0.01)
os._exit(int(go.read_text()) if rank == "0" else 0)
