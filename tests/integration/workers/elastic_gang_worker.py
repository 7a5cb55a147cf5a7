# SPDX-License-Identifier: Apache-2.0
"""A worker of no framework for gangs that are restarted: notes its place in each generation, works until
the file `stop` is there (or `steps` are done), and breaks where the test's plan says."""

import os
import signal
import sys
import time

from elastic_log import FOLDER, PLAN, log, meet

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
         "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
         "HOROVOD_RANK", "HOROVOD_SIZE")


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    def terminated(*_):
        log("terminated", rank=rank, restart=restart)
        sys.exit(0)

    signal.signal(signal.SIGTERM, terminated)
    log("start", rank=rank, size=size, restart=restart,
        environment={name: os.environ.get(name) for name in NAMES})
    step = 0
    while not (FOLDER / "stop").exists() and (PLAN.get("steps") is None or step < PLAN["steps"]):
        step += 1
        meet("step", rank=rank, size=size, step=step, restart=restart)
        time.sleep(PLAN.get("step_s", 0.02))
    log("end", rank=rank, size=size, restart=restart)


if __name__ == "__main__":
    main()
