"""HTTP requests in a component, by `wasi:http`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any
from urllib.parse import SplitResult

from ._failures import Denied, Failure, Internal, Unavailable

try:
    from componentize_py_types import Err, Ok
    from wit_world.imports import wasi_http_outgoing_handler_0_2_6 as handler
    from wit_world.imports import wasi_http_types_0_2_6 as http
    from wit_world.imports import wasi_io_streams_0_2_6 as streams
except ImportError as error:
    raise ImportError(
        "HTTP needs a component: one whose own modules import it, or that is built with `--world provider-http`"
    ) from error

_CHUNK = 65_536
_METHODS: dict[str, type[Any]] = {
    "GET": http.Method_Get,
    "HEAD": http.Method_Head,
    "POST": http.Method_Post,
    "PUT": http.Method_Put,
    "DELETE": http.Method_Delete,
    "OPTIONS": http.Method_Options,
    "PATCH": http.Method_Patch,
}


def send(
    url: str, parts: SplitResult, method: str, headers: Mapping[str, str], body: bytes, timeout: float | None
) -> tuple[int, list[tuple[str, str]], Callable[[], Generator[bytes, None, None]]]:
    """Sends a request and waits for the response: its status, its headers, and its body."""
    try:
        fields = http.Fields.from_list([(name, value.encode()) for name, value in headers.items()])
        outgoing = http.OutgoingRequest(fields)
        outgoing.set_method(_METHODS[method]() if method in _METHODS else http.Method_Other(method))
        outgoing.set_scheme(http.Scheme_Https() if parts.scheme == "https" else http.Scheme_Http())
        outgoing.set_authority(parts.netloc)
        outgoing.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        sent = outgoing.body()
        future = handler.handle(outgoing, _options(timeout))
        # If the body is not accepted, for example because the request is denied, the result of the request has the reason.
        with contextlib.suppress(Err):
            _write(sent, body)
        with future.subscribe() as settled:
            settled.block()
        result: Any = future.get()
    except Err as error:
        raise _failure(url, error.value) from None
    # Nested results: whether the future is ready, whether it was read before, and the result of the request.
    while isinstance(result, Ok):
        result = result.value
    if isinstance(result, Err):
        raise _failure(url, result.value)
    if not isinstance(result, http.IncomingResponse):
        raise Internal(f"{url}: no response")
    received = [(name, value.decode("latin-1")) for name, value in result.headers().entries()]
    return result.status(), received, partial(_read, result, url)


def _read(incoming: http.IncomingResponse, url: str) -> Generator[bytes, None, None]:
    with incoming.consume() as body, body.stream() as stream:
        while True:
            try:
                chunk = stream.blocking_read(_CHUNK)
            except Err as error:
                if isinstance(error.value, streams.StreamError_Closed):
                    return
                raise Unavailable(f"{url}: the connection was lost within the body") from None
            yield chunk


def _options(timeout: float | None) -> http.RequestOptions | None:
    if timeout is None:
        return None
    options = http.RequestOptions()
    nanoseconds = math.ceil(timeout * 1e9)
    options.set_connect_timeout(nanoseconds)
    options.set_first_byte_timeout(nanoseconds)
    options.set_between_bytes_timeout(nanoseconds)
    return options


def _write(body: http.OutgoingBody, data: bytes) -> None:
    if data:
        with body.write() as stream:
            for start in range(0, len(data), 4096):
                stream.blocking_write_and_flush(data[start : start + 4096])
    http.OutgoingBody.finish(body, None)


def _failure(url: str, error: object) -> Failure:
    if isinstance(error, http.ErrorCode_HttpRequestDenied):
        return Denied(f"requests to {url} are not granted")
    kind = type(error).__name__.removeprefix("ErrorCode_")
    is_fault = not kind.startswith(("Dns", "Destination", "Connection", "Tls", "HttpResponse", "HttpProtocol", "Internal"))
    return Internal(f"{url}: {kind}") if is_fault else Unavailable(f"{url}: {kind}")
