"""What a provider returns. Everything that is optional has a default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

#: The number of completions that the host takes. Clients get at most 100 of those that they may see.
MAX_COMPLETIONS = 1000


class Role(Enum):
    """The audience of a resource."""

    USER = "user"
    ASSISTANT = "assistant"


class Theme(Enum):
    """The background that an icon is designed for."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class Icon:
    """An icon that clients may display with a resource. `src` is an `https:` or `data:` URI."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] = ()
    theme: Theme | None = None


@dataclass(frozen=True)
class Info:
    """The description of a provider."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    watches: bool = False


@dataclass(frozen=True)
class Entry:
    """One resource: all its metadata, without its content.

    `path` is percent-encoded (see `encode_segment`). `ttl` is the time in seconds for which a reader may assume that the
    resource is unchanged. `last_modified` is a `datetime`, or the seconds since 1970 that `os.stat` returns. The names in
    `meta` should have a prefix of the provider's own, as in `{"example.com/branch": "main"}`.
    """

    path: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    audience: Sequence[Role] = ()
    priority: float | None = None
    last_modified: datetime | float | None = None
    icons: Sequence[Icon] = ()
    listable: bool = False
    subscribable: bool = False
    ttl: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contents:
    """The content of a resource: `str` is text, `bytes` is binary."""

    entry: Entry
    body: str | bytes

    @classmethod
    def detect(cls, entry: Entry, data: bytes) -> Contents:
        """Returns text if the bytes are UTF-8, else binary content."""
        try:
            return cls(entry, data.decode())
        except UnicodeDecodeError:
            return cls(entry, data)


@dataclass(frozen=True)
class Page:
    """One page of a listing. `next_cursor` is the cursor of the next page, none on the last; see `paginate`."""

    entries: Sequence[Entry]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Template:
    """A family of resources whose paths are given by an RFC 6570 template. Usually made by the decorator `template`."""

    path_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    audience: Sequence[Role] = ()
    priority: float | None = None
    icons: Sequence[Icon] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Completion:
    """The completions of a variable, best first, not percent-encoded. Clients get at most 100 of those that they may see."""

    values: Sequence[str] = ()
    total: int | None = None
    has_more: bool = False

    @classmethod
    def matching(cls, candidates: Iterable[str], typed: str) -> Completion:
        """Returns the candidates that start with `typed`, each once: the first 1000, and the number of all."""
        fitting = [candidate for candidate in dict.fromkeys(candidates) if candidate.startswith(typed)]
        return cls(fitting[:MAX_COMPLETIONS], len(fitting), len(fitting) > MAX_COMPLETIONS)


def rfc3339(time: datetime | float) -> str:
    """Returns a timestamp as text. A `datetime` without a zone is taken for UTC."""
    if not isinstance(time, datetime):
        time = datetime.fromtimestamp(time, timezone.utc)
    elif time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def meta_text(meta: Mapping[str, Any]) -> str | None:
    """Returns metadata as the text of one JSON object; none if it is empty."""
    return json.dumps(dict(meta), ensure_ascii=False) if meta else None
