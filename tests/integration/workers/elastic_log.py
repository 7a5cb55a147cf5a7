# SPDX-License-Identifier: Apache-2.0
"""What the elastic workers share: the plan that the test gives them, a log with monotonic times, and faults.

ELASTIC_PLAN in the environment is a JSON object with `folder`, where each process writes <pid>.jsonl, and:
  faults  a list; each happens once in the job (or `times`): {"at", "how"} and any of the conditions
          "rank", "size", "step", "host", "entry" (the n-th time that this process enters), "delay_ms".
"""

import json
import os
import pathlib
import signal
import threading
import time

PLAN = json.loads(os.environ["ELASTIC_PLAN"])
FOLDER = pathlib.Path(PLAN["folder"])
HOST = os.environ.get("HOROVOD_HOSTNAME", "")
LOCAL_RANK = os.environ.get("HOROVOD_LOCAL_RANK", os.environ.get("LOCAL_RANK", ""))
_log = open(FOLDER / f"{os.getpid()}.jsonl", "a", buffering=1)


def log(event, **values):
    """One write a line, so that a line is whole whatever kills the process."""
    _log.write(json.dumps({"t": time.monotonic(), "event": event, "pid": os.getpid(), "host": HOST,
                           "local_rank": LOCAL_RANK, **values}) + "\n")


def fails(how):
    """Ends this process, or hangs it, in the way that a fault says; "sleep:S" only holds it up, and "until:NAME"
    does until the test makes that file."""
    if how == "hang":
        time.sleep(3600)
    if how.startswith("sleep:"):
        return time.sleep(float(how.removeprefix("sleep:")))
    if how.startswith("until:"):
        while not (FOLDER / how.removeprefix("until:")).exists():
            time.sleep(0.01)
        return None
    if how.startswith("exit:"):
        os._exit(int(how.removeprefix("exit:")))
    if how == "raise":
        raise RuntimeError("as the plan says")
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(3600)


def claims(number, fault):
    """Whether this process is one of those that a fault has to hit; nobody else will be, then."""
    for turn in range(fault.get("times", 1)):
        try:
            os.close(os.open(FOLDER / f"fault.{number}.{turn}", os.O_CREAT | os.O_EXCL, 0o666))
            return True
        except FileExistsError:
            continue
    return False


def due(at, **facts):
    """The fault that hits this process here and now, if one does. Claimed: the caller carries it out."""
    facts["host"] = HOST
    for number, fault in enumerate(PLAN.get("faults", ())):
        conditions = {key: value for key, value in fault.items()
                      if key not in ("at", "how", "times", "delay_ms")}
        if fault["at"] != at or any(facts.get(key) != value for key, value in conditions.items()):
            continue
        if claims(number, fault):
            log("fault", at=at, how=fault["how"], **{k: v for k, v in facts.items() if k != "host"})
            return fault
    return None


def meet(at, **facts):
    """Carries out the fault that is due here; one with a delay comes while the process goes on."""
    fault = due(at, **facts)
    if fault is None:
        return
    if "delay_ms" not in fault:
        return fails(fault["how"])

    def later():
        time.sleep(fault["delay_ms"] / 1000)
        fails(fault["how"])

    threading.Thread(target=later, daemon=True).start()
