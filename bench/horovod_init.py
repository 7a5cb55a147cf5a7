# SPDX-License-Identifier: Apache-2.0
"""Duration of hvd.init() when all ranks enter together: first in to last out, by launcher and number of ranks."""

import json
import pathlib
import subprocess
import tempfile

from harness import ROOT, Measure, Series, kill_session
from launch import environment

WORKER = ROOT / "bench/workers/init_time.py"


def one_init(command, ranks, env, timeout):
    with tempfile.TemporaryDirectory() as folder:
        words = [*command, WORKER, folder, ranks]
        process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                                   start_new_session=True)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        kill_session(process.pid)
        times = [[float(x) for x in p.read_text().split()]
                 for p in pathlib.Path(folder).glob("time.*")]
        if code != 0 or len(times) != ranks:
            return None
        return max(t[1] for t in times) - min(t[0] for t in times)


def init_times(context):
    if not context.venv:
        return []
    env = dict(environment(context), HOROVOD_GLOO_TIMEOUT_SECONDS="120", OMP_NUM_THREADS="1")
    python = context.venv / "bin/python"
    measures = []
    for ranks, rounds in ((4, 5), (8, 3), (16, 3)):
        contenders = {
            **{name: [hvdray, "run", "-np", ranks, "--", python]
               for name, hvdray in context.builds.items()},
            "horovodrun, backlog 4096": [python, ROOT / "bench/workers/horovodrun_backlog.py", "-np",
                                         ranks, "-H", f"localhost:{ranks}", python],
            "horovodrun": [context.venv / "bin/horovodrun", "-np", ranks, "-H",
                           f"localhost:{ranks}", python]}
        series = {name: Series(name) for name in contenders}
        for _ in range(context.rounds(rounds)):
            for name, command in contenders.items():
                series[name].values.append(one_init(command, ranks, env, 180))
        measures.append(Measure(f"hvd.init() of {ranks} ranks that enter together, first in → last out",
                                "s", list(series.values()),
                                "≤ the server with the large backlog; stretch 0.5 × at 16"))
    command = [context.hvdray, "run", "-np", 32, "--", python]
    values = [one_init(command, 32, env, 300) for _ in range(context.rounds(2))]
    measures.append(Measure("hvd.init() of 32 ranks", "s", [Series("hvdray", values)], "completes"))
    return measures


def scope_table(context, ranks=16):
    """Requests and bytes per scope of the launcher's store, from hvdray's report."""
    if not context.venv:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        env = dict(environment(context), OMP_NUM_THREADS="1")
        command = [context.hvdray, "run", "-np", ranks, "--report", report, "--",
                   context.venv / "bin/python"]
        if one_init(command, ranks, env, 180) is None or not report.exists():
            return ""
        scopes = json.loads(report.read_text())["rendezvous"]
    return json.dumps(scopes, indent=1)
