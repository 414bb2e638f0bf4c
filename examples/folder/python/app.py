"""The files of a folder, and the first lines of each."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from mcp_host_provider import FunctionProvider, Needs

NEEDS: Needs = {"dirs": [{"guest": "/data", "why": "the files"}]}

provider = FunctionProvider(name="folder", version="0.1.0", description="The files of a folder.")


@provider.resource("{name}")
def file(name: Path) -> Path:
    """A file of the folder."""
    return Path(provider.config.text("dir", "/data")) / name


@file.listing
def files() -> Iterable[Path]:
    return sorted(Path(provider.config.text("dir", "/data")).iterdir())


@provider.resource("first/{name}{?lines}", mime_type="text/plain")
def first_lines(name: Path, lines: int = 10) -> str:
    """The first lines of a text file."""
    with file(name).open(encoding="utf-8", errors="replace") as text:
        return "".join(islice(text, max(lines, 0)))
