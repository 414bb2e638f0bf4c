"""Connects the programs beside it, by their command lines."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters

STATELESS = "2026-07-28"


@asynccontextmanager
async def connected(name: str, words: list[str], **options: Any) -> AsyncIterator[tuple[str, Client]]:
    """Returns the transport and the client for `[--stateless] http URL` or `[--stateless] stdio COMMAND ARGUMENT…`.

    It connects by `initialize`, with --stateless by the revision 2026-07-28.
    """
    stateless = words[:1] == ["--stateless"]
    words = words[stateless:]
    match words:
        case ["http" as transport, url]:
            server = url
        case ["stdio" as transport, command, *arguments]:
            server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
        case _:
            raise SystemExit(f"usage: {name}.py [--stateless] http URL | stdio COMMAND ARGUMENT…")
    async with Client(server, mode="auto" if stateless else "legacy", **options) as client:
        if stateless and client.protocol_version != STATELESS:
            raise AssertionError(f"expected the revision {STATELESS}, found {client.protocol_version}")
        yield transport, client
