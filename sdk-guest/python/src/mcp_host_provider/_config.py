"""The plugin's config."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

T = TypeVar("T")


class ConfigError(Exception):
    """A value of the config is not of the expected type. The text names the key and goes to the host's log."""


class Config:
    """The `config` table of the plugin in `mcp-host.toml`: strings unchanged, other values as JSON.

    A missing key is the default, by default none. For tests: `Config({"rev": "main", "depth": 3})`.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        given = (values or {}).items()
        self._values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given}

    def __iter__(self) -> Iterator[str]:
        """Iterates over the keys, sorted."""
        return iter(sorted(self._values))

    def __contains__(self, key: object) -> bool:
        return key in self._values

    @overload
    def text(self, key: str, default: str) -> str: ...
    @overload
    def text(self, key: str, default: None = None) -> str | None: ...
    def text(self, key: str, default: str | None = None) -> str | None:
        """Returns a string."""
        return self._values.get(key, default)

    @overload
    def integer(self, key: str, default: int) -> int: ...
    @overload
    def integer(self, key: str, default: None = None) -> int | None: ...
    def integer(self, key: str, default: int | None = None) -> int | None:
        """Returns an integer."""
        return self._parsed(key, default, "an integer", int)

    @overload
    def number(self, key: str, default: float) -> float: ...
    @overload
    def number(self, key: str, default: None = None) -> float | None: ...
    def number(self, key: str, default: float | None = None) -> float | None:
        """Returns a number."""
        return self._parsed(key, default, "a number", float)

    @overload
    def boolean(self, key: str, default: bool) -> bool: ...
    @overload
    def boolean(self, key: str, default: None = None) -> bool | None: ...
    def boolean(self, key: str, default: bool | None = None) -> bool | None:
        """Returns `true` or `false`."""
        return self._parsed(key, default, "true or false", {"true": True, "false": False}.__getitem__)

    def json(self, key: str, default: Any = None) -> Any:
        """Returns a list, a table or any other value of JSON."""
        return self._parsed(key, default, "JSON", json.loads)

    def _parsed(self, key: str, default: T, expected: str, parse: Callable[[str], T]) -> T:
        if key not in self._values:
            return default
        try:
            return parse(self._values[key])
        except (ValueError, KeyError):
            found = self._values[key]
            raise ConfigError(f"config key `{key}`: expected {expected}, found {found!r}") from None
