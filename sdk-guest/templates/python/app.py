"""The files of a folder: one resource per file, and a template for the first lines of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from mcp_host_provider import FunctionProvider, Needs

# What it would like to be granted: `mcp-host inspect` shows it.
NEEDS: Needs = {
    "dirs": [{"guest": "/data", "why": "the files"}],
    "config": {
        "dir": {"type": "string", "default": "/data", "why": "the folder, at its guest path"},
        "lines": {"type": "integer", "default": 10, "why": "the number of lines of `first/NAME`"},
    },
}

provider = FunctionProvider(name="{{name}}", version="0.1.0", description="The files of a folder.")


def folder() -> Path:
    return Path(provider.config.text("dir", "/data"))


@provider.resource("{name}")
def file(name: Path) -> Path:
    """A file of the folder."""
    return folder() / name


@file.listing
def files() -> Iterable[Path]:
    return sorted(folder().iterdir())


@provider.resource("first/{name}", title="First lines of a file", mime_type="text/plain")
def first_lines(name: Path) -> str:
    """The first lines of a text file."""
    with file(name).open(encoding="utf-8", errors="replace") as text:
        return "".join(islice(text, max(provider.config.integer("lines", 10), 0)))
