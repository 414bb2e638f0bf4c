"""Keyset pagination of sorted data."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ._failures import InvalidRequest
from ._types import Entry, Page


def paginate(
    keys: Iterable[str], cursor: str | None, limit: int, entry: Callable[[str], Entry | None]
) -> Page:
    """Returns the page after `cursor`. The keys, each at most 4000 bytes, may be in any order; pages are sorted by key.

    A cursor contains the last key of the previous page. So it needs no state, and remains valid while keys are added and
    removed. `entry` makes the entry of a key, or none if it was removed in the meantime; it is called only for keys of this
    page. Fails with `InvalidRequest` if the cursor is not one of this function's.
    """
    if cursor is not None and not cursor.startswith(":"):
        raise InvalidRequest("expected a cursor that this provider returned")
    rest = sorted(key for key in keys if cursor is None or key > cursor[1:])
    page = rest[: max(limit, 1)]
    entries = [made for made in map(entry, page) if made is not None]
    return Page(entries, f":{page[-1]}" if len(rest) > len(page) else None)
