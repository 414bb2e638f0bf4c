"""Failures: why a call returns no result. The class decides how much of it the client sees."""

from __future__ import annotations


class Failure(Exception):
    """The base of all failures. Raise one of its subclasses."""


class NotFound(Failure):
    """There is no such resource."""


class InvalidRequest(Failure):
    """The request is invalid: a path of an unknown form, a cursor that this provider did not issue. The text says to the
    client what is expected."""


class Denied(Failure):
    """The data source denies access. The client sees the text, so it must not contain secrets."""


class Unavailable(Failure):
    """The resource exists or may exist, but is temporarily not available. The client sees the reason.

    `retry_after` is the time in seconds after which a retry makes sense, if it is known.
    """

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Internal(Failure):
    """A fault of the provider, its data or its config. The text goes to the log only, without a traceback."""
