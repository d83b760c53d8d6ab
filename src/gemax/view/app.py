"""The web application: the page, its data as JSON, and a stream of changes."""

import gzip
import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gemax.view.assets import TYPES, compressed_plotly_js, page_files
from gemax.view.events import Changes
from gemax.view.library import MAX_RUNS, Library, NotFoundError
from gemax.view.same_requests import SameRequests
from gemax.view.security import Access, Guard

MAX_METRICS = 64
"""Metrics per request."""
MIN_COMPRESSED_BYTES = 20_000
GZIP_MAGIC = b"\x1f\x8b"
CACHED = {"cache-control": "private, max-age=3600"}


def make_app(library: Library, access: Access, changes: Changes) -> Starlette:
    """Returns the application for the runs of a library."""
    files, same_requests = page_files(), SameRequests()

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:
            raise NotFoundError("There is no such file.")
        return Response(files[name].read_bytes(), media_type=TYPES[files[name].suffix])

    async def charts(request: Request) -> Response:
        headers = {"content-encoding": "gzip", **CACHED}
        return Response(
            await run_in_threadpool(compressed_plotly_js), media_type="text/javascript", headers=headers
        )

    async def events(request: Request) -> Response:
        return StreamingResponse(changes.stream(), media_type="text/event-stream")

    def index(request: Request) -> Any:
        return library.index()

    def curves(request: Request) -> Any:
        run_ids, metrics = (request.query_params.getlist(name) for name in ("run", "metric"))
        return library.curves(run_ids[:MAX_RUNS], metrics[:MAX_METRICS])

    def snapshot(request: Request) -> Any:
        return library.snapshot(request.query_params.get("run", ""), _update(request))

    def warnings(request: Request) -> Any:
        return library.warnings(request.query_params.get("run", ""))

    def report(request: Request) -> Any:
        return library.report()

    async def film(request: Request) -> Response:
        content = await run_in_threadpool(library.film, request.query_params.get("run", ""), _update(request))
        return image(content)

    async def plot(request: Request) -> Response:
        return image(await run_in_threadpool(library.plot, request.query_params.get("name", "")))

    data = [
        Route(f"/api/{function.__name__}", _as_json(function, same_requests))
        for function in (index, curves, snapshot, warnings, report)
    ]
    return Starlette(
        routes=[
            Route("/", page),
            Route("/plotly.min.js", charts),
            Route("/api/events", events),
            Route("/api/film", film),
            Route("/api/plot", plot),
            *data,
            Route("/{name}", page),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={NotFoundError: _not_found, ValueError: _bad_request},
    )


def image(content: bytes) -> Response:
    """Returns an answer with a PNG or WebP image. Other content is refused."""
    if content.startswith(b"\x89PNG\r\n"):
        return Response(content, media_type="image/png")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return Response(content, media_type="image/webp")
    raise NotFoundError("The file is not an image.")


def _as_json(function: Callable[[Request], Any], same_requests: SameRequests) -> Callable:
    """Returns an endpoint that computes an answer in a thread."""

    async def endpoint(request: Request) -> Response:
        accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")

        def compute() -> bytes:
            content = json.dumps(function(request), allow_nan=False).encode()
            is_long = len(content) > MIN_COMPRESSED_BYTES
            return gzip.compress(content, 1) if is_long and accepts_gzip else content

        content = await same_requests.answer(
            f"{request.url.path}?{request.url.query} {accepts_gzip}", compute
        )
        headers = {"content-encoding": "gzip"} if content.startswith(GZIP_MAGIC) else {}
        return Response(content, media_type="application/json", headers=headers)

    return endpoint


def _update(request: Request) -> int:
    text = request.query_params.get("update", "")
    if not text.isdecimal() or len(text) > 10:
        raise ValueError(f"update must be a whole number; got {text!r}.")
    return int(text)


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 404)


async def _bad_request(request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), 400)
