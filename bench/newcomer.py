# SPDX-License-Identifier: Apache-2.0
"""A new user's first minutes: from a clone on a bare Debian 12 to a trained model, nothing cached."""

import os
import subprocess
import time

from harness import ROOT, Measure, Series
from remote_site import HostsError

# quickstart's headings, and what each step does.
STEPS = {"== 1/3": "of it packages", "== 2/3": "of it the build", "== 3/3": "of it the training"}


def quickstart(_context):
    if os.getuid() != 0:
        raise HostsError("tools/bare_root.sh needs root")
    command = [ROOT / "tools/bare_root.sh", "--", "sh", "-c", "echo begin; exec ./quickstart"]
    began, step, marks = None, None, {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            now = time.monotonic()
            if line == "begin\n":  # the clone is complete
                began = now
            heading = line[:6] in STEPS or line.startswith("== done")
            if heading and step:
                marks[step][1] = now
            if heading:
                step = STEPS.get(line[:6])
                marks.setdefault(step, [now, None])
    took = time.monotonic() - began if began and process.returncode == 0 else None
    series = [Series("./quickstart", [took])]
    marks.pop(None, None)
    for name, (start, end) in marks.items():
        series.append(Series(name, [end - start if end else None]))
    cores = len(os.sched_getaffinity(0))
    return [Measure(f"clone to trained model on a bare Debian 12, {cores} cores, no compiler cache, download included",
                    "s", series, "≤ 240 s on two free cores")]
