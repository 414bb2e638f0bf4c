"""A server of the official Python SDK, which the tests mount as an upstream: `server.py` speaks over stdio."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("python", version="1.0.0")


@server.resource("memo:today", mime_type="text/plain")
def today() -> str:
    """An opaque URI."""
    return "a memo"


@server.resource("note://notes/Caf%c3%a9%2C1", mime_type="text/plain")
def spelled() -> str:
    """A URI that is not in normal form."""
    return "a spelled note"


@server.resource("note://notes/{name}/text", mime_type="text/plain")
def note(name: str) -> str:
    """A family of notes."""
    return f"the note {name}"


server.run("stdio")
