"""The arguments of a function from the variables of its template: which parameters it must have, and their conversion."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path, PurePath
from types import UnionType
from typing import Any

from ._failures import InvalidRequest, NotFound
from ._templates import PathTemplate

_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?\Z", re.ASCII)
_TYPES = "str, int, float, bool, date, datetime, Path, an Enum, a Literal of texts, or one of them `| None`"


@dataclass(frozen=True)
class _Parameter:
    convert: Callable[[str], Any]
    choices: tuple[str, ...]
    required: bool


class Arguments:
    """The parameters of a function, each of which is a variable of the template. Anything else is a `TypeError`, at import."""

    def __init__(self, function: Callable[..., Any], pattern: PathTemplate) -> None:
        self._function = function.__name__
        self._in_query = frozenset(pattern.query_variables)
        self._parameters: dict[str, _Parameter] = {}
        annotations = self._annotations(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self._fail(f"the parameter {parameter} is of no use; write one parameter for each variable of {pattern.text!r}")
            required = parameter.default is parameter.empty
            if name not in pattern.variables:
                written = f"{pattern.text[:-1]},{name}}}" if self._in_query else f"{pattern.text}{{?{name}}}"
                self._fail(f"the template {pattern.text!r} has no variable {name!r}; write {written!r}")
            convert, choices = self._conversion(name, annotations.get(name, str))
            self._parameters[name] = _Parameter(convert, choices, required)
        missing = [name for name in pattern.variables if name not in self._parameters]
        if missing:
            written = ", ".join(f"{name}: str" for name in pattern.variables)
            self._fail(f"the template {pattern.text!r} has the variable {missing[0]!r}; write `def {self._function}({written})`")

    @property
    def has_no_required(self) -> bool:
        """Whether the function can be called without any."""
        return not any(parameter.required for parameter in self._parameters.values())

    def choices(self, variable: str) -> tuple[str, ...]:
        """The values that a variable may have, if its type has few."""
        return self._parameters[variable].choices

    def convert(self, variables: Mapping[str, str]) -> dict[str, Any]:
        """Converts the values of a path. An empty one of the query is the default. `InvalidRequest` if one is of another type."""
        given: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            text = variables.get(name, "")
            if text == "" and name in self._in_query:
                if parameter.required:
                    raise InvalidRequest(f"expected a value of `{name}`: `?{name}=…`")
                continue
            given[name] = parameter.convert(text)
        return given

    def _annotations(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function)
        except (NameError, TypeError) as error:
            return self._fail(f"its annotations cannot be evaluated ({error}); import their types at the top of the module")

    def _conversion(self, name: str, kind: Any) -> tuple[Callable[[str], Any], tuple[str, ...]]:
        origin = typing.get_origin(kind)
        if origin in (typing.Union, UnionType):
            rest = [one for one in typing.get_args(kind) if one is not type(None)]
            if len(rest) == 1:
                return self._conversion(name, rest[0])
        if origin is typing.Literal and all(isinstance(one, str) for one in typing.get_args(kind)):
            return self._of({value: value for value in typing.get_args(kind)}, name)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._of({str(member.value): member for member in kind}, name)
        if kind is bool:
            return self._of({"true": True, "false": False}, name)
        if kind not in _CONVERSIONS:
            shown = getattr(kind, "__name__", str(kind))
            return self._fail(f"the parameter {name!r} has the type {shown}; supported are {_TYPES}")
        expected, convert = _CONVERSIONS[kind]

        def checked(text: str) -> Any:
            try:
                return convert(text)
            except (ValueError, OverflowError):
                raise InvalidRequest(f"`{name}` must be {expected}, found {_shown(text)}") from None

        return checked, ()

    def _of(self, values: Mapping[str, Any], name: str) -> tuple[Callable[[str], Any], tuple[str, ...]]:
        def chosen(text: str) -> Any:
            if text not in values:
                raise InvalidRequest(f"`{name}` must be {' or '.join(values)}, found {_shown(text)}")
            return values[text]

        return chosen, tuple(values)

    def _fail(self, text: str) -> typing.NoReturn:
        raise TypeError(f"{self._function}(): {text}")


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= 100 else f'"{text[:100]}…"'


def _integer(text: str) -> int:
    # One spelling for each number, so that one resource has one path.
    if len(text) > 40 or not text.isascii() or str(int(text)) != text:
        raise ValueError
    return int(text)


def _number(text: str) -> float:
    if not _NUMBER.match(text) or not math.isfinite(float(text)):
        raise ValueError
    return float(text)


def _date(text: str) -> date:
    if len(text) != 10:
        raise ValueError
    return date.fromisoformat(text)


def _datetime(text: str) -> datetime:
    if "T" not in text:
        raise ValueError
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _file(text: str) -> Path:
    """A file below a folder: relative, and no part is hidden or leads out of it."""
    if not is_below(text) or any(part.startswith(".") for part in text.split("/")):
        raise NotFound
    return Path(text)


def is_below(text: str) -> bool:
    """Whether a folder that is joined with that text is still that folder or below it."""
    return not text.startswith("/") and "\\" not in text and ".." not in text.split("/")


_CONVERSIONS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    str: ("text", str),
    inspect.Parameter.empty: ("text", str),
    int: ("an integer, such as 7", _integer),
    float: ("a number, such as 0.5", _number),
    date: ("a date, such as 2026-11-28", _date),
    datetime: ("a time, such as 2026-11-28T09:00:00Z", _datetime),
    Path: ("a path", _file),
    PurePath: ("a path", _file),
}
