"""The types of `NEEDS`, with which a provider says what it would like to be granted."""

from __future__ import annotations

from typing import Literal, TypedDict


class _Why(TypedDict, total=False):
    why: str


class NeededOrigin(_Why):
    """Origins that it sends requests to: `https://docs.rs`, `https://*.example.com`."""

    origin: str


class _Dir(_Why):
    guest: str


class NeededDir(_Dir, total=False):
    """A directory, by the path at which it expects it. Read-only, unless `mode` is `rw`."""

    mode: Literal["ro", "rw"]


class _Bucket(_Why):
    bucket: str


class NeededBucket(_Bucket, total=False):
    """A key-value bucket that it opens. `optional` if it does not open it unless it is granted."""

    optional: bool


class NeededDatabase(_Why):
    """An SQL database that it queries."""

    database: str


class NeededVariable(_Why):
    """An environment variable that it reads."""

    name: str


class _Setting(_Why):
    type: Literal["string", "integer", "float", "boolean", "array", "table"]


class NeededSetting(_Setting, total=False):
    """A key of its config. `required` if the provider does not work without it; `address` if it is the address of a server,
    or a list of addresses.
    """

    default: object
    required: bool
    address: bool


LimitKey = Literal[
    "memory",
    "cpu",
    "deadline",
    "response-size",
    "http.rate",
    "http.body",
    "http.timeout",
    "prepare.cpu",
    "prepare.memory",
]
"""A limit that a provider may ask for, by its key below `limits`."""


class NeededLimit(_Why):
    """The least that it works with of a limit, as the config writes it: `256MiB`, `5m`."""

    min: str


class Needs(TypedDict, total=False):
    """What a provider would like to be granted; `mcp-host inspect` shows it as an entry of the config. Asking grants nothing.

    The module that is built declares it as a literal, which the build reads without running the module:

        NEEDS: Needs = {"dirs": [{"guest": "/data", "why": "the files"}]}
    """

    http: list[NeededOrigin]
    dirs: list[NeededDir]
    keyvalue: list[NeededBucket]
    sql: list[NeededDatabase]
    env: list[NeededVariable]
    config: dict[str, NeededSetting]
    limits: dict[LimitKey, NeededLimit]
