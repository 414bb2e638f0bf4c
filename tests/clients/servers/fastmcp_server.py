"""A server of FastMCP, which the tests mount as an upstream: `fastmcp_server.py` speaks over stdio."""

from fastmcp import FastMCP

server = FastMCP("fastmcp", version="1.0.0")


@server.resource("memo:today", mime_type="text/plain", tags={"opaque"})
def today() -> str:
    """An opaque URI."""
    return "a memo"


@server.resource("note://pixel", mime_type="image/png")
def pixel() -> bytes:
    """Bytes."""
    return b"\x89PNG"


@server.resource("note://notes/{name}/text", mime_type="text/plain")
def note(name: str) -> str:
    """A family of notes."""
    return f"the note {name}"


server.run(show_banner=False)
