"""Work that takes longer than a call: how far it is, and what a call raises that needs what is not there yet."""

from __future__ import annotations

from dataclasses import dataclass

from ._failures import Unavailable

_RETRY_AFTER = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a preparation is after a call of `Provider.prepare`. A module that imports it is built with that function.

    `next_token` is that of the next call: any text, but never the one of this call; none when everything is prepared. `percent` is
    the part that is prepared, 0 to 100, and `message` says what has been done, for administrators. `again_after` is the time in
    seconds after which everything is to be prepared again, although no change is reported.
    """

    next_token: str | None = None
    percent: int | None = None
    message: str | None = None
    again_after: float | None = None

    @classmethod
    def of(cls, prepared: int, all: int, what: str, next_token: str | int) -> Progress:
        """So many of all are prepared: `Progress.of(3000, 5000, "events", 3000)`. If those are not all, the next call gets the token."""
        percent = prepared * 100 // all if all else 100
        return cls(str(next_token) if prepared < all else None, min(percent, 100), f"{prepared} of {all} {what}")


class BeingPrepared(Unavailable):
    """What is needed is not prepared yet. The client is told how much is, and when to ask again; or that the config of the host does
    not let the provider prepare anything."""

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
