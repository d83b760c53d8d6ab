"""The server: what it answers, and to whom."""

import asyncio
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest
from tests.view.fake_runs import make_run, metrics_line

from gemax.view.app import make_app
from gemax.view.beside import page_beside
from gemax.view.events import Changes
from gemax.view.export import export_page, write_export
from gemax.view.library import Library
from gemax.view.same_requests import SameRequests
from gemax.view.security import COOKIE, access_to
from gemax.view.serve import listen, page_address, serve

LOCAL = {"host": "127.0.0.1:8420"}


class Answer:
    """An answer of the application."""

    def __init__(self, messages):
        start, *rest = messages
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(message.get("body", b"") for message in rest)
        self.body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.text = self.body.decode(errors="replace")


def app_of(folder, host="127.0.0.1"):
    library = Library(folder)
    return make_app(library, access_to(host, 8420), Changes(library))


def ask(app, address="/", headers=LOCAL, method="GET"):
    """Sends one request to the application, without a network."""
    path, _, query = address.partition("?")
    messages = []
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1",
        "scheme": "http", "server": ("127.0.0.1", 8420), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    return Answer(messages)


def test_equal_requests_that_wait_share_one_computation():
    started, may_end, calls = threading.Event(), threading.Event(), []

    def compute():
        calls.append(len(calls))
        started.set()
        assert may_end.wait(10)
        return b"%d" % calls[-1]

    async def ask_many():
        requests = SameRequests()
        first = asyncio.create_task(requests.answer("a", compute))
        await asyncio.to_thread(started.wait, 10)
        later = [asyncio.create_task(requests.answer("a", compute)) for _ in range(20)]
        other = asyncio.create_task(requests.answer("b", lambda: b"other"))
        assert await other == b"other"  # another address does not wait
        later.pop().cancel()
        may_end.set()
        return await first, await asyncio.gather(*later), await requests.answer("a", compute)

    first, later, last = asyncio.run(ask_many())
    assert (first, set(later), last) == (b"0", {b"1"}, b"2")


def test_an_error_reaches_every_request_that_waits_and_none_after_it():
    def fail():
        raise ValueError("no")

    async def ask_two():
        requests = SameRequests()
        answers = await asyncio.gather(
            *(requests.answer("a", fail) for _ in range(2)), return_exceptions=True
        )
        return answers, await requests.answer("a", lambda: b"yes")

    answers, after = asyncio.run(ask_two())
    assert [str(answer) for answer in answers] == ["no", "no"]
    assert after == b"yes"


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path / "run")
    return tmp_path


@pytest.fixture
def app(folder):
    return app_of(folder)


def test_the_page_its_modules_and_the_charts_are_served(app):
    page = ask(app)
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    for name in re.findall(r'(?:src|href)="([\w.]+)"', page.text):
        assert ask(app, f"/{name}").status == 200, name
    main = ask(app, "/main.js")
    assert main.headers["content-type"].startswith("text/javascript")
    assert (
        "Plotly" in ask(app, "/plotly.min.js").text[:100_000]
        or "plotly" in ask(app, "/plotly.min.js").text[:200]
    )


def test_data_of_runs_is_served_as_json(app):
    assert json.loads(ask(app, "/api/index").body)["runs"][0]["id"] == "run"
    curves = json.loads(ask(app, "/api/curves?run=run&metric=coverage").body)
    assert len(curves["run"]["coverage"]) == 50
    assert json.loads(ask(app, "/api/snapshot?run=run&update=20").body)["visits"]
    assert ask(app, "/api/film?run=run&update=20").body.startswith(b"\x89PNG")
    assert json.loads(ask(app, "/api/report").body) is None


def test_missing_and_malformed_things_are_answered_in_words(app):
    for address, status, words in (
        ("/api/snapshot?run=no&update=1", 404, "There is no such run"),
        ("/api/snapshot?run=run&update=x", 400, "whole number"),
        ("/api/film?run=run&update=7", 404, "no film"),
        ("/api/plot?name=x.png", 404, "no such plot"),
        ("/secret.py", 404, "no such file"),
    ):
        answer = ask(app, address)
        assert (answer.status, words in answer.text) == (status, True), answer.text


