"""HTTP requests to the origins that the administrator grants (`grants.http = ["https://docs.rs"]`).

A component whose modules import this one imports `wasi:http`. The host does not follow redirects, since each origin is granted separately.

    from mcp_host_provider.http import request

    page = request("https://docs.rs/serde/", timeout=4).read(1024 * 1024)

A request that is not granted raises `Denied`, a server that does not answer `Unavailable`, and a malformed request `Internal`.

In a unit test requests are sent by Python, so that a server on loopback can answer them. Nothing is granted or denied there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._world import IN_COMPONENT

if TYPE_CHECKING or IN_COMPONENT:
    from ._http_component import Response, request
else:
    from ._http_native import Response, request

__all__ = ["Response", "request"]
