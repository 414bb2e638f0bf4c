"""The changes since a token."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Changes:
    """The changes since a token. `Changes.compare` makes it from the state of the data.

    `token` is opaque to the host, which stores it and passes it back. `changed` are the watched paths whose content
    or metadata changed, appeared or disappeared. `poll_after` is the recommended delay in seconds before the next poll.
    """

    token: str
    changed: Sequence[str] = ()
    listing_changed: bool = False
    poll_after: float | None = None

    @classmethod
    def compare(
        cls, watched: Sequence[str], since: str | None, *, state: Callable[[str], object], listing: object = None
    ) -> Changes:
        """Compares the state of the watched paths, and of the listing, with that at the token.

        `state` returns what identifies the state of a path, such as the size and modification time of its file, or none if
        it does not exist; `listing` identifies the state of the listing. Both are compared by their `repr`.
        """
        lines = [_digest(listing), *(f"{_digest(path)}{_digest(state(path))}" for path in watched)]
        token = "\n".join(lines)
        if since is None:
            return cls(token)
        then = since.split("\n")
        known = set(then[1:])
        changed = [path for path, line in zip(watched, lines[1:]) if line not in known]
        return cls(token, tuple(changed), then[0] != lines[0])


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()
