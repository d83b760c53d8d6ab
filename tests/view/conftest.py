"""A real browser for the tests of the page."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by Playwright."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium found: `make browser` installs it")
    sync_api = pytest.importorskip("playwright.sync_api", reason="`make browser` installs Playwright")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Opens an address in a new window. Errors and violations of the content security policy fail the test."""
    problems = []
    with contextlib.ExitStack() as stack:

        def open_address(address, width=1400, height=900, **options):
            context = browser.new_context(viewport={"width": width, "height": height}, **options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: message.type == "error" and problems.append(message.text))
            page.goto(address)
            return page

        open_address.problems = problems
        yield open_address
    assert problems == []


@pytest.fixture
def serve_folder():
    """Starts `gemax view` for a folder. Returns the address of the page."""
    with contextlib.ExitStack() as stack:

        def serve(folder):
            command = [sys.executable, "-m", "gemax.cli", "view", str(folder), "--no-browser", "--port", "0"]
            server = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"}
            )
            stack.callback(server.stdout.close)
            stack.callback(server.wait, 60)
            stack.callback(server.terminate)
            return re.search(r"http://\S+", server.stdout.readline())[0]

        yield serve
