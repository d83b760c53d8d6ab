"""Which requests the server answers, and the headers of its answers.

A page on the internet can make a browser send requests to this server. It must not learn anything from them: requests
with a foreign Host (DNS rebinding) or Origin are refused, and other interfaces than the local one need a token.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]

COOKIE = "gemax-view"
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    # Charts set styles of their elements. Styles cannot run code.
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Access(NamedTuple):
    """Who may read the page."""

    host: str
    """The interface that the server listens on."""
    port: int
    token: str | None
    """Needed by every request, unless the server listens on the local interface only."""

    def allows_host(self, header: str) -> bool:
        """Returns whether a Host header names this server."""
        try:
            parts = urlsplit(f"//{header}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if self.token is None:
            return name == "localhost" or is_loopback(name)
        # The token protects other interfaces. Their names are not known here.
        return bool(name)


def access_to(host: str, port: int) -> Access:
    """Returns the access rules of an interface: everything but the local one gets a new token."""
    is_local = host == "localhost" or is_loopback(host)
    return Access(host, port, None if is_local else secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """Returns whether an address is one of this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Refuses requests that are not from the page itself, and adds security headers to every answer."""

    def __init__(self, app: Callable, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Returns the answer to a request that is not passed on."""
        headers, access = Headers(scope=scope), self._access
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This page is read-only.", 405, {"allow": "GET, HEAD"})
        host = headers.get("host", "")
        if not access.allows_host(host):
            return PlainTextResponse(
                "The request names another host than the address that gemax printed. Open that address.", 403
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse("Requests of other pages are refused.", 403)
        is_navigation = headers.get("sec-fetch-mode") == "navigate" and scope["path"] == "/"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_navigation:
            return PlainTextResponse("Requests of other pages are refused.", 403)
        return None if access.token is None else self._check_token(scope, headers, access.token)

    def _check_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if _equal(given, token):
            # The token moves to a cookie, so that it does not stay in the address.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        cookies = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        if any(name == COOKIE and _equal(value, token) for name, _, value in cookies):
            return None
        return PlainTextResponse("Open the address with the token that gemax printed.", 401)


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
