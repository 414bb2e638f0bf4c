"""The files of a folder: one resource per file, and a template for the first lines of each."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp_host_provider import (
    Changes,
    Config,
    Contents,
    Entry,
    Internal,
    InvalidRequest,
    Needs,
    NotFound,
    Page,
    Provider,
    ReadResult,
    decode_segment,
    encode_segment,
    export,
    paginate,
    template,
)

# Without this, the types come from files of the machine, which a component does not have.
mimetypes.init(files=[])
mimetypes.add_type("text/markdown", ".md")

# What it would like to be granted: `mcp-host inspect` shows it.
NEEDS: Needs = {
    "dirs": [{"guest": "/data", "why": "the files"}],
    "config": {
        "dir": {"type": "string", "default": "/data", "why": "the folder, at its guest path"},
        "lines": {"type": "integer", "default": 10, "why": "the number of lines of `first/FILE`"},
    },
}


@export(name="{{name}}", version="0.1.0", description="The files of a folder.", watches=True)
class Files(Provider):
    def __init__(self, config: Config) -> None:
        self.folder = Path(config.text("dir", "/data"))
        self.lines = config.integer("lines", 10)

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        if parent is not None:
            self.stat(parent)
            raise InvalidRequest("expected no parent: a file has no children")
        return paginate(self.names(), cursor, limit, self.entry)

    def read(self, path: str) -> ReadResult:
        if path.startswith("first/"):
            return super().read(path)
        name = file_name(path)
        entry = self.entry(name)
        if entry is None:
            raise self.missing()
        return Contents.detect(entry, (self.folder / name).read_bytes())

    @template("first/{file}", name="first-lines", title="First lines of a file", mime_type="text/plain")
    def first_lines(self, path: str, variables: Mapping[str, str]) -> Contents:
        name = variables["file"]
        if not self.has(name):
            raise self.missing()
        try:
            text = (self.folder / name).read_bytes().decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"expected a text file; {name} is not UTF-8") from None
        entry = Entry(path, f"first lines of {name}", mime_type="text/plain", subscribable=True)
        return Contents(entry, "".join(text.splitlines(keepends=True)[: self.lines]))

    @first_lines.completes("file")
    def complete_file(self, value: str, known: Mapping[str, str]) -> Sequence[str]:
        return sorted(self.names())

    def changes(self, watched: Sequence[str], since: str | None) -> Changes:
        listing = [(name, self.state(name)) for name in sorted(self.names())]
        return Changes.compare(watched, since, state=self.state_of_path, listing=listing)

    def names(self) -> list[str]:
        """The names of the files; hidden ones are left out."""
        try:
            return [file.name for file in self.folder.iterdir() if self.has(file.name)]
        except OSError as error:
            raise Internal(f"cannot read the folder {self.folder}: {error}; does `grants.dirs` grant it?") from None

    def missing(self) -> NotFound:
        """What is raised for a file that is not there. Fails if the folder is not there, which no client can help."""
        self.names()
        return NotFound()

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return not name.startswith(".") and "/" not in name and (self.folder / name).is_file()

    def entry(self, name: str) -> Entry | None:
        """The entry of a file; none if there is no such file."""
        if not self.has(name):
            return None
        size = (self.folder / name).stat().st_size
        kind = mimetypes.guess_type(name)[0]
        return Entry(encode_segment(name), name, mime_type=kind, size=size, subscribable=True)

    def state(self, name: str) -> object:
        """What changes when a file does; none if there is no such file."""
        if not self.has(name):
            return None
        found = (self.folder / name).stat()
        return found.st_size, found.st_mtime_ns

    def state_of_path(self, path: str) -> object:
        return self.state(file_name(path.removeprefix("first/")))


def file_name(segment: str) -> str:
    """The name of a file from its path."""
    try:
        return decode_segment(segment)
    except InvalidRequest:
        raise NotFound from None
