"""A browser and a JupyterLab for the session, a watched page for each test, a picture of what a failed test leaves open."""

import os

import pytest
from browsing import NO_NAME_IS_FOUND, SHOTS, Lab, chromium, safe, sync_playwright, watched_page

OPEN = []  # pages


@pytest.fixture(scope="session")
def browser():
    if sync_playwright is None:
        pytest.fail("playwright is missing: `make test-browser` installs tests/browser/requirements.txt")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(playwright), args=[NO_NAME_IS_FOUND])
        yield browser
        browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """SHOTS=1 takes the pictures of tests that pass as well."""
    report = yield
    if OPEN and call.when == "call" and (report.failed or "SHOTS" in os.environ):
        SHOTS.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(OPEN):
            page.screenshot(path=SHOTS / f"{safe(item.name)}_{number}.png")
    return report


def pages_of(browser):
    """new_page(dark=, size=), and all of them closed at the end."""
    opened = []

    def new_page(**looks):
        opened.append(watched_page(browser, **looks))
        OPEN.append(opened[-1])
        return opened[-1]

    yield new_page
    for page in opened:
        OPEN.remove(page)
        page.context.close()


@pytest.fixture
def new_page(browser):
    yield from pages_of(browser)


@pytest.fixture(scope="module")
def new_page_for_all(browser):
    yield from pages_of(browser)


@pytest.fixture
def page(new_page):
    return new_page()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with Lab(tmp_path_factory.mktemp("lab")).running() as lab:
        yield lab
