# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, without a window, driven by selenium."""

import json

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def chromium(profile):
    """Of the network of the thread that calls. Keeps a log of what its page asks for, and of what the page complains about."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking",
                 "--no-first-run", "--window-size=1600,1000", f"--user-data-dir={profile}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.get("about:blank")
    forget(driver)  # the browser's own first page
    return driver


def forget(driver):
    for kind in ("performance", "browser"):
        driver.get_log(kind)


def messages(driver):
    """What the page's network did since the last call: (method, parameters)."""
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        yield message["method"], message["params"]
