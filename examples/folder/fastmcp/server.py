"""The same folder as a server of FastMCP, to compare: without pages, completion, updates and a sandbox."""

import mimetypes
from itertools import islice
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.exceptions import ResourceError
from fastmcp.resources import FileResource

FOLDER = Path("data").resolve()

mcp: FastMCP = FastMCP("folder")


def found(name: str) -> Path:
    file = FOLDER / name
    if "/" in name or name.startswith(".") or not file.is_file():
        raise ResourceError("not found")
    return file


@mcp.resource("folder:///{name}")
def file(name: str) -> str | bytes:
    """A file of the folder."""
    content = found(name).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


@mcp.resource("folder:///first/{name}{?lines}", mime_type="text/plain")
def first_lines(name: str, lines: int = 10) -> str:
    """The first lines of a text file."""
    with found(name).open(encoding="utf-8", errors="replace") as text:
        return "".join(islice(text, max(lines, 0)))


for path in sorted(FOLDER.iterdir()):  # As they are at the start.
    mime_type = mimetypes.guess_type(path.name)[0] or "text/plain"
    is_binary = not mime_type.startswith("text/")
    mcp.add_resource(FileResource(uri=f"folder:///{path.name}", path=path, mime_type=mime_type, is_binary=is_binary))

if __name__ == "__main__":
    mcp.run()
