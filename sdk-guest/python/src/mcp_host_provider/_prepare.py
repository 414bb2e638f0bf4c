"""Work that takes longer than a call: its progress, and the error of a call that needs data that is not prepared yet."""

from __future__ import annotations

from dataclasses import dataclass

from ._failures import Unavailable

_RETRY_AFTER = 1.0


@dataclass(frozen=True)
class Progress:
    """The progress of a preparation after a call of `Provider.prepare`. A module that imports it is built with that function.

    `next_token` is the token of the next call, never the one of this call; none when everything is prepared. `percent` is
    the part that is prepared, 0 to 100, and `message` says what has been done, for administrators. `again_after` is the time in
    seconds after which everything is to be prepared again, although no change is reported.
    """

    next_token: str | None = None
    percent: int | None = None
    message: str | None = None
    again_after: float | None = None

    @classmethod
    def of(cls, prepared: int, all: int, what: str, next_token: str | int) -> Progress:
        """`prepared` of `all` are done: `Progress.of(3000, 5000, "events", 3000)`. If some are left, the next call gets the token."""
        percent = prepared * 100 // all if all else 100
        return cls(str(next_token) if prepared < all else None, min(percent, 100), f"{prepared} of {all} {what}")


class BeingPrepared(Unavailable):
    """The call needs data that is not prepared yet. The client gets the progress and a time to retry, or the information that
    the config of the host does not let the provider prepare anything."""

    def __init__(self) -> None:
        if _host_value("mcp-host/limits.prepare.cpu-ms", "") is None:
            super().__init__("it has to be prepared, which the config of the host does not allow")
            return
        percent = _host_value("mcp-host/prepare.percent", None)
        done = f", {percent} %" if percent is not None else ""
        super().__init__(f"it is being prepared{done}", retry_after=_RETRY_AFTER)


def _host_value(key: str, outside: str | None) -> str | None:
    """Returns the value of a key of the host; outside of a component, that one."""
    try:
        from wit_world.imports import wasi_config_store_0_2_0_rc_1 as config_store
    except ImportError:
        return outside
    return config_store.get(key)
