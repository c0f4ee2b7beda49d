"""A browser for the report: Chromium without network, its console and its requests on record."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900"
)
BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
PATIENCE_SECONDS = 120
"""What is waited for takes a second at most, but the machine may be busy with something else for long."""

TRIES = 3


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests.  Where none is installed they skip, but on CI they fail: there it must be."""
    if not (Path(BROWSER).exists() and Path(DRIVER).exists()):
        message = f"needs {BROWSER} and {DRIVER}: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    profile = tmp_path_factory.mktemp("profile")
    driver = begun(profile)
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


def begun(profile: Path) -> Any:
    """Chromium, begun; tried again where it took longer than its driver waits, or another took the driver's port."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    for number in range(TRIES):
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        for flag in [*FLAGS.split(), f"--user-data-dir={profile / str(number)}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        try:
            driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        except WebDriverException:
            if number == TRIES - 1:
                raise
            continue
        driver.set_script_timeout(PATIENCE_SECONDS)
        return driver
    raise AssertionError("the last try returns or raises")


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Callable[[str], Any]:
    """Open a page from a file, without network, and wait until its charts are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    def open_page(html: str) -> Any:
        page = tmp_path / "report.html"
        page.write_text(html, encoding="utf-8")
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        browser.get(page.as_uri())
        drawn = "return document.documentElement.dataset.charts === 'drawn'"
        WebDriverWait(browser, PATIENCE_SECONDS).until(lambda driver: driver.execute_script(drawn))
        return browser

    return open_page


def complaints(browser: Any) -> list[str]:
    """What the page's console said, warnings included."""
    return [f"{entry['level']}: {entry['message']}" for entry in browser.get_log("browser")]


def requests(browser: Any) -> list[str]:
    """Addresses that the page asked for, the page itself among them."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    ]