@pytest.mark.parametrize(
    "address", ["/../confined.py", "/..%2Fconfined.py", "/%2e%2e/app.py", "/page/index.html"]
)
@pytest.mark.fault(36)
def test_only_the_files_of_the_page_are_served(app, address):
    assert ask(app, address).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.fault(36)
def test_the_page_is_read_only(app, method):
    answer = ask(app, "/api/index", method=method)
    assert answer.status == 405
    assert "read-only" in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1:80",
        "127.0.0.1",
        "localhost.evil.example:8420",
        "",
        "[::1",
        "10.0.0.1:8420",
    ],
)
@pytest.mark.fault(36)
def test_a_foreign_host_is_refused(app, host):
    assert ask(app, "/api/index", {"host": host}).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:8420", "[::1]:8420", "127.0.0.2:8420"])
def test_names_of_this_machine_are_answered(app, host):
    assert ask(app, "/api/index", {"host": host}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.fault(36)
def test_requests_of_other_pages_are_refused(app, headers):
    assert ask(app, "/api/index", LOCAL | headers).status == 403


def test_the_page_itself_and_links_to_it_are_answered(app):
    assert (
        ask(
            app, "/api/index", LOCAL | {"origin": "http://127.0.0.1:8420", "sec-fetch-site": "same-origin"}
        ).status
        == 200
    )
    assert ask(app, "/", LOCAL | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status == 200


def test_web_sockets_are_refused(app):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(app({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_every_answer_has_a_policy_without_inline_script(app):
    for address in ("/", "/main.js", "/api/index", "/nothing", "/api/snapshot?run=no&update=1"):
        headers = ask(app, address).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    page = ask(app).text
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son\w+=", page)


@pytest.mark.fault(35)
def test_another_interface_needs_the_token_everywhere(folder):
    access = access_to("0.0.0.0", 8420)
    assert access.token is not None
    assert len(access.token) >= 32
    app = make_app(Library(folder), access, Changes(Library(folder)))
    host = {"host": "lab.example:8420"}
    for address in (
        "/",
        "/main.js",
        "/api/index",
        "/api/events",
        "/?token=wrong",
        "/api/index?token=" + "x" * 32,
    ):
        assert ask(app, address, host).status == 401
    for cookie in ("", f"{COOKIE}=", f"{COOKIE}=wrong", f"other={access.token}"):
        assert ask(app, "/api/index", host | {"cookie": cookie}).status == 401
    entry = ask(app, f"/?token={quote(access.token)}", host)
    assert entry.status == 303
    assert entry.headers["location"] == "/"
    cookie = entry.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ask(app, "/api/index", host | {"cookie": cookie.split(";")[0]}).status == 200
    assert ask(app, "/api/index", {"host": "lab.example:80", "cookie": cookie.split(";")[0]}).status == 403


def test_tokens_differ_and_the_local_interface_has_none():
    assert access_to("0.0.0.0", 1).token != access_to("0.0.0.0", 1).token
    for host in ("127.0.0.1", "localhost", "::1"):
        assert access_to(host, 1).token is None


@pytest.mark.fault(35)
def test_the_server_listens_on_the_local_interface_and_says_so_otherwise(folder, monkeypatch):
    import uvicorn

    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, sockets: addresses.append(sockets[0].getsockname())
    )
    addresses, messages = [], []
    serve(folder, "127.0.0.1", None, messages.append, opens_browser=False)
    assert addresses[0][0] == "127.0.0.1"
    assert messages == [f"{folder}: http://127.0.0.1:{addresses[0][1]}/ (stop with Ctrl-C)"]
    messages.clear()
    serve(folder, "0.0.0.0", 0, messages.append, opens_browser=False)
    assert messages[0].startswith("Warning: 0.0.0.0 is not the local interface")
    assert re.search(r"\?token=[\w-]{32}", messages[1])


@pytest.mark.fault(35)
def test_the_command_has_the_local_interface_as_default():
    import inspect

    from gemax.cli.view import view

    assert inspect.signature(view).parameters["host"].default == "127.0.0.1"


@pytest.mark.fault(37)
def test_a_port_in_use_is_said_and_the_default_moves_on():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}: Address already in use. Choose another with --port"):
            listen("127.0.0.1", port)
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        first.listen()
        assert second.getsockname()[1] != first.getsockname()[1] or second.getsockname()[1] >= 8420


def test_addresses_of_all_kinds_of_interfaces():
    assert page_address("127.0.0.1", 1, None) == "http://127.0.0.1:1/"
    assert page_address("::1", 1, None) == "http://[::1]:1/"
    assert page_address("0.0.0.0", 1, "t") == f"http://{socket.gethostname()}:1/?token=t"


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"is not a folder\. Name a run directory"):
        serve(tmp_path / "no", "127.0.0.1", None, print, opens_browser=False)
    with pytest.raises(ValueError, match="is not a folder"):
        write_export(tmp_path / "no", tmp_path / "page.html")


@pytest.mark.fault(36)
def test_names_of_runs_reach_the_page_as_data_only(tmp_path):
    name = "<script>alert(1)</script>"
    make_run(tmp_path / name.replace("/", "-"))
    app = app_of(tmp_path)
    assert "alert(1)" not in ask(app).text
    assert ask(app, "/api/index").headers["content-type"] == "application/json"
    page = export_page(Library(tmp_path))
    assert "<script>alert" not in page
    assert "\\u003cscript>alert(1)" in page


def test_one_watcher_tells_all_pages_about_a_change(tmp_path):
    path = make_run(tmp_path / "run", updates=3)

    async def first_event(changes):
        events = (text async for text in changes.stream() if text.startswith(b"data: "))
        return json.loads((await anext(events)).removeprefix(b"data: "))

    async def watch():
        changes = Changes(Library(tmp_path), watch_seconds=0.02)
        pages = [asyncio.create_task(first_event(changes)) for _ in range(50)]
        await asyncio.sleep(0.3)
        with (path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(metrics_line(4)) + "\n")
        return await asyncio.wait_for(asyncio.gather(*pages), 20)

    assert asyncio.run(watch()) == [{"changed": ["run"]}] * 50


@pytest.mark.fault(37)
def test_streams_end_when_the_server_stops(tmp_path):
    async def watch():
        changes = Changes(Library(tmp_path), watch_seconds=0.02)
        stream = changes.stream()
        await anext(stream)
        waiting = asyncio.create_task(anext(stream, "ended"))
        await asyncio.sleep(0.05)
        changes.close()
        return await asyncio.wait_for(waiting, 5)

    assert asyncio.run(watch()) == "ended"


def test_the_export_allows_its_scripts_by_hash_and_no_request(folder):
    page = export_page(Library(folder))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    import base64
    import hashlib

    for script in re.findall(r"<script(?: type=\"module\")?>(.*?)</script>", page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_export_is_written_with_all_data(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "page.html"
    size = write_export(folder, path)
    text = path.read_text()
    assert size == len(text.encode())
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["index"]["runs"][0]["snapshots"] == [1, 20, 50]
    assert len(data["curves"]["run"]["coverage"]) == 50
    assert data["films"]["run"]["20"].startswith("data:image/png;base64,")


def test_a_server_with_an_open_page_stops_at_once_and_without_a_traceback(folder):
    command = [sys.executable, "-m", "gemax.cli", "view", str(folder), "--no-browser", "--port", "0"]
    environment = os.environ | {"COLUMNS": "500"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as page:
            page.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert b"200 OK" in page.recv(4096)
            server.send_signal(signal.SIGINT)
            assert server.wait(60) in (0, 130)
        assert "Traceback" not in server.stderr.read()


def test_the_page_beside_a_run_answers_and_ends_with_the_block(folder):
    messages = []
    with page_beside(folder, messages.append, opens_browser=False) as address:
        assert messages == [f"Watch it train: {address}"]
        deadline = time.monotonic() + 60
        answer = None
        while answer is None and time.monotonic() < deadline:
            try:
                answer = urllib.request.urlopen(f"{address}api/index", timeout=60).read()
            except urllib.error.URLError:
                time.sleep(0.1)  # it is still starting
        assert json.loads(answer)["runs"][0]["id"] == "run"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_the_server_does_not_import_jax():
    code = "import sys, gemax.view.serve, gemax.view.app, gemax.view.export; print('jax' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
