"""A real browser for the tests of the page."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by Playwright. The variant without windows loads a page in a third of the time."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium found: `make browser` installs it")
    sync_api = pytest.importorskip("playwright.sync_api", reason="`make browser` installs Playwright")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser):
    """One window for all tests, which keeps compiled scripts from test to test."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def open_page(browser, window):
    """Opens an address in a new tab. Errors and violations of the content security policy fail the test."""
    problems = []
    with contextlib.ExitStack() as stack:

        def open_address(address, width=1400, height=900, color_scheme="light", offline=False):
            context = window
            if offline:
                context = browser.new_context(offline=True)
                stack.callback(context.close)
            page = context.new_page()
            stack.callback(page.close)
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=color_scheme)
            page.set_default_timeout(120_000)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: message.type == "error" and problems.append(message.text))
            page.goto(address, wait_until="commit")
            return page

        open_address.problems = problems
        yield open_address
    assert problems == []


class Server:
    """One server for all tests, so that the browser keeps what it has loaded. Each test has its own application."""

    def __init__(self):
        import uvicorn

        from gemax.view.serve import listen

        self.listener = listen("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.app = None
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                log_level="warning",
                lifespan="off",
                timeout_graceful_shutdown=3,
            )
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.listener]})
        self._thread.start()

    async def _answer(self, scope, receive, send):
        await self.app(scope, receive, send)

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self.listener.close()


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def serve_folder(server):
    """Serves the page of a folder as `gemax view` does. Returns its address."""
    from gemax.view.app import make_app
    from gemax.view.events import Changes
    from gemax.view.library import Library
    from gemax.view.security import access_to

    with contextlib.ExitStack() as stack:

        def serve(folder):
            library = Library(folder)
            changes = Changes(library, watch_seconds=0.2)
            stack.callback(changes.close)
            server.app = make_app(library, access_to("127.0.0.1", server.port), changes)
            return f"http://127.0.0.1:{server.port}/"

        yield serve


@pytest.fixture
def gemax_view():
    """Starts `gemax view` for a folder in a process of its own. Returns the address of the page."""
    with contextlib.ExitStack() as stack:

        def start(folder):
            command = [sys.executable, "-m", "gemax.cli", "view", str(folder), "--no-browser", "--port", "0"]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"}
            )
            stack.callback(process.stdout.close)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            return re.search(r"http://\S+", process.stdout.readline())[0]

        yield start
