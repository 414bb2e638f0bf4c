"""Paths: percent-encoded names, separated by slashes."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from ._failures import InvalidRequest

# The characters that are not encoded in a segment, besides letters, digits and `_.-~` (RFC 3986, `pchar`).
_SEGMENT = "!$&'()*+,;=:@"
# The characters of these that are not encoded in the value of a query, because they separate nothing there.
_QUERY = "!$'()*:@"
_MALFORMED = re.compile("%(?![0-9A-Fa-f]{2})")


def encode_segment(name: str) -> str:
    """Encodes one name as one segment of a path. A slash in it is encoded."""
    return quote(name, safe=_SEGMENT)


def encode_query(value: str) -> str:
    """Encodes one value of a query, as a client does that expands `{?name}`."""
    return quote(value, safe=_QUERY)


def decode_segment(segment: str) -> str:
    """Decodes one segment to a name. Fails with `InvalidRequest` if it has a slash or a query, or is malformed."""
    if "/" in segment or "?" in segment:
        raise InvalidRequest("expected a single path segment")
    decoded = decode(segment)
    if decoded is None:
        raise InvalidRequest("expected a percent-encoded name in UTF-8")
    return decoded


def decode(text: str) -> str | None:
    """Decodes percent-encoded text; none if it is malformed, not UTF-8, or has a NUL."""
    if _MALFORMED.search(text):
        return None
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in decoded else decoded


def split_query(path: str) -> tuple[str, str | None]:
    """Splits a path from its query, if it has one."""
    path, mark, query = path.partition("?")
    return path, query if mark else None
