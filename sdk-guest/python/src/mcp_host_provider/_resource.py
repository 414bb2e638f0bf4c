"""A function that reads resources, with what is decorated beside it, and what a listing gives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, Union

from ._arguments import Arguments
from ._paths import decode, encode_segment
from ._results import Body
from ._templates import PathTemplate
from ._types import Completion, Icon, Role, Template

A = ParamSpec("A")
R = TypeVar("R", bound=Body)
F = TypeVar("F", bound=Callable[..., Any])

_EXPRESSION = re.compile(r"\{(\+?)[^{}?]*\}")


@dataclass(frozen=True)
class Item:
    """One entry of a listing: the value of the template's variable (of several: a tuple, or a dict by name), and metadata.

    `file` takes the size, the MIME type and the time of the last change from a file.
    """

    value: object
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    audience: Sequence[Role] = ()
    priority: float | None = None
    last_modified: datetime | float | None = None
    icons: Sequence[Icon] = ()
    ttl: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None


Listed = Union[Item, str, int, Path, tuple[Any, ...], Mapping[str, Any]]
"""What a listing gives: an item, or only its value. A `Path` is the file of that name; of what is no file, or hidden, there is no entry."""


class ResourceFunction(Generic[A, R]):
    """A function that reads resources; see `FunctionProvider.resource`. It can be called like the function."""

    def __init__(self, function: Callable[A, R], declared: Template, subscribable: bool, ttl: float | None) -> None:
        self.function = function
        self.template = declared
        self.pattern = PathTemplate(declared.path_template)
        self.arguments = Arguments(function, self.pattern)
        self.subscribable = subscribable
        self.ttl = ttl
        self.lists: Callable[[], Iterable[Listed]] | None = None
        self.fingerprints: Callable[..., object] | None = None
        self.completers: dict[str, Callable[..., Completion | Iterable[str]]] = {}
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: A.args, **more: A.kwargs) -> R:
        return self.function(*arguments, **more)

    @property
    def in_path(self) -> list[str]:
        """The variables of the path, without the variables of the query."""
        query = self.pattern.query_variables
        return [name for name in self.pattern.variables if name not in query]

    def listing(self, function: F) -> F:
        """Decorates the function, without parameters, that returns or yields what is listed: values, or `Item`s, in any order that
        stays the same while the data do. It is iterated only as far as a page needs."""
        if not self.in_path:
            raise TypeError(f"{function.__name__}(): {self.pattern.text!r} is one resource, which is listed by itself; remove the listing")
        self._once(function, self.lists, "listing", 0)
        self.lists = function
        return function

    def fingerprint(self, function: F) -> F:
        """Decorates the function, with the same parameters, whose result differs when the content does: without it the size and time
        of a file, or a digest of what the function returns. None: there is no such resource."""
        self._once(function, self.fingerprints, "fingerprint", None)
        Arguments(function, self.pattern)
        self.fingerprints = function
        return function

    def completes(self, variable: str) -> Callable[[F], F]:
        """Decorates the function that completes a variable. It gets what has been typed and the variables with values, or only the
        first, or nothing, and returns candidates, of which those that start with what was typed are used, or a `Completion`."""
        if variable not in self.pattern.variables:
            names = ", ".join(self.pattern.variables) or "none"
            raise TypeError(f"the template {self.pattern.text!r} has no variable {variable!r}; its variables: {names}")

        def decorate(function: F) -> F:
            self._once(function, self.completers.get(variable), f"completion of {variable!r}", 2)
            self.completers[variable] = function
            return function

        return decorate

    def _once(self, function: Callable[..., Any], known: object, what: str, most: int | None) -> None:
        if known is not None:
            raise TypeError(f"{function.__name__}(): {self.__name__}() has a {what} already; remove one of them")
        required = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
        if most is not None and len(required) > most:
            raise TypeError(f"{function.__name__}(): expected at most {most} parameters, found {len(required)}")


def check_literals(path_template: str) -> None:
    """Fails unless the text between the variables is in the normal form of paths: the host's paths are, and would not match."""
    path = _EXPRESSION.sub("\0", path_template.partition("{?")[0])
    if path.startswith("/"):
        raise TypeError(f"the template {path_template!r} begins with a slash; write {path_template.lstrip('/')!r}")
    for segment in path.split("/"):
        for literal in segment.split("\0"):
            plain = decode(literal)
            if plain is None or "#" in literal or segment in (".", ".."):
                raise TypeError(f"the template {path_template!r} has {literal!r}, which no path has")
            if "?" not in literal and encode_segment(plain) != literal and "{" not in literal and "}" not in literal:
                raise TypeError(f"the template {path_template!r} has {literal!r}; paths have {encode_segment(plain)!r}: write that")


def shape(path_template: str) -> str:
    """The template without the names of its variables, and without its query."""
    return _EXPRESSION.sub(r"{\1}", path_template.partition("{?")[0])
