"""What a function returns as the content of a resource: text, JSON, bytes, a file, or `Contents`."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import stat
from collections.abc import Sequence
from dataclasses import replace
from os import stat_result
from pathlib import Path
from typing import Any, Union

from ._failures import Internal, NotFound
from ._types import Contents, Entry

Body = Union[str, bytes, dict[Any, Any], list[Any], Path, Contents, Sequence[Contents], None]
"""Text; binary content; JSON; a file, which is text if it is UTF-8; contents with metadata of their own. None is `NotFound`."""

# Without the types of the machine, which a component does not have.
_TYPES = mimetypes.MimeTypes(filenames=())
for _extension, _type in {".md": "text/markdown", ".ics": "text/calendar", ".toml": "application/toml"}.items():
    _TYPES.add_type(_type, _extension)


def type_of(file: Path) -> str | None:
    """The MIME type by a file's extension."""
    return _TYPES.guess_type(file.name)[0]


def status_of(file: Path) -> stat_result:
    """The status of a regular file; `NotFound` if there is none, and `Internal` if not even a folder above it is there."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        folders = [folder for folder in file.parents if folder != folder.parent]
        if folders and not any(folder.is_dir() for folder in folders):
            raise Internal(f"cannot read {file}: there is no folder {folders[0]}; does `grants.dirs` grant it?") from None
        raise NotFound from None
    except OSError as error:
        raise Internal(f"cannot read {file}: {error}; does `grants.dirs` grant it?") from None
    if not stat.S_ISREG(status.st_mode):
        raise NotFound
    return status


def entry_of_file(entry: Entry, file: Path) -> Entry:
    """Adds to an entry what is known of a file."""
    status = status_of(file)
    modified = entry.last_modified if entry.last_modified is not None else status.st_mtime
    return replace(entry, mime_type=entry.mime_type or type_of(file), size=status.st_size, last_modified=modified)


def contents_of(entry: Entry, body: Body, function: str) -> list[Contents]:
    """Converts what a function returned."""
    if body is None:
        raise NotFound
    if isinstance(body, Contents):
        return [body]
    if isinstance(body, list) and body and all(isinstance(one, Contents) for one in body):
        return body
    if isinstance(body, Path):
        described = entry_of_file(entry, body)
        try:
            return [Contents.detect(described, body.read_bytes())]
        except OSError as error:
            raise Internal(f"cannot read {body}: {error}") from None
    if isinstance(body, str):
        return [Contents(replace(entry, mime_type=entry.mime_type or "text/plain"), body)]
    if isinstance(body, (bytes, bytearray, memoryview)):
        return [Contents(replace(entry, mime_type=entry.mime_type or "application/octet-stream"), bytes(body))]
    if isinstance(body, (dict, list)):
        try:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, indent=2, default=_plain)
        except (TypeError, ValueError) as error:
            raise Internal(f"{function}() returned what is not JSON: {error}") from None
        return [Contents(replace(entry, mime_type=entry.mime_type or "application/json"), text)]
    raise Internal(f"{function}() returned {type(body).__name__}; expected str, bytes, dict, list, Path, Contents or None")


def fingerprint_of(body: Body) -> object:
    """What changes when a content does: of a file its size and time, of anything else a digest."""
    if isinstance(body, Path):
        status = status_of(body)
        return status.st_size, status.st_mtime_ns
    return hashlib.blake2b(repr(body).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _plain(value: object) -> str:
    """Dates, times and paths as text; anything else is a `TypeError`."""
    if isinstance(value, Path):
        return value.as_posix()
    isoformat = getattr(value, "isoformat", None)
    if isoformat is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return str(isoformat())
