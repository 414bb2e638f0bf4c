"""A folder of CSV files: one resource per file, and a template for rows and columns. The README of `examples/csv` says
exactly what it does."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from csv_text import quote, records, write
from mcp_host_provider import (
    Changes,
    Completion,
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
    split_query,
    template,
)

NEEDS: Needs = {
    "dirs": [{"guest": "/csv", "why": "the folder of CSV files"}],
    "config": {
        "dir": {"type": "string", "default": "/csv", "why": "the folder, at its guest path"},
        "max-rows": {"type": "integer", "default": 1000, "why": "the maximum number of rows of one read"},
    },
}

HEADER_BYTES = 65_536


@export(
    name="csv",
    version="0.1.0",
    title="CSV files",
    description="The CSV files of a folder, and rows of them.",
    watches=True,
)
class Csv(Provider):
    def __init__(self, config: Config) -> None:
        self.folder = Path(config.text("dir", "/csv"))
        self.max_rows = config.integer("max-rows", 1000)

    def list_entries(self, parent: str | None, cursor: str | None, limit: int) -> Page:
        if parent is not None:
            self.stat(parent)
            raise InvalidRequest("not a container")
        return paginate(self.names(), cursor, limit, self.entry)

    def read(self, path: str) -> ReadResult:
        if "/" in path:
            return super().read(path)
        name = file_name(path)
        entry = self.entry(name)
        if entry is None:
            raise NotFound
        return Contents.detect(entry, (self.folder / name).read_bytes())

    @template(
        "{file}/rows{?from,to,columns}",
        name="rows",
        title="Rows of a CSV file",
        description="Rows from..=to, counted from 1, and columns, separated by commas. By default all columns, and as many "
        "rows as one read returns.",
        mime_type="text/csv",
    )
    def rows(self, path: str, variables: Mapping[str, str]) -> Contents:
        file = variables["file"]
        if not self.has(file):
            raise NotFound
        start = row_number("from", variables) or 1
        end = row_number("to", variables)
        if end is not None and start > end:
            raise InvalidRequest(f"`from` must not be greater than `to`, found {start} and {end}")
        count = self.max_rows if end is None else min(self.max_rows, end - start + 1)
        text = "".join(self.selected(file, start, count, variables.get("columns")))
        return Contents(Entry(path, f"rows of {file}", mime_type="text/csv", subscribable=True), text)

    @rows.completes("file")
    def complete_file(self, value: str, known: Mapping[str, str]) -> Sequence[str]:
        return sorted(self.names())

    @rows.completes("columns")
    def complete_columns(self, value: str, known: Mapping[str, str]) -> Completion:
        file = known.get("file", "")
        if not self.has(file):
            return Completion()
        before, comma, prefix = value.rpartition(",")
        taken = next(records(before), [])
        columns = next(records(self.text(file)), [])
        fitting = [column for column in columns if column.startswith(prefix) and column not in taken]
        return Completion.matching((before + comma + quote(column) for column in fitting), "")

    def changes(self, watched: Sequence[str], since: str | None) -> Changes:
        def state(path: str) -> object:
            return self.state(file_name(split_query(path)[0].split("/")[0]))

        listing = [(name, self.state(name)) for name in sorted(self.names())]
        return Changes.compare(watched, since, state=state, listing=listing)

    def names(self) -> list[str]:
        """The names of the files."""
        try:
            return [file.name for file in self.folder.iterdir() if self.has(file.name)]
        except OSError as error:
            raise Internal(f"cannot read the folder {self.folder}: {error}; does `grants.dirs` grant it?") from None

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        is_csv = name.endswith(".csv") and not name.startswith(".") and "/" not in name
        return is_csv and (self.folder / name).is_file()

    def entry(self, name: str) -> Entry | None:
        """The entry of a file; none if there is no such file."""
        if not self.has(name):
            return None
        file = self.folder / name
        with file.open("rb") as opened:
            columns = header(opened.read(HEADER_BYTES))
        return Entry(
            encode_segment(name),
            name,
            description=f"Columns: {', '.join(columns)}." if columns else None,
            mime_type="text/csv",
            size=file.stat().st_size,
            subscribable=True,
        )

    def selected(self, file: str, start: int, count: int, columns: str | None) -> Iterator[str]:
        """The lines of the header and of some rows, with those columns."""
        found = records(self.text(file))
        head = next(found, None)
        if head is None:
            return
        wanted = next(records(columns or ""), head)
        for column in wanted:
            if column not in head:
                raise InvalidRequest(f'no column "{column}" in {file}; its columns are {", ".join(head)}')
        indexes = [head.index(column) for column in wanted] if columns else range(len(head))
        yield write([head[index] for index in indexes])
        for row in islice(found, start - 1, start - 1 + count):
            yield write([row[index] if index < len(row) else "" for index in indexes])

    def text(self, file: str) -> str:
        """The text of a file."""
        try:
            return (self.folder / file).read_bytes().decode()
        except UnicodeDecodeError:
            raise Internal(f"{file} is not UTF-8") from None

    def state(self, name: str) -> object:
        """What changes when a file does; none if there is no such file."""
        if not self.has(name):
            return None
        found = (self.folder / name).stat()
        return found.st_size, found.st_mtime_ns


def file_name(segment: str) -> str:
    """The name of a file from its path."""
    try:
        return decode_segment(segment)
    except InvalidRequest:
        raise NotFound from None


def header(beginning: bytes) -> list[str] | None:
    """The first record, if the bytes are UTF-8 except for an incomplete character at the end."""
    try:
        return next(records(codecs.getincrementaldecoder("utf-8")().decode(beginning)), None)
    except UnicodeDecodeError:
        return None


def row_number(name: str, variables: Mapping[str, str]) -> int | None:
    """The value of a variable that is a row number; none if it has none."""
    text = variables.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or text.startswith("0") or len(text) > 9:
        raise InvalidRequest(f'`{name}` must be a row number from 1 on, found "{text}"')
    return int(text)
