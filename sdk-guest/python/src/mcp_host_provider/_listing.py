"""Pages of iterators, whose cursors are data: another instance continues where the last page ended.

A cursor has the number of the iterator, the position in it, and digests of the last paths before that position. The next page starts
behind the last of these that the iterator still gives, wherever it is now. So the order may be any, as long as it is the same while the
data are; entries that are added or removed meanwhile neither repeat nor hide others, unless all of the `_ANCHORS` are gone: then some
entries may come twice.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ._failures import InvalidRequest
from ._types import Entry, Page

_ANCHORS = 16
_CURSOR = re.compile(r"([0-9]{1,9}):([0-9]{1,12}):((?:[0-9a-f]{12})*)\Z", re.ASCII)

Listing = Callable[[], Iterator[tuple[str, Callable[[], "Entry | None"]]]]
"""What is iterated over: paths, each with a function that makes its entry, or none if it is gone. Entries are made of one page only."""


def page_of(listings: Sequence[Listing], cursor: str | None, limit: int) -> Page:
    """Returns the page after `cursor` of all iterators, one after the other."""
    number, position, anchors = _parse(cursor, len(listings))
    entries: list[Entry] = []
    while number < len(listings):
        items, position, known = _resume(listings[number], position, anchors)
        recent = deque(known, maxlen=_ANCHORS)
        for path, make in items:
            if len(entries) >= max(limit, 1):
                return Page(entries, f"{number}:{position}:{''.join(recent)}")
            position += 1
            recent.append(digest(path))
            made = make()
            if made is not None:
                entries.append(made)
        number, position, anchors = number + 1, 0, []
    return Page(entries)


def digest(path: str) -> str:
    return hashlib.blake2b(path.encode(), digest_size=6).hexdigest()


def _parse(cursor: str | None, count: int) -> tuple[int, int, list[str]]:
    if cursor is None:
        return 0, 0, []
    found = _CURSOR.match(cursor)
    if found is None or int(found[1]) >= count or len(found[3]) > 12 * _ANCHORS:
        raise InvalidRequest("expected a cursor that this provider returned")
    return int(found[1]), int(found[2]), [found[3][at : at + 12] for at in range(0, len(found[3]), 12)]


def _resume(
    listing: Listing, position: int, anchors: list[str]
) -> tuple[Iterator[tuple[str, Callable[[], Entry | None]]], int, list[str]]:
    """Returns the rest of the iterator, its position, and those anchors that are before it."""
    if not anchors:
        return listing(), 0, []
    seen: dict[str, int] = {}
    wanted = frozenset(anchors)
    items = listing()
    for at, (path, _) in enumerate(items):
        mark = digest(path)
        if mark in wanted:
            seen[mark] = at
            if mark == anchors[-1]:
                return items, at + 1, anchors
    last = next((index for index in range(len(anchors) - 1, -1, -1) if anchors[index] in seen), None)
    # The end of the page is gone, so the page ended behind the last entry that is left of it.
    start = seen[anchors[last]] + 1 if last is not None else max(position - len(anchors), 0)
    items = listing()
    for _ in range(start):
        if next(items, None) is None:
            break
    return items, start, anchors[: last + 1] if last is not None else []
