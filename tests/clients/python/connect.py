"""Connects the programs beside it, by their command lines."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from oauth import authorization

STATELESS = "2026-07-28"


@asynccontextmanager
async def connected(name: str, words: list[str], **options: Any) -> AsyncIterator[tuple[str, Client]]:
    """Returns the transport and the client for `[--stateless] [--as ACCOUNT] http URL` or `[--stateless] stdio COMMAND ARGUMENT…`.

    It connects by `initialize`, with --stateless by the revision 2026-07-28; with --as it is authorized by OAuth as that
    account.
    """
    stateless = words[:1] == ["--stateless"]
    words = words[stateless:]
    async with AsyncExitStack() as stack:
        match words:
            case ["--as", account, "http" as transport, url]:
                # A stream stays open while nothing changes.
                timeout = httpx2.Timeout(30, read=None)
                http = httpx2.AsyncClient(auth=authorization(url, account), timeout=timeout)
                await stack.enter_async_context(http)
                server = streamable_http_client(url, http_client=http)
            case ["http" as transport, url]:
                server = url
            case ["stdio" as transport, command, *arguments]:
                server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
            case _:
                raise SystemExit(
                    f"usage: {name}.py [--stateless] [--as ACCOUNT] http URL | [--stateless] stdio COMMAND ARGUMENT…"
                )
        async with Client(server, mode="auto" if stateless else "legacy", **options) as client:
            if stateless and client.protocol_version != STATELESS:
                raise AssertionError(f"expected the revision {STATELESS}, found {client.protocol_version}")
            yield transport, client
