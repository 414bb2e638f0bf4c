"""A server of the official Python SDK with the resources that the official conformance suite asks for: `conformance.py PORT` speaks over HTTP,
with sessions and without."""

import base64
import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import Completion, EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

# A PNG of one red pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC"
)

server = MCPServer("conformance", version="1.0.0", log_level="ERROR")


@server.resource("test://static-text", mime_type="text/plain")
def text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def binary() -> bytes:
    return PIXEL


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "Watched."


@server.resource("test://template/{id}/data", mime_type="application/json")
def data(id: str) -> str:
    return f'{{"id": "{id}"}}'


@server.completion()
async def complete(ref, argument, context):
    values = [value for value in ["123", "124", "456"] if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


async def subscribed(context, params):
    return EmptyResult()


# The SDK has no decorator for these.
handlers = server._lowlevel_server
handlers.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribed)
handlers.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, subscribed)

server.run("streamable-http", port=int(sys.argv[1]))
