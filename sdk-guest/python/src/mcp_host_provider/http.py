"""HTTP requests to the origins that the administrator grants (`grants.http = ["https://docs.rs"]`).

A component whose modules import this one imports `wasi:http`. The host does not follow redirects, since each origin is granted separately.

    from mcp_host_provider.http import request

    page = request("https://docs.rs/serde/", timeout=4).read(1024 * 1024)

A request that is not granted raises `Denied`, a server that does not answer `Unavailable`, and a malformed request `Internal`.

In a unit test a function answers requests: see `fake`. Without one they are sent by Python, so that a server on loopback can answer them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Union
from urllib.parse import urlsplit

from ._failures import Denied, Internal
from ._world import IN_COMPONENT

if TYPE_CHECKING or IN_COMPONENT:
    from ._http_component import send
else:
    from ._http_native import send

__all__ = ["Reply", "Request", "Response", "fake", "request"]


class Response:
    """A response. Header names are in lower case; several values of one are separated by commas."""

    def __init__(
        self, url: str, status: int, headers: Iterable[tuple[str, str]], body: Callable[[], Generator[bytes, None, None]]
    ) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self._url = url
        self._body = body

    def read(self, limit: int) -> bytes:
        """Reads the body. One of more than `limit` bytes is `Internal`."""
        read: list[bytes] = []
        length = 0
        with closing(self._body()) as chunks:
            for chunk in chunks:
                length += len(chunk)
                if length > limit:
                    raise Internal(f"{self._url}: the body has more than {limit} bytes")
                read.append(chunk)
        return b"".join(read)


@dataclass(frozen=True)
class Request:
    """A request that a function answers in unit tests. Header names are in lower case."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float | None


@dataclass(frozen=True)
class Reply:
    """What a function answers to a request in unit tests."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Request], Union[Reply, bytes, str, None]]
"""Answers a request in unit tests: a reply, or the body of one. A request for which it returns None is not granted."""

_fake: Optional[Answer] = None


def fake(answer: Answer | None) -> None:
    """Makes a function answer all requests, in unit tests. Without a function, Python sends them again.

        fake(lambda request: "[]" if request.url == "https://docs.example/crates" else None)

    In a component it has no effect.
    """
    global _fake
    _fake = answer


def _answered(asked: Request, answer: Answer) -> Response:
    found = answer(asked)
    if found is None:
        raise Denied(f"requests to {asked.url} are not granted")
    reply = found if isinstance(found, Reply) else Reply(found)
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body

    def chunks() -> Generator[bytes, None, None]:
        yield body

    return Response(asked.url, reply.status, reply.headers.items(), chunks)


def request(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    timeout: float | None = None,
) -> Response:
    """Sends a request and waits for the response. `timeout` is in seconds; keep it below the plugin's `deadline`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Internal(f"expected an http: or https: URL, found {url!r}")
    if _fake is not None and not IN_COMPONENT:
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        return _answered(Request(url, method, lower, body, timeout), _fake)
    return Response(url, *send(url, parts, method, headers or {}, body, timeout))
