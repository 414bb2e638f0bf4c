"""HTTP requests natively, in unit tests."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ._failures import Internal, Unavailable


class _NoRedirects(HTTPRedirectHandler):
    """The host follows none."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = build_opener(_NoRedirects)


class Response:
    """A response, as in a component."""

    def __init__(self, incoming: HTTPResponse | HTTPError, url: str) -> None:
        self.status = incoming.status
        self.headers: dict[str, str] = {}
        for name, value in (incoming.headers or {}).items():
            name = name.lower()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self._url = url
        self._incoming = incoming

    def read(self, limit: int) -> bytes:
        """Reads the body. One of more than `limit` bytes is `Internal`."""
        try:
            with self._incoming as incoming:
                body = incoming.read(limit + 1)
        except OSError:
            raise Unavailable(f"{self._url}: the connection was lost within the body") from None
        if len(body) > limit:
            raise Internal(f"{self._url}: the body has more than {limit} bytes")
        return body


def request(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    timeout: float | None = None,
) -> Response:
    """Sends a request and waits for the response."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Internal(f"expected an http: or https: URL, found {url!r}")
    outgoing = Request(url, data=body or None, headers=dict(headers or {}), method=method)
    try:
        return Response(_opener.open(outgoing, timeout=timeout), url)
    except HTTPError as answered:  # A status is none of a failure.
        return Response(answered, url)
    except OSError as error:
        raise Unavailable(f"{url}: {error}") from None
