"""Who may read: checked before any application sees a request, since no server does that by default.

Only the machine itself may read without a token. A page of a foreign site in the same browser may not read at all:
it is refused by its origin, and, if its name was made to lead here, by the host that the browser asks for.
"""

from __future__ import annotations

import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_URL = 4096
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class AccessRefusal(Exception):
    """A request that is refused, with the status and a sentence about it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def is_loopback(address: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class Access:
    """The application behind it answers only what passes: method, host, origin, and the token if there is one."""

    def __init__(self, app: ASGIApp, address: str, token: str | None) -> None:
        """`token` may be None only on a loopback address."""
        if token is None and not is_loopback(address):
            raise ValueError("another address than 127.0.0.1 needs a token")
        self._app = app
        self._address = address
        self._token = token
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on; every answer gets the security headers."""
        if scope["type"] != "http":
            return  # neither websockets nor a lifespan: uvicorn closes the connection
        answer: ASGIApp
        try:
            answer = self._admit(scope) or self._app
        except AccessRefusal as refusal:
            answer = PlainTextResponse(f"{refusal.sentence}\n", refusal.status, _headers_for(refusal))
        await answer(scope, receive, _with_security(send))

    def _admit(self, scope: Scope) -> Response | None:
        """Return an answer of our own, or None for the application's; raise Refusal."""
        if scope["method"] not in ("GET", "HEAD"):
            raise AccessRefusal(405, "This page can only be read: use GET.")
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_URL:
            raise AccessRefusal(414, f"The address of a request may have at most {LONGEST_URL} characters.")
        headers = Headers(scope=scope)
        self._check_host(headers)
        _check_origin(headers)
        return self._check_token(scope, headers) if self._token else None

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None:
            raise AccessRefusal(400, "A request needs exactly one valid Host header.")
        if name in LOCAL_NAMES or name == self._address.lower():
            return
        if not is_loopback(self._address) and (_is_address(name) or name in _own_names()):
            return  # a foreign site can make its name lead here, but not an address
        raise AccessRefusal(421, f"This server is not {name[:80]}: open it as {self._address} or localhost.")

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        assert self._token is not None
        link = next((value for key, value in _query(scope) if key == "token"), None)
        if self._has_session(scope, headers) or _same(_bearer(headers), self._token):
            return RedirectResponse("/", 303) if link is not None else None
        if link is None:
            raise AccessRefusal(401, "This page needs the link with the token that railbed printed when it started.")
        if not _same(link, self._token):
            raise AccessRefusal(403, "The token is wrong: use the link that railbed printed when it started.")
        if scope["method"] != "GET":
            raise AccessRefusal(401, "The link with the token works for a GET request only.")
        # A redirect, so that the token does not stay in the address bar, in the history or in a screenshot.
        response = RedirectResponse("/", 303)
        response.set_cookie(_cookie_name(scope), self._session, httponly=True, samesite="strict", path="/")
        return response

    def _has_session(self, scope: Scope, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(scope))
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self._session)


def _cookie_name(scope: Scope) -> str:
    """Return a name for each server: browsers send the cookies of a host to all its ports."""
    return f"railbed-{scope['server'][1]}"


def host_name(host: str) -> str | None:
    """Return the name in a Host header, in lower case and without its port; None if it is not valid."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (raises for an invalid port)
        valid = parts.netloc == host and parts.hostname is not None and "@" not in host
    except ValueError:
        return None
    return parts.hostname if valid else None


def _check_origin(headers: Headers) -> None:
    """Refuse what a page of another site asks for; a link from there is harmless, since nothing can be changed."""
    origins = headers.getlist("origin")
    own = f"http://{headers['host']}".lower()
    if any(origin.lower() != own for origin in origins):
        raise AccessRefusal(403, f"Pages of {origins[0][:80]} may not read this server.")
    foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
    if foreign and (headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest") != "document"):
        raise AccessRefusal(403, "Pages of other sites may not read this server.")


def _bearer(headers: Headers) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _query(scope: Scope) -> list[tuple[str, str]]:
    try:
        return parse_qsl(scope["query_string"].decode("ascii"), max_num_fields=512)
    except ValueError:
        raise AccessRefusal(400, "The query of the request cannot be read.") from None


def _same(value: str, secret: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(value.encode("utf-8", "replace"), secret.encode())


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]}


def _headers_for(refusal: AccessRefusal) -> dict[str, str]:
    match refusal.status:
        case 405:
            return {"allow": "GET, HEAD"}
        case 401:
            return {"www-authenticate": "Bearer"}
    return {}


def _with_security(send: Send) -> Send:
    async def send_with_security(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers[name] = value
        await send(message)

    return send_with_security
