# SPDX-License-Identifier: Apache-2.0
"""Executors in a notebook: a real ipykernel, whose cells are run as Jupyter runs them."""

import os
import re
import queue
import signal
import sys
import time
import uuid

import pytest
from conftest import MARK, Job
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from python_program import HEAD, ROOT

from hosts_processes import send, wait_until

LIMIT_S = 120


class Notebook:
    """One kernel. Its children carry the mark of a Job, so that none is overlooked."""

    def __init__(self, binary, folder):
        self.mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: self.mark, "HVDRAY_BINARY": str(binary), "PYTHONPATH": str(ROOT / "python"),
                       "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder)}
        self.manager = KernelManager(connection_file=str(folder / "kernel.json"), transport="ipc", ip=str(folder / "k"))
        self.manager._kernel_spec = KernelSpec(  # pylint: disable=protected-access
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], interrupt_mode="signal")
        self.manager.start_kernel(env=environment, cwd=str(folder))
        self.pid = self.manager.provisioner.pid
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT_S)

    processes = Job.processes
    survivors = Job.survivors

    def begin(self, code):
        # Else the kernel drops, after one that raises, those that have come already.
        return self.client.execute(code, store_history=False, stop_on_error=False)

    def end(self, cell):
        """What the cell has printed, and the name of the exception that ended it."""
        out, error = "", None
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"the cell has not ended; it said: {out}")
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                out += content["text"]
            elif message["msg_type"] == "error":
                error = content["ename"]
                out += "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return out, error

    def run(self, code):
        out, error = self.end(self.begin(code))
        assert error is None, out
        return out

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        send(self.processes(), signal.SIGKILL)


@pytest.fixture
def notebook(hvdray, tmp_path):
    book = Notebook(hvdray.binary, tmp_path)
    yield book
    book.close()


COUNTER = HEAD + """
class Counter:
    def __init__(self, start):
        self.n = start
    def up(self):
        self.n += 1
        print("rank", rank(), "counts", self.n)
        return self.n
executor = hvdray.Executor(2)
executor.start(Counter, [10])
"""


def test_output_is_in_its_cell_and_stop_keeps_the_state(notebook):
    notebook.run(COUNTER)
    for n in (11, 12, 13):
        out = notebook.run("values = executor.execute(lambda counter: counter.up())\nprint(values)")
        *printed, values = out.splitlines()
        assert values == f"[{n}, {n}]", out
        assert sorted(printed) == [f"[{rank}]<stdout>:rank {rank} counts {n}" for rank in range(2)], out
    cell = notebook.begin("""
def hang(counter):
    print("rank", rank(), "hangs", flush=True)
    time.sleep(600)
executor.execute(hang)
""")
    said = ""
    while said.count("hangs") < 2:  # in the cell that still waits
        message = notebook.client.get_iopub_msg(timeout=LIMIT_S)
        said += message["content"].get("text", "")
    notebook.manager.interrupt_kernel()
    assert notebook.end(cell)[1] == "KeyboardInterrupt"
    assert "[14, 14]" in notebook.run("print(executor.execute(lambda counter: counter.up()))")
    cell = notebook.begin("def divide():\n    return 1 // rank()  # one line\nexecutor.run(divide)")
    out, error = notebook.end(cell)
    assert "ZeroDivisionError" in error and "rank 0 on host localhost" in out, (error, out)
    assert re.search(r'File ".*", line 2, in divide\n    return 1 // rank\(\)  # one line\n', out), out
    assert "[15, 15]" in notebook.run("print(executor.execute(lambda counter: counter.up()))")
    notebook.run("executor.shutdown()")
    wait_until(lambda: not any("hvdray" in line for line in notebook.processes().values()), "the end of all but the kernel")


@pytest.mark.parametrize("is_busy", [False, True])
def test_nothing_is_left_of_a_kernel_that_is_killed(notebook, is_busy):
    notebook.run(COUNTER)
    if is_busy:
        notebook.begin("executor.execute(lambda counter: time.sleep(600))")
    assert len(notebook.processes()) >= 5  # kernel, serve, agent, workers
    os.kill(notebook.pid, signal.SIGKILL)
    assert not notebook.survivors(within=30)
