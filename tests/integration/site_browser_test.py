# SPDX-License-Identifier: Apache-2.0
"""The site in a real browser that can reach nothing but this machine: what it loads, its searches, the keyboard, a phone."""

import functools
import http.server
import pathlib
import subprocess
import threading
import urllib.parse

import pytest
from chromium import chromium, forget, messages
from own_network import network_of_its_own

from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_PAGE_BYTES = 400 * 1000
PHONE_WIDTH = 360
WAIT_S = 60


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    with network_of_its_own():
        subprocess.run([ROOT / "tools/build_site.sh", folder], check=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    def __init__(self, address, profile):
        self.driver = chromium(profile)
        self._address = address

    def forget(self):
        forget(self.driver)

    def open(self, page):
        self.driver.get(self._address + page)

    def wait(self, condition):
        return WebDriverWait(self.driver, WAIT_S).until(lambda driver: condition())

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def type(self, keys):
        webdriver.ActionChains(self.driver).send_keys(keys).perform()

    def tab_to(self, script, most):
        """Presses Tab until the script says that the right element has the focus."""
        for _ in range(most):
            self.type(Keys.TAB)
            if self.driver.execute_script(script):
                return
        raise AssertionError(f"not reached by {most} Tabs; the focus is on " + self.driver.switch_to.active_element.get_attribute("outerHTML"))

    def wait_for_results(self):
        self.wait(lambda: [line for line in self.find("#search-results .search-summary") if line.text])

    def loaded(self):
        """Since the last call: (address, bytes) of each request. Fails on one that failed or left this site."""
        asked, sizes = {}, {}
        for method, values in messages(self.driver):
            if method == "Network.requestWillBeSent":
                asked[values["requestId"]] = values["request"]["url"]
            elif method == "Network.responseReceived" and not values["response"]["url"].startswith("data:"):
                assert values["response"]["status"] in (200, 304), values["response"]
            elif method == "Network.loadingFinished":
                sizes[values["requestId"]] = values["encodedDataLength"]
            elif method == "Network.loadingFailed":
                assert values["requestId"] not in asked, (values, asked[values["requestId"]])
        assert all(url.startswith((self._address, "data:")) for url in asked.values()), asked
        return [(url, sizes.get(request, 0)) for request, url in asked.items()]

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def browser(site, tmp_path_factory):
    found = Browser(site[1], tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


@pytest.fixture
def phone(browser):
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                   {"width": PHONE_WIDTH, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    yield browser
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("page", ["index.html", "zh/index.html"])
def test_the_first_page_is_small_and_all_of_it_arrives(browser, page):
    browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    browser.forget()
    browser.open(page)
    requests = browser.loaded()
    assert len(requests) > 3 and sum(size for _, size in requests) <= FIRST_PAGE_BYTES, requests
    assert browser.complaints() == []


@pytest.mark.parametrize("folder, query, title, skip", [
    ("", "blacklist cooldown", "Elastic jobs", "Skip the navigation"),
    ("", "decision", "Decisions", "Skip the navigation"),
    ("zh/", "弹性作业", "5 弹性作业：加一台主机，杀一个 worker", "跳过导航"),
    ("zh/", "退出码", "2 安装、第一组 worker、退出码", "跳过导航"),
])
def test_a_search_by_keyboard_finds_a_page_and_opens_it(browser, folder, query, title, skip):
    browser.open(folder + "index.html")
    browser.tab_to("return document.activeElement.name === 'q'", 6)
    browser.type(query + Keys.ENTER)
    browser.wait_for_results()
    assert title in [link.text for link in browser.find("#search-results li a")]
    browser.tab_to(f"return document.activeElement.textContent === '{skip}'", 1)
    browser.type(Keys.ENTER)
    browser.tab_to(f"return document.activeElement.closest('#search-results li') && document.activeElement.textContent === '{title}'", 40)
    browser.type(Keys.ENTER)
    browser.wait(lambda: [heading for heading in browser.find("article h1") if heading.text.startswith(title)])
    browser.loaded()
    assert browser.complaints() == []


def test_a_search_for_what_is_not_there_finds_nothing(browser):
    for page in ("search.html?q=xyzzyplugh", "zh/search.html?q=" + urllib.parse.quote("犰狳")):
        browser.open(page)
        browser.wait_for_results()
        assert browser.find("#search-results li") == []


def test_nothing_is_wider_than_a_phone(site, phone):
    folder, _ = site
    wide = []
    for path in sorted(folder.rglob("*.html")):
        phone.open(path.relative_to(folder).as_posix())
        width = phone.driver.execute_script("return Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        if width > PHONE_WIDTH:
            wide.append(f"{path.relative_to(folder)}: {width}")
    assert not wide, "\n".join(wide)
    phone.loaded()
