"""Reading and writing CSV (RFC 4180), leniently, as the README of `examples/csv` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)(?:"|\Z))?((?:[^,\r\n]|\r(?!\n))*)')
_END_OF_LINE = re.compile(r"\r?\n")


def records(text: str) -> Iterator[list[str]]:
    """Yields the records of a text. Empty lines are skipped."""
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        if end := _END_OF_LINE.match(text, at):
            at = end.end()
            continue
        record: list[str] = []
        while True:
            found = _FIELD.match(text, at)
            assert found is not None, "it matches nothing, too"
            quoted, rest = found.groups()
            record.append((quoted or "").replace('""', '"') + rest)
            at = found.end()
            if not text.startswith(",", at):
                break
            at += 1
        if end := _END_OF_LINE.match(text, at):
            at = end.end()
        yield record


def quote(field: str) -> str:
    """Returns a field, quoted if it has to be."""
    return '"' + field.replace('"', '""') + '"' if re.search('[,"\r\n]', field) else field


def write(record: Sequence[str]) -> str:
    """Returns a record as a line."""
    return ('""' if list(record) == [""] else ",".join(map(quote, record))) + "\n"
