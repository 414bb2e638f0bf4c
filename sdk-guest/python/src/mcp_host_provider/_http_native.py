"""HTTP requests natively, in unit tests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from http.client import HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ._failures import Unavailable


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects, as the host."""

    def redirect_request(self, *_: Any) -> None:
        return None


_CHUNK = 65_536
_opener = build_opener(_NoRedirects)


def send(
    url: str, _: SplitResult, method: str, headers: Mapping[str, str], body: bytes, timeout: float | None
) -> tuple[int, list[tuple[str, str]], Callable[[], Generator[bytes, None, None]]]:
    """Sends a request and waits for the response: its status, its headers, and its body."""
    outgoing = Request(url, data=body or None, headers=dict(headers), method=method)
    incoming: HTTPResponse | HTTPError
    try:
        opened: HTTPResponse = _opener.open(outgoing, timeout=timeout)
        incoming, status = opened, opened.status
    except HTTPError as answered:  # An unsuccessful status is a response, not a failure.
        incoming, status = answered, answered.code
    except OSError as error:
        raise Unavailable(f"{url}: {error}") from None
    return status, list((incoming.headers or {}).items()), partial(_read, incoming, url)


def _read(incoming: HTTPResponse | HTTPError, url: str) -> Generator[bytes, None, None]:
    try:
        with incoming:
            while chunk := incoming.read(_CHUNK):
                yield chunk
    except OSError:
        raise Unavailable(f"{url}: the connection was lost within the body") from None
